//! The job that computes a projection: the documents of a collection as points on a plane. It reads the documents that are
//! stored and embedded when it runs, lets `crate::projection` lay them out, and writes the result to a file in the collection's
//! folder.
//!
//! A document is placed by the mean of its passages' embeddings. If the collection has more documents than the projection
//! may show, the documents whose ids have the lowest hashes are chosen, so that a later projection shows the same ones. The
//! job starts over after a restart of the server, or if the collection is re-embedded or replaced in the meantime. If the
//! collection is deleted while the job runs, the job fails.

use std::collections::BinaryHeap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::domain::{
    CollectionId, CollectionName, Embedding, Job, JobType, JobUnit, ProjectionCenter, ProjectionRequest, RequestKey, Scope,
};
use crate::mining::{BLOCK_SENTENCES, NeighborLists};
use crate::parallel::{in_parallel, parallelism};
use crate::projection::{FuzzyGraph, Layout, Neighborhood, Point, Vectors, bytes_needed, epochs, principal_plane};
use crate::service::blocking::blocking;
use crate::service::collections::projections::file::{EmbeddingsMark, Origin, ProjectionFile};
use crate::service::error::Error;
use crate::service::jobs::{JobContext, JobError, JobKind, NewJob, Steps, new_job_id};
use crate::service::mining::memory;
use crate::service::open_collection::OpenCollection;
use crate::service::state::Service;
use crate::store::{DocumentKey, system_clock as now_ms};

const DOCUMENTS_MIN: usize = 10;
const DOCUMENTS_PER_READ: usize = 256;
const IDS_PER_READ: usize = 4_096;
/// Number of blocks that each core compares between two checks for cancellation.
const BLOCKS_PER_CORE: usize = 4;
/// Approximate bytes that a point and its id take in memory and on disk.
const POINT_BYTES: u64 = 128;

pub(crate) struct ProjectJob;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProjectPlan {
    /// `None` in jobs of earlier versions, which find the collection by its name.
    collection_id: Option<CollectionId>,
    #[serde(flatten)]
    request: ProjectionRequest,
}

/// The initial details of the job: how many documents it shows, and how much memory that takes.
#[derive(Debug, Serialize)]
pub(crate) struct ProjectDetails {
    center: ProjectionCenter,
    documents: u64,
    memory_bytes: u64,
    disk_bytes: u64,
}

struct Sample {
    vectors: Vectors,
    /// [documents]
    ids: Vec<String>,
    /// [documents] A number for each language, 0 for none.
    languages: Vec<u32>,
    origin: Origin,
}

impl Service {
    /// Accepts a job that projects a collection. A repeated request returns the job that the first one created, in its current
    /// state. There is at most one such job at a time per collection and center.
    pub async fn create_projection(
        &self,
        name: &CollectionName,
        request: ProjectionRequest,
        key: Option<RequestKey>,
    ) -> Result<Job, Error> {
        // Held so that no other job for the same collection is accepted in the meantime.
        let _naming = self.state.names_lock.lock().await;
        self.accept_job(key, self.prepare_projection(name, request)).await
    }

    async fn prepare_projection(&self, name: &CollectionName, request: ProjectionRequest) -> Result<NewJob<ProjectJob>, Error> {
        let collection = self.state.collection(name)?;
        let ProjectionRequest { center, documents_max, neighbors } = request;
        let documents = collection.run(|collection| {
            check_enough(&collection.row.name, collection.store.embedded_keys(None, DOCUMENTS_MIN)?.len())?;
            Ok(collection.store.counts()?.documents)
        });
        let documents = documents.await?.min(documents_max as u64);
        let memory_bytes = memory_bytes(documents, &collection, neighbors);
        memory::check_free(memory_bytes)?;
        let disk_bytes = documents.saturating_mul(POINT_BYTES);
        self.state.check_disk_space(disk_bytes)?;
        let name = collection.row.name.clone();
        let same = move |job: &Job, plan: ProjectPlan| job.collection.as_ref() == Some(&name) && plan.request.center == center;
        let running = self.state.run(move |state| state.find_unfinished::<ProjectJob>(same)).await?;
        if let Some(job) = running {
            return Err(Error::AlreadyProjecting { collection: collection.row.name.clone(), center, job });
        }
        Ok(NewJob {
            id: new_job_id()?,
            collection: Some(collection.row.name.clone()),
            request: ProjectPlan { collection_id: Some(collection.row.id.clone()), request },
            details: ProjectDetails { center, documents, memory_bytes, disk_bytes },
            total: steps(documents),
            folder: None,
            follows: Some(collection),
        })
    }
}

