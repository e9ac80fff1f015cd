//! The error type of all operations of the service. `code` maps each error to the code sent to the client.

mod code;

pub use code::DATABASE_UNREACHABLE;
pub(crate) use code::is_disk_failure;

use std::path::PathBuf;

use super::classifiers::ClassifierError;
use crate::classify::ClassifyError;
use crate::domain::{
    CollectionModel, CollectionName, Damage, DocumentId, FileEncoding, InvalidId, JobId, JobStatus, JobType, KeyId,
    ProjectionCenter, SnapshotId,
};
use crate::embed::{EmbedError, QueryError};
use crate::index::IndexError;
use crate::mining::MiningError;
use crate::ranking::ScorerError;
use crate::service::limits::shares::LimitExceeded;
use crate::service::mining::MineError;
use crate::storage::StorageError;
use crate::store::{StoreError, file_limit_note};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no collection {name}")]
    CollectionNotFound { name: CollectionName },
    #[error("collection {name} has been replaced by a restored snapshot, a re-embedding or a new collection of that name")]
    CollectionReplaced { name: CollectionName },
    /// The collection, classifier or job that a request with this idempotency key created has since been deleted.
    #[error("what the request with idempotency key {key:?} created has been deleted")]
    CreatedAndGone { key: String },
    /// An earlier request with the same idempotency key was executed, but its documents are not searchable yet.
    #[error("the documents are already stored, but not searchable yet")]
    StillIndexing,
    #[error("the stored record of an earlier request is damaged")]
    CorruptIdempotencyRecord,
    /// The record does not say which documents its results belong to.
    #[error(
        "an earlier version of the server executed the request with this idempotency key and recorded the results of only \
         {recorded} of its {documents} documents: read the documents to see what is stored, and use a new key to send them again"
    )]
    IncompleteIdempotencyRecord { recorded: usize, documents: usize },
    #[error("there is no alias {name}")]
    AliasNotFound { name: CollectionName },
    /// The name is an alias, but the operation needs a collection's own name or an unused one.
    #[error("{name} is an alias of collection {collection}")]
    AliasExists { name: CollectionName, collection: CollectionName },
    #[error("{name} is not a collection but an alias of collection {collection}, and an alias cannot point to another")]
    AliasOfAlias { name: CollectionName, collection: CollectionName },
    #[error("the server already has {limit} aliases, the maximum")]
    TooManyAliases { limit: usize },
    #[error("there is no document {id} in collection {collection}")]
    DocumentNotFound { collection: CollectionName, id: DocumentId },
    #[error("there is no key {id}")]
    KeyNotFound { id: KeyId },
    #[error("this server does not know the key")]
    UnknownKey,
    #[error("key {id} has expired")]
    KeyExpired { id: KeyId },
    #[error("the first key must have scope admin, no collections and no expires_at; no other key could be created after it")]
    FirstKey,
    #[error("this is the only key that can create other keys and never expires; create another such key first")]
    LastAdminKey,
    #[error("the server already has {limit} valid keys, the maximum (keys_max)")]
    TooManyKeys { limit: usize },
    #[error("the system provides no random numbers: {0}")]
    Random(String),
    #[error("a collection {name} already exists")]
    CollectionExists { name: CollectionName },
    #[error("the server already has {limit} collections, the maximum (collections_max)")]
    TooManyCollections { limit: usize },
    #[error("model {requested:?} is not loaded; this server has {loaded:?}")]
    UnknownModel { requested: String, loaded: String },
    #[error(
        "collection {collection} was made with model {expected}, but the server has {loaded}; \
         POST /v1/collections/{collection}/reembed embeds its texts again"
    )]
    ModelMismatch { collection: CollectionName, expected: CollectionModel, loaded: CollectionModel },
    #[error(
        "collection {collection} already has the server's model {model} and these passage bounds, so there is nothing to re-embed"
    )]
    ModelCurrent { collection: CollectionName, model: String },
    #[error("job {job} is already re-embedding collection {collection}")]
    AlreadyReembedding { collection: CollectionName, job: JobId },
    #[error("the job embeds with model {expected}, but the server now has {loaded}; send the request again")]
    JobModel { expected: CollectionModel, loaded: CollectionModel },
    #[error("collection {collection} has no model to embed a text with: it holds your own vectors of {dimension} values")]
    NoModel { collection: CollectionName, dimension: usize },
    #[error("the vector {problem}")]
    InvalidVector { problem: String },
    #[error("collection {collection} already has {limit} writes waiting, the maximum (write_queue_max)")]
    WritesWaiting { collection: CollectionName, limit: usize },
    #[error("{waiting} texts already wait for the encoder, but at most {limit} may (embed_queue_texts_max); nothing was stored")]
    EncoderBusy { waiting: usize, limit: usize },
    /// The documents are stored, but could not be made searchable while the caller waited. They become searchable without
    /// another request. Sending them again is harmless.
    #[error("the documents are stored but not searchable yet; the server will keep trying")]
    NotIndexed(#[source] Box<Error>),
    #[error("collection {collection} is still recovering: {done} of {total} passages are indexed")]
    Recovering { collection: CollectionName, done: u64, total: u64 },
    /// The request ran into damage in the collection's database. Nothing damaged was returned.
    #[error("{}", describe(collection, damage))]
    Damaged { collection: CollectionName, damage: Box<Damage>, source: Box<StoreError> },
    /// A snapshot failed because of this collection.
    #[error("cannot copy collection {collection}")]
    NotCopied { collection: CollectionName, source: Box<StoreError> },
    #[error("cannot open collection {collection} in {}", folder.display())]
    Open { collection: CollectionName, folder: PathBuf, source: Box<Error> },
    /// The emergency space was released, and the disk has no room for it.
    #[error("the disk is full: additions wait until {kib} KiB are free on the disk of the data directory")]
    AdditionsWait { kib: u64 },
    /// The data directory is no longer where it was when the server started. Anything written to it could be lost.
    #[error(
        "the data directory was removed, moved or replaced while the server ran, so writes are refused: put it back at its path, \
         or restart the server"
    )]
    DirectoryLost,
    #[error("the disk is full: free at least {kib} KiB in {}", folder.display())]
    DiskFull { folder: PathBuf, kib: u64, source: Box<Error> },
    #[error(
        "the disk has no room for more files, although it may have free bytes: remove at least {files} files or folders from the \
         disk of {} (df -i shows how many it can have)",
        folder.display()
    )]
    TooFewFiles { folder: PathBuf, files: u64, source: Box<Error> },
    #[error("there is no job {id}")]
    JobNotFound { id: JobId },
    #[error("job {id} has already ended with status {}", status.name())]
    JobFinished { id: JobId, status: JobStatus },
    #[error("job {id} is of type {}, and only imports have a result for each line; {}", kind.name(), results_location(*kind, id))]
    NoLines { id: JobId, kind: JobType },
    #[error("{limit} jobs are already running or waiting, the maximum; nothing was accepted")]
    JobsWaiting { limit: u64 },
    #[error(transparent)]
    Refused(#[from] LimitExceeded),
    #[error("the file arrived too slowly while others waited for a slot (uploads_max); nothing was accepted")]
    UploadEvicted,
    /// The stored state of a job cannot be read back: another program must have changed it.
    #[error("job {id} cannot continue: {problem}")]
    JobState { id: JobId, problem: &'static str },
    #[error("{} is truncated: it has {got} lines, but the job wrote {expected}", path.display())]
    ResultsTruncated { path: PathBuf, expected: u64, got: u64 },
    #[error("the results of job {id} are not on this server; read them from the server that ran the job")]
    ResultsElsewhere { id: JobId },
    #[error("the body ended before it was complete; nothing was accepted")]
    BodyIncomplete,
    #[error("the body cannot be read as {}: {source}; nothing was accepted", encoding.name())]
    Encoding { encoding: FileEncoding, source: std::io::Error },
    #[error("the file may have at most {limit} bytes uncompressed; nothing was accepted")]
    FileTooLarge { limit: u64 },
    #[error("{packed} bytes decompress to more than {limit} bytes, {ratio} times as many; nothing was accepted")]
    CompressionRatioTooHigh { packed: u64, limit: u64, ratio: u64 },
    #[error("the header row {problem}")]
    Header { problem: String },
    #[error("this needs {needed} bytes plus a reserve of {reserve}, but the disk has {free} free")]
    InsufficientDiskSpace { needed: u64, reserve: u64, free: u64 },
    #[error("there is no snapshot {id}")]
    SnapshotNotFound { id: SnapshotId },
    #[error("snapshot {id} has no collection {name}; GET /v1/snapshots/{id} lists those that it has")]
    NotInSnapshot { id: SnapshotId, name: CollectionName },
    #[error("a snapshot {id} already exists")]
    SnapshotExists { id: SnapshotId },
    #[error("the snapshot's archive {problem}")]
    InvalidSnapshot { problem: String },
    /// The collection is older than lexical search, and its passages are still being prepared for it.
    #[error("collection {collection} is still being prepared for lexical search: passages up to {done} of {total} are ready")]
    TermsPending { collection: CollectionName, done: u64, total: u64 },
    #[error("a vector must have {expected} values, as collection {collection} has, got {got}")]
    VectorDimension { collection: CollectionName, expected: usize, got: usize },
    #[error("document {id} is stored but still waits for its embedding, so nothing can be compared with it yet")]
    NotEmbedded { id: DocumentId },
    #[error("the positive and the negative examples cancel each other out, so nothing is left to search for")]
    NoDirection,
    #[error(
        "the response would have {bytes} bytes of texts, metadata and vectors; at most {limit} are allowed (answer_bytes_max): {advice}"
    )]
    AnswerTooLarge { bytes: u64, limit: usize, advice: &'static str },
    #[error("/searches/{index}: {source}")]
    InBatch { index: usize, source: Box<Error> },
    #[error(transparent)]
    Mine(#[from] MineError),
    #[error(
        "collection {collection} has no projection with center {center}: POST /v1/collections/{collection}/projections computes one"
    )]
    ProjectionNotFound { collection: CollectionName, center: ProjectionCenter },
    #[error("a projection needs at least {expected} documents with embeddings, but collection {collection} has {got}")]
    TooFewDocuments { collection: CollectionName, expected: usize, got: usize },
    #[error("job {job} is already computing the projection of collection {collection} with center {center}")]
    AlreadyProjecting { collection: CollectionName, center: ProjectionCenter, job: JobId },
    #[error("the caller disconnected; nothing was stored")]
    CallerGone,
    #[error("the server is stopping")]
    Stopping,
    /// A file or folder of the data directory cannot be created, read or removed.
    #[error("cannot access {}{}", path.display(), file_limit_note(source))]
    File { path: PathBuf, source: std::io::Error },
    #[error(
        "the data directory holds {found}, but its catalog.sqlite is {state}; without it, the names of the collections and the \
         keys that protect them are lost: put a copy of catalog.sqlite back, or move {found} out of the data directory to start over"
    )]
    CatalogLost { found: String, state: &'static str },
    #[error(
        "the data directory {} has a catalog.sqlite, so it belongs to a server without the setting store: name another one with the \
         setting data, or leave store out", path.display()
    )]
    EmbeddedStoreExists { path: PathBuf },
    #[error("{operation} if the store is on a database server: {instead}")]
    OnDatabaseServer { operation: &'static str, instead: &'static str },
    #[error("the encoder returned {got} embeddings for {expected} texts")]
    EncoderAnswers { expected: usize, got: usize },
    #[error("cannot create a document id")]
    Id(#[from] InvalidId),
    #[error("a task ended without a result")]
    Panicked,
    #[error("a task failed")]
    Task(#[from] tokio::task::JoinError),
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    #[error("the service needs an asynchronous runtime")]
    Runtime(#[from] tokio::runtime::TryCurrentError),
    #[error(transparent)]
    Classifier(Box<ClassifierError>),
    #[error("the store failed")]
    Store(#[from] StoreError),
    #[error("the index failed")]
    Index(#[from] IndexError),
    #[error("the embedder failed")]
    Embed(#[from] EmbedError),
    #[error("the query {0}")]
    Query(#[from] QueryError),
    #[error(transparent)]
    Scorer(#[from] ScorerError),
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Store(error) => error.into(),
            StorageError::Index(error) => error.into(),
            StorageError::Recovering { collection, done, total } => Self::Recovering { collection, done, total },
        }
    }
}

impl From<ClassifierError> for Error {
    fn from(error: ClassifierError) -> Self {
        Self::Classifier(Box::new(error))
    }
}

impl From<ClassifyError> for Error {
    fn from(error: ClassifyError) -> Self {
        ClassifierError::from(error).into()
    }
}

impl From<MiningError> for Error {
    fn from(error: MiningError) -> Self {
        MineError::from(error).into()
    }
}

fn describe(collection: &CollectionName, damage: &Damage) -> String {
    match &damage.document {
        Some(id) => {
            let problem = &damage.problem;
            format!("collection {collection} is damaged: document {id} in {problem}; replace or delete the document to repair it")
        }
        None => format!("collection {collection} is damaged: {}", damage.problem),
    }
}

/// Says where to find the results of a job that is not an import.
fn results_location(kind: JobType, id: &JobId) -> String {
    match kind {
        JobType::Mine => format!("GET /v1/jobs/{id}/pairs returns its pairs"),
        JobType::Duplicates => format!("GET /v1/jobs/{id}/clusters returns its clusters"),
        JobType::Evaluate => format!("GET /v1/jobs/{id}/evaluation returns its evaluation"),
        JobType::Train => "GET /v1/classifiers/{classifier} returns its training report".to_owned(),
        JobType::Classify => format!("its labels are in the documents' metadata, and GET /v1/jobs/{id} counts them"),
        JobType::Project => "GET /v1/collections/{collection}/projections lists its map".to_owned(),
        JobType::Snapshot => "GET /v1/snapshots lists its snapshot".to_owned(),
        JobType::Import | JobType::Restore | JobType::Reembed => format!("GET /v1/jobs/{id} returns its result"),
    }
}
