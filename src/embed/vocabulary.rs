//! What a model's translations, with the lexicon, know of words.

use crate::ranking::Translations;
use crate::text::known_words::KnownWords;

/// The words and phrases of a translation table. Without a table, none is known.
#[derive(Debug, Clone, Copy)]
pub struct Vocabulary<'a>(pub(super) Option<&'a Translations>);

impl KnownWords for Vocabulary<'_> {
    /// Words that only the lexicon has do not count: it lists compounds, which are to be found by their parts, too.
    fn has_word(&self, word: u32) -> bool {
        self.0.is_some_and(|translations| translations.has_learned(word))
    }

    fn has_part(&self, word: u32) -> bool {
        self.0.is_some_and(|translations| translations.has(word))
    }

    fn has_phrase(&self, phrase: u32) -> bool {
        self.0.is_some_and(|translations| translations.has_phrase(phrase))
    }
}
