//! A lexicon: concepts with their words in all languages, which are added to a translation table.

#[cfg(test)]
mod making;

use super::sense_table::{KIND, Sense, SenseTable};
use super::table_file::TableError;

/// The concepts of words and of phrases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lexicon {
    words: SenseTable,
    /// By the numbers of phrases (`domain::phrase_key`).
    phrases: SenseTable,
}

impl Lexicon {
    /// Reads a lexicon from two files in the format of a translation table, of words and of phrases.
    pub fn from_bytes(words: &[u8], phrases: &[u8]) -> Result<Self, TableError> {
        let table = |bytes: &[u8], of: &str| {
            let invalid = |problem| TableError::Content { path: format!("lexicon of {of}").into(), kind: KIND, problem };
            SenseTable::from_bytes(bytes).map_err(invalid)
        };
        Ok(Self { words: table(words, "words")?, phrases: table(phrases, "phrases")? })
    }

    /// Returns the concepts of a word.
    pub(super) fn senses(&self, word: u32) -> &[Sense] {
        self.words.senses(word)
    }

    /// Returns the numbers of its words and of its phrases, ascending.
    pub(super) fn numbers(&self) -> [&[u32]; 2] {
        [self.words.words(), self.phrases.words()]
    }

    /// Returns the concepts of a phrase.
    pub(super) fn phrase_senses(&self, phrase: u32) -> &[Sense] {
        self.phrases.senses(phrase)
    }
}
