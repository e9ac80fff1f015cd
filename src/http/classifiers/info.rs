//! Classifiers as the API shows them.

use serde::Serialize;
use utoipa::ToSchema;

use super::labels::{LabeledDocumentsInput, to_labeled_documents_input};
use crate::domain::timestamps::rfc3339;
use crate::domain::{Classifier, ClassifierKind, ClassifierState, JobFailure, KnnSettings, MlpSettings, TrainingReport};

/// A classifier.
#[derive(Debug, Serialize, ToSchema)]
pub struct ClassifierInfo {
    /// The name.
    pub name: String,
    /// How it decides.
    pub kind: ClassifierKind,
    /// Its state.
    pub state: ClassifierState,
    /// Id of the job of its last successful training, or of its first one; jobs are deleted after a while.
    pub job: String,
    /// Id of the job that trains it again; omitted if there is none. Until that job ends, the classifier predicts as before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_job: Option<String>,
    /// How many times it was trained: 0 until its first training has finished.
    pub version: u64,
    /// What it is for; omitted if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether a text has any number of labels instead of exactly one.
    pub multi_label: bool,
    /// Its own threshold; omitted if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f32>,
    /// The documents it learns from; omitted if it learned from texts of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<LabeledDocumentsInput>,
    /// How neighbors vote; for kind `knn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knn: Option<KnnSettings>,
    /// How it was trained; for kind `mlp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mlp: Option<MlpSettings>,
    /// The model whose embeddings it uses.
    pub model: String,
    /// That model's fingerprint; if another model is loaded, the classifier is `outdated`.
    pub model_fingerprint: String,
    /// The results of training; omitted until it has finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub training: Option<TrainingReport>,
    /// Why its last training failed; omitted if it did not. A classifier that is still `ready` uses its previous training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<JobFailure>,
    /// When it was created.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it was last trained; omitted until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub trained_at: Option<String>,
}

/// One page of classifiers.
#[derive(Debug, Serialize, ToSchema)]
pub struct ClassifierList {
    /// Classifiers in the order of their names.
    pub classifiers: Vec<ClassifierInfo>,
    /// Where the next page begins; omitted on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl From<Classifier> for ClassifierInfo {
    fn from(classifier: Classifier) -> Self {
        let Classifier { record, state, definition, report } = classifier;
        let kind = definition.kind;
        let hidden = report.as_ref().map(|report| definition.mlp.hidden_for(report.labels.len())).or(definition.mlp.hidden);
        Self {
            name: record.name.as_str().to_owned(),
            kind,
            state,
            job: record.job.as_str().to_owned(),
            next_job: record.next_job.map(|job| job.as_str().to_owned()),
            version: record.version,
            description: definition.description,
            multi_label: definition.multi_label,
            threshold: definition.threshold,
            source: definition.source.as_ref().map(to_labeled_documents_input),
            knn: (kind == ClassifierKind::Knn).then_some(definition.knn),
            mlp: (kind == ClassifierKind::Mlp).then_some(MlpSettings { hidden, ..definition.mlp }),
            model: record.model,
            model_fingerprint: record.model_fingerprint,
            training: report,
            error: record.error,
            created_at: rfc3339(record.created_at_ms),
            trained_at: record.trained_at_ms.map(rfc3339),
        }
    }
}
