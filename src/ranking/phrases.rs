//! Finds the phrases in a question that the lexicon has as a whole: the words of "washing machine" together mean what one word
//! means in other languages.

use rustc_hash::FxHashMap;

use super::translations::Translations;
use crate::domain::{LastWords, QueryWord};

/// Returns the words of a question that belong to a phrase, by their numbers, with the number of the longest such phrase.
pub(super) fn phrases(query: &[QueryWord], translations: &Translations) -> FxHashMap<u32, u32> {
    let words: Vec<u32> = query.iter().filter(|word| word.is_typed).map(|word| word.word.key).collect();
    let (mut last_words, mut phrases) = (LastWords::default(), Vec::new());
    for (end, word) in (1..).zip(&words) {
        let ending_here = last_words.phrases_with(*word);
        phrases
            .extend(ending_here.filter(|(_, key)| translations.phrase_senses(*key).next().is_some()).map(|found| (found, end)));
    }
    phrases.sort_by_key(|((length, _), _)| std::cmp::Reverse(*length));
    let mut of_words = FxHashMap::default();
    for ((length, key), end) in phrases {
        for word in &words[end - length..end] {
            of_words.entry(*word).or_insert(key);
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
        let mut found: Vec<(u32, u32)> = phrases(&query, &Translations::default().with_concepts(&concepts)).into_iter().collect();
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
    fn parts_of_words_are_not_between_the_words_of_a_phrase() {
        let part = QueryWord { is_typed: false, ..Word::from(9).into() };
        let query = [Word::from(2).into(), part, Word::from(3).into()];
        let translations = Translations::default().with_concepts(&[vec![ConceptWord::Phrase(phrase_key(&[2, 3]))]]);
        assert_eq!(phrases(&query, &translations).len(), 2);
    }
}
