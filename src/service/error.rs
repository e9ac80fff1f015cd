//! Every failure of a use case, and its code on the wire.

use std::path::PathBuf;

use crate::domain::{Code, CollectionName, DocumentId, InvalidId};
use crate::embed::EmbedError;
use crate::index::IndexError;
use crate::store::StoreError;

/// An error of a use case.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such collection.
    #[error("there is no collection {name}")]
    CollectionNotFound {
        /// The name.
        name: CollectionName,
    },
    /// No such document.
    #[error("there is no document {id} in collection {collection}")]
    DocumentNotFound {
        /// The collection.
        collection: CollectionName,
        /// The id.
        id: DocumentId,
    },
    /// The name is taken.
    #[error("a collection {name} exists already")]
    CollectionExists {
        /// The name.
        name: CollectionName,
    },
    /// One more collection than the data directory may hold.
    #[error("the server holds {limit} collections, the most it may hold")]
    TooManyCollections {
        /// The bound.
        limit: usize,
    },
    /// The model that was asked for is not loaded.
    #[error("model {asked:?} is not loaded, this server has {loaded:?}")]
    UnknownModel {
        /// Asked for.
        asked: String,
        /// Loaded.
        loaded: String,
    },
    /// The collection holds embeddings of another model.
    #[error(
        "collection {collection} was made with model {expected} (fingerprint {expected_fingerprint}), \
         the server has {loaded} (fingerprint {loaded_fingerprint})"
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
    /// As many writes as may wait for the collection do.
    #[error("collection {collection} has {limit} writes waiting, the most it may have")]
    WritesWaiting {
        /// The collection.
        collection: CollectionName,
        /// The bound.
        limit: usize,
    },
    /// The encoder's queue is full; nothing was stored.
    #[error("{waiting} texts wait for the encoder, which takes at most {limit}; nothing was stored")]
    EncoderBusy {
        /// Texts that wait.
        waiting: usize,
        /// The bound.
        limit: usize,
    },
    /// The documents are stored, but could not be made searchable while the caller waited. They will be, without another
    /// request; sending them again is harmless.
    #[error("the documents are stored but not searchable yet, which will be tried again")]
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
    /// A stored passage does not lie within its document's text.
    #[error("a passage of document {id} lies outside its text")]
    PassageRange {
        /// The document.
        id: DocumentId,
    },
    /// The encoder answered another number of texts than it was asked.
    #[error("the encoder answered {got} of {asked} texts")]
    EncoderAnswers {
        /// Texts asked.
        asked: usize,
        /// Answers.
        got: usize,
    },
    /// A made-up id is no valid id.
    #[error("cannot make a document id")]
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
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The index failed.
    #[error("the index failed")]
    Index(#[from] IndexError),
    /// The embedder failed.
    #[error("the embedder failed")]
    Embed(#[from] EmbedError),
}

impl Error {
    /// The code that the wire sends.
    pub fn code(&self) -> Code {
        match self {
            Self::CollectionNotFound { .. } => Code::CollectionNotFound,
            Self::DocumentNotFound { .. } => Code::DocumentNotFound,
            Self::CollectionExists { .. } => Code::CollectionExists,
            Self::TooManyCollections { .. } => Code::TooManyCollections,
            Self::UnknownModel { .. } => Code::UnknownModel,
            Self::ModelMismatch { .. } => Code::ModelMismatch,
            Self::WritesWaiting { .. } | Self::EncoderBusy { .. } => Code::Overloaded,
            Self::NotIndexed(source) => source.code(),
            Self::Recovering { .. } | Self::Stopping => Code::Unavailable,
            Self::Folder { source, .. } => folder_code(source),
            Self::PassageRange { .. }
            | Self::EncoderAnswers { .. }
            | Self::Id(_)
            | Self::Task(_)
            | Self::Thread(_)
            | Self::Runtime(_) => Code::Internal,
            Self::Store(source) => store_code(source),
            Self::Index(source) => index_code(source),
            Self::Embed(source) => embed_code(source),
        }
    }
}

fn folder_code(source: &std::io::Error) -> Code {
    use std::io::ErrorKind as Kind;
    match source.kind() {
        Kind::StorageFull | Kind::QuotaExceeded | Kind::ReadOnlyFilesystem => Code::StorageUnavailable,
        _ => Code::Internal,
    }
}

fn store_code(error: &StoreError) -> Code {
    match error {
        StoreError::StorageUnavailable { .. } => Code::StorageUnavailable,
        StoreError::File { source, .. } => folder_code(source),
        StoreError::CollectionExists { .. } => Code::CollectionExists,
        StoreError::WriteQueueFull { .. } => Code::Overloaded,
        StoreError::Closed | StoreError::DataDirectoryInUse { .. } => Code::Unavailable,
        StoreError::Sqlite { .. }
        | StoreError::NoWriteAheadLog { .. }
        | StoreError::NewerDatabase { .. }
        | StoreError::ForeignDatabase { .. }
        | StoreError::CorruptRow { .. }
        | StoreError::InvalidPassage { .. }
        | StoreError::ChangesForgotten { .. } => Code::Internal,
    }
}

fn index_code(error: &IndexError) -> Code {
    match error {
        IndexError::File { source, .. } => folder_code(source),
        IndexError::Dimension { .. }
        | IndexError::Engine { .. }
        | IndexError::Path { .. }
        | IndexError::Missing { .. }
        | IndexError::Description { .. }
        | IndexError::Torn { .. }
        | IndexError::Checksum { .. }
        | IndexError::Parameters { .. } => Code::Internal,
    }
}

fn embed_code(error: &EmbedError) -> Code {
    match error {
        EmbedError::QueueFull { .. } => Code::Overloaded,
        EmbedError::TooManyTexts { .. } => Code::InvalidRequest,
        EmbedError::Stopping => Code::Unavailable,
        EmbedError::Text(_)
        | EmbedError::Library { .. }
        | EmbedError::Model { .. }
        | EmbedError::Contract { .. }
        | EmbedError::Device { .. }
        | EmbedError::Thread(_)
        | EmbedError::Forward { .. }
        | EmbedError::NotFinite
        | EmbedError::Panicked { .. } => Code::Internal,
    }
}
