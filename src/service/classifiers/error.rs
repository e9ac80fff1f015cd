//! Errors of classifiers.

use crate::classify::ClassifyError;
use crate::domain::{ClassifierName, Code, CollectionModel, JobId};

#[derive(Debug, thiserror::Error)]
pub enum ClassifierError {
    #[error("there is no classifier {name}")]
    NotFound { name: ClassifierName },
    #[error("a classifier {name} already exists")]
    Exists { name: ClassifierName },
    #[error("classifier {name} is not ready: {problem}")]
    NotReady { name: ClassifierName, problem: String },
    #[error("the server already has {limit} classifiers, the maximum")]
    TooMany { limit: usize },
    #[error("classifier {name} was trained on embeddings of model {expected}, but the server has {loaded}; train it again")]
    Model { name: ClassifierName, expected: CollectionModel, loaded: CollectionModel },
    #[error("classifier {name} has no label {label:?}, which {item} has")]
    UnknownLabel { name: ClassifierName, label: String, item: String },
    #[error("{problem}")]
    TrainingSet { problem: String },
    #[error("{problem}")]
    EvaluationSet { problem: String },
    #[error("job {id} has no evaluation: its type is {kind} and its status {status}, expected evaluate and succeeded")]
    NoEvaluation { id: JobId, kind: &'static str, status: &'static str },
    #[error("field {field} of collection {collection} holds the labels that the classifier learns from; name another field")]
    OwnLabels { field: String, collection: String },
    #[error("the stored classifier is damaged: {problem}")]
    Damaged { problem: String },
    #[error("classification failed: {0}")]
    Classify(#[from] ClassifyError),
}

impl ClassifierError {
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::ClassifierNotFound,
            Self::Exists { .. } => Code::ClassifierExists,
            Self::NotReady { .. } => Code::ClassifierNotReady,
            Self::TooMany { .. } => Code::TooManyClassifiers,
            Self::Model { .. } => Code::ModelMismatch,
            Self::UnknownLabel { .. } => Code::UnknownLabel,
            Self::TrainingSet { .. } => Code::InvalidTrainingSet,
            Self::EvaluationSet { .. } | Self::OwnLabels { .. } => Code::InvalidRequest,
            Self::NoEvaluation { .. } => Code::NoResults,
            Self::Damaged { .. } => Code::Internal,
            Self::Classify(error) => match error {
                // The caller is to blame for an out-of-range parameter and for a learning rate that is too high for these
                // examples.
                ClassifyError::Parameter { .. } | ClassifyError::Diverged { .. } => Code::InvalidRequest,
                ClassifyError::NoDirection { .. } => Code::InvalidTrainingSet,
                ClassifyError::Length { .. }
                | ClassifyError::Label { .. }
                | ClassifyError::Repeated { .. }
                | ClassifyError::NotFinite { .. }
                | ClassifyError::Stopped
                | ClassifyError::Saved(_) => Code::Internal,
            },
        }
    }
}
