//! Converts a SentencePiece BPE model to a Hugging Face `tokenizer.json` that splits texts the same way.
//!
//! SentencePiece repeatedly merges the two neighbors whose merged piece has the highest score, the leftmost in case of ties.
//! The tokenizer merges by an ordered list of pairs. So the list has every way to make a piece from two pieces, ordered by the
//! score of the resulting piece. All scores of a BPE model are different: they are the order of its training.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use prost::Message as _;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::{Precompiled, Replace, Sequence as Normalizers};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::{NormalizerWrapper, Tokenizer};

use super::sentencepiece_proto::{Kind, Method, ModelProto, NormalizerSpec, Piece, TrainerSpec};
use crate::error::Error;

/// Stands for a space in pieces.
const SPACE: char = '▁';

/// A parsed model.
pub struct SentencePiece {
    pieces: Vec<Piece>,
    trainer: TrainerSpec,
    normalizer: NormalizerSpec,
    unknown: String,
}

impl SentencePiece {
    /// Reads a `.model` file and rejects models whose segmentation cannot be reproduced.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = std::fs::read(path).map_err(|source| Error::file(path, source))?;
        Self::decode(&bytes).map_err(|problem| Error::Content { path: path.to_owned(), problem })
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let model = ModelProto::decode(bytes).map_err(|error| format!("expected a SentencePiece model: {error}"))?;
        let (trainer, normalizer) = (model.trainer_spec.unwrap_or_default(), model.normalizer_spec.unwrap_or_default());
        let unknown = model.pieces.iter().find(|piece| piece.r#type() == Kind::Unknown);
        let unknown = unknown.ok_or("expected an unknown piece, got none")?.piece().to_owned();
        let read = Self { pieces: model.pieces, trainer, normalizer, unknown };
        read.check()?;
        Ok(read)
    }

    /// The number of pieces, which is the number of ids.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there are no pieces.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Writes the tokenizer. No piece is a special token, because SentencePiece never finds its control symbols in a text
    /// either.
    pub fn save(&self, out: &Path) -> Result<(), Error> {
        let refuse = |error: Box<dyn std::error::Error + Send + Sync>| {
            let problem = format!("the pieces do not make a tokenizer: {error}");
            Error::Content { path: out.to_owned(), problem }
        };
        let vocabulary: Vocab = (0_u32..).zip(&self.pieces).map(|(id, piece)| (piece.piece().to_owned(), id)).collect();
        let model = BPE::builder()
            .vocab_and_merges(vocabulary, self.merges())
            .unk_token(self.unknown.clone())
            // SentencePiece gives one id for consecutive unknown characters.
            .fuse_unk(true)
            .byte_fallback(self.trainer.byte_fallback())
            .build()
            .map_err(refuse)?;
        let mut tokenizer = Tokenizer::new(model);
        let normalizer = Normalizers::new(self.normalizers().map_err(refuse)?);
        tokenizer.with_normalizer(Some(normalizer)).map_err(refuse)?;
        tokenizer.with_pre_tokenizer(Some(self.pre_tokenizer()));
        tokenizer.save(out, false).map_err(refuse)
    }

    fn check(&self) -> Result<(), String> {
        let (trainer, normalizer) = (&self.trainer, &self.normalizer);
        if trainer.model_type() != Method::Bpe {
            return Err(format!("expected a model of type BPE, got {:?}", trainer.model_type()));
        }
        if trainer.treat_whitespace_as_suffix() || !normalizer.escape_whitespaces() {
            return Err("expected spaces to be marked before words, got them elsewhere".to_owned());
        }
        let mut seen = HashMap::new();
        for (id, piece) in self.pieces.iter().enumerate() {
            if piece.piece().is_empty() {
                return Err(format!("piece {id} is empty"));
            }
            if let Some(before) = seen.insert(piece.piece(), id) {
                return Err(format!("pieces {before} and {id} are both {:?}", piece.piece()));
            }
            if matches!(piece.r#type(), Kind::UserDefined | Kind::Unused) {
                return Err(format!("piece {id}, {:?}, is {:?}, which is not supported", piece.piece(), piece.r#type()));
            }
            if !piece.score().is_finite() {
                return Err(format!("piece {id}, {:?}, has the score {}", piece.piece(), piece.score()));
            }
        }
        Ok(())
    }

    /// Every pair of pieces that merges into a piece, highest score first.
    fn merges(&self) -> Merges {
        let normal: Vec<&Piece> = self.pieces.iter().filter(|piece| piece.r#type() == Kind::Normal).collect();
        let known: HashSet<&str> = normal.iter().map(|piece| piece.piece()).collect();
        let mut made: Vec<(f32, &str, &str)> = Vec::new();
        for piece in normal {
            for (position, _) in piece.piece().char_indices().skip(1) {
                let (left, right) = piece.piece().split_at(position);
                if known.contains(left) && known.contains(right) {
                    made.push((piece.score(), left, right));
                }
            }
        }
        // A stable sort: pairs of one piece stay together.
        made.sort_by(|a, b| b.0.total_cmp(&a.0));
        made.into_iter().map(|(_, left, right)| (left.to_owned(), right.to_owned())).collect()
    }

    /// The model's own character map, then its rules about spaces.
    fn normalizers(&self) -> Result<Vec<NormalizerWrapper>, Box<dyn std::error::Error + Send + Sync>> {
        let mut normalizers: Vec<NormalizerWrapper> = Vec::new();
        if !self.normalizer.precompiled_charsmap().is_empty() {
            normalizers.push(Precompiled::from(self.normalizer.precompiled_charsmap())?.into());
        }
        if self.normalizer.remove_extra_whitespaces() {
            for (pattern, content) in [("^ +| +$", ""), (" {2,}", " ")] {
                let pattern = tokenizers::normalizers::replace::ReplacePattern::Regex(pattern.to_owned());
                normalizers.push(Replace::new(pattern, content)?.into());
            }
        }
        Ok(normalizers)
    }

    /// Marks spaces, and splits before them if no piece contains a space inside, so that words can be cached.
    fn pre_tokenizer(&self) -> Metaspace {
        let prepend = if self.normalizer.add_dummy_prefix() { PrependScheme::Always } else { PrependScheme::Never };
        let reaches_over = |piece: &Piece| piece.piece().chars().skip(1).any(|c| c == SPACE);
        let mark_is_known = self.pieces.iter().any(|piece| piece.piece() == "▁");
        let split = mark_is_known && !self.pieces.iter().any(reaches_over);
        Metaspace::new(SPACE, prepend, split)
    }
}

#[cfg(test)]
#[path = "sentencepiece_tests.rs"]
mod tests;
