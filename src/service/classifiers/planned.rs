//! The part of a plan that jobs that apply and jobs that evaluate a classifier share: the classifier and the documents.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::ClassifierError;
use super::trained::TrainedClassifier;
use crate::domain::{ClassifierName, CollectionId, Filter, MetadataPath};
use crate::service::error::Error;
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
    /// Returns the classifier in its current state, in memory.
    pub(super) async fn classifier(&self, state: &Arc<State>) -> Result<Arc<TrainedClassifier>, Error> {
        let (id, name) = (self.classifier.clone(), self.name.clone());
        let classifier = state.run(move |state| {
            let row = state.catalog.classifier_by_id(&id)?.ok_or(ClassifierError::NotFound { name })?;
            state.trained(row)
        });
        classifier.await
    }
}
