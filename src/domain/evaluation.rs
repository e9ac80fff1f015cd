//! The evaluation of a classifier, as the API returns it and as a job stores it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Language;

/// How well a classifier performs. All measures are fractions from 0 to 1. A measure with a zero denominator is 0, or 1 in the
/// totals of `multi_label` if no label was expected or predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = EvaluationResult)]
pub struct Evaluation {
    /// All examples.
    pub all: EvaluationScores,
    /// The baseline that always predicts the most frequent label; omitted with `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub majority: Option<MajorityLabel>,
    /// The labels that occur in examples or predictions, by name.
    pub labels: Vec<LabelEvaluation>,
    /// The confusion matrix, without zeros; omitted with `multi_label`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confusion: Vec<ConfusionCell>,
    /// The languages, most examples first.
    pub languages: Vec<LanguageEvaluation>,
    /// The loss in accuracy from the training language to the others. Omitted with `multi_label`, and unless the classifier was
    /// trained in one language and the examples include that language and at least one other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferGap>,
    /// How well its probabilities are calibrated; omitted with `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// The measures of some examples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EvaluationScores {
    /// Number of examples.
    pub examples: usize,
    /// Number of abstentions, which count as wrong.
    pub abstained: usize,
    /// The share of correct predictions; with `multi_label` the share with exactly the right labels.
    #[schema(minimum = 0, maximum = 1)]
    pub accuracy: f64,
    /// The unweighted mean F1 of the labels that were expected or predicted.
    #[schema(minimum = 0, maximum = 1)]
    pub macro_f1: f64,
    /// Micro precision over all predicted labels; with `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub micro_precision: Option<f64>,
    /// Micro recall over all true labels; with `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub micro_recall: Option<f64>,
    /// Micro F1, the harmonic mean of both; with `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
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

/// The measures of a label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabelEvaluation {
    /// The label.
    pub label: String,
    /// Precision: of the examples predicted to have it, the share that does.
    #[schema(minimum = 0, maximum = 1)]
    pub precision: f64,
    /// Recall: of the examples that have it, the share predicted to have it.
    #[schema(minimum = 0, maximum = 1)]
    pub recall: f64,
    /// F1, the harmonic mean of precision and recall.
    #[schema(minimum = 0, maximum = 1)]
    pub f1: f64,
    /// Number of examples that have it.
    pub support: usize,
    /// Number of examples predicted to have it.
    pub answered: usize,
}

/// A cell of the confusion matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfusionCell {
    /// The true label.
    pub expected: String,
    /// The predicted label; omitted for an abstention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<String>,
    /// Number of examples.
    pub count: usize,
}

/// The measures of a language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LanguageEvaluation {
    /// ISO 639-1 code; omitted for examples whose language was not recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub language: Option<Language>,
    /// The measures of its examples.
    pub scores: EvaluationScores,
}

/// The loss in accuracy from the training language to the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TransferInfo)]
pub struct TransferGap {
    /// ISO 639-1 code of the training language.
    #[schema(value_type = String)]
    pub from: Language,
    /// Accuracy in the training language.
    #[schema(minimum = 0, maximum = 1)]
    pub own: f64,
    /// The unweighted mean accuracy of the other languages.
    #[schema(minimum = 0, maximum = 1)]
    pub mean: f64,
    /// `own` minus `mean`.
    #[schema(minimum = -1, maximum = 1)]
    pub gap: f64,
    /// Each other language.
    pub gaps: Vec<LanguageGap>,
}

/// The loss in accuracy to a language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LanguageGap {
    /// ISO 639-1 code.
    #[schema(value_type = String)]
    pub language: Language,
    /// Accuracy in the training language minus accuracy in this one.
    #[schema(minimum = -1, maximum = 1)]
    pub gap: f64,
}

/// Calibration: how well probabilities match accuracy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = CalibrationInfo)]
pub struct Calibration {
    /// Expected calibration error: the mean distance between predicted probability and accuracy.
    #[schema(minimum = 0, maximum = 1)]
    pub expected_error: f64,
    /// Examples by the probability of their most likely label, in ten equal bins from 0 to 1.
    pub bins: Vec<CalibrationBin>,
}

/// Examples with similar probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CalibrationBin {
    /// Number of examples.
    pub examples: usize,
    /// Their mean probability.
    #[schema(minimum = 0, maximum = 1)]
    pub confidence: f64,
    /// The share whose most likely label is correct.
    #[schema(minimum = 0, maximum = 1)]
    pub accuracy: f64,
}
