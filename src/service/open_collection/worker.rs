//! The background worker of a collection. Embeds stored passages that have no embedding, in batches, and saves the index from
//! time to time.
//!
//! Its queue is the store itself, so a backlog takes no memory and survives a restart.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::OpenCollection;
use super::maintenance;
use crate::domain::{PassageEmbedding, PassageId, with_causes};
use crate::embed::{EmbedError, Embedder, Priority};
use crate::service::blocking::blocking;
use crate::service::embedding::{PROBE, embed_passages, is_transient};
use crate::service::error::Error;
use crate::store::{PendingPassage, StoreError};

/// Number of passages embedded at a time. That is several batches of the encoder, so that it can sort the passages by length.
const PASSAGES_PER_TURN: usize = 128;
/// Pause before another attempt when the encoder's queue is full or the store fails.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Pause before another check whether the passages of a dead server have been embedded by another one.
const ADOPTION_PAUSE: Duration = Duration::from_secs(5);
pub(crate) struct Worker {
    pub(crate) collection: Arc<OpenCollection>,
    pub(crate) embedder: Embedder,
    /// Limits how many workers may wait for the encoder at once. All workers share it.
    pub(crate) permits: Arc<Semaphore>,
}

/// What is left after a pass through the pending passages.
enum Pass {
    /// Nothing more can be embedded now.
    Done,
    /// There may be passages that another server has adopted.
    LeftToOthers,
}

/// The embeddings of passages, and the passages that the encoder cannot embed, with the reasons.
type Embeddings<'p> = (Vec<(PassageId, PassageEmbedding)>, Vec<(&'p PendingPassage, EmbedError)>);

impl Worker {
    /// Runs until the collection is stopped, together with the maintenance of its index.
    pub(crate) async fn run(self) {
        tokio::join!(self.work(), maintenance::run(&self.collection));
    }