impl JobKind for ProjectJob {
    const TYPE: JobType = JobType::Project;
    const SCOPE: Scope = Scope::Write;
    const UNIT: JobUnit = JobUnit::Steps;
    type Request = ProjectPlan;
    type Details = ProjectDetails;

    async fn run(context: &JobContext, plan: ProjectPlan) -> Result<(), JobError> {
        let name = context.collection_name()?;
        loop {
            let collection = match &plan.collection_id {
                Some(id) => context.collection(id)?,
                None => context.state()?.collection(name)?,
            };
            let projected = project(context, plan.request, &collection).await;
            // Canceling makes the work fail. Report such a job as canceled, not as failed.
            context.check()?;
            if projected.is_err() {
                context.sync_catalog().await?;
            }
            // Another collection may have its name now.
            if collection.is_deleted() {
                return Err(collection.not_found().into());
            }
            if Arc::ptr_eq(&context.state()?.collection(name)?, &collection) {
                return projected;
            }
            // If it was re-embedded or restored, the stored request now names the replacement, so the lookup by the former id
            // fails and the job runs again.
        }
    }
}

async fn project(context: &JobContext, plan: ProjectionRequest, collection: &Arc<OpenCollection>) -> Result<(), JobError> {
    let mut steps = Steps::new(context);
    steps.begin_phase("reading").await?;
    let (reading, source) = (context.clone(), Arc::clone(collection));
    let sample = blocking(move || read(&reading, &source, plan).map_err(|error| source.report_damage(error))).await?;
    let Sample { mut vectors, ids, languages, origin } = sample;
    let documents = ids.len();
    memory::check_free(memory_bytes(documents as u64, collection, plan.neighbors))?;
    steps.record_time("reading_ms");
    steps.details().insert("documents".to_owned(), documents.into());
    steps.details().insert("sampled".to_owned(), origin.sampled.into());
    steps.count(reads(documents as u64)).await?;

    steps.begin_phase("neighbors").await?;
    let comparing = context.clone();
    let (plane, lists) = blocking(move || {
        if plan.center == ProjectionCenter::Language {
            vectors.center(&languages);
        }
        let plane = principal_plane(&vectors, || comparing.check().is_err())?;
        Ok((plane, neighbors(&comparing, vectors, plan.neighbors)?))
    })
    .await?;
    steps.record_time("neighbors_ms");
    steps.count(blocks(documents as u64)).await?;

    steps.begin_phase("layout").await?;
    let (moving, target) = (context.clone(), Arc::clone(collection));
    blocking(move || {
        let points = points(&moving, &lists, &plane)?;
        ProjectionFile::new(origin, now_ms(), ids, &points).write(&target.folder, plan.center)
    })
    .await?;
    steps.record_time("layout_ms");
    steps.end().await
}

/// Reads the documents to show, and their embeddings. Blocks.
fn read(context: &JobContext, collection: &OpenCollection, plan: ProjectionRequest) -> Result<Sample, Error> {
    let (store, row) = (&collection.store, &collection.row);
    // Read before the documents, so that any later change of an embedding marks the projection as stale.
    let sequence = store.sequence()?.0;
    let embeddings = Some(EmbeddingsMark::of(collection)?);
    let collection_documents = store.counts()?.documents;
    let (keys, sampled) = sample_documents(context, collection, plan.documents_max)?;
    context.measure(0, steps(keys.len() as u64));
    let mut vectors = Vectors::new(row.dimension);
    let (mut ids, mut languages) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
    for (done, part) in (1..).zip(keys.chunks(DOCUMENTS_PER_READ)) {
        context.check_not_stopped()?;
        for document in collection.read_with_repair(|| store.embeddings_by_document(part))? {
            // Passages that cancel each other out have no mean direction.
            let Some(mean) = Embedding::mean_direction(&document.embeddings) else { continue };
            vectors.push(mean.as_slice());
            ids.push(document.id.as_str().to_owned());
            languages.push(document.language.map_or(0, |language| language.index() as u32 + 1));
        }
        context.set_done(done);
    }
    if vectors.is_empty() {
        check_enough(&row.name, 0)?;
    }
    let origin = Origin {
        database: collection.identity.clone(),
        sequence,
        embeddings,
        model: row.model.as_ref().map(|model| model.name.clone()),
        collection_documents,
        sampled,
    };
    Ok(Sample { vectors, ids, languages, origin })
}

