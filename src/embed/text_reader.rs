//! From texts to the input of the encoder and the store: token ids, passages, pieces.

use std::ops::Range;

use super::EmbedError;
use crate::domain::{PassageBounds, PassageContext};
use crate::text::context::embedded_text;
use crate::text::{Cut, Reading, Tokenize, Tokens, split_text};

/// If a text has more than this many bytes per token that the model reads, only its beginning is tokenized: no token is
/// nearly as long.
const BYTES_PER_TOKEN_MAX: usize = 256;

/// From text to token ids and passages; callers' threads share it.
pub(super) trait Read: Send + Sync {
    fn tokens(&self, text: &EmbedText) -> Result<Tokens, EmbedError>;
    /// The tokens of each part are those that `tokens` returns for it with its context.
    fn split(&self, title: Option<&str>, text: &str, bounds: PassageBounds) -> Result<Vec<Cut>, EmbedError>;
    /// Each token of a text without its context, with its position.
    fn pieces(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, EmbedError>;
}

/// A text to embed with its context: for a passage, its title and headings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmbedText {
    /// The context; as much of it as fits beside the text is embedded too.
    pub context: PassageContext,
    /// The text.
    pub text: String,
}

impl EmbedText {
    /// Bytes to tokenize.
    pub(super) fn bytes(&self) -> usize {
        let PassageContext { title, headings } = &self.context;
        self.text.len() + [title, headings].into_iter().flatten().map(String::len).sum::<usize>()
    }
}

impl From<String> for EmbedText {
    fn from(text: String) -> Self {
        Self { context: PassageContext::default(), text }
    }
}

/// Reads texts for a model with `tokens_max` tokens per text.
pub(super) struct TextReader<T> {
    pub(super) tokenizer: T,
    pub(super) tokens_max: usize,
}

impl<T: Tokenize + Send + Sync> Read for TextReader<T> {
    fn tokens(&self, text: &EmbedText) -> Result<Tokens, EmbedError> {
        let text = &*embedded_text(&self.tokenizer, &text.context, &text.text, self.tokens_max)?;
        let begin = beginning(text, self.tokens_max.saturating_mul(BYTES_PER_TOKEN_MAX));
        let tokens = self.tokenizer.encode(begin, self.tokens_max)?;
        // A beginning with fewer tokens than the model reads is mostly white space.
        if tokens.truncated || begin.len() == text.len() {
            Ok(tokens)
        } else {
            Ok(self.tokenizer.encode(text, self.tokens_max)?)
        }
    }

    fn split(&self, title: Option<&str>, text: &str, bounds: PassageBounds) -> Result<Vec<Cut>, EmbedError> {
        let reading = Reading { bounds, tokens_max: self.tokens_max };
        let mut cuts = split_text(&self.tokenizer, title, text, reading)?;
        for Tokens { ids, truncated } in cuts.iter_mut().map(|cut| &mut cut.tokens) {
            *truncated = ids.len() > self.tokens_max;
            ids.truncate(self.tokens_max);
        }
        Ok(cuts)
    }

    fn pieces(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, EmbedError> {
        Ok(self.tokenizer.pieces(text)?)
    }
}

/// The beginning of a text, of at most this many bytes, up to a white space if there is one.
fn beginning(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let end = (0..=bytes_max).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let begin = &text[..end];
    // A mark that changes the last character would follow at once, not after a white space.
    begin.rfind(char::is_whitespace).map_or(begin, |at| &begin[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_only_the_beginning_is_tokenized() {
        for (text, expect) in
            [("short", "short"), ("a text of words", "a text"), ("été été été", "été"), ("no_white_space_at_all", "no_white_")]
        {
            assert_eq!(beginning(text, 9), expect, "{text}");
        }
    }
}
