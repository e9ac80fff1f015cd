//! Imports a file of documents: receives the whole file, then stores the documents in batches.
//!
//! Each batch commits its documents and the job's checkpoint in one transaction. The checkpoint has the position in the file,
//! the counts, and the batch's results. After the commit the results are appended to a file, which is durable before the next
//! batch. After a crash, the file is truncated to the length in the checkpoint, and the checkpoint's own results are written
//! again. So no line is lost or counted twice. While the storage refuses writes, on a full disk for example, an import waits and
//! then continues in the same way.
//!
//! The collection's worker embeds the documents. The import pauses while many passages wait for the worker, and ends when all
//! documents can be found.

mod records;
mod results;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::service::blocking::blocking;
use crate::service::documents::ingest::{new_id, prepare};
use crate::service::documents::input::{InvalidDocument, read_document};
use crate::service::error::Error;
use crate::service::folders::{AtPath, ignore_not_found};
use crate::service::handle::CollectionHandle;
use crate::service::jobs::{Folder, JobContext, JobError, JobKind, NewJob, checkpoint, new_job_id};
use crate::service::open_collection::OpenCollection;
use crate::service::state::State;
use crate::service::upload_receiver::{UploadBounds, receive};
use futures::{FutureExt as _, Stream};
use records::{Record, Records};
pub(crate) use results::open as open_results;
use results::{Checkpoint, Counts, Line, Results};
use serde::{Deserialize, Serialize};

use crate::domain::{
    Collection, CollectionId, ColumnTypes, DocumentId, FileEncoding, FileFormat, Job, JobId, JobStatus, JobType, JobUnit,
    NewDocument, PassageId, Scope, with_causes,
};
use crate::store::{PreparedDocument, StoreError, Upserted};

const SOURCE: &str = "source";
/// Maximum number of records per transaction.
const BATCH_RECORDS: usize = 500;
/// Size of the records, in bytes, after which a transaction ends.
const BATCH_BYTES: usize = 4 << 20;
/// All passages, as the last of them.
const ALL: PassageId = PassageId(u64::MAX);
/// Pause between checks of how many passages wait for their embedding.
const BACKLOG_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub struct ImportFile {
    pub format: FileFormat,
    pub encoding: FileEncoding,
    pub types: ColumnTypes,
    /// Its length as sent, if the caller gave it.
    pub announced: Option<u64>,
}

impl CollectionHandle {
    /// Receives a file of documents and accepts the job that stores them. The file is durable when this returns. After an error
    /// nothing of it remains.
    pub async fn import<B, E, S>(&self, file: ImportFile, body: S) -> Result<Job, Error>
    where
        B: AsRef<[u8]> + Send + 'static,
        S: Stream<Item = Result<B, E>> + Unpin,
    {
        let service = &self.service;
        service.check_running()?;
        let collection = self.open();
        collection.check_model(service.model())?;
        let permit = service.job_permit()?;
        let upload = service.state.uploads.begin()?;
        let limits = service.limits();
        service.state.check_disk_space(file.announced.unwrap_or(0))?;

        let id = new_job_id()?;
        let folder = Folder::create(service.state.job_dir(&id))?;
        let bounds = UploadBounds::new(limits);
        let source = folder.path().join(SOURCE);
        let total = receive(body, file.encoding, source.clone(), (bounds, &upload)).await?;
        let line_bytes_max = limits.import_line_bytes_max;
        // Opens the file only to check the header row while the caller still waits.
        let (format, types) = (file.format, file.types);
        let types = blocking(move || Records::open(&source, (format, &types), line_bytes_max).map(|_| types)).await?;

        // It may have been replaced during the upload.
        let collection = self.open();
        let request = ImportPlan { format, types, collection_id: collection.row.id.clone() };
        let (name, follows) = (Some(collection.row.name.clone()), Some(collection));
        let new = NewJob { id, collection: name, request, details: None, total, folder: Some(folder), follows };
        service.submit_job::<ImportJob>(permit, new).await
    }
}

pub(crate) struct ImportJob;

/// What an import needs to run, besides the file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ImportPlan {
    format: FileFormat,
    /// Empty in jobs of earlier versions.
    #[serde(default)]
    types: ColumnTypes,
    collection_id: CollectionId,
}

