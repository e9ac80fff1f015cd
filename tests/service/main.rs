//! The service in process, with the fake encoder: what it promises about writes, searches, restarts and deletions.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod classifiers;
mod collections;
mod expiry;
#[path = "../support/fake_encoder.rs"]
mod fake_encoder;
mod filters;
mod job_shares;
mod jobs;
mod lexical;
mod locked;
mod mining;
mod recovery;
mod reembedding;
mod replacing;
mod search;
mod titles;
mod vectors;
mod writes;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dragoman::domain::{
    Code, CollectionName, DocumentId, Hit, Limits, Metadata, NewCollection, NewDocument, Precondition, SearchRequest,
    SearchTarget, Wait,
};
use dragoman::embed::{Embedder, FakeOptions};
use dragoman::service::documents::input::UpsertOutcome;
use dragoman::service::{CollectionHandle, Error, Parts, Service};
use fake_encoder::FakeControl;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// How long a test waits for something that must happen before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// How to open a service.
struct Setting {
    fake: FakeOptions,
    limits: Limits,
    /// Whether the encoder is held from the start.
    paused: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Self { fake: FakeOptions::of(64), limits: Limits::default(), paused: false }
    }
}

/// Runs one job at a time, in the order of their requests.
fn one_job_at_a_time() -> Setting {
    Setting { limits: Limits { jobs_running_max: 1, ..Limits::default() }, ..Setting::default() }
}

/// An open service with the handles that tests need.
struct Running {
    /// Dropped first, which resumes the encoder, because a service waits for its encoder when it is dropped.
    control: FakeControl,
    service: Service,
    embedder: Embedder,
}

/// The folder of the only collection.
fn collection_folder(data_dir: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(data_dir.join("collections")).unwrap();
    entries.next().unwrap().unwrap().path()
}

/// Opens a service in `folder`.
fn try_open(folder: &Path, setting: &Setting) -> Result<Running, Error> {
    let (embedder, control) = fake_encoder::start(&setting.fake);
    if setting.paused {
        control.pause();
    }
    let parts =
        Parts { data_dir: folder.to_owned(), embedder: embedder.clone(), limits: setting.limits.clone(), power_safe: false };
    Ok(Running { control, service: Service::open(parts)?, embedder })
}

/// Opens a service in `folder` and waits until it is ready. Threads of a service that ended without a shutdown may hold the
/// folder for another moment.
async fn open_with(folder: &Path, setting: Setting) -> Running {
    let deadline = Instant::now() + PATIENCE;
    let running = loop {
        match try_open(folder, &setting) {
            Err(error) if error.code() == Code::Unavailable && Instant::now() < deadline => tokio::task::yield_now().await,
            opened => break opened.unwrap(),
        }
    };
    eventually("the service is ready", async || running.service.readiness().ready).await;
    running
}

async fn open(folder: &Path) -> Running {
    open_with(folder, Setting::default()).await
}

/// Opens a service in a new folder.
async fn fresh_with(setting: Setting) -> (TempDir, Running) {
    let folder = tempfile::tempdir().unwrap();
    let running = open_with(folder.path(), setting).await;
    (folder, running)
}

async fn fresh() -> (TempDir, Running) {
    fresh_with(Setting::default()).await
}

/// Opens a service in a new folder and creates the collection `news`.
async fn news_with(setting: Setting) -> (TempDir, Running) {
    let (folder, running) = fresh_with(setting).await;
    running.create("news").await;
    (folder, running)
}

async fn news() -> (TempDir, Running) {
    news_with(Setting::default()).await
}

impl Running {
    /// Shuts down cleanly.
    async fn shutdown(self) {
        self.service.shutdown().await.unwrap();
    }

    /// Ends like a killed process: without saving or closing anything.
    fn crash(self) {
        drop(self);
    }

    async fn create(&self, collection: &str) {
        self.service.create_collection(NewCollection::new(name(collection)), None).await.unwrap();
    }

    /// An existing collection.
    fn on(&self, collection: &str) -> CollectionHandle {
        self.service.collection(&name(collection)).unwrap()
    }

    async fn delete(&self, collection: &str, id: &DocumentId) -> Result<(), Error> {
        self.on(collection).delete(id, Precondition::None).await
    }

    async fn upsert(&self, collection: &str, documents: Vec<NewDocument>, wait: Wait) -> Result<Vec<UpsertOutcome>, Error> {
        self.service.collection(&name(collection))?.upsert(documents.into_iter().map(Ok).collect(), wait, None).await
    }

    /// Begins to write documents into `news`.
    fn begin_write(&self, documents: Vec<NewDocument>, wait: Wait) -> JoinHandle<Result<Vec<UpsertOutcome>, Error>> {
        let news = self.on("news");
        tokio::spawn(async move { news.upsert(documents.into_iter().map(Ok).collect(), wait, None).await })
    }

    /// Waits until the encoder is blocked on a batch.
    async fn blocked(&self) {
        let control = self.control.clone();
        tokio::task::spawn_blocking(move || control.wait_until_blocked()).await.unwrap();
    }

    /// Writes one document and waits until it is searchable.
    async fn write(&self, collection: &str, id: &str, text: &str) {
        self.upsert(collection, vec![document(id, text)], Wait::Indexed).await.unwrap();
    }

    async fn text(&self, collection: &str, id_text: &str) -> Option<String> {
        match self.on(collection).get(&id(id_text)).await {
            Ok(document) => Some(document.text),
            Err(Error::DocumentNotFound { .. }) => None,
            Err(error) => panic!("cannot read {id_text}: {error}"),
        }
    }

    async fn hits(&self, collection: &str, query: &str) -> Vec<Hit> {
        self.search(collection, request(query, 10)).await.unwrap()
    }

    async fn search(&self, collection: &str, request: SearchRequest) -> Result<Vec<Hit>, Error> {
        self.service.collection(&name(collection))?.search(request).await.map(|response| response.hits)
    }

    /// The ids of the hits of a query, nearest first.
    async fn found(&self, collection: &str, query: &str) -> Vec<String> {
        ids(&self.hits(collection, query).await)
    }
}

fn name(text: &str) -> CollectionName {
    CollectionName::parse(text).unwrap()
}

fn id(text: &str) -> DocumentId {
    DocumentId::parse(text).unwrap()
}

fn ids(hits: &[Hit]) -> Vec<String> {
    hits.iter().map(|hit| hit.id.as_str().to_owned()).collect()
}

fn document(id_text: &str, text: &str) -> NewDocument {
    let (id, text) = (Some(id(id_text)), text.to_owned());
    NewDocument { id, title: None, text, vector: None, language: None, metadata: Metadata::new(), expires_at_ms: None }
}

fn request(query: &str, limit: usize) -> SearchRequest {
    SearchRequest::new(SearchTarget::Text(query.to_owned()), limit)
}

/// Waits until `condition` holds; fails the test when it does not within `PATIENCE`.
async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
