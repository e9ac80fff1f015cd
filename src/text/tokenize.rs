//! Turns a text into token ids with the tokenizer of a bundle.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::TextError;
use super::preprocess::Preprocessor;
use super::runs::is_emoji_modifier;
use super::unigram::Unigram;
use crate::bundle::{Bundle, Preprocessing, TOKENIZER};

/// How tokenizers of the kind that is trained here write a space.
const SPACE: char = '▁';

/// A bundle's tokenizer. Clones share one, and encoding takes `&self`.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    /// A faster implementation with the same results, if the tokenizer is of the kind that is trained here.
    unigram: Option<Arc<Unigram>>,
    /// The token of unknown characters, if there is one.
    unknown: Option<u32>,
    /// The tokens that say nothing about their text (`Tokenize::is_blank`).
    blank: Arc<HashSet<u32>>,
    preprocessor: Option<Arc<Preprocessor>>,
}

/// What splitting a text needs from a tokenizer.
pub trait Tokenize {
    /// Returns the first `tokens_max` token ids of `text`.
    fn encode(&self, text: &str, tokens_max: usize) -> Result<Tokens, TextError>;

    /// Returns the byte range in `text` of each of its tokens, in order, without special tokens that are added to every text.
    /// Neighboring ranges may overlap if one character became several.
    fn offsets(&self, text: &str) -> Result<Vec<Range<usize>>, TextError> {
        Ok(self.pieces(text)?.into_iter().map(|(_, range)| range).collect())
    }

    /// Returns the id and the byte range in `text` of each token, like `offsets`.
    fn pieces(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TextError>;

    /// Whether a token says nothing about its text: the token for all unknown characters, a lone space, or a modifier of the
    /// emoji before it.
    fn is_blank(&self, _token: u32) -> bool {
        false
    }
}

/// The token ids of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// At least one id.
    pub ids: Vec<u32>,
    /// Whether the text had more tokens than requested.
    pub truncated: bool,
}

impl Tokenizer {
    /// Loads the tokenizer of a bundle, with the preprocessing that its manifest names.
    pub fn open(bundle: &Bundle) -> Result<Self, TextError> {
        let tokenizer = Self::load(&bundle.path(TOKENIZER))?;
        Ok(match bundle.manifest.preprocessing {
            Some(preprocessing) => tokenizer.preprocessed(preprocessing),
            None => tokenizer,
        })
    }

    /// Loads a Hugging Face `tokenizer.json`, without any preprocessing. Its own truncation and padding settings are ignored.
    pub fn load(path: &Path) -> Result<Self, TextError> {
        let load = |source| TextError::Load { path: path.to_owned(), source };
        let mut inner = tokenizers::Tokenizer::from_file(path).map_err(load)?;
        inner.with_truncation(None).map_err(load)?;
        inner.with_padding(None);
        let unknown = ["<unk>", "[UNK]"].iter().find_map(|token| inner.token_to_id(token));
        let blank = inner.get_vocab(true).into_iter().filter(|(piece, _)| is_blank_piece(piece)).map(|(_, id)| id);
        let blank = Arc::new(blank.chain(unknown).collect());
        let json = std::fs::read(path).map_err(|source| load(source.into()))?;
        let unigram = Unigram::new(&json).map(Arc::new);
        Ok(Self { inner: Arc::new(inner), unigram, unknown, blank, preprocessor: None })
    }

    /// Returns the same tokenizer with `preprocessing` before it.
    pub fn preprocessed(self, preprocessing: Preprocessing) -> Self {
        Self { preprocessor: Some(Arc::new(Preprocessor::new(preprocessing))), ..self }
    }

    /// Returns the number of ids, including special tokens.
    pub fn vocabulary_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Returns the text of a token id.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Returns the first `tokens_max` token ids of `text`. A text without any token (only control characters, say) becomes one
    /// unknown token, so that every text has an embedding.
    pub fn encode(&self, text: &str, tokens_max: usize) -> Result<Tokens, TextError> {
        let prepared = self.preprocessor.as_ref().map(|preprocessor| preprocessor.prepare(text));
        let seen = prepared.as_deref().unwrap_or(text);
        let mut ids: Vec<u32> = match &self.unigram {
            Some(unigram) => {
                let tokens = unigram.tokens(seen, tokens_max.saturating_add(1), |part| self.general(part))?;
                tokens.into_iter().map(|(id, _)| id).collect()
            }
            None => {
                let encoding = self.inner.encode_fast(seen, true);
                encoding.map_err(|source| TextError::Tokenize { bytes: text.len(), source })?.get_ids().to_vec()
            }
        };
        let truncated = ids.len() > tokens_max;
        ids.truncate(tokens_max);
        if ids.is_empty() {
            ids.push(self.unknown.unwrap_or_default());
        }
        Ok(Tokens { ids, truncated })
    }