impl JobKind for ImportJob {
    const TYPE: JobType = JobType::Import;
    const SCOPE: Scope = Scope::Write;
    const UNIT: JobUnit = JobUnit::Bytes;
    type Request = ImportPlan;
    /// `None` before anything is stored.
    type Details = Option<Counts>;

    const NEEDS_FILES: bool = true;

    /// Stores the file's documents, starting at the last checkpoint.
    async fn run(context: &JobContext, plan: ImportPlan) -> Result<(), JobError> {
        let collection = context.collection(&plan.collection_id)?;
        let table = (plan.format, &plan.types);
        let store = |target: Arc<OpenCollection>| {
            async move {
                match store_all(context, &target, table).await {
                    Err(JobError::Failed(Error::Store(StoreError::Replaced))) => Err(StoreError::Replaced.into()),
                    Err(JobError::Failed(error)) => Err(blocking(move || Ok(target.failure(error))).await?.into()),
                    ended => ended,
                }
            }
            .boxed()
        };
        context.work_on(collection, "an import waits for the storage", store).await
    }

    fn at_checkpoint(state: &State, id: &JobId, plan: &ImportPlan) -> Result<Option<(u64, Option<Counts>)>, Error> {
        let Some(collection) = state.collection_by_id(&plan.collection_id.0) else { return Ok(None) };
        let Some(done) = checkpoint::read::<Checkpoint>(&collection, id)? else { return Ok(None) };
        let folder = state.job_dir(id);
        // Another server may have it.
        if folder.is_dir() {
            Results::open(&folder, state.power_safe, &done)?;
        }
        Ok(Some((done.place.offset, Some(done.counts()))))
    }

    fn finish(state: &State, id: &JobId, plan: &ImportPlan) {
        state.delete_checkpoints(id, &plan.collection_id);
    }

    /// Removes the uploaded file and keeps the results, also of an import that failed.
    fn clean_up(folder: &Path, _: JobStatus) {
        if let Err(error) = ignore_not_found(std::fs::remove_file(folder.join(SOURCE))) {
            tracing::warn!(path = %folder.display(), error = with_causes(&error), "removing an import's file failed");
        }
    }
}

async fn store_all(
    context: &JobContext,
    collection: &Arc<OpenCollection>,
    (format, types): (FileFormat, &ColumnTypes),
) -> Result<(), JobError> {
    let types = types.clone();
    collection.check_model(context.state()?.embedder.model())?;
    let (state, target, id) = (context.state()?, Arc::clone(collection), context.job.id.clone());
    let accepted = context.job.progress().0.total;
    let mut import = blocking(move || Import::open(&state, target, (&id, accepted), (format, &types))).await?;
    context.measure(import.done.place.offset, import.bytes);
    loop {
        context.check()?;
        wait_for_worker(context, collection, (ALL, context.state()?.limits.import_backlog_max)).await?;
        let state = context.state()?;
        let (more, back) = blocking(move || {
            let more = import.step(&state)?;
            Ok((more, import))
        })
        .await?;
        import = back;
        context.progress(import.done.place.offset, &import.done.counts()).await?;
        if !more {
            break;
        }
    }
    // Passages that the worker failed to embed do not count as waiting; the worker logs them.
    wait_for_worker(context, collection, (import.last_passage, 0)).await?;
    wait_for_index(context, collection).await?;
    let (last, job) = (Arc::clone(collection), context.job.id.clone());
    Ok(blocking(move || last.check_last_checkpoint(&job)).await?)
}

/// Waits until all embedded passages can be found. Callers' own vectors never pass through the worker.
async fn wait_for_index(context: &JobContext, collection: &Arc<OpenCollection>) -> Result<(), JobError> {
    // After a restart, recovery brings the index up to date.
    context.wait_until_recovered(collection).await?;
    let collection = Arc::clone(collection);
    Ok(blocking(move || collection.apply_changes()).await?)
}

/// Waits until at most `waiting_max` passages up to `last` wait for their embedding.
async fn wait_for_worker(
    context: &JobContext,
    collection: &Arc<OpenCollection>,
    (last, waiting_max): (PassageId, u64),
) -> Result<(), JobError> {
    loop {
        let reembedded = collection.reembedded();
        // No worker embeds the passages of a collection that a restore has replaced.
        reembedded.check_not_restored_over()?;
        // A replacement numbers its passages anew.
        let last = if Arc::ptr_eq(&reembedded, collection) { last } else { ALL };
        if blocking(move || reembedded.waiting_count(last)).await? <= waiting_max {
            return context.check();
        }
        context.pause(BACKLOG_PAUSE).await?;
    }
}

