//! The plan of a re-embedding: which collection to replace, with which model, and how to open or remove the replacement.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::{Collection, CollectionId, CollectionModel, JobId, PassageBounds, with_causes};
use crate::service::error::Error;
use crate::service::folders::{AtPath, orphaned, sync_dir};
use crate::service::jobs::{JobContext, JobError};
use crate::service::open_collection::OpenCollection;
use crate::service::state::State;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReembedPlan {
    pub(super) collection_id: CollectionId,
    #[serde(alias = "successor")]
    pub(super) replacement: CollectionId,
    pub(super) model: String,
    pub(super) model_fingerprint: String,
    pub(super) dimension: usize,
    pub(super) tokens_max: usize,
    pub(super) overlap_tokens: usize,
}

impl ReembedPlan {
    /// Returns the collection to replace, or `None` if it has been replaced already.
    pub(super) fn collection(&self, context: &JobContext) -> Result<Option<Arc<OpenCollection>>, JobError> {
        let (state, name) = (context.state()?, context.collection_name()?);
        let found = state.collection(name)?;
        if found.row.id == self.replacement {
            return Ok(None);
        }
        // The name may belong to another collection now.
        if found.row.id != self.collection_id {
            return Err(Error::CollectionReplaced { name: name.clone() }.into());
        }
        let loaded = state.embedder.model();
        // The server may have been restarted with yet another model.
        match self.model_fingerprint == loaded.fingerprint {
            true => Ok(Some(found)),
            false => Err(Error::JobModel { expected: self.model(), loaded: loaded.into() }.into()),
        }
    }

    fn model(&self) -> CollectionModel {
        CollectionModel { name: self.model.clone(), fingerprint: self.model_fingerprint.clone() }
    }

    /// Returns the replacement's row, derived from the collection's current row.
    pub(super) fn row(&self, old: &OpenCollection) -> Collection {
        Collection {
            id: self.replacement.clone(),
            model: Some(self.model()),
            dimension: self.dimension,
            passages: Some(PassageBounds { tokens_max: self.tokens_max, overlap_tokens: self.overlap_tokens }),
            ..old.current()
        }
    }

    /// Returns the replacement's id if it is a UUID. It names a folder that may be removed, so nothing else is accepted.
    pub(super) fn builds_collection(&self) -> Option<CollectionId> {
        Uuid::try_parse(&self.replacement.0).ok().map(|_| self.replacement.clone())
    }

    /// Removes the replacement of a job that did not succeed. If that fails, the next start does it. Blocks.
    pub(super) fn remove_leftovers(&self, state: &State) {
        let Some(replacement) = self.builds_collection() else { return };
        if state.collection_by_id(&replacement.0).is_some() {
            return;
        }
        if let Err(error) = state.remove_unlisted(&replacement) {
            let error = with_causes(&error);
            tracing::warn!(id = %replacement, error, "cannot remove an unfinished collection; the next start tries again");
        }
    }

    /// Opens the replacement's database, which may be from an earlier run. A damaged one is removed first. Blocks.
    pub(super) fn open(&self, state: &State, job: &JobId, old: &OpenCollection) -> Result<Arc<OpenCollection>, Error> {
        let folder = state.collections_dir().join(&self.replacement.0);
        let open = || {
            let there = folder.try_exists().at(&folder)?;
            if !there {
                std::fs::create_dir_all(&folder).at(&folder)?;
            }
            orphaned::mark(&folder);
            let row = self.row(old);
            let next = state.open_or_make(row, &folder, there)?;
            if let Some(server) = next.server() {
                server.mark_replacement(job)?;
            }
            sync_dir(&folder).and_then(|()| sync_dir(&state.collections_dir())).at(&folder)?;
            next.store.set_metadata_indexes(old.store.metadata_indexes())?;
            Ok(Arc::new(next))
        };
        match open() {
            Err(Error::Store(error)) if error.is_damage() => {
                let error = with_causes(&error);
                tracing::warn!(collection = %old.row.name, error, "an unfinished collection is damaged; starting over");
                state.remove_unlisted(&self.replacement)?;
                open()
            }
            opened => opened,
        }
    }
}