    async fn work(&self) {
        let mut failures = 0u32;
        loop {
            if self.collection.should_stop() {
                return;
            }
            let passed = self.pass().await;
            if self.collection.should_stop() {
                return;
            }
            match passed {
                Ok(Pass::Done) => {
                    failures = 0;
                    self.collection.wake.notified().await;
                }
                Ok(Pass::LeftToOthers) => {
                    failures = 0;
                    self.pause(ADOPTION_PAUSE).await;
                }
                // This server has not learned of the deletion yet.
                Err(error) if self.collection.failed_by_deletion(&error) => self.pause(RETRY_PAUSE).await,
                Err(error) => {
                    if !matches!(&error, Error::Embed(error) if is_transient(error)) {
                        // In a deadlock, the database server ends one statement, which succeeds when it is repeated.
                        let is_deadlock = matches!(error, Error::Store(StoreError::Interrupted { .. }));
                        let collection = Arc::clone(&self.collection);
                        let reported = blocking(move || Ok(collection.report_damage(error))).await;
                        let error = reported.unwrap_or_else(|failed| failed);
                        let error = with_causes(&error);
                        failures += 1;
                        // A permanent failure must not fill the disk with log lines.
                        if failures.is_power_of_two() && !(is_deadlock && failures == 1) {
                            let collection = &self.collection.row.name;
                            tracing::error!(%collection, failures, error, "background embedding failed; trying again");
                        }
                    }
                    self.pause(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Embeds everything that is pending: passages that this server wrote, and passages that a dead server left.
    async fn pass(&self) -> Result<Pass, Error> {
        if !self.collection.expects_orphans() {
            return self.embed_pending().await.map(|()| Pass::Done);
        }
        let adopting = Arc::clone(&self.collection);
        let left_to_others = blocking(move || adopting.adopt()).await?;
        let embedded = self.embed_pending().await;
        let adopted = Arc::clone(&self.collection);
        blocking(move || {
            if let Some(server) = adopted.server() {
                server.release_orphans();
            }
            Ok(())
        })
        .await?;
        embedded.map(|()| if left_to_others { Pass::LeftToOthers } else { Pass::Done })
    }

    async fn embed_pending(&self) -> Result<(), Error> {
        let mut after = PassageId(0);
        // The encoder works on the next batch while the previous one is being stored.
        let mut storing: Option<JoinHandle<Result<(), Error>>> = None;
        let result = loop {
            if self.collection.should_stop() {
                break Ok(());
            }
            let batch = match self.next_batch(&mut after).await {
                Ok(Some(batch)) => batch,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let embedded = match self.embed(batch).await {
                Ok(embedded) => embedded,
                Err(error) => break Err(error),
            };
            if let Some(before) = storing.take() {
                before.await??;
            }
            let collection = Arc::clone(&self.collection);
            storing = Some(tokio::task::spawn_blocking(move || store_embeddings(&collection, embedded)));
        };
        if let Some(last) = storing {
            last.await??;
        }
        result?;
        let collection = Arc::clone(&self.collection);
        blocking(move || {
            collection.apply_changes()?;
            // Caches the counts while the database is open, so that listing all collections does not open it again. A request
            // for the counts reports any error.
            let _ = collection.store.counts();
            collection.save_if_due()
        })
        .await
    }

    /// Reads the next pending passages after `after` that are not reserved, and advances `after`.
    async fn next_batch(&self, after: &mut PassageId) -> Result<Option<Vec<PendingPassage>>, Error> {
        loop {
            let (collection, from) = (Arc::clone(&self.collection), *after);
            let read = self.collection.reserved.begin_read();
            let mut batch = blocking(move || read_pending(&collection, from)).await?;
            let Some(last) = batch.last() else { return Ok(None) };
            *after = last.id;
            read.retain_unreserved(&mut batch).await;
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
    }

    /// Embeds a batch. If the encoder fails, embeds each passage alone, and skips those that fail twice until the next start. If
    /// the encoder itself is broken, fails, and the batch is retried later.
    async fn embed(&self, batch: Vec<PendingPassage>) -> Result<Vec<(PassageId, PassageEmbedding)>, Error> {
        let _permit = self.permits.acquire().await;
        match embed_passages(&self.embedder, &batch, Priority::Ingest).await {
            Err(Error::Embed(error)) if !is_transient(&error) => (),
            other => return other,
        }
        let (mut embedded, failed) = self.embed_each(&batch).await?;
        if failed.is_empty() {
            return Ok(embedded);
        }
        self.embedder.embed(vec![PROBE.to_owned()], Priority::Ingest).await?;
        // The encoder works, but maybe only since a moment ago.
        let again: Vec<PendingPassage> = failed.into_iter().map(|(passage, _)| passage.clone()).collect();
        let (recovered, failed) = self.embed_each(&again).await?;
        embedded.extend(recovered);
        for (passage, error) in failed {
            self.collection.reserved.skip_until_restart(passage.id);
            let (collection, passage) = (&self.collection.row.name, passage.id.0);
            let error = with_causes(&error);
            tracing::error!(%collection, passage, error, "cannot embed a passage; the next start tries again");
        }
        Ok(embedded)
    }

    /// Embeds each passage alone. Returns the embeddings, and the passages that the encoder cannot embed.
    async fn embed_each<'p>(&self, passages: &'p [PendingPassage]) -> Result<Embeddings<'p>, Error> {
        let (mut embedded, mut failed) = (Vec::with_capacity(passages.len()), Vec::new());
        for passage in passages {
            match embed_passages(&self.embedder, std::slice::from_ref(passage), Priority::Ingest).await {
                Ok(batch) => embedded.extend(batch),
                Err(Error::Embed(error)) if !is_transient(&error) => failed.push((passage, error)),
                Err(error) => return Err(error),
            }
        }
        Ok((embedded, failed))
    }

    /// Pauses for `duration` or until it is woken.
    async fn pause(&self, duration: Duration) {
        tokio::select! {
            () = tokio::time::sleep(duration) => (),
            () = self.collection.wake.notified() => (),
        }
    }
}

/// Reads pending passages, skipping damaged rows.
fn read_pending(collection: &OpenCollection, mut after: PassageId) -> Result<Vec<PendingPassage>, Error> {
    let mut limit = PASSAGES_PER_TURN;
    loop {
        match collection.store.pending(after, limit) {
            // Read the rows before the damaged one one by one, then continue after it.
            Err(StoreError::CorruptRow { table: "passages", .. }) if limit > 1 => limit = 1,
            Err(error @ StoreError::CorruptRow { table: "passages", row, .. }) if row > 0 && row.unsigned_abs() > after.0 => {
                collection.record_damage(&error);
                after = PassageId(row.unsigned_abs());
                limit = PASSAGES_PER_TURN;
            }
            result => return Ok(result?),
        }
    }
}

/// Stores embeddings and makes them searchable. The store leaves out passages that were deleted in the meantime. Stores
/// nothing in a collection that was replaced, because the replacement has its own embeddings.
pub(crate) fn store_embeddings(collection: &OpenCollection, embedded: Vec<(PassageId, PassageEmbedding)>) -> Result<(), Error> {
    if !embedded.is_empty() {
        match collection.store.set_embeddings(embedded) {
            Err(StoreError::Replaced) => return Ok(()),
            stored => drop(stored?),
        }
    }
    collection.apply_changes()
}
