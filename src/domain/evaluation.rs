//! How well a classifier does, as the wire shows it and as a job stores it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Language;

/// How well a classifier does. All measures are shares, 0 to 1; one that has nothing to divide by is 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = EvaluationResult)]
pub struct Evaluation {
    /// All examples.
    pub all: EvaluationScores,
    /// What always answering the most frequent label would get right; omitted with `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub majority: Option<MajorityLabel>,
    /// The labels that an example has or was given, by name.
    pub labels: Vec<LabelEvaluation>,
    /// The confusion matrix, without its zeros; omitted with `multi_label`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confusion: Vec<ConfusionCell>,
    /// The languages, most examples first.
    pub languages: Vec<LanguageEvaluation>,
    /// What is lost on the way from the language of training to the others; omitted with `multi_label`, and unless the
    /// classifier was trained in one language that has examples here, beside at least one other.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub transfer: Option<TransferGap>,
    /// How much its probabilities mean what they say; omitted with `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub calibration: Option<Calibration>,
}

/// How some examples did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EvaluationScores {
    /// How many there are.
    pub examples: usize,
    /// How many got no answer, which is not right.
    pub abstained: usize,
    /// The share that was answered right; with `multi_label` the share that was told exactly its labels.
    #[schema(minimum = 0, maximum = 1)]
    pub accuracy: f64,
    /// The mean F1 of the labels, each counting the same.
    #[schema(minimum = 0, maximum = 1)]
    pub macro_f1: f64,
    /// Of all labels that were told, the share that is right; with `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    pub micro_precision: Option<f64>,
    /// Of all labels that are right, the share that was told; with `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    pub micro_recall: Option<f64>,
    /// Their harmonic mean; with `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    pub micro_f1: Option<f64>,
}

/// The most frequent label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = MajorityInfo)]
pub struct MajorityLabel {
    /// The label.
    pub label: String,
    /// The share of the examples that have it.
    #[schema(minimum = 0, maximum = 1)]
    pub accuracy: f64,
}

/// How a label did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabelEvaluation {
    /// The label.
    pub label: String,
    /// Of the examples that were told it, the share that has it.
    #[schema(minimum = 0, maximum = 1)]
    pub precision: f64,
    /// Of the examples that have it, the share that was told it.
    #[schema(minimum = 0, maximum = 1)]
    pub recall: f64,
    /// Their harmonic mean.
    #[schema(minimum = 0, maximum = 1)]
    pub f1: f64,
    /// Examples that have it.
    pub support: usize,
    /// Examples that were told it.
    pub answered: usize,
}

/// How often an answer was given to examples of a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfusionCell {
    /// The label that is right.
    pub expected: String,
    /// The label that was told; omitted for an abstention.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub answered: Option<String>,
    /// How often.
    pub count: usize,
}

/// How a language did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LanguageEvaluation {
    /// ISO 639-1 code; omitted for examples whose language was not recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false)]
    pub language: Option<Language>,
    /// Its examples.
    pub scores: EvaluationScores,
}

/// What is lost on the way to other languages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TransferInfo)]
pub struct TransferGap {
    /// ISO 639-1 code of the language of training.
    #[schema(value_type = String)]
    pub from: Language,
    /// Accuracy in it.
    #[schema(minimum = 0, maximum = 1)]
    pub own: f64,
    /// The mean accuracy of the other languages, each counting the same.
    #[schema(minimum = 0, maximum = 1)]
    pub mean: f64,
    /// `own` less `mean`.
    #[schema(minimum = -1, maximum = 1)]
    pub gap: f64,
    /// Each other language.
    pub gaps: Vec<LanguageGap>,
}

/// What is lost on the way to a language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LanguageGap {
    /// ISO 639-1 code.
    #[schema(value_type = String)]
    pub language: Language,
    /// Accuracy in the language of training, less accuracy in this one.
    #[schema(minimum = -1, maximum = 1)]
    pub gap: f64,
}

/// How much probabilities mean what they say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = CalibrationInfo)]
pub struct Calibration {
    /// The mean distance between how sure it is and how often it is right (expected calibration error).
    #[schema(minimum = 0, maximum = 1)]
    pub expected_error: f64,
    /// Examples by the probability of their most likely label, in ten equal steps from 0 to 1.
    pub bins: Vec<CalibrationBin>,
}

/// Examples of like probability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CalibrationBin {
    /// How many there are.
    pub examples: usize,
    /// Their mean probability.
    #[schema(minimum = 0, maximum = 1)]
    pub confidence: f64,
    /// The share whose most likely label is right.
    #[schema(minimum = 0, maximum = 1)]
    pub accuracy: f64,
}
