//! The settings of two kinds of classifier: how neighbors vote, and how a network is trained.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::json::singles;

/// How much a neighbor's vote counts. `equal`: all the same. `score`: its cosine. `softmax`: e to the power of its cosine
/// divided by a temperature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = NeighborWeightName)]
#[expect(missing_docs, reason = "the text above says what the variants are")]
pub enum NeighborWeight {
    Equal,
    Score,
    #[default]
    Softmax,
}

/// Activation of the hidden layer: the hyperbolic tangent, or the rectified linear unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ActivationName)]
pub enum Activation {
    /// The hyperbolic tangent, as in LASER's published classifier, which EMS follows.
    #[default]
    Tanh,
    /// The rectified linear unit.
    Relu,
}

/// How neighbors vote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = KnnOptions)]
pub struct KnnSettings {
    /// How many passages vote, 1 to 1000.
    #[schema(minimum = 1, maximum = 1000, default = 30)]
    pub neighbors: usize,
    /// How much a vote counts.
    #[schema(default = "softmax")]
    pub weight: NeighborWeight,
    /// Temperature of the softmax, above 0 and at most 100. The lower it is, the more the nearest neighbors decide. By default,
    /// the one that predicts the labels of the examples best, each predicted from the others (leave-one-out).
    #[serde(deserialize_with = "singles", skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100)]
    pub temperature: Option<f32>,
    /// Minimum cosine of a passage that votes, -1 to 1; if none votes, the classifier abstains.
    #[serde(deserialize_with = "singles")]
    #[schema(minimum = -1, maximum = 1, default = -1)]
    pub score_min: f32,
}

/// How a network is trained. The defaults follow the papers' protocol.
// The defaults are those of the evaluation in `training`: what LASER published for MLDoc, whose protocol EMS follows, with one
// hidden layer. MLDoc has four labels; more than ten need a larger layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = MlpOptions)]
pub struct MlpSettings {
    /// Size of the hidden layer, 1 to 4096. By default the number of labels, but at least 10 and at most 128.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 4096)]
    pub hidden: Option<usize>,
    /// Activation of the hidden layer.
    #[schema(default = "tanh")]
    pub activation: Activation,
    /// Dropout rate, from 0 to below 1.
    #[serde(deserialize_with = "singles")]
    #[schema(minimum = 0, maximum = 1, default = 0.2)]
    pub dropout: f32,
    /// Learning rate of Adam, above 0 and at most 1.
    #[serde(deserialize_with = "singles")]
    #[schema(maximum = 1, default = 0.001)]
    pub learning_rate: f32,
    /// Batch size, 1 to 4096.
    #[schema(minimum = 1, maximum = 4096, default = 12)]
    pub batch: usize,
    /// Maximum number of epochs, 1 to 10000.
    #[schema(minimum = 1, maximum = 10000, default = 100)]
    pub epochs_max: usize,
    /// Training stops after this many epochs without a better result on the validation part, at least 1.
    #[schema(minimum = 1, default = 20)]
    pub patience: usize,
    /// Number of training runs with different seeds, 1 to 100; the best one on the validation part is kept.
    #[schema(minimum = 1, maximum = 100, default = 5)]
    pub runs: usize,
    /// Seed of the first run; each further run uses the next number.
    #[schema(minimum = 0, maximum = 4294967295u64, default = 1)]
    pub seed: u32,
    /// Share of each label's examples to hold out for early stopping, for choosing a run and for calibration. From 0 to 0.9.
    #[schema(minimum = 0, maximum = 0.9, default = 0.2)]
    pub validation_share: f64,
}

impl MlpSettings {
    /// The size of the hidden layer for this many labels.
    pub fn hidden_for(&self, labels: usize) -> usize {
        self.hidden.unwrap_or_else(|| labels.clamp(10, 128))
    }
}

impl Default for KnnSettings {
    fn default() -> Self {
        Self { neighbors: 30, weight: NeighborWeight::default(), temperature: None, score_min: -1.0 }
    }
}

impl Default for MlpSettings {
    fn default() -> Self {
        Self {
            hidden: None,
            activation: Activation::default(),
            dropout: 0.2,
            learning_rate: 1e-3,
            batch: 12,
            epochs_max: 100,
            patience: 20,
            runs: 5,
            seed: 1,
            validation_share: 0.2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MlpSettings;

    #[test]
    fn the_hidden_layer_grows_with_the_labels_unless_its_size_is_given() {
        let hidden = |given, labels| MlpSettings { hidden: given, ..MlpSettings::default() }.hidden_for(labels);
        assert_eq!([2, 10, 60, 200, 1_000].map(|labels| hidden(None, labels)), [10, 10, 60, 128, 128]);
        assert_eq!((hidden(Some(1), 200), hidden(Some(4_096), 2)), (1, 4_096));
    }
}
