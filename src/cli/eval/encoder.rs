//! A server's embeddings for evaluations: `POST /v1/embeddings` in bounded batches, one after the other.

use std::ops::Range;

use indicatif::ProgressBar;

use crate::cli::client::Client;
use crate::cli::embed::encoder::by_server;
use crate::cli::embed::texts::BATCH_TEXTS_MAX;
use crate::cli::error::CliError;
use crate::cli::output::{Output, Unit};
use crate::evaluation::{Embeddings, EvaluationError, SentenceEncoder};

/// Maximum bytes of text per request, unless a single text has more.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// A server that embeds.
pub struct ServerEncoder<'a> {
    client: &'a Client,
    model: Option<String>,
    bar: ProgressBar,
}

impl<'a> ServerEncoder<'a> {
    /// Asks for embeddings of `model`, or of the server's own model.
    pub fn new(client: &'a Client, output: &Output, model: Option<String>) -> Self {
        Self { client, model, bar: output.progress(None, Unit::Items("texts embedded")) }
    }

    /// Values of all embeddings, one after the other, and how many each has.
    fn all(&self, texts: &[String], input_type: Option<&str>) -> Result<(Vec<f32>, usize), CliError> {
        let mut values = Vec::new();
        let mut dimension = None;
        for numbers in batches(texts) {
            let count = numbers.len();
            for embedding in by_server(self.client, &texts[numbers], self.model.as_deref(), input_type)? {
                let expected = *dimension.get_or_insert(embedding.values.len());
                if embedding.values.len() != expected {
                    let got = embedding.values.len();
                    return Err(self.client.misunderstood(format!("it mixes embeddings of {expected} and of {got} values")));
                }
                values.extend(embedding.values);
            }
            self.bar.inc(count as u64);
        }
        Ok((values, dimension.unwrap_or(1)))
    }
}

impl SentenceEncoder for ServerEncoder<'_> {
    fn encode(&mut self, texts: &[String]) -> Result<Embeddings, EvaluationError> {
        let (values, dimension) = self.all(texts, None).map_err(EvaluationError::measured)?;
        Embeddings::normalized(values, dimension)
    }

    fn encode_questions(&mut self, questions: &[String]) -> Result<Embeddings, EvaluationError> {
        let (values, dimension) = self.all(questions, Some("query")).map_err(EvaluationError::measured)?;
        Embeddings::normalized(values, dimension)
    }
}

impl Drop for ServerEncoder<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Ranges of texts that are sent together: in order, within both limits, at least one.
pub fn batches(texts: &[String]) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (number, text) in texts.iter().enumerate() {
        bytes += text.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH_TEXTS_MAX && bytes <= BATCH_BYTES_MAX => batch.end = number + 1,
            _ => {
                bytes = text.len();
                batches.push(number..number + 1);
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_stay_within_both_limits() {
        let half = "x".repeat(BATCH_BYTES_MAX / 2);
        let whole = "x".repeat(BATCH_BYTES_MAX + 1);
        assert_eq!(batches(&[half.clone(), half.clone(), half, whole.clone(), whole]), [0..2, 2..3, 3..4, 4..5]);
        let many = vec!["da".to_owned(); BATCH_TEXTS_MAX + 1];
        assert_eq!(batches(&many), [0..BATCH_TEXTS_MAX, BATCH_TEXTS_MAX..BATCH_TEXTS_MAX + 1]);
        assert!(batches(&[]).is_empty());
    }
}
