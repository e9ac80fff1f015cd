//! Copies the documents of a collection in batches. Each batch is one transaction of the target, which also records how far
//! the copy is. So an interrupted move continues where it stopped. If the source has changed in the meantime, the collection
//! is copied again from the start.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::MoveError;
use super::location::OpenLocation;
use super::progress::{Phase, Progress, Step};
use crate::domain::{Collection, JobId, Sequence};
use crate::storage::Storage;
use crate::store::DocumentKey;

/// Maximum number of documents in one transaction, and of bytes that they take in memory.
pub(super) const BATCH_DOCUMENTS: usize = 500;
pub(super) const BATCH_BYTES: u64 = 8 << 20;

/// How far the copy of a collection is. The target stores it as the checkpoint of a job.
#[derive(Debug, Default, Serialize, Deserialize)]
struct CopyCheckpoint {
    /// The key of the last document that was copied.
    after: Option<i64>,
    documents: u64,
    /// The source's last sequence number when the copy began. `None` once the copy is known to be wrong.
    sequence: Option<u64>,
}

pub(super) struct CollectionPair {
    pub(super) source: Box<dyn Storage>,
    pub(super) target: Box<dyn Storage>,
}

/// Returns the id of the job whose checkpoint says how far a copy is. No real job has this id.
fn job() -> Result<JobId, MoveError> {
    JobId::parse(&Uuid::nil().to_string()).map_err(|error| MoveError::Open { which: "target", source: Box::new(error.into()) })
}

/// Copies the documents that the target does not have yet, except those that have expired by `now_ms`.
pub(super) fn copy(
    (source, target): (&OpenLocation, &OpenLocation),
    row: &Collection,
    now_ms: i64,
    progress: Progress<'_>,
) -> Result<CollectionPair, MoveError> {
    let pair = CollectionPair { source: source.collection(row)?, target: target.collection(row)? };
    let (unread, unwritten, job) = (source.failed(row), target.failed(row), job()?);
    let sequence = pair.source.sequence().map_err(&unread)?;
    let total = pair.source.counts().map_err(&unread)?.documents;
    let (pair, mut checkpoint) = begin(target, row, pair, sequence)?;
    loop {
        progress(Step { collection: &row.name, phase: Phase::Copying, done: checkpoint.documents, total });
        let after = checkpoint.after.map(DocumentKey);
        let mut documents = pair.source.document_records(after, BATCH_DOCUMENTS, BATCH_BYTES).map_err(&unread)?;
        let last = documents.last().map(|document| document.key.0);
        checkpoint.after = last.or(checkpoint.after);
        documents.retain(|document| document.document.expires_at_ms.is_none_or(|at| at > now_ms));
        checkpoint.documents += documents.len() as u64;
        // Done even without documents, to record the last sequence number and the checkpoint.
        pair.target.insert_records(&job, documents, sequence, json(&checkpoint)).map_err(&unwritten)?;
        if last.is_none() {
            break;
        }
    }
    if pair.source.counts().map_err(&unread)?.cut_by_older_rules {
        pair.target.mark_cut_by_older_rules().map_err(&unwritten)?;
    }
    let indexes = pair.source.metadata_indexes();
    if pair.target.metadata_indexes() != indexes {
        pair.target.set_metadata_indexes(indexes).map_err(&unwritten)?;
    }
    Ok(pair)
}

/// Finds how far an earlier move got. If its copy is of no use, removes it.
fn begin(
    target: &OpenLocation,
    row: &Collection,
    pair: CollectionPair,
    sequence: Sequence,
) -> Result<(CollectionPair, CopyCheckpoint), MoveError> {
    let failed = target.failed(row);
    let fresh = CopyCheckpoint { sequence: Some(sequence.0), ..CopyCheckpoint::default() };
    match pair.target.job_checkpoint(&job()?).map_err(&failed)? {
        None if pair.target.sequence().map_err(&failed)? == Sequence(0) => Ok((pair, fresh)),
        None => Err(MoveError::UnknownDocuments { name: row.name.clone(), id: row.id.0.clone() }),
        Some(checkpoint) => match serde_json::from_str::<CopyCheckpoint>(&checkpoint).ok() {
            Some(checkpoint) if checkpoint.sequence == Some(sequence.0) => Ok((pair, checkpoint)),
            _ => {
                pair.target.close().map_err(&failed)?;
                target.remove(row)?;
                Ok((CollectionPair { target: target.collection(row)?, ..pair }, fresh))
            }
        },
    }
}

/// Makes the next move copy the collection from the start.
pub(super) fn discard(target: &OpenLocation, row: &Collection, storage: &dyn Storage) -> Result<(), MoveError> {
    storage.insert_records(&job()?, Vec::new(), Sequence(0), json(&CopyCheckpoint::default())).map_err(target.failed(row))
}

pub(super) fn delete_checkpoints(target: &OpenLocation, row: &Collection) -> Result<(), MoveError> {
    let storage = target.collection(row)?;
    storage.delete_job_checkpoints(&[]).and_then(|()| storage.close()).map_err(target.failed(row))
}

fn json(checkpoint: &CopyCheckpoint) -> String {
    // Serializing numbers to JSON cannot fail.
    serde_json::to_string(checkpoint).unwrap_or_default()
}
