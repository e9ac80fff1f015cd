//! The part of a plan that jobs that apply and jobs that evaluate a classifier share: the classifier and the documents.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::ClassifierError;
use super::trained::TrainedClassifier;
use crate::domain::{ClassifierName, CollectionId, Filter, MetadataPath};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::{JobContext, JobError};
use crate::service::open_collection::OpenCollection;
use crate::service::state::State;

/// The classifier and the documents of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ClassifierJobPlan {
    /// The classifier's id.
    pub(super) classifier: String,
    pub(super) name: ClassifierName,
    pub(super) collection_id: CollectionId,
    pub(super) filter: Filter,
    pub(super) field: MetadataPath,
    pub(super) threshold: Option<f32>,
}

impl ClassifierJobPlan {
    /// Returns the collection that the job was accepted for. For a job that writes, which must not change another collection.
    pub(super) fn collection(&self, context: &JobContext) -> Result<Arc<OpenCollection>, JobError> {
        let state = context.state()?;
        let not_found = || match &context.job.collection {
            Some(name) => state.missing_error(name),
            None => collection_deleted_error(context),
        };
        Ok(state.collection_by_id(&self.collection_id.0).ok_or_else(not_found)?)
    }

    /// Returns the collection that the job was accepted for or, if it was replaced, the one that has its name now. For a job
    /// that only reads.
    pub(super) fn collection_to_read(&self, context: &JobContext) -> Result<Arc<OpenCollection>, JobError> {
        let state = context.state()?;
        let found = state.collection_by_id(&self.collection_id.0);
        let name = context.job.collection.as_ref().ok_or_else(|| collection_deleted_error(context))?;
        Ok(found.map_or_else(|| state.collection(name), Ok)?)
    }

    /// Returns the classifier in its current state, in memory.
    pub(super) async fn classifier(&self, state: &Arc<State>) -> Result<Arc<TrainedClassifier>, Error> {
        let (reading, id, name) = (Arc::clone(state), self.classifier.clone(), self.name.clone());
        blocking(move || {
            let row = reading.catalog.classifier_by_id(&id)?.ok_or(ClassifierError::NotFound { name })?;
            reading.trained(row)
        })
        .await
    }
}

/// Builds the error for a job whose collection was deleted.
pub(super) fn collection_deleted_error(context: &JobContext) -> Error {
    match context.job.collection.clone() {
        Some(name) => Error::CollectionNotFound { name },
        None => Error::JobState { id: context.job.id.clone(), problem: "it does not name a collection" },
    }
}
