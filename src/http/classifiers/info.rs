//! Classifiers as they are shown.

use serde::Serialize;
use utoipa::ToSchema;

use super::labels::{LabeledDocumentsInput, written};
use super::request::{ActivationName, ClassifierKindName, KnnOptions, MlpOptions, NeighborWeightName};
use crate::domain::{
    Classifier, ClassifierKind, ClassifierState, KnnSettings, Language, MlpSettings, NeighborWeight, TrainingReport,
};
use crate::http::jobs::JobProblem;
use crate::http::timestamps::rfc3339;

/// A classifier.
#[derive(Debug, Serialize, ToSchema)]
pub struct ClassifierInfo {
    /// The name.
    pub name: String,
    /// How it decides.
    pub kind: ClassifierKindName,
    /// Where it is.
    pub state: ClassifierStateName,
    /// Id of the job that trained it as it is, or trains it for the first time; jobs are forgotten after a while.
    pub job: String,
    /// Id of the job that trains it again; omitted when none does. Until its end the classifier answers as before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_job: Option<String>,
    /// How often it was trained: 0 before the end of its first training, then one more with each.
    pub version: u64,
    /// What it is for; omitted when nothing was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    /// Whether a text has any number of labels instead of exactly one.
    pub multi_label: bool,
    /// Its own threshold; omitted when it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub threshold: Option<f32>,
    /// Whose labels it learns from; omitted when it learned from texts of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub source: Option<LabeledDocumentsInput>,
    /// How neighbors vote; for kind `knn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub knn: Option<KnnOptions>,
    /// How it was trained; for kind `mlp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub mlp: Option<MlpOptions>,
    /// The model whose embeddings it takes.
    pub model: String,
    /// That model's fingerprint; with another one loaded, the classifier is `outdated`.
    pub model_fingerprint: String,
    /// What training found; omitted before its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub training: Option<TrainingInfo>,
    /// Why its last training failed; omitted when it did not. One that is `ready` all the same answers as it was trained before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<JobProblem>,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it was last trained; omitted before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    pub trained_at: Option<String>,
}

/// `training`: a job trains it. `ready`: it answers. `failed`: its training failed or was canceled. `outdated`: it learned on
/// embeddings of another model than the one that is loaded; train it again.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClassifierStateName {
    /// A job trains it.
    Training,
    /// It answers.
    Ready,
    /// Its training failed or was canceled.
    Failed,
    /// It belongs to another model.
    Outdated,
}

/// What training found.
#[derive(Debug, Serialize, ToSchema)]
pub struct TrainingInfo {
    /// Labeled examples, those that were set apart included.
    pub examples: usize,
    /// Labeled documents that were left out because they wait for their embedding.
    pub left_out: usize,
    /// The labels with their examples, by name.
    pub labels: Vec<LabelExamples>,
    /// The languages of the examples, most examples first.
    pub languages: Vec<LanguageExamples>,
    /// The language of training, for the transfer gap of evaluations: that of nine in ten examples; omitted when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub trained_in: Option<String>,
    /// Examples that it was tried on: for `mlp` those set apart; for `knn` known ones, each without itself; for `prototype` all.
    pub validation_examples: usize,
    /// How well it did on those, 0 to 1: the share that it told right; for an `mlp` with `multi_label` the micro-F1. Omitted
    /// without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    pub validation_quality: Option<f64>,
    /// How far its probabilities are off on those on average (expected calibration error); omitted without any, and with
    /// `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    pub calibration_error: Option<f64>,
    /// What scores are divided by to become probabilities; omitted when it was not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub temperature: Option<f32>,
    /// The quality of each run of an `mlp`, in the order of the seeds: how much chance there is in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub run_qualities: Vec<f64>,
}

/// A label and its examples.
#[derive(Debug, Serialize, ToSchema)]
pub struct LabelExamples {
    /// The label.
    pub label: String,
    /// How many examples have it.
    pub examples: usize,
}

