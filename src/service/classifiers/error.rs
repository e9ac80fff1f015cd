//! What can go wrong with classifiers besides the parts that they are made of.

use crate::classify::ClassifyError;
use crate::domain::{ClassifierName, Code, JobId};

/// An error of a use case of classifiers.
#[derive(Debug, thiserror::Error)]
pub enum ClassifierError {
    /// No such classifier.
    #[error("there is no classifier {name}")]
    NotFound {
        /// The name.
        name: ClassifierName,
    },
    /// The name is taken.
    #[error("a classifier {name} already exists")]
    Exists {
        /// The name.
        name: ClassifierName,
    },
    /// It cannot be asked, or not be trained again.
    #[error("classifier {name} is not ready: {problem}")]
    NotReady {
        /// The name.
        name: ClassifierName,
        /// Why.
        problem: String,
    },
    /// One more than the server may hold.
    #[error("the server already has {limit} classifiers, the most it may have")]
    TooMany {
        /// The bound.
        limit: usize,
    },
    /// It was trained on embeddings of another model.
    #[error(
        "classifier {name} was trained on embeddings of model {expected} (fingerprint {expected_fingerprint}), but the server \
         has {loaded} (fingerprint {loaded_fingerprint}); train it again"
    )]
    Model {
        /// The name.
        name: ClassifierName,
        /// The classifier's model.
        expected: String,
        /// The first digits of its fingerprint.
        expected_fingerprint: String,
        /// The loaded model.
        loaded: String,
        /// The first digits of its fingerprint.
        loaded_fingerprint: String,
    },
    /// A label that it does not have.
    #[error("classifier {name} has no label {label:?}, which {place} has")]
    UnknownLabel {
        /// The name.
        name: ClassifierName,
        /// The label.
        label: String,
        /// Whose label it is.
        place: String,
    },
    /// Nothing can be learned from the labels.
    #[error("{problem}")]
    TrainingSet {
        /// What is wrong, and where.
        problem: String,
    },
    /// It cannot be judged by these.
    #[error("{problem}")]
    EvaluationSet {
        /// What is wrong.
        problem: String,
    },
    /// A job that holds no evaluation.
    #[error("job {id} has no evaluation: its type is {kind} and its status {status}, expected evaluate and succeeded")]
    NoEvaluation {
        /// The job.
        id: JobId,
        /// What it does.
        kind: &'static str,
        /// Where it is.
        status: &'static str,
    },
    /// Its answers would become what it learns from.
    #[error("field {field} of collection {collection} holds the labels that the classifier learns from; name another field")]
    OwnLabels {
        /// The field.
        field: String,
        /// The collection.
        collection: String,
    },
    /// What the catalog keeps of it cannot be read.
    #[error("the stored classifier is damaged: {problem}")]
    Kept {
        /// What is wrong.
        problem: String,
    },
    /// The computation failed.
    #[error("classification failed: {0}")]
    Classify(#[from] ClassifyError),
}

impl ClassifierError {
    /// The code that the wire sends.
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
            Self::Kept { .. } => Code::Internal,
            Self::Classify(error) => match error {
                // A parameter out of its bounds, and a rate that is too high for these examples, are the caller's.
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
