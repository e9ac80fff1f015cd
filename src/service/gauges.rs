//! Measures what the server stores and what waits in its queues.

use super::collections::index_bytes;
use super::error::Error;
use super::state::Service;
use crate::domain::{CollectionCounts, CollectionName, JobStatus, JobType, with_causes};
use crate::embed::EmbedMeter;
use crate::storage::ReplicaState;
use crate::store::StoreError;

/// The state of the server at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauges {
    /// The collections, sorted by name, without those whose counts cannot be read.
    pub collections: Vec<CollectionGauges>,
    pub collections_damaged: u64,
    /// Replaced collections that are not removed yet.
    pub collections_replaced: u64,
    /// Number of jobs for each type and status that has any.
    pub jobs: Vec<(JobType, JobStatus, u64)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CollectionGauges {
    pub name: CollectionName,
    pub counts: CollectionCounts,
    /// Bytes of the saved index alone.
    pub index_bytes: u64,
    /// Bytes of the write-ahead log alone.
    pub log_bytes: u64,
}

impl Service {
    /// Measures every collection: reads the counters of its database and the sizes of its files. Leaves out collections that
    /// cannot be read. Returns `None` while the database server is unreachable.
    pub async fn gauges(&self) -> Result<Option<Gauges>, Error> {
        let open = self.state.open_collections();
        let seen = self.state.run(move |state| {
            let mut collections = Vec::with_capacity(open.len());
            for collection in open {
                // Each of them would wait for a connection.
                if state.is_store_unreachable() {
                    return Ok(None);
                }
                let mut counts = match collection.store.counts() {
                    Ok(counts) => counts,
                    Err(_) if collection.should_stop() => continue,
                    // Another server has just deleted it.
                    Err(StoreError::Closed) => continue,
                    Err(StoreError::ServerUnreachable { .. }) => return Ok(None),
                    Err(error) if error.is_damage() => {
                        collection.record_damage(&error);
                        continue;
                    }
                    Err(error) => {
                        // The other collections are still measured. When one fails, operators need the rest even more.
                        let error = with_causes(&error);
                        tracing::warn!(collection = %collection.row.name, error, "cannot measure a collection");
                        continue;
                    }
                };
                let index_bytes = index_bytes(&collection.folder);
                counts.disk_bytes += index_bytes;
                let log_bytes = collection.embedded().map_or(0, |embedded| embedded.store.log_bytes());
                collections.push(CollectionGauges { name: collection.row.name.clone(), counts, index_bytes, log_bytes });
            }
            Ok(Some((collections, state.catalog.job_counts()?)))
        });
        let Some((collections, jobs)) = seen.await? else { return Ok(None) };
        Ok(Some(Gauges {
            collections,
            collections_damaged: self.readiness().damaged.len() as u64,
            collections_replaced: self.state.replaced_count(),
            jobs,
        }))
    }

    /// Returns the state of the database server's replica, if there is one.
    pub fn replica_state(&self) -> Option<ReplicaState> {
        self.state.server.as_ref().and_then(|server| server.replica_state())
    }

    pub fn embed_queue_texts(&self) -> usize {
        self.state.embedder.queue_depth()
    }

    pub fn embed_meter(&self) -> &EmbedMeter {
        self.state.embedder.meter()
    }
}
