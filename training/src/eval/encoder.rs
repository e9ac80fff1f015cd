//! The encoders that can be evaluated. Tokenizing and batching are the same for all of them.

use std::path::Path;

use dragoman::bundle::{Bundle, MODEL_INT8, QUESTIONS_INT8};
use dragoman::evaluation::{Embeddings, EvaluationError, SentenceEncoder};
use dragoman::ranking::TokenTable;
use dragoman::text::Tokenizer;
use rayon::prelude::*;

use super::late_interaction::LateInteraction;
use super::session::OnnxEncoder;
use crate::error::Error;

/// Maximum of texts times longest text in one forward pass, padding included.
const BATCH_TOKENS_MAX: usize = 4_096;

/// Turns token ids into embeddings.
pub trait TokenEncoder {
    /// Values per embedding.
    fn dimension(&self) -> usize;

    /// Runs one forward pass. Returns [texts, dimension], not necessarily of unit length.
    fn embed_batch(&mut self, batch: &PaddedBatch) -> Result<Vec<f32>, Error>;

    /// The late interaction scorer, if there is a token table.
    fn late_interaction(&self) -> Option<&LateInteraction> {
        None
    }

    /// Embeds questions; some encoders have a separate graph for them.
    fn embed_questions(&mut self, questions: &[Vec<u32>]) -> Result<Embeddings, Error> {
        self.embed(questions)
    }

    /// Embeds texts of at least one token each, in batches of similar length; returns them in the order of the texts.
    fn embed(&mut self, texts: &[Vec<u32>]) -> Result<Embeddings, Error> {
        let dimension = self.dimension();
        let mut values = vec![0.0; texts.len() * dimension];
        for numbers in batches(texts) {
            let rows = self.embed_batch(&PaddedBatch::new(texts, &numbers))?;
            for (row, text) in rows.chunks_exact(dimension).zip(numbers) {
                values[text * dimension..][..dimension].copy_from_slice(row);
            }
        }
        Ok(Embeddings::normalized(values, dimension)?)
    }
}

/// Token ids of texts, padded to the longest of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaddedBatch {
    /// Number of texts.
    pub texts: usize,
    /// Tokens of the longest text.
    pub length: usize,
    /// [texts, length], 0 where there is padding.
    pub ids: Vec<i64>,
    /// [texts, length], 1 for tokens, 0 for padding.
    pub mask: Vec<i64>,
}

impl PaddedBatch {
    /// Pads the texts with the indices `numbers`.
    fn new(texts: &[Vec<u32>], numbers: &[usize]) -> Self {
        let length = numbers.iter().map(|&text| texts[text].len()).max().unwrap_or(0);
        let mut ids = vec![0; numbers.len() * length];
        let mut mask = ids.clone();
        for (row, &text) in numbers.iter().enumerate() {
            for (column, &id) in texts[text].iter().enumerate() {
                ids[row * length + column] = i64::from(id);
                mask[row * length + column] = 1;
            }
        }
        Self { texts: numbers.len(), length, ids, mask }
    }
}

/// Splits texts into batches of similar length within the token budget, at least one text each; returns their indices.
fn batches(texts: &[Vec<u32>]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|&text| texts[text].len());
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for text in order {
        match batches.last_mut() {
            // Texts are sorted by length, so the newest is the longest of its batch.
            Some(batch) if (batch.len() + 1) * texts[text].len() <= BATCH_TOKENS_MAX => batch.push(text),
            _ => batches.push(vec![text]),
        }
    }
    batches
}

/// A tokenizer with a token encoder.
pub struct TextEncoder<E> {
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// Maximum tokens to read of one text.
    pub tokens_max: usize,
    /// The encoder.
    pub encoder: E,
}

impl TextEncoder<OnnxEncoder> {
    /// Opens a bundle as the server does on a CPU: its tokenizer and its int8 graph, on `threads` threads; 0 means one per core.
    pub fn open_bundle(folder: &Path, threads: usize) -> Result<Self, Error> {
        let bundle = Bundle::open(folder)?;
        let table = bundle.late_interaction_table().map(|path| TokenTable::read(&path));
        let late_interaction = table.transpose()?.map(|table| LateInteraction::from(&table));
        let questions = bundle.optional(QUESTIONS_INT8).map(|path| OnnxEncoder::open(&path, threads)).transpose()?;
        Ok(Self {
            tokenizer: Tokenizer::open(&bundle)?,
            tokens_max: bundle.manifest.tokens_max,
            encoder: OnnxEncoder::open(&bundle.path(MODEL_INT8), threads)?
                .with_late_interaction(late_interaction)
                .with_questions(questions),
        })
    }
}

impl<E: TokenEncoder> SentenceEncoder for TextEncoder<E> {
    fn encode(&mut self, texts: &[String]) -> Result<Embeddings, EvaluationError> {
        let ids = tokenize(&self.tokenizer, texts, self.tokens_max);
        ids.and_then(|ids| self.encoder.embed(&ids)).map_err(EvaluationError::measured)
    }

    fn encode_questions(&mut self, questions: &[String]) -> Result<Embeddings, EvaluationError> {
        let ids = tokenize(&self.tokenizer, questions, self.tokens_max);
        ids.and_then(|ids| self.encoder.embed_questions(&ids)).map_err(EvaluationError::measured)
    }

    fn late_scores(&mut self, questions: &[String], passages: &[String]) -> Result<Option<Vec<f32>>, EvaluationError> {
        let Some(table) = self.encoder.late_interaction() else { return Ok(None) };
        let ids = |texts: &[String]| tokenize(&self.tokenizer, texts, self.tokens_max).map_err(EvaluationError::measured);
        Ok(Some(table.scores(&ids(questions)?, &ids(passages)?)))
    }
}

/// Token ids of `texts`.
pub fn tokenize(tokenizer: &Tokenizer, texts: &[String], tokens_max: usize) -> Result<Vec<Vec<u32>>, Error> {
    let tokenized: Result<Vec<_>, _> =
        texts.par_iter().map(|text| tokenizer.encode(text, tokens_max).map(|tokens| tokens.ids)).collect();
    Ok(tokenized?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes each text as its first id and its length, and records the batch sizes.
    struct Recorder(Vec<usize>);

    impl TokenEncoder for Recorder {
        fn dimension(&self) -> usize {
            2
        }

        fn embed_batch(&mut self, batch: &PaddedBatch) -> Result<Vec<f32>, Error> {
            self.0.push(batch.texts);
            let rows = batch.ids.chunks(batch.length).zip(batch.mask.chunks(batch.length));
            Ok(rows.flat_map(|(ids, mask)| [ids[0] as f32, mask.iter().sum::<i64>() as f32]).collect())
        }
    }

    #[test]
    fn batches_stay_within_the_token_budget_and_contain_each_text_once() {
        let texts: Vec<Vec<u32>> = [3, BATCH_TOKENS_MAX + 1, 1_000, 2_000, 2_048, 1].map(|length| vec![7; length]).into();
        assert_eq!(batches(&texts), [vec![5, 0, 2], vec![3, 4], vec![1]]);
    }

    #[test]
    fn embeddings_are_normalized_and_in_input_order() {
        let mut recorder = Recorder(Vec::new());
        let embeddings = recorder.embed(&[vec![4, 0, 0], vec![8, 1, 2, 3, 4, 5], vec![0]]).unwrap();
        assert_eq!(embeddings.values(), [0.8, 0.6, 0.8, 0.6, 0.0, 1.0]);
        assert_eq!(recorder.0, [3]);
    }
}