/// Samples at most `max` documents with embeddings and returns them in the order of their keys. Also returns whether there are
/// more.
fn sample_documents(context: &JobContext, collection: &OpenCollection, max: usize) -> Result<(Vec<DocumentKey>, bool), Error> {
    let mut smallest: BinaryHeap<(u64, DocumentKey)> = BinaryHeap::with_capacity(max.saturating_add(1).min(IDS_PER_READ));
    let (mut after, mut found) = (None, 0_usize);
    loop {
        context.check_not_stopped()?;
        let page = collection.store.embedded_keys(after, IDS_PER_READ)?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        found += page.len();
        for (key, id) in page {
            smallest.push((hash(id.as_str()), key));
            if smallest.len() > max {
                smallest.pop();
            }
        }
    }
    check_enough(&collection.row.name, found)?;
    let mut keys: Vec<DocumentKey> = smallest.into_iter().map(|(_, key)| key).collect();
    keys.sort_unstable();
    Ok((keys, found > max))
}

/// Finds the neighbors of each vector. Blocks.
fn neighbors(context: &JobContext, vectors: Vectors, neighbors: usize) -> Result<NeighborLists, Error> {
    let neighborhood = Neighborhood::new(vectors, neighbors)?;
    let (parts, before) = (neighborhood.parts(), context.job.progress().0.done);
    let mut found = Vec::with_capacity(parts);
    for begin in (0..parts).step_by(BLOCKS_PER_CORE * parallelism()) {
        context.check_not_stopped()?;
        let range = begin..parts.min(begin + BLOCKS_PER_CORE * parallelism());
        let compared = in_parallel(range, 1, parallelism(), |part| neighborhood.compare(part.start));
        found.extend(compared?);
        context.set_done(before + found.len() as u64);
    }
    Ok(neighborhood.lists(found)?)
}

/// Lays out the points by their neighbors, starting from the principal plane. Blocks.
fn points(context: &JobContext, lists: &NeighborLists, plane: &[Point]) -> Result<Vec<Point>, Error> {
    let before = context.job.progress().0.done;
    let mut layout = Layout::new(FuzzyGraph::of(lists), plane);
    for done in 1.. {
        context.check_not_stopped()?;
        let more = layout.step();
        context.set_done(before + done);
        if !more {
            break;
        }
    }
    Ok(layout.into_points())
}

fn check_enough(collection: &CollectionName, got: usize) -> Result<(), Error> {
    if got >= DOCUMENTS_MIN {
        return Ok(());
    }
    Err(Error::TooFewDocuments { collection: collection.clone(), expected: DOCUMENTS_MIN, got })
}

/// Hashes an id: the first eight bytes of its SHA-256.
fn hash(id: &str) -> u64 {
    Sha256::digest(id.as_bytes()).iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn memory_bytes(documents: u64, collection: &OpenCollection, neighbors: usize) -> u64 {
    let needed = bytes_needed(documents, collection.row.dimension as u64, neighbors as u64);
    needed.saturating_add(documents.saturating_mul(POINT_BYTES))
}

/// Returns the number of steps of a job for this many documents: reads, compared blocks and epochs.
fn steps(documents: u64) -> u64 {
    reads(documents) + blocks(documents) + epochs(usize::try_from(documents).unwrap_or(usize::MAX)) as u64
}

fn reads(documents: u64) -> u64 {
    documents.div_ceil(DOCUMENTS_PER_READ as u64)
}

fn blocks(documents: u64) -> u64 {
    documents.div_ceil(BLOCK_SENTENCES as u64)
}
