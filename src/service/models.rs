//! Detects languages and compares texts without a collection.

use std::sync::Arc;

use super::blocking::blocking;
use super::error::Error;
use super::state::Service;
use crate::domain::{DetectedLanguage, Embedded, PairSimilarity, SimilarityMatrix};

impl Service {
    /// Detects the language of each text. `None` if the text gives no evidence for any language.
    pub async fn detect(&self, texts: Vec<String>) -> Result<Vec<Option<DetectedLanguage>>, Error> {
        self.check_running()?;
        let embedder = self.state.embedder.clone();
        let caller = Arc::new(());
        let caller_alive = Arc::downgrade(&caller);
        // Many long texts take a long time, so stop when the caller is gone.
        let detect = move || {
            let detected = texts.iter().take_while(|_| caller_alive.strong_count() > 0).map(|text| embedder.detect(text));
            Ok(detected.collect())
        };
        let detected = blocking(detect).await;
        drop(caller);
        detected
    }

    /// Computes the cosine of each text of `first` and the text at the same position of `second`. Both must have the same
    /// length.
    pub async fn compare_pairs(&self, first: Vec<String>, second: Vec<String>) -> Result<Vec<PairSimilarity>, Error> {
        debug_assert_eq!(first.len(), second.len());
        let (first, second) = self.embed_sides(first, second).await?;
        let compared = |(one, other): (&Embedded, &Embedded)| PairSimilarity {
            score: cosine(one, other),
            truncated: one.truncated || other.truncated,
        };
        Ok(first.iter().zip(&second).map(compared).collect())
    }

    /// Computes the cosine of every text of `first` with every text of `second`, with one row per text of `first`. Without
    /// `second`, compares `first` with itself.
    pub async fn compare_sets(&self, first: Vec<String>, second: Option<Vec<String>>) -> Result<SimilarityMatrix, Error> {
        let is_one_set = second.is_none();
        let (first, second) = self.embed_sides(first, second.unwrap_or_default()).await?;
        blocking(move || {
            let second = if is_one_set { &first } else { &second };
            let row = |one: &Embedded| second.iter().map(|other| cosine(one, other)).collect();
            Ok(SimilarityMatrix {
                scores: first.iter().map(row).collect(),
                first_truncated: truncated(&first),
                second_truncated: truncated(second),
            })
        })
        .await
    }

    async fn embed_sides(&self, first: Vec<String>, second: Vec<String>) -> Result<(Vec<Embedded>, Vec<Embedded>), Error> {
        self.check_running()?;
        let (split, expected) = (first.len(), first.len() + second.len());
        let mut first = self.embed(first.into_iter().chain(second).collect()).await?;
        if first.len() != expected {
            return Err(Error::EncoderAnswers { expected, got: first.len() });
        }
        let second = first.split_off(split);
        Ok((first, second))
    }
}

/// Returns the positions of texts that were longer than what the model reads.
fn truncated(texts: &[Embedded]) -> Vec<usize> {
    texts.iter().enumerate().filter(|(_, text)| text.truncated).map(|(index, _)| index).collect()
}

/// Computes a cosine, clamped because rounding may push it out of range.
fn cosine(one: &Embedded, other: &Embedded) -> f32 {
    one.embedding.cosine(&other.embedding).clamp(-1.0, 1.0)
}
