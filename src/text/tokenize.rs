//! Token ids of a text, by the tokenizer of a bundle.

use std::ops::Range;
use std::path::Path;

use super::TextError;

/// A bundle's tokenizer. Cheap to share by reference; encoding takes `&self`.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    unknown: u32,
}

/// The token ids of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// At least one id.
    pub ids: Vec<u32>,
    /// Whether the text had more tokens than were asked for.
    pub truncated: bool,
}

impl Tokenizer {
    /// Loads a Hugging Face `tokenizer.json`. Its own truncation and padding settings are ignored.
    pub fn load(path: &Path) -> Result<Self, TextError> {
        let load = |source| TextError::Load { path: path.to_owned(), source };
        let mut inner = tokenizers::Tokenizer::from_file(path).map_err(load)?;
        inner.with_truncation(None).map_err(load)?;
        inner.with_padding(None);
        let unknown = ["<unk>", "[UNK]"].iter().find_map(|token| inner.token_to_id(token)).unwrap_or(0);
        Ok(Self { inner, unknown })
    }

    /// The number of ids, special tokens included.
    pub fn vocabulary_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// The text of a token id.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Gives the first `tokens_max` token ids of `text`. A text without any token (only control characters, say) is one
    /// unknown token, so that every text has an embedding.
    pub fn encode(&self, text: &str, tokens_max: usize) -> Result<Tokens, TextError> {
        let encoding = self.inner.encode_fast(text, true).map_err(|source| TextError::Tokenize { bytes: text.len(), source })?;
        let all = encoding.get_ids();
        let mut ids = all[..all.len().min(tokens_max)].to_vec();
        if ids.is_empty() {
            ids.push(self.unknown);
        }
        Ok(Tokens { ids, truncated: all.len() > tokens_max })
    }

    /// Gives the byte range in `text` of each of its tokens, in order. Ranges of neighbors may touch or overlap where one
    /// character became several.
    pub fn offsets(&self, text: &str) -> Result<Vec<Range<usize>>, TextError> {
        let encoding = self.inner.encode(text, false).map_err(|source| TextError::Tokenize { bytes: text.len(), source })?;
        Ok(encoding.get_offsets().iter().map(|&(start, end)| start..end).collect())
    }
}
