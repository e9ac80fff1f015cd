//! What an evaluation tells.

use serde::Serialize;
use utoipa::ToSchema;

use super::info::code;
use crate::domain::{Evaluation, Language, Scores};

/// How well a classifier does. All measures are shares, 0 to 1; one that has nothing to divide by is 0.
#[derive(Debug, Serialize, ToSchema)]
pub struct EvaluationResult {
    /// All examples.
    pub all: EvaluationScores,
    /// What always answering the most frequent label would get right; omitted with `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub majority: Option<MajorityInfo>,
    /// The labels that an example has or was given, by name.
    pub labels: Vec<LabelEvaluation>,
    /// The confusion matrix, without its zeros; omitted with `multi_label`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub confusion: Vec<ConfusionCell>,
    /// The languages, most examples first.
    pub languages: Vec<LanguageEvaluation>,
    /// What is lost on the way from the language of training to the others; omitted with `multi_label`, and unless the
    /// classifier was trained in one language that has examples here, beside at least one other.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub transfer: Option<TransferInfo>,
    /// How much its probabilities mean what they say; omitted with `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub calibration: Option<CalibrationInfo>,
}

/// How some examples did.
#[derive(Debug, Serialize, ToSchema)]
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
#[derive(Debug, Serialize, ToSchema)]
pub struct MajorityInfo {
    /// The label.
    pub label: String,
    /// The share of the examples that have it.
    #[schema(minimum = 0, maximum = 1)]
    pub accuracy: f64,
}

/// How a label did.
#[derive(Debug, Serialize, ToSchema)]
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
#[derive(Debug, Serialize, ToSchema)]
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
#[derive(Debug, Serialize, ToSchema)]
pub struct LanguageEvaluation {
    /// ISO 639-1 code; omitted for examples whose language was not recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub language: Option<String>,
    /// Its examples.
    pub scores: EvaluationScores,
}

/// What is lost on the way to other languages.
#[derive(Debug, Serialize, ToSchema)]
pub struct TransferInfo {
    /// ISO 639-1 code of the language of training.
    pub from: String,
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
#[derive(Debug, Serialize, ToSchema)]
pub struct LanguageGap {
    /// ISO 639-1 code.
    pub language: String,
    /// Accuracy in the language of training, less accuracy in this one.
    #[schema(minimum = -1, maximum = 1)]
    pub gap: f64,
}

/// How much probabilities mean what they say.
#[derive(Debug, Serialize, ToSchema)]
pub struct CalibrationInfo {
    /// The mean distance between how sure it is and how often it is right (expected calibration error).
    #[schema(minimum = 0, maximum = 1)]
    pub expected_error: f64,
    /// Examples by the probability of their most likely label, in ten equal steps from 0 to 1.
    pub bins: Vec<CalibrationBin>,
}

/// Examples of like probability.
#[derive(Debug, Serialize, ToSchema)]
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

impl From<Scores> for EvaluationScores {
    fn from(scores: Scores) -> Self {
        Self {
            examples: scores.examples,
            abstained: scores.abstained,
            accuracy: scores.accuracy,
            macro_f1: scores.macro_f1,
            micro_precision: scores.micro.map(|(precision, _, _)| precision),
            micro_recall: scores.micro.map(|(_, recall, _)| recall),
            micro_f1: scores.micro.map(|(_, _, f1)| f1),
        }
    }
}

impl From<Evaluation> for EvaluationResult {
    fn from(found: Evaluation) -> Self {
        let label = |one: crate::domain::LabelScore| LabelEvaluation {
            label: one.label,
            precision: one.precision,
            recall: one.recall,
            f1: one.f1,
            support: one.support,
            answered: one.answered,
        };
        let cell = |one: crate::domain::ConfusionCount| ConfusionCell {
            expected: one.expected,
            answered: one.answered,
            count: one.count,
        };
        let language = |(language, scores): (Option<Language>, Scores)| LanguageEvaluation {
            language: code(language),
            scores: scores.into(),
        };
        let gap = |(language, gap): (Language, f64)| LanguageGap { language: language.code().to_owned(), gap };
        let bin = |bin: crate::domain::ConfidenceBin| CalibrationBin {
            examples: bin.examples,
            confidence: bin.confidence,
            accuracy: bin.accuracy,
        };
        Self {
            all: found.all.into(),
            majority: found.majority.map(|(label, accuracy)| MajorityInfo { label, accuracy }),
            labels: found.labels.into_iter().map(label).collect(),
            confusion: found.confusion.into_iter().map(cell).collect(),
            languages: found.languages.into_iter().map(language).collect(),
            transfer: found.transfer.map(|transfer| TransferInfo {
                from: transfer.from.code().to_owned(),
                own: transfer.own,
                mean: transfer.mean,
                gap: transfer.own - transfer.mean,
                gaps: transfer.gaps.into_iter().map(gap).collect(),
            }),
            calibration: found
                .calibration
                .map(|(expected_error, bins)| CalibrationInfo { expected_error, bins: bins.into_iter().map(bin).collect() }),
        }
    }
}