struct Import {
    collection: Arc<OpenCollection>,
    job: JobId,
    records: Records,
    results: Results,
    done: Checkpoint,
    /// The last of the passages that wait for their embedding since it stored them, or `ALL` if an earlier run stored some.
    last_passage: PassageId,
    bytes: u64,
}

impl Import {
    /// Opens the file, which had `accepted` bytes when the job was accepted, at its first record or at the last checkpoint.
    fn open(
        state: &State,
        collection: Arc<OpenCollection>,
        (job, accepted): (&JobId, u64),
        table: (FileFormat, &ColumnTypes),
    ) -> Result<Self, Error> {
        let broken = |problem| Error::JobState { id: job.clone(), problem };
        let folder = state.job_dir(job);
        let source = folder.join(SOURCE);
        let bytes = source.metadata().map_err(|_| broken("its file is missing"))?.len();
        if bytes < accepted {
            return Err(broken("its file is shorter than it was when it was accepted"));
        }
        let mut records = Records::open(&source, table, state.limits.import_line_bytes_max)?;
        let (done, last_passage) = match checkpoint::read::<Checkpoint>(&collection, job)? {
            None => (Checkpoint::at(records.position()), PassageId(0)),
            Some(done) => {
                records.seek(done.place).at(&folder)?;
                (done, ALL)
            }
        };
        let results = Results::open(&folder, state.power_safe, &done)?;
        Ok(Self { collection, job: job.clone(), records, results, done, last_passage, bytes })
    }

    /// Stores the next batch. Returns whether there may be more. Fails while the space for emergencies is missing.
    fn step(&mut self, state: &State) -> Result<bool, Error> {
        state.check_emergency_space()?;
        let now_ms = state.read_clock()?;
        let (mut prepared, mut lines, mut bytes) = (Vec::new(), Vec::new(), 0);
        let row = &self.collection.row;
        let mut more = true;
        while lines.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
            let Some(Record { line, content }) = self.records.next().at(&state.job_dir(&self.job))? else {
                more = false;
                break;
            };
            bytes += content.as_ref().map_or(0, Vec::len);
            let read = content.and_then(|json| read_document(&json, row, &state.limits, now_ms));
            let outcome = read.and_then(|document| prepare_document(state, row, document));
            lines.push(Line { line, outcome: outcome.map(|document| prepared.push(document)) });
        }
        if lines.is_empty() {
            // Only blank lines were left.
            self.done.place = self.records.position();
            return Ok(false);
        }
        self.commit(prepared, lines)?;
        Ok(more)
    }

    /// Stores a batch with the checkpoint that follows it, then writes the batch's results.
    fn commit(&mut self, prepared: Vec<PreparedDocument>, lines: Vec<Line>) -> Result<(), Error> {
        let stored: Vec<DocumentId> = prepared.iter().map(|document| document.id.clone()).collect();
        let (position, results_bytes) = (self.records.position(), self.results.bytes());
        let (ids, before) = (stored.clone(), self.done.clone());
        let (record, next) = checkpoint::following(move |outcomes: &[Upserted]| {
            let created = outcomes.iter().map(|outcome| outcome.created);
            before.after(position, results_bytes, &lines, ids.iter().zip(created))
        });
        let upserted = self.collection.write_for_job(|store| store.upsert_for_job(&self.job, prepared, record))?;
        let pending = upserted.iter().flat_map(|upserted| &upserted.pending).map(|passage| passage.id);
        self.last_passage = pending.fold(self.last_passage, Ord::max);
        self.collection.damage.remove_documents(&stored);
        self.collection.wake.notify_one();
        self.done = next.recv().expect("what is committed has a checkpoint");
        self.results.append(&self.done.results)
    }
}

fn prepare_document(state: &State, row: &Collection, document: NewDocument) -> Result<PreparedDocument, InvalidDocument> {
    let given = document.id.clone();
    let prepared = given.clone().map_or_else(new_id, Ok).and_then(|id| prepare(state, row, id, document));
    let prepared = prepared.map_err(|error| InvalidDocument::whole(given, error.code(), error.to_string()));
    prepared.map(|(document, _)| document)
}
