//! Every failure of a use case; `code` has its code on the wire.

mod code;

use std::path::PathBuf;

use super::classifiers::ClassifierError;
use crate::domain::{CollectionName, Damage, DocumentId, FileEncoding, InvalidId, JobId, JobStatus, KeyId, SnapshotId};
use crate::embed::{EmbedError, QueryError};
use crate::index::IndexError;
use crate::ranking::ScorerError;
use crate::service::collections::projections::error::ProjectionError;
use crate::service::limits::shares::Refusal;
use crate::service::mining::MineError;
use crate::storage::StorageError;
use crate::store::StoreError;

/// Digits of a fingerprint that errors show.
const FINGERPRINT_DIGITS: usize = 12;

/// An error of a use case.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants are")]
pub enum Error {
    #[error("there is no collection {name}")]
    CollectionNotFound { name: CollectionName },
    /// The collection or the job that an idempotency key created is gone since.
    #[error("what the request with idempotency key {key:?} created has been deleted")]
    CreatedAndGone { key: String },
    /// A request was done before, but what it stored is not searchable yet.
    #[error("the documents are already stored, but not searchable yet")]
    StillIndexing,
    #[error("the stored record of an earlier request is damaged")]
    CorruptIdempotencyRecord,
    #[error("there is no alias {name}")]
    AliasNotFound { name: CollectionName },
    /// The name is an alias, where a collection's own or a free one is needed.
    #[error("{name} is an alias of collection {collection}")]
    AliasExists { name: CollectionName, collection: CollectionName },
    #[error("the server already has {limit} aliases, the most it may have")]
    TooManyAliases { limit: usize },
    #[error("there is no document {id} in collection {collection}")]
    DocumentNotFound { collection: CollectionName, id: DocumentId },
    #[error("there is no key {id}")]
    KeyNotFound { id: KeyId },
    #[error("this server does not know the key")]
    UnknownKey,
    #[error("key {id} has expired")]
    KeyExpired { id: KeyId },
    /// The first key must be able to make others, or nobody could.
    #[error("the first key must have scope admin, no collections and no expires_at; no other key could be created after it")]
    FirstKey,
    #[error("this is the only key that can create other keys and never expires; create another such key first")]
    LastAdminKey,
    #[error("the server already has {limit} keys, the most it may have (keys_max)")]
    TooManyKeys { limit: usize },
    #[error("the system provides no random numbers: {0}")]
    Random(String),
    #[error("a collection {name} already exists")]
    CollectionExists { name: CollectionName },
    #[error("the server already has {limit} collections, the most it may have (collections_max)")]
    TooManyCollections { limit: usize },
    #[error("model {asked:?} is not loaded; this server has {loaded:?}")]
    UnknownModel { asked: String, loaded: String },
    #[error(
        "collection {collection} was made with model {expected} (fingerprint {expected_fingerprint}), but the server has \
         {loaded} (fingerprint {loaded_fingerprint}); POST /v1/collections/{collection}/reembed embeds its texts again"
    )]
    ModelMismatch {
        collection: CollectionName,
        expected: String,
        expected_fingerprint: String,
        loaded: String,
        loaded_fingerprint: String,
    },
    /// The collection has the loaded model already, and its texts are cut by today's rules.
    #[error("collection {collection} already uses the server's model {model}, so there is nothing to re-embed")]
    ModelCurrent { collection: CollectionName, model: String },
    #[error("job {job} is already re-embedding collection {collection}")]
    AlreadyReembedding { collection: CollectionName, job: JobId },
    /// A job that embeds is taken up by a server with another model.
    #[error(
        "the job embeds with model {expected} (fingerprint {expected_fingerprint}), \
         but the server now has {loaded} (fingerprint {loaded_fingerprint}); send the request again"
    )]
    JobModel { expected: String, expected_fingerprint: String, loaded: String, loaded_fingerprint: String },
    /// A text cannot be embedded in a collection of vectors of the caller's own.
    #[error("collection {collection} has no model to embed a text with: search it by a vector of {dimension} values")]
    NoModel { collection: CollectionName, dimension: usize },
    #[error("the vector {problem}")]
    InvalidVector { problem: String },
    #[error("collection {collection} already has {limit} writes waiting, the most it may have (write_queue_max)")]
    WritesWaiting { collection: CollectionName, limit: usize },
    #[error("{waiting} texts already wait for the encoder, at most {limit} may (embed_queue_texts_max); nothing was stored")]
    EncoderBusy { waiting: usize, limit: usize },
    /// The documents are stored, but could not be made searchable while the caller waited. They will be, without another
    /// request; sending them again is harmless.
    #[error("the documents are stored but not searchable yet; the server will keep trying")]
    NotIndexed(#[source] Box<Error>),
    /// Start-up has not yet brought the collection's index up to date.
    #[error("collection {collection} is still recovering: {done} of {total} passages are indexed")]
    Recovering { collection: CollectionName, done: u64, total: u64 },
    /// The collection's database is damaged where the request met it. Nothing damaged was served.
    #[error("{}", describe(collection, damage))]
    Damaged { collection: CollectionName, damage: Box<Damage>, source: Box<StoreError> },
    #[error("cannot open collection {collection} in {}", folder.display())]
    Open { collection: CollectionName, folder: PathBuf, source: Box<Error> },
    #[error("there is no job {id}")]
    JobNotFound { id: JobId },
    #[error("job {id} has already {}", status.name())]
    JobFinished { id: JobId, status: JobStatus },
    #[error("{limit} jobs are already running or waiting, the most that may; nothing was accepted")]
    JobsWaiting { limit: usize },
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Somebody else waited for the place of a file that hardly came.
    #[error("the file arrived too slowly while others waited for a place (uploads_max); nothing was accepted")]
    UploadGaveWay,
    /// What a job stored cannot be read back: another program changed it.
    #[error("job {id} cannot continue: {problem}")]
    JobState { id: JobId, problem: &'static str },
    #[error("the body ended before it was complete; nothing was accepted")]
    BodyIncomplete,
    #[error("the body is not valid {}: {source}", encoding.name())]
    Encoding { encoding: FileEncoding, source: std::io::Error },
    #[error("the file may have at most {limit} bytes uncompressed; nothing was accepted")]
    FileTooLarge { limit: u64 },
    #[error("{packed} bytes decompress to more than {limit} bytes, {ratio} times as many; nothing was accepted")]
    PackedTooDensely { packed: u64, limit: u64, ratio: u64 },
    #[error("the header row {problem}")]
    Header { problem: String },
    #[error("the disk needs {needed} bytes besides a reserve of {reserve}, but has {free} free; nothing was accepted")]
    NoRoom { needed: u64, reserve: u64, free: u64 },
    #[error("there is no snapshot {id}")]
    SnapshotNotFound { id: SnapshotId },
    #[error("a snapshot {id} already exists")]
    SnapshotExists { id: SnapshotId },
    #[error("the snapshot's archive {problem}")]
    InvalidSnapshot { problem: String },
    /// The collection is older than searching by words, and its passages are being prepared for it.
    #[error("collection {collection} is still being prepared for lexical search: passages up to {done} of {total} are ready")]
    TermsPending { collection: CollectionName, done: u64, total: u64 },
    #[error("a vector must have {expected} values, as collection {collection} has, got {got}")]
    VectorDimension { collection: CollectionName, expected: usize, got: usize },
    /// A document that hits are to be like has no embedding yet.
    #[error("document {id} is stored but still waits for its embedding, so nothing can be compared with it yet")]
    NotEmbedded { id: DocumentId },
    /// The mean of the positive examples is that of the negative ones.
    #[error("the positive and the negative examples cancel each other out, so nothing is left to search for")]
    NoDirection,
    #[error(
        "the response would have {bytes} bytes of texts, metadata and vectors, at most {limit} are allowed (answer_bytes_max): {advice}"
    )]
    AnswerTooLarge { bytes: u64, limit: usize, advice: &'static str },
    /// One search of a batch failed, and with it the batch.
    #[error("/searches/{index}: {source}")]
    InBatch { index: usize, source: Box<Error> },
    #[error(transparent)]
    Mine(#[from] MineError),
    #[error(transparent)]
    Projection(#[from] ProjectionError),
    /// Nobody waits for the answer any more, and nothing was stored.
    #[error("the caller disconnected; nothing was stored")]
    CallerGone,
    #[error("the server is stopping")]
    Stopping,
    /// A folder of the data directory cannot be made, read or removed.
    #[error("cannot access {}", path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    /// There are collections or snapshots, and no catalog that says whose they are.
    #[error(
        "the data directory holds {found}, but its catalog.sqlite is {state}; without it, the names of the collections and the \
         keys that protect them are lost: put a copy of catalog.sqlite back, or move {found} out of the data directory to start over"
    )]
    CatalogLost { found: String, state: &'static str },
    #[error(
        "the data directory {} has a catalog.sqlite, so it belongs to a server without the setting store: name another one with the \
         setting data, or leave store out", path.display()
    )]
    EmbeddedStoreThere { path: PathBuf },
    /// The documents are on a database server.
    #[error("{operation} with the store on a database server: {instead}")]
    OnDatabaseServer { operation: &'static str, instead: &'static str },
    #[error("a passage of document {id} lies outside its text")]
    PassageRange { id: DocumentId },
    /// The encoder answered another number of texts than it was asked.
    #[error("the encoder returned {got} embeddings for {asked} texts")]
    EncoderAnswers { asked: usize, got: usize },
    #[error("cannot create a document id")]
    Id(#[from] InvalidId),
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

/// What is said of a damaged place.
fn describe(collection: &CollectionName, damage: &Damage) -> String {
    match &damage.document {
        Some(id) => {
            let problem = &damage.problem;
            format!("collection {collection} is damaged: document {id} in {problem}; replace or delete the document to repair it")
        }
        None => format!("collection {collection} is damaged: {}", damage.problem),
    }
}

/// The first digits of a fingerprint, for errors.
pub(super) fn short(fingerprint: &str) -> String {
    fingerprint.chars().take(FINGERPRINT_DIGITS).collect()
}