/// A language and its examples.
#[derive(Debug, Serialize, ToSchema)]
pub struct LanguageExamples {
    /// ISO 639-1 code; omitted for examples whose language was not recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub language: Option<String>,
    /// How many examples are in it.
    pub examples: usize,
}

/// One page of classifiers.
#[derive(Debug, Serialize, ToSchema)]
pub struct ClassifierList {
    /// Classifiers in the order of their names.
    pub classifiers: Vec<ClassifierInfo>,
    /// Where the next page begins; omitted on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// The code of a language.
pub fn code(language: Option<Language>) -> Option<String> {
    language.map(|language| language.code().to_owned())
}

impl From<Classifier> for ClassifierInfo {
    fn from(classifier: Classifier) -> Self {
        let definition = classifier.definition;
        let kind = definition.kind;
        Self {
            name: classifier.name.as_str().to_owned(),
            kind: match kind {
                ClassifierKind::Knn => ClassifierKindName::Knn,
                ClassifierKind::Mlp => ClassifierKindName::Mlp,
                ClassifierKind::Prototype => ClassifierKindName::Prototype,
            },
            state: match classifier.state {
                ClassifierState::Training => ClassifierStateName::Training,
                ClassifierState::Ready => ClassifierStateName::Ready,
                ClassifierState::Failed => ClassifierStateName::Failed,
                ClassifierState::Outdated => ClassifierStateName::Outdated,
            },
            job: classifier.job.as_str().to_owned(),
            next_job: classifier.next_job.map(|job| job.as_str().to_owned()),
            version: classifier.version,
            description: definition.description,
            multi_label: definition.multi_label,
            threshold: definition.threshold,
            source: definition.source.as_ref().map(written),
            knn: (kind == ClassifierKind::Knn).then(|| definition.knn.into()),
            mlp: (kind == ClassifierKind::Mlp).then(|| definition.mlp.into()),
            model: classifier.model,
            model_fingerprint: classifier.model_fingerprint,
            training: classifier.report.map(TrainingInfo::from),
            error: classifier.error.map(|error| JobProblem { code: error.code.name().to_owned(), detail: error.detail }),
            created_at: rfc3339(classifier.created_at_ms),
            trained_at: classifier.trained_at_ms.map(rfc3339),
        }
    }
}

impl From<TrainingReport> for TrainingInfo {
    fn from(report: TrainingReport) -> Self {
        let trained_in = code(report.trained_in());
        Self {
            examples: report.examples,
            left_out: report.left_out,
            labels: report.labels.into_iter().map(|(label, examples)| LabelExamples { label, examples }).collect(),
            languages: report
                .languages
                .into_iter()
                .map(|(language, examples)| LanguageExamples { language: code(language), examples })
                .collect(),
            trained_in,
            validation_examples: report.validation_examples,
            validation_quality: report.validation_quality,
            calibration_error: report.calibration_error,
            temperature: report.temperature,
            run_qualities: report.run_qualities,
        }
    }
}

impl From<KnnSettings> for KnnOptions {
    fn from(settings: KnnSettings) -> Self {
        Self {
            neighbors: settings.neighbors,
            weight: match settings.weight {
                NeighborWeight::Equal => NeighborWeightName::Equal,
                NeighborWeight::Score => NeighborWeightName::Score,
                NeighborWeight::Softmax => NeighborWeightName::Softmax,
            },
            temperature: settings.temperature,
            score_min: settings.score_min,
        }
    }
}

impl From<MlpSettings> for MlpOptions {
    fn from(settings: MlpSettings) -> Self {
        Self {
            hidden: settings.hidden,
            activation: if settings.relu { ActivationName::Relu } else { ActivationName::Tanh },
            dropout: settings.dropout,
            learning_rate: settings.learning_rate,
            batch: settings.batch,
            epochs_max: settings.epochs_max,
            patience: settings.patience,
            runs: settings.runs,
            seed: u32::try_from(settings.seed).unwrap_or(u32::MAX),
            validation_share: settings.validation_share,
        }
    }
}
