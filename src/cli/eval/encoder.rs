//! Embeds texts for evaluations with `POST /v1/embeddings`, in bounded batches, one at a time.

use std::ops::Range;

use indicatif::ProgressBar;

use super::data::DataArgs;
use crate::cli::client::Client;
use crate::cli::embed::encoder::embed_on_server;
use crate::cli::embed::texts::BATCH_TEXTS_MAX;
use crate::cli::error::CliError;
use crate::cli::output::{Unit, plural};
use crate::evaluation::{Embeddings, EvaluationError, SentenceEncoder};

/// Maximum bytes of text per request, unless a single text is longer.
const BATCH_BYTES_MAX: usize = 1 << 20;

pub struct ServerEncoder<'a> {
    client: &'a Client,
    model: Option<String>,
    bar: ProgressBar,
}

impl<'a> ServerEncoder<'a> {
    /// Creates an encoder that uses the model in the arguments, or the server's own model.
    pub fn new(client: &'a Client, data: &DataArgs) -> Self {
        Self { client, model: data.model.clone(), bar: client.output.progress(None, Unit::Items("texts embedded")) }
    }

    /// Returns the values of all embeddings, concatenated, and the dimension.
    fn embed_all(&self, texts: &[String], input_type: Option<&str>) -> Result<(Vec<f32>, usize), CliError> {
        let mut values = Vec::new();
        let mut dimension = None;
        for numbers in batches(texts) {
            let count = numbers.len();
            for embedding in embed_on_server(self.client, &texts[numbers], self.model.as_deref(), input_type)? {
                let expected = *dimension.get_or_insert(embedding.values.len());
                if embedding.values.len() != expected {
                    let got = plural(embedding.values.len() as u64, "value");
                    return Err(self.client.unexpected_response(format!("it mixes embeddings of {expected} and of {got}")));
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
        let (values, dimension) = self.embed_all(texts, None).map_err(EvaluationError::measured)?;
        Embeddings::normalized(values, dimension)
    }

    fn encode_questions(&mut self, questions: &[String]) -> Result<Embeddings, EvaluationError> {
        let (values, dimension) = self.embed_all(questions, Some("query")).map_err(EvaluationError::measured)?;
        Embeddings::normalized(values, dimension)
    }
}

impl Drop for ServerEncoder<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Splits texts into batches: ranges in order, each within both limits and with at least one text.
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
        let too_long = "x".repeat(BATCH_BYTES_MAX + 1);
        assert_eq!(batches(&[half.clone(), half.clone(), half, too_long.clone(), too_long]), [0..2, 2..3, 3..4, 4..5]);
        let many = vec!["da".to_owned(); BATCH_TEXTS_MAX + 1];
        assert_eq!(batches(&many), [0..BATCH_TEXTS_MAX, BATCH_TEXTS_MAX..BATCH_TEXTS_MAX + 1]);
        assert!(batches(&[]).is_empty());
    }
}
