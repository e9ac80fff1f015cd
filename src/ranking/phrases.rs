//! Finds the phrases in a question that the lexicon has as a whole: the words of "washing machine" together mean what one word
//! means in other languages. A word with its accents, such as "chó", counts as a phrase of one word.

use rustc_hash::FxHashMap;

use super::translations::Translations;
use crate::domain::{LastWords, QueryWord};

/// Several words of a question, or one with its accents, that the lexicon has as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Phrase {
    /// Its number (`domain::phrase_key`).
    pub(super) key: u32,
    /// Number of its words.
    pub(super) words: usize,
}

impl Phrase {
    /// Whether it is one word with its accents.
    pub(super) fn is_word(self) -> bool {
        self.words == 1
    }
}

/// Returns the words of a question that belong to a phrase, by their numbers, with the longest such phrase.
pub(super) fn phrases(query: &[QueryWord], translations: &Translations) -> FxHashMap<u32, Phrase> {
    let typed: Vec<&QueryWord> = query.iter().filter(|word| word.is_typed).collect();
    let (mut last_words, mut phrases) = (LastWords::default(), Vec::new());
    for (end, word) in (1..).zip(&typed) {
        let accented = word.accented.map(|key| Phrase { key, words: 1 });
        let several = last_words.phrases_with(word.word.key).map(|(words, key)| Phrase { key, words });
        let known = several.chain(accented).filter(|phrase| translations.phrase_senses(phrase.key).next().is_some());
        phrases.extend(known.map(|phrase| (phrase, end)));
    }
    phrases.sort_by_key(|(phrase, _)| std::cmp::Reverse(phrase.words));
    let mut of_words = FxHashMap::default();
    for (phrase, end) in phrases {
        for word in &typed[end - phrase.words..end] {
            of_words.entry(word.word.key).or_insert(phrase);
        }
    }
    of_words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ConceptWord, Word, phrase_key};

    /// Returns the phrases of a question of these words, if these are the phrases of the lexicon.
    fn found(words: &[u32], phrases_of_lexicon: &[&[u32]]) -> Vec<(u32, u32)> {
        let concepts: Vec<_> = phrases_of_lexicon.iter().map(|words| vec![ConceptWord::Phrase(phrase_key(words))]).collect();
        let query: Vec<QueryWord> = words.iter().map(|word| Word::from(*word).into()).collect();
        let found = phrases(&query, &Translations::default().with_concepts(&concepts));
        let mut found: Vec<(u32, u32)> = found.into_iter().map(|(word, phrase)| (word, phrase.key)).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn each_word_of_a_phrase_belongs_to_it() {
        let phrase = phrase_key(&[2, 3]);
        assert_eq!(found(&[1, 2, 3, 4], &[&[2, 3]]), [(2, phrase), (3, phrase)]);
        assert_eq!(found(&[1, 3, 2, 4], &[&[2, 3]]), []);
    }

    #[test]
    fn the_longest_phrase_counts() {
        let (long, short) = (phrase_key(&[2, 3, 4]), phrase_key(&[1, 2]));
        assert_eq!(found(&[1, 2, 3, 4], &[&[1, 2], &[2, 3, 4], &[3, 4]]), [(1, short), (2, long), (3, long), (4, long)]);
    }

    #[test]
    fn a_word_with_its_accents_is_a_phrase_of_one_word() {
        let query = [QueryWord { accented: Some(7), ..Word::from(2).into() }, Word::from(3).into()];
        let of = |phrase: u32| phrases(&query, &Translations::default().with_concepts(&[vec![ConceptWord::Phrase(phrase)]]));
        assert_eq!(of(7).into_iter().collect::<Vec<_>>(), [(2, Phrase { key: 7, words: 1 })]);
        assert_eq!(of(8).len(), 0);
    }

    #[test]
    fn parts_of_words_are_not_between_the_words_of_a_phrase() {
        let part = QueryWord { is_typed: false, ..Word::from(9).into() };
        let query = [Word::from(2).into(), part, Word::from(3).into()];
        let translations = Translations::default().with_concepts(&[vec![ConceptWord::Phrase(phrase_key(&[2, 3]))]]);
        assert_eq!(phrases(&query, &translations).len(), 2);
    }
}
