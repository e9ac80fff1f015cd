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
pub enum Error {
    /// No such collection.
    #[error("there is no collection {name}")]
    CollectionNotFound {
        /// The name.
        name: CollectionName,
    },
    /// The collection or the job that an idempotency key created is gone since.
    #[error("what the request with idempotency key {key:?} created has been deleted")]
    CreatedAndGone {
        /// The key.
        key: String,
    },
    /// A request was done before, but what it stored is not searchable yet.
    #[error("the documents are already stored, but not searchable yet")]
    StillIndexing,
    /// What was kept of a request cannot be read.
    #[error("the stored record of an earlier request is damaged")]
    CorruptIdempotencyRecord,
    /// No such alias.
    #[error("there is no alias {name}")]
    AliasNotFound {
        /// The name.
        name: CollectionName,
    },
    /// The name is an alias, where a collection's own or a free one is needed.
    #[error("{name} is an alias of collection {collection}")]
    AliasExists {
        /// The name.
        name: CollectionName,
        /// The collection's own name.
        collection: CollectionName,
    },
    /// One more alias than the data directory may hold.
    #[error("the server already has {limit} aliases, the most it may have")]
    TooManyAliases {
        /// The bound.
        limit: usize,
    },
    /// No such document.
    #[error("there is no document {id} in collection {collection}")]
    DocumentNotFound {
        /// The collection.
        collection: CollectionName,
        /// The id.
        id: DocumentId,
    },
    /// No such key.
    #[error("there is no key {id}")]
    KeyNotFound {
        /// The id.
        id: KeyId,
    },
    /// A secret that no key has.
    #[error("this server does not know the key")]
    UnknownKey,
    /// The key was good until now.
    #[error("key {id} has expired")]
    KeyExpired {
        /// The id.
        id: KeyId,
    },
    /// The first key must be able to make others, or nobody could.
    #[error("the first key must have scope admin, no collections and no expires_at; no other key could be created after it")]
    FirstKey,
    /// No key but this one can make others.
    #[error("this is the only key that can create other keys and never expires; create another such key first")]
    LastAdminKey,
    /// One more key than the server may hold.
    #[error("the server already has {limit} keys, the most it may have (keys_max)")]
    TooManyKeys {
        /// The bound.
        limit: usize,
    },
    /// The system gives no random numbers.
    #[error("the system provides no random numbers: {0}")]
    Random(String),
    /// The name is taken.
    #[error("a collection {name} already exists")]
    CollectionExists {
        /// The name.
        name: CollectionName,
    },
    /// One more collection than the data directory may hold.
    #[error("the server already has {limit} collections, the most it may have (collections_max)")]
    TooManyCollections {
        /// The bound.
        limit: usize,
    },
    /// The model that was asked for is not loaded.
    #[error("model {asked:?} is not loaded; this server has {loaded:?}")]
    UnknownModel {
        /// Asked for.
        asked: String,
        /// Loaded.
        loaded: String,
    },
    /// The collection holds embeddings of another model.
    #[error(
        "collection {collection} was made with model {expected} (fingerprint {expected_fingerprint}), but the server has \
         {loaded} (fingerprint {loaded_fingerprint}); POST /v1/collections/{collection}/reembed embeds its texts again"
    )]
    ModelMismatch {
        /// The collection.
        collection: CollectionName,
        /// The collection's model.
        expected: String,
        /// The first digits of its fingerprint.
        expected_fingerprint: String,
        /// The loaded model.
        loaded: String,
        /// The first digits of its fingerprint.
        loaded_fingerprint: String,
    },
    /// The collection has the loaded model already, and its texts are cut by today's rules.
    #[error("collection {collection} already uses the server's model {model}, so there is nothing to re-embed")]
    ModelCurrent {
        /// The collection.
        collection: CollectionName,
        /// The model.
        model: String,
    },
    /// Another job embeds the collection anew.
    #[error("job {job} is already re-embedding collection {collection}")]
    AlreadyReembedding {
        /// The collection.
        collection: CollectionName,
        /// The job.
        job: JobId,
    },
    /// A job that embeds is taken up by a server with another model.
    #[error(
        "the job embeds with model {expected} (fingerprint {expected_fingerprint}), \
         but the server now has {loaded} (fingerprint {loaded_fingerprint}); send the request again"
    )]
    JobModel {
        /// The job's model.
        expected: String,
        /// The first digits of its fingerprint.
        expected_fingerprint: String,
        /// The loaded model.
        loaded: String,
        /// The first digits of its fingerprint.
        loaded_fingerprint: String,
    },
    /// A text cannot be embedded in a collection of vectors of the caller's own.
    #[error("collection {collection} has no model to embed a text with: search it by a vector of {dimension} values")]
    NoModel {
        /// The collection.
        collection: CollectionName,
        /// Values per vector.
        dimension: usize,
    },
    /// A vector does not fit the collection.
    #[error("the vector {problem}")]
    InvalidVector {
        /// Expected and got.
        problem: String,
    },
    /// As many writes as may wait for the collection do.
    #[error("collection {collection} already has {limit} writes waiting, the most it may have (write_queue_max)")]
    WritesWaiting {
        /// The collection.
        collection: CollectionName,
        /// The bound.
        limit: usize,
    },
    /// The encoder's queue is full; nothing was stored.
    #[error("{waiting} texts already wait for the encoder, at most {limit} may (embed_queue_texts_max); nothing was stored")]
    EncoderBusy {
        /// Texts that wait.
        waiting: usize,
        /// The bound.
        limit: usize,
    },
    /// The documents are stored, but could not be made searchable while the caller waited. They will be, without another
    /// request; sending them again is harmless.
    #[error("the documents are stored but not searchable yet; the server will keep trying")]
    NotIndexed(#[source] Box<Error>),
    /// Start-up has not yet brought the collection's index up to date.
    #[error("collection {collection} is still recovering: {done} of {total} passages are indexed")]
    Recovering {
        /// The collection.
        collection: CollectionName,
        /// Passages done.
        done: u64,
        /// Passages in all.
        total: u64,
    },
    /// The collection's database is damaged where the request met it. Nothing damaged was served.
    #[error("{}", describe(collection, damage))]
    Damaged {
        /// The collection.
        collection: CollectionName,
        /// The place.
        damage: Box<Damage>,
        /// How it showed.
        #[source]
        source: Box<StoreError>,
    },
    /// A collection of the catalog cannot be opened.
    #[error("cannot open collection {collection} in {}", folder.display())]
    Open {
        /// The collection.
        collection: CollectionName,
        /// Its folder.
        folder: PathBuf,
        /// The cause.
        #[source]
        source: Box<Error>,
    },
    /// No such job.
    #[error("there is no job {id}")]
    JobNotFound {
        /// The id.
        id: JobId,
    },
    /// The job is over.
    #[error("job {id} has already {}", status.name())]
    JobFinished {
        /// The id.
        id: JobId,
        /// How it ended.
        status: JobStatus,
    },
    /// As many jobs run and wait as may.
    #[error("{limit} jobs are already running or waiting, the most that may; nothing was accepted")]
    JobsWaiting {
        /// The bound.
        limit: usize,
    },
    /// What all requests share has no room for this one.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Somebody else waited for the place of a file that hardly came.
    #[error("the file arrived too slowly while others waited for a place (uploads_max); nothing was accepted")]
    UploadGaveWay,
    /// What a job stored cannot be read back: another program changed it.
    #[error("job {id} cannot continue: {problem}")]
    JobState {
        /// The id.
        id: JobId,
        /// What is wrong.
        problem: &'static str,
    },
    /// The body of a request ended early.
    #[error("the body ended before it was complete; nothing was accepted")]
    BodyIncomplete,
    /// A file is not packed as its headers say.
    #[error("the body is not valid {}: {source}", encoding.name())]
    Encoding {
        /// What it should be.
        encoding: FileEncoding,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file is too large.
    #[error("the file may have at most {limit} bytes uncompressed; nothing was accepted")]
    FileTooLarge {
        /// The bound.
        limit: u64,
    },
    /// A file unpacks to more than any honest one.
    #[error("{packed} bytes decompress to more than {limit} bytes, {ratio} times as many; nothing was accepted")]
    PackedTooDensely {
        /// Bytes that came.
        packed: u64,
        /// What they may unpack to.
        limit: u64,
        /// The bound on the ratio.
        ratio: u64,
    },
    /// The first row of a file names no usable columns.
    #[error("the header row {problem}")]
    Header {
        /// What is wrong.
        problem: String,
    },
    /// The disk has too little room.
    #[error("the disk needs {needed} bytes besides a reserve of {reserve}, but has {free} free; nothing was accepted")]
    NoRoom {
        /// Bytes needed.
        needed: u64,
        /// Bytes left free.
        reserve: u64,
        /// Bytes free now.
        free: u64,
    },
    /// No such snapshot.
    #[error("there is no snapshot {id}")]
    SnapshotNotFound {
        /// The id.
        id: SnapshotId,
    },
    /// The snapshot's id is taken.
    #[error("a snapshot {id} already exists")]
    SnapshotExists {
        /// The id.
        id: SnapshotId,
    },
    /// The archive of a snapshot cannot be used.
    #[error("the snapshot's archive {problem}")]
    InvalidSnapshot {
        /// What is wrong with it.
        problem: String,
    },
    /// The collection is older than searching by words, and its passages are being prepared for it.
    #[error("collection {collection} is still being prepared for lexical search: passages up to {done} of {total} are ready")]
    TermsPending {
        /// The collection.
        collection: CollectionName,
        /// The key of the last passage done.
        done: u64,
        /// The key of the last passage to be done.
        total: u64,
    },
    /// A vector of another dimension than the collection's embeddings.
    #[error("a vector must have {expected} values, as collection {collection} has, got {got}")]
    VectorDimension {
        /// The collection.
        collection: CollectionName,
        /// The collection's.
        expected: usize,
        /// The vector's.
        got: usize,
    },
    /// A document that hits are to be like has no embedding yet.
    #[error("document {id} is stored but still waits for its embedding, so nothing can be compared with it yet")]
    NotEmbedded {
        /// The document.
        id: DocumentId,
    },
    /// The mean of the positive examples is that of the negative ones.
    #[error("the positive and the negative examples cancel each other out, so nothing is left to search for")]
    NoDirection,
    /// The answer would be larger than the limit.
    #[error(
        "the response would have {bytes} bytes of texts, metadata and vectors, at most {limit} are allowed (answer_bytes_max): {advice}"
    )]
    AnswerTooLarge {
        /// Bytes, as far as they were added up.
        bytes: u64,
        /// The bound.
        limit: usize,
        /// What to ask for instead.
        advice: &'static str,
    },
    /// One search of a batch failed, and with it the batch.
    #[error("/searches/{index}: {source}")]
    InBatch {
        /// Its place in the batch, from 0.
        index: usize,
        /// Why.
        source: Box<Error>,
    },
    /// Mining cannot be done as asked.
    #[error(transparent)]
    Mine(#[from] MineError),
    /// A projection cannot be computed or is not there.
    #[error(transparent)]
    Projection(#[from] ProjectionError),
    /// Nobody waits for the answer any more, and nothing was stored.
    #[error("the caller disconnected; nothing was stored")]
    CallerGone,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
    /// A folder of the data directory cannot be made, read or removed.
    #[error("cannot access {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// There are collections or snapshots, and no catalog that says whose they are.
    #[error(
        "the data directory holds {found}, but its catalog.sqlite is {state}; without it, the names of the collections and the \
         keys that protect them are lost: put a copy of catalog.sqlite back, or move {found} out of the data directory to start over"
    )]
    CatalogLost {
        /// The folders that hold something.
        found: String,
        /// "gone" or "empty".
        state: &'static str,
    },
    /// A stored passage does not lie within its document's text.
    #[error("a passage of document {id} lies outside its text")]
    PassageRange {
        /// The document.
        id: DocumentId,
    },
    /// The encoder answered another number of texts than it was asked.
    #[error("the encoder returned {got} embeddings for {asked} texts")]
    EncoderAnswers {
        /// Texts asked.
        asked: usize,
        /// Answers.
        got: usize,
    },
    /// A made-up id is no valid id.
    #[error("cannot create a document id")]
    Id(#[from] InvalidId),
    /// Work on another thread panicked.
    #[error("a task failed")]
    Task(#[from] tokio::task::JoinError),
    /// A thread cannot be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// `Service::open` was called outside an asynchronous runtime.
    #[error("the service needs an asynchronous runtime")]
    Runtime(#[from] tokio::runtime::TryCurrentError),
    /// Something is wrong with a classifier.
    #[error(transparent)]
    Classifier(Box<ClassifierError>),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The index failed.
    #[error("the index failed")]
    Index(#[from] IndexError),
    /// The embedder failed.
    #[error("the embedder failed")]
    Embed(#[from] EmbedError),
    /// A query demands what cannot be searched for.
    #[error("the query {0}")]
    Query(#[from] QueryError),
    /// A question cannot be compared token by token.
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
