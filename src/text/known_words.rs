//! What a model knows of words, which decides how the words of passages and queries are counted.

/// The words and phrases of a model, by their numbers. A function stands for a model that has the words that it accepts, and no
/// phrases.
pub trait KnownWords {
    /// Whether the model has learned a word (`plain_words::word_key`). Other words are divided into their parts.
    fn has_word(&self, word: u32) -> bool;

    /// Whether a part of an unknown word, or another form of it, is a word.
    fn has_part(&self, word: u32) -> bool;

    /// Whether several words in a row, or a word with its accents, are known as a whole (`domain::phrase_key`).
    fn has_phrase(&self, phrase: u32) -> bool;
}

impl<F: Fn(u32) -> bool> KnownWords for F {
    fn has_word(&self, word: u32) -> bool {
        self(word)
    }

    fn has_part(&self, word: u32) -> bool {
        self(word)
    }

    fn has_phrase(&self, _: u32) -> bool {
        false
    }
}
