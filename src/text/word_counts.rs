//! Counts the words of passages in their plain form, with the known parts and the known other forms of unknown words.

use super::known_words::KnownWords;
use super::plain_words::for_each_word;
use super::runs::{Run, normalized, runs};
use super::word_parts::also_counted;
use crate::domain::{LastWords, Word, WordCounts};

/// The version of the rules by which words are counted. Collections with words of another version compute them again.
pub const WORD_RULES: u32 = 5;
/// Number of words at the beginning of a text, which is often its title: there it says what it is about. `training/README.md`
/// shows how this and the two numbers below were chosen.
const BEGINNING: usize = 12;
/// How often each of these words counts.
const BEGINNING_COUNT: usize = 4;
/// Minimum number of words of a text with a beginning. A shorter one is about all of its words.
const WITH_BEGINNING_MIN: usize = 40;

/// Counts the words of a text, those at the beginning of a long one several times. Unknown words are followed by their known parts
/// or other forms (`word_parts`). A known phrase, or a word that is known with its accents, counts as one more word.
pub fn word_counts(text: &str, known: impl KnownWords) -> WordCounts {
    let mut words = Words::default();
    runs(&normalized(text)).for_each(|run| words.add(&run, &known));
    words.count()
}

/// The words of a text in order, each followed by its known parts or other forms if it is unknown itself, and by the known phrases
/// that end with it.
#[derive(Default)]
pub(super) struct Words {
    words: Vec<Word>,
    last_words: LastWords,
    /// Number of words without the parts.
    count: usize,
    /// Number of `words` that belong to the beginning of the text.
    beginning: usize,
}

impl Words {
    /// Adds the words of the next run.
    pub(super) fn add(&mut self, run: &Run<'_>, known: &impl KnownWords) {
        for_each_word(run, |word| {
            let counted = word.word();
            self.words.push(counted);
            self.words.extend(also_counted(run.class, &word, known).into_iter().map(Word::from));
            if word.is_single() {
                let phrases = self.last_words.phrases_with(counted.key).map(|(_, phrase)| phrase).chain(word.accented());
                self.words.extend(phrases.filter(|phrase| known.has_phrase(*phrase)).map(Word::from));
            }
            self.count += 1;
            if self.count <= BEGINNING {
                self.beginning = self.words.len();
            }
        });
    }

    /// Counts them, those at the beginning of a long text several times.
    pub(super) fn count(mut self) -> WordCounts {
        if self.count >= WITH_BEGINNING_MIN {
            (1..BEGINNING_COUNT).for_each(|_| self.words.extend_from_within(..self.beginning));
        }
        WordCounts::from_words(self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::super::plain_words::{accented_key, plain_words, word_key};
    use super::*;
    use crate::domain::phrase_key;

    #[test]
    fn word_counts_ignore_case_and_punctuation() {
        let counts = word_counts("Row, row the boat. ROW!", |_| true);
        let counted: Vec<(u32, u8)> = counts.iter().map(|word| (word.key, word.count)).collect();
        let mut expect = [("row", 3), ("the", 1), ("boat", 1)].map(|(word, count)| (word_key(word), count));
        expect.sort_unstable();
        assert_eq!(counted, expect);
        assert!(word_counts(" …!", |_| true).is_empty());
    }

    #[test]
    fn unknown_words_are_counted_with_their_known_parts() {
        let known = ["der", "personen", "aufzug"].map(word_key);
        let counts = word_counts("Der Personenaufzug", |key| known.contains(&key));
        let keys: Vec<u32> = counts.iter().map(|word| word.key).collect();
        let mut expect = ["der", "personenaufzug", "personen", "aufzug"].map(word_key);
        expect.sort_unstable();
        assert_eq!(keys, expect);
    }

    /// A model that has all words, and one phrase.
    struct Phrase(u32);

    impl KnownWords for Phrase {
        fn has_word(&self, _: u32) -> bool {
            true
        }

        fn has_part(&self, _: u32) -> bool {
            true
        }

        fn has_phrase(&self, phrase: u32) -> bool {
            phrase == self.0
        }
    }

    #[test]
    fn a_word_that_is_known_with_its_accents_is_counted_with_and_without_them() {
        let counts = word_counts("Chó và CHÓ, cho", Phrase(accented_key("chó")));
        let count = |key: u32| counts.iter().find(|count| count.key == key).map_or(0, |count| count.count);
        assert_eq!([word_key("cho"), accented_key("chó"), accented_key("và")].map(count), [3, 2, 0]);
    }

    #[test]
    fn a_known_phrase_is_counted_with_its_words() {
        let keys = |text: &str, phrase: &[&str]| {
            let phrase = phrase_key(&phrase.iter().map(|word| word_key(word)).collect::<Vec<_>>());
            let counts = word_counts(text, Phrase(phrase));
            counts.iter().find(|count| count.key == phrase).map_or(0, |count| count.count)
        };
        assert_eq!(keys("Máy giặt mới, máy giặt cũ", &["may", "giat"]), 2);
        assert_eq!(keys("Giặt máy", &["may", "giat"]), 0);
        assert_eq!(keys("Une salle de bain claire", &["salle", "de", "bain"]), 1);
        assert_eq!(keys("洗衣机坏了", &plain_words("洗衣机").iter().map(String::as_str).collect::<Vec<_>>()), 1);
    }

    #[test]
    fn parts_do_not_count_for_the_length_of_the_beginning() {
        let known = ["personen", "aufzug"].map(word_key);
        let counts = |words: usize| {
            let words: Vec<String> = (1..words).map(|number| format!("word{number}")).collect();
            let counts = word_counts(&format!("personenaufzug {}", words.join(" ")), |key| known.contains(&key));
            ["personenaufzug", "aufzug", "word11", "word12"]
                .map(|word| counts.iter().find(|count| count.key == word_key(word)).map_or(0, |count| usize::from(count.count)))
        };
        assert_eq!(counts(WITH_BEGINNING_MIN), [BEGINNING_COUNT, BEGINNING_COUNT, BEGINNING_COUNT, 1]);
        assert_eq!(counts(WITH_BEGINNING_MIN - 1), [1; 4]);
    }

    #[test]
    fn opening_words_of_a_long_text_get_a_higher_count() {
        let counts = |words: usize| {
            let words: Vec<String> = (0..words).map(|number| format!("word{number}")).collect();
            let counts = word_counts(&words.join(" "), |_| true);
            let count = |word: &String| {
                counts.iter().find(|count| count.key == word_key(word)).map_or(0, |count| usize::from(count.count))
            };
            words.iter().map(count).collect::<Vec<_>>()
        };
        let rest = vec![1; WITH_BEGINNING_MIN - BEGINNING];
        assert_eq!(counts(WITH_BEGINNING_MIN), [vec![BEGINNING_COUNT; BEGINNING], rest].concat());
        assert_eq!(
            counts(WITH_BEGINNING_MIN - 1),
            vec![1; WITH_BEGINNING_MIN - 1],
            "in a short text, all words have the same count"
        );
    }
}
