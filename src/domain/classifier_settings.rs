//! How neighbors vote, and how a network is trained: the settings of two kinds of classifier.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a neighbor's vote counts. `equal`: all the same. `score`: its cosine. `softmax`: e to the power of its cosine over a
/// temperature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = NeighborWeightName)]
pub enum NeighborWeight {
    /// All the same.
    Equal,
    /// Its cosine.
    Score,
    /// By its cosine over a temperature.
    #[default]
    Softmax,
}

/// What a hidden value is made of: the hyperbolic tangent, or the positive part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ActivationName)]
pub enum Activation {
    /// The hyperbolic tangent, as in LASER's published classifier, which EMS follows.
    #[default]
    Tanh,
    /// The positive part.
    Relu,
}

/// How neighbors vote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = KnnOptions)]
pub struct KnnSettings {
    /// Passages that vote, 1 to 1000.
    #[schema(minimum = 1, maximum = 1000, default = 30)]
    pub neighbors: usize,
    /// What a vote counts.
    #[schema(default = "softmax")]
    pub weight: NeighborWeight,
    /// Of the softmax, above 0, at most 100: the lower, the more the nearest decide. Left out, the one that tells labels of known
    /// examples best, each asked without itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, maximum = 100)]
    pub temperature: Option<f32>,
    /// Passages with a lower cosine do not vote, -1 to 1; when none votes, it abstains.
    #[schema(minimum = -1, maximum = 1, default = -1)]
    pub score_min: f32,
}

/// How a network is trained. What is left out is as the papers' protocol has it.
// The defaults are those of the evaluation in `training`: what LASER published for MLDoc, whose protocol EMS follows, with one
// hidden layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = MlpOptions)]
pub struct MlpSettings {
    /// Hidden values, 1 to 4096.
    #[schema(minimum = 1, maximum = 4096, default = 10)]
    pub hidden: usize,
    /// What they are made of.
    #[schema(default = "tanh")]
    pub activation: Activation,
    /// The share of values that each step leaves out, from 0 to below 1.
    #[schema(minimum = 0, maximum = 1, default = 0.2)]
    pub dropout: f32,
    /// Of Adam, above 0, at most 1.
    #[schema(maximum = 1, default = 0.001)]
    pub learning_rate: f32,
    /// Examples in a step, 1 to 4096.
    #[schema(minimum = 1, maximum = 4096, default = 12)]
    pub batch: usize,
    /// Times through the examples at most, 1 to 10000.
    #[schema(minimum = 1, maximum = 10000, default = 100)]
    pub epochs_max: usize,
    /// Times through the examples without a better validation part before training ends, at least 1.
    #[schema(minimum = 1, default = 20)]
    pub patience: usize,
    /// Trainings that differ in the seed, 1 to 100; the best on the validation part is kept.
    #[schema(minimum = 1, maximum = 100, default = 5)]
    pub runs: usize,
    /// Of the first run; each other has the next.
    #[schema(minimum = 0, maximum = 4294967295u64, default = 1)]
    pub seed: u32,
    /// The share of the examples of each label that is set apart: to stop by, to choose by, and to calibrate by. From 0 to 0.9.
    #[schema(minimum = 0, maximum = 0.9, default = 0.2)]
    pub validation_share: f64,
}

impl Default for KnnSettings {
    fn default() -> Self {
        Self { neighbors: 30, weight: NeighborWeight::default(), temperature: None, score_min: -1.0 }
    }
}

impl Default for MlpSettings {
    fn default() -> Self {
        Self {
            hidden: 10,
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
