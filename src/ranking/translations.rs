//! A bundle's translation table: the meanings of words in all languages, learned from parallel text.
//!
//! Meanings are concepts without names: words of different languages that translate each other share concepts. A word has each
//! of its concepts with a probability (Darwish and Oard, "Probabilistic structured query methods", 2003, with concepts instead
//! of the words of one other language). The language of a word need not be known: if several languages spell a word alike, it
//! has the concepts of all of them. A lexicon adds concepts of its own.

use std::path::Path;

use super::lexicon::Lexicon;
use super::sense_table::{Sense, SenseTable};
use super::table_file::TableError;

/// Minimum length of a word's vector of probabilities, so that a word that hardly has a meaning does not get a strong one.
const LENGTH_MIN: f32 = 0.05;

/// The concepts of words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Translations {
    learned: SenseTable,
    /// The number after that of the last learned concept. The lexicon's concepts follow.
    learned_end: u32,
    lexicon: Option<Lexicon>,
}

impl Translations {
    /// Makes a table of words, given in any order. Of duplicates, the first counts.
    pub fn new(words: Vec<(u32, Vec<Sense>)>) -> Self {
        Self::of(SenseTable::new(words))
    }

    fn of(learned: SenseTable) -> Self {
        Self { learned_end: learned.concepts_end(), learned, lexicon: None }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, TableError> {
        SenseTable::read(path).map(Self::of)
    }

    /// Writes a file, without the lexicon.
    pub fn write(&self, path: &Path) -> Result<(), TableError> {
        self.learned.write(path)
    }

    /// Adds a lexicon. Words keep the concepts that they have, because a dictionary lists only the main ones.
    #[must_use]
    pub fn with_lexicon(self, lexicon: Lexicon) -> Self {
        Self { lexicon: Some(lexicon), ..self }
    }

    /// Returns the concepts of a word, those of the lexicon last. An unknown word has none.
    pub fn senses(&self, word: u32) -> impl Iterator<Item = Sense> + Clone + '_ {
        self.learned.senses(word).iter().copied().chain(self.of_lexicon(word, Lexicon::senses))
    }

    /// Returns the concepts of several words in a row, by their number (`domain::phrase_key`).
    pub(super) fn phrase_senses(&self, phrase: u32) -> impl Iterator<Item = Sense> + Clone + '_ {
        self.of_lexicon(phrase, Lexicon::phrase_senses)
    }

    /// Returns the concepts of a word of a passage. The phrases that `has_phrase` accepts are words of passages, too.
    pub(super) fn passage_senses(&self, key: u32) -> impl Iterator<Item = Sense> + Clone + '_ {
        self.senses(key).chain(self.phrase_senses(key))
    }

    /// Whether it has several words in a row as a whole, by their number (`domain::phrase_key`), and no word has that number.
    pub fn has_phrase(&self, phrase: u32) -> bool {
        self.phrase_senses(phrase).next().is_some() && !self.has(phrase)
    }

    fn of_lexicon(&self, key: u32, look_up: impl Fn(&Lexicon, u32) -> &[Sense]) -> impl Iterator<Item = Sense> + Clone + '_ {
        let senses = self.lexicon.as_ref().map_or(&[][..], |lexicon| look_up(lexicon, key));
        senses.iter().map(|sense| sense.moved(self.learned_end))
    }

    /// Whether a concept is one of the lexicon.
    pub fn is_of_lexicon(&self, concept: u32) -> bool {
        concept >= self.learned_end
    }

    /// Whether it has a word.
    pub fn has(&self, word: u32) -> bool {
        self.senses(word).next().is_some()
    }

    /// Whether the lexicon has a word.
    pub fn is_in_lexicon(&self, word: u32) -> bool {
        self.of_lexicon(word, Lexicon::senses).next().is_some()
    }

    /// Whether it has a word without the lexicon.
    pub fn has_learned(&self, word: u32) -> bool {
        !self.learned.senses(word).is_empty()
    }

    /// Computes a checksum of what determines the words of passages, which are all of its words and phrases: CRC-32 of their
    /// numbers in order.
    pub fn vocabulary_checksum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        let [words, phrases] = self.lexicon.as_ref().map_or([&[][..]; 2], Lexicon::numbers);
        self.learned.words().iter().chain(words).chain(phrases).for_each(|number| hasher.update(&number.to_le_bytes()));
        hasher.finalize()
    }

    /// Returns the number of words without those of the lexicon.
    pub fn len(&self) -> usize {
        self.learned.words().len()
    }

    /// Whether it has no words without the lexicon.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the factor for the probabilities of a word's concepts by which two words are compared: one over the square root of the
/// length of their vector. With it, the sum of the products of two words is the geometric mean of the probability that they mean
/// the same and the cosine of their meanings. The probability alone is low for words of which the table is less sure, such as
/// most forms of a word in languages with many.
pub(super) fn meaning_scale(senses: impl Iterator<Item = Sense>) -> f32 {
    let length = senses.map(|sense| sense.probability().powi(2)).sum::<f32>().sqrt();
    length.max(LENGTH_MIN).sqrt().recip()
}
