//! Turns texts into what the encoder and the store need: token ids and passages.

use super::EmbedError;
use crate::domain::{PassageBounds, PassageContext};
use crate::text::context::embedded_text;
use crate::text::{PassageLimits, TextPassage, Tokenize, Tokens, split_text};

/// If a text has more than this many bytes per token that the model reads, only its beginning is tokenized. No token is nearly
/// this long.
const BYTES_PER_TOKEN_MAX: usize = 256;

/// A text to embed with its context: for a passage, its title and headings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmbedText {
    /// The context. As much of it as fits together with the text is embedded, too.
    pub context: PassageContext,
    pub text: String,
}

impl EmbedText {
    /// Returns the number of bytes to tokenize.
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

/// Reads texts for a model with `tokens_max` tokens per text. Callers' threads share it.
pub(super) struct TextReader {
    pub(super) tokenizer: Box<dyn Tokenize + Send + Sync>,
    pub(super) tokens_max: usize,
}

impl TextReader {
    pub(super) fn tokens(&self, text: &EmbedText) -> Result<Tokens, EmbedError> {
        let text = &*embedded_text(&*self.tokenizer, &text.context, &text.text, self.tokens_max)?;
        let begin = beginning(text, self.tokens_max.saturating_mul(BYTES_PER_TOKEN_MAX));
        let tokens = self.tokenizer.encode(begin, self.tokens_max)?;
        // If the beginning has fewer tokens than the model reads, it is mostly white space, so the whole text is tokenized.
        if tokens.truncated || begin.len() == text.len() {
            Ok(tokens)
        } else {
            Ok(self.tokenizer.encode(text, self.tokens_max)?)
        }
    }

    /// Splits a text into passages. The tokens of each passage are those that `tokens` returns for the passage with its
    /// context.
    pub(super) fn split(&self, title: Option<&str>, text: &str, bounds: PassageBounds) -> Result<Vec<TextPassage>, EmbedError> {
        let limits = PassageLimits { bounds, tokens_max: self.tokens_max };
        let mut passages = split_text(&*self.tokenizer, title, text, limits)?;
        for Tokens { ids, truncated } in passages.iter_mut().map(|passage| &mut passage.tokens) {
            *truncated = ids.len() > self.tokens_max;
            ids.truncate(self.tokens_max);
        }
        Ok(passages)
    }
}

/// Returns the beginning of a text with at most this many bytes. It ends before white space if there is any.
fn beginning(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let begin = &text[..text.floor_char_boundary(bytes_max)];
    // A combining mark follows its character directly, never after white space, so this does not separate them.
    begin.rfind(char::is_whitespace).map_or(begin, |space| &begin[..space])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_long_text_ends_at_white_space() {
        for (text, expect) in
            [("short", "short"), ("a text of words", "a text"), ("été été été", "été"), ("no_white_space_at_all", "no_white_")]
        {
            assert_eq!(beginning(text, 9), expect, "{text}");
        }
    }
}