    /// Returns the tokens of a text with their byte ranges, without special tokens that are added to every text. Works with any
    /// tokenizer.
    fn general(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TextError> {
        let encoding = self.inner.encode(text, false).map_err(|source| TextError::Tokenize { bytes: text.len(), source })?;
        let ranges = encoding.get_offsets().iter().map(|&(start, end)| start..end);
        Ok(encoding.get_ids().iter().copied().zip(ranges).collect())
    }
}

impl Tokenize for Tokenizer {
    fn encode(&self, text: &str, tokens_max: usize) -> Result<Tokens, TextError> {
        self.encode(text, tokens_max)
    }

    fn is_blank(&self, token: u32) -> bool {
        self.blank.contains(&token)
    }

    fn pieces(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TextError> {
        let aligned = self.preprocessor.as_ref().map(|preprocessor| preprocessor.prepare_aligned(text));
        let seen = aligned.as_ref().map_or(text, |aligned| aligned.text.as_str());
        let mut pieces = match &self.unigram {
            Some(unigram) => unigram.tokens(seen, usize::MAX, |part| self.general(part))?,
            None => self.general(seen)?,
        };
        if let Some(aligned) = &aligned {
            pieces.iter_mut().for_each(|(_, range)| *range = aligned.source(range.clone()));
        }
        Ok(pieces)
    }
}

/// Whether a piece of text says nothing: white space, and variation selectors, skin tones and joiners of emoji.
fn is_blank_piece(piece: &str) -> bool {
    piece.chars().all(|c| c == SPACE || c.is_whitespace() || is_emoji_modifier(c))
}

#[cfg(test)]
pub(crate) mod tests {
    use tokenizers::models::unigram::Unigram;

    use super::*;
    use crate::text::normalize::{normalizer, pre_tokenizer};

    /// Makes a tokenizer of these pieces, each with its log probability. The first one stands for unknown characters.
    pub(crate) fn tokenizer_of(pieces: Vec<(String, f64)>) -> Tokenizer {
        let model = Unigram::from(pieces, Some(0), false).expect("the pieces are well formed");
        let mut inner = tokenizers::Tokenizer::new(model);
        inner.with_normalizer(Some(normalizer())).expect("a normalizer");
        inner.with_pre_tokenizer(Some(pre_tokenizer()));
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        inner.save(file.path(), false).expect("the tokenizer is written");
        Tokenizer::load(file.path()).expect("the tokenizer is read back")
    }

    /// Makes a tokenizer with these pieces and the one for unknown characters.
    fn tokenizer(pieces: &[&str]) -> Tokenizer {
        let pieces = pieces.iter().map(|piece| ((*piece).to_owned(), -4.0));
        tokenizer_of(std::iter::once(("<unk>".to_owned(), 0.0)).chain(pieces).collect())
    }

    #[test]
    fn spaces_and_unknown_characters_are_blank() {
        let tokenizer = tokenizer(&["▁", "▁a", "a"]);
        assert_eq!([0, 1, 2, 3].map(|token| tokenizer.is_blank(token)), [true, true, false, false]);
    }

    #[test]
    fn what_only_varies_an_emoji_is_blank() {
        let tokenizer = tokenizer(&["\u{fe0f}", "\u{fe0e}", "▁\u{fe0f}", "\u{200d}", "🏽", "👍", "👍🏽", "a\u{fe0f}"]);
        let blank: Vec<bool> = (1..=8).map(|token| tokenizer.is_blank(token)).collect();
        assert_eq!(blank, [true, true, true, true, true, false, false, false]);
    }

    #[test]
    fn an_unknown_emoji_has_only_blank_tokens() {
        let tokenizer = tokenizer(&["▁", "\u{fe0f}", "a"]);
        let tokens = tokenizer.encode("☀\u{fe0f}", 9).expect("tokens");
        assert!(tokens.ids.iter().all(|token| tokenizer.is_blank(*token)), "{tokens:?}");
    }
}
