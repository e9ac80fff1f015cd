//! A multilayer perceptron with one hidden layer on frozen embeddings (EMS, 2024, sections V-E and V-F): the classifier of the
//! papers' zero-shot protocol, which is trained in one language and tested in the others.
//!
//! Inputs have unit length. As in the evaluation in `training`, they are multiplied by the square root of their dimension, so
//! that the mean square of a value is 1.

mod network;
mod saved;
mod train;

pub use train::Training;

use super::error::check_temperature;
use super::{ClassifyError, TargetKind};
use crate::domain::Activation;
use network::{Activations, Shape, forward, normalize_scores};

/// Size limits of a classifier: the largest takes 512 MiB.
const DIMENSION_MAX: usize = 16_384;
const HIDDEN_MAX: usize = 4_096;
const LABELS_MAX: usize = 16_384;
const INFERENCE_BATCH_ROWS: usize = 64;

#[derive(Debug, Clone, PartialEq)]
pub struct Mlp {
    shape: Shape,
    activation: Activation,
    /// Whether it predicts one class or any number of labels.
    target_kind: TargetKind,
    /// Divides the logits: above 1 it makes probabilities less confident.
    temperature: f32,
    /// The parameters, in the order of `network::Parts`.
    parameters: Vec<f32>,
}

impl Mlp {
    pub fn dimension(&self) -> usize {
        self.shape.dimension
    }

    pub fn labels(&self) -> usize {
        self.shape.labels
    }

    /// The divisor of logits; 1 until `with_temperature`.
    pub fn temperature(&self) -> f32 {
        self.temperature
    }

    /// Returns the classifier with another temperature, from `calibrate::fit_temperature` on the validation set.
    pub fn with_temperature(self, temperature: f32) -> Result<Self, ClassifyError> {
        check_temperature(temperature)?;
        Ok(Self { temperature, ..self })
    }

    /// Computes the logits of concatenated unit-length embeddings, before the temperature. [examples, labels]
    pub fn logits(&self, embeddings: &[f32]) -> Result<Vec<f32>, ClassifyError> {
        let dimension = self.shape.dimension;
        if !embeddings.len().is_multiple_of(dimension) {
            let expected = embeddings.len().next_multiple_of(dimension);
            return Err(ClassifyError::Length { what: "embeddings", expected, got: embeddings.len() });
        }
        let mut activations = Activations::new(self.shape, INFERENCE_BATCH_ROWS);
        let mut logits = Vec::with_capacity(embeddings.len() / dimension * self.shape.labels);
        for rows in embeddings.chunks(INFERENCE_BATCH_ROWS * dimension) {
            activations.fill(rows.chunks_exact(dimension));
            forward(self.shape, self.activation, &self.parameters, &mut activations);
            logits.extend_from_slice(activations.logits());
        }
        Ok(logits)
    }

    /// Computes the label probabilities of concatenated unit-length embeddings. [examples, labels] They sum to 1 per example
    /// for `TargetKind::Class`, and are independent for `TargetKind::LabelSet`.
    pub fn probabilities(&self, embeddings: &[f32]) -> Result<Vec<f32>, ClassifyError> {
        let mut scores = self.logits(embeddings)?;
        for row in scores.chunks_exact_mut(self.shape.labels) {
            row.iter_mut().for_each(|logit| *logit /= self.temperature);
            normalize_scores(self.target_kind, row);
        }
        Ok(scores)
    }
}
