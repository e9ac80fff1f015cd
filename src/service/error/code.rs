//! Maps each error of the service to its code.

use rustix::io::Errno;

use super::Error;
use crate::domain::{Code, chain};
use crate::embed::EmbedError;
use crate::index::IndexError;
use crate::service::limits::shares::LimitExceeded;
use crate::store::StoreError;

pub const DATABASE_UNREACHABLE: &str = "the database server does not answer";

impl Error {
    /// Formats the error and its causes on one line, for logs.
    pub fn chain(&self) -> String {
        chain(self)
    }

    pub fn is_database_unreachable(&self) -> bool {
        matches!(self, Self::Store(StoreError::ServerUnreachable { .. }))
    }

    pub fn is_out_of_threads(&self) -> bool {
        matches!(self, Self::Store(StoreError::Thread { .. }))
    }

    /// Describes an outage whose code would look like another problem: like a full disk, or like a server that is starting.
    pub fn outage(&self) -> Option<&'static str> {
        if self.is_database_unreachable() {
            Some(DATABASE_UNREACHABLE)
        } else if self.is_out_of_threads() {
            Some("the system does not let the server start another thread")
        } else if matches!(self, Self::Store(StoreError::Locked { .. })) {
            Some("another program has locked the database")
        } else {
            None
        }
    }

    pub fn code(&self) -> Code {
        match self {
            Self::CollectionNotFound { .. }
            | Self::CollectionReplaced { .. }
            | Self::AliasOfAlias { .. }
            | Self::NotInSnapshot { .. } => Code::CollectionNotFound,
            Self::DocumentNotFound { .. } => Code::DocumentNotFound,
            Self::KeyNotFound { .. } => Code::KeyNotFound,
            Self::UnknownKey | Self::KeyExpired { .. } => Code::Unauthorized,
            Self::FirstKey | Self::InvalidVector { .. } | Self::Header { .. } => Code::InvalidRequest,
            Self::LastAdminKey => Code::LastAdminKey,
            Self::TooManyKeys { .. } => Code::TooManyKeys,
            Self::CollectionExists { .. } => Code::CollectionExists,
            Self::CreatedAndGone { .. } | Self::IncompleteIdempotencyRecord { .. } => Code::IdempotencyConflict,
            Self::StillIndexing | Self::NotEmbedded { .. } => Code::DocumentPending,
            Self::CorruptIdempotencyRecord | Self::Panicked | Self::Scorer(_) | Self::Task(_) => Code::Internal,
            Self::CallerGone => Code::RequestTimeout,
            Self::AliasNotFound { .. } => Code::AliasNotFound,
            Self::AliasExists { .. } => Code::AliasExists,
            Self::TooManyCollections { .. } | Self::TooManyAliases { .. } => Code::TooManyCollections,
            Self::UnknownModel { .. } => Code::UnknownModel,
            Self::ModelMismatch { .. } | Self::JobModel { .. } => Code::ModelMismatch,
            Self::ModelCurrent { .. } => Code::ModelCurrent,
            Self::AlreadyReembedding { .. } | Self::AlreadyProjecting { .. } => Code::JobRunning,
            Self::OnDatabaseServer { .. } => Code::NotSupported,
            Self::NoModel { .. } => Code::NoModel,
            Self::WritesWaiting { .. } | Self::EncoderBusy { .. } => Code::Overloaded,
            Self::NotIndexed(source)
            | Self::Open { source, .. }
            | Self::DiskFull { source, .. }
            | Self::TooFewFiles { source, .. } => source.code(),
            Self::JobNotFound { .. } => Code::JobNotFound,
            Self::JobFinished { .. } => Code::JobFinished,
            Self::NoLines { .. } | Self::ResultsElsewhere { .. } => Code::NoResults,
            Self::JobsWaiting { .. } | Self::UploadEvicted | Self::Refused(LimitExceeded::Full { .. }) => Code::Overloaded,
            Self::Refused(LimitExceeded::Share { .. }) => Code::RateLimited,
            Self::BodyIncomplete | Self::Encoding { .. } => Code::MalformedFile,
            Self::FileTooLarge { .. } | Self::CompressionRatioTooHigh { .. } => Code::BodyTooLarge,
            Self::Mine(source) => source.code(),
            Self::ProjectionNotFound { .. } => Code::ProjectionNotFound,
            Self::TooFewDocuments { .. } => Code::TooFewDocuments,
            Self::InsufficientDiskSpace { .. } | Self::AdditionsWait { .. } | Self::DirectoryLost => Code::StorageUnavailable,
            Self::SnapshotNotFound { .. } => Code::SnapshotNotFound,
            Self::SnapshotExists { .. } => Code::SnapshotExists,
            Self::InvalidSnapshot { .. } => Code::InvalidSnapshot,
            Self::Recovering { .. } | Self::TermsPending { .. } | Self::Stopping => Code::Unavailable,
            Self::VectorDimension { .. } | Self::NoDirection | Self::Query(_) => Code::InvalidRequest,
            Self::AnswerTooLarge { .. } => Code::AnswerTooLarge,
            Self::InBatch { source, .. } => source.code(),
            Self::Damaged { .. } => Code::CollectionDamaged,
            Self::File { source, .. } => file_code(source),
            Self::CatalogLost { .. }
            | Self::EmbeddedStoreExists { .. }
            | Self::EncoderAnswers { .. }
            | Self::JobState { .. }
            | Self::ResultsTruncated { .. }
            | Self::Id(_)
            | Self::Random(_)
            | Self::Thread(_)
            | Self::Runtime(_) => Code::Internal,
            Self::Classifier(source) => source.code(),
            Self::Store(source) => store_code(source),
            Self::NotCopied { source, .. } => store_code(source),
            Self::Index(source) => index_code(source),
            Self::Embed(source) => embed_code(source),
        }
    }
}

fn file_code(source: &std::io::Error) -> Code {
    use std::io::ErrorKind as Kind;
    match source.kind() {
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge | Kind::ReadOnlyFilesystem => Code::StorageUnavailable,
        _ if is_disk_failure(source) => Code::StorageUnavailable,
        _ => Code::Internal,
    }
}

/// Whether the disk failed to read or write, which is not the fault of what is stored. The error may be the cause of this one.
pub(crate) fn is_disk_failure(error: &std::io::Error) -> bool {
    let causes = std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |cause| cause.source());
    causes.filter_map(|cause| cause.downcast_ref::<std::io::Error>()).any(|cause| Errno::from_io_error(cause) == Some(Errno::IO))
}

fn store_code(error: &StoreError) -> Code {
    match error {
        StoreError::StorageUnavailable { .. }
        | StoreError::Locked { .. }
        | StoreError::ServerUnreachable { .. }
        | StoreError::WentBack { .. } => Code::StorageUnavailable,
        StoreError::File { source, .. } => file_code(source),
        StoreError::CollectionExists { .. } => Code::CollectionExists,
        StoreError::AliasExists { .. } => Code::AliasExists,
        StoreError::ClassifierExists { .. } => Code::ClassifierExists,
        StoreError::CorruptRow { .. }
        | StoreError::Damaged { .. }
        | StoreError::FolderLost { .. }
        | StoreError::DatabaseLost { .. }
        | StoreError::DatabaseEmpty { .. }
        | StoreError::NotRegular { .. }
        | StoreError::DatabaseBehind { .. }
        | StoreError::LogDamaged { .. } => Code::CollectionDamaged,
        StoreError::WriteQueueFull { .. } => Code::Overloaded,
        StoreError::KeyReused { .. } => Code::IdempotencyConflict,
        StoreError::PreconditionFailed { .. } => Code::PreconditionFailed,
        StoreError::MetadataTooLarge { .. } | StoreError::PathNotIndexable { .. } | StoreError::TooManyBuckets { .. } => {
            Code::InvalidRequest
        }
        StoreError::JobUnfinished => Code::JobRunning,
        StoreError::Closed
        | StoreError::Replaced
        | StoreError::Interrupted { .. }
        | StoreError::DataDirectoryInUse { .. }
        | StoreError::DatabaseInUse
        | StoreError::CatalogChanged
        | StoreError::JobTakenOver
        | StoreError::Thread { .. }
        | StoreError::LexicalIncomplete { .. } => Code::Unavailable,
        StoreError::Sqlite { .. }
        | StoreError::OpenFiles { .. }
        | StoreError::Server { .. }
        | StoreError::UnsuitableServer { .. }
        | StoreError::UnsuitableReplica { .. }
        | StoreError::NoWriteAheadLog { .. }
        | StoreError::NewerDatabase { .. }
        | StoreError::NotUpToDate { .. }
        | StoreError::ForeignDatabase { .. }
        | StoreError::SchemaMismatch { .. }
        | StoreError::InvalidPassage { .. }
        | StoreError::ChangesPurged { .. } => Code::Internal,
    }
}

fn index_code(error: &IndexError) -> Code {
    match error {
        IndexError::File { source, .. } => file_code(source),
        IndexError::Dimension { .. }
        | IndexError::Engine { .. }
        | IndexError::Path { .. }
        | IndexError::Missing { .. }
        | IndexError::NotRegular { .. }
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
        | EmbedError::Table(_)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_failing_disk_has_the_same_code_for_a_file_as_for_a_database() {
        for (errno, code) in [
            (Errno::IO, Code::StorageUnavailable),
            (Errno::NOSPC, Code::StorageUnavailable),
            (Errno::ROFS, Code::StorageUnavailable),
            (Errno::ACCESS, Code::Internal),
        ] {
            assert_eq!(Error::File { path: "upload".into(), source: errno.into() }.code(), code, "{errno:?}");
            let index = IndexError::File { path: "index.usearch".into(), source: errno.into() };
            assert_eq!(Error::Index(index).code(), code, "{errno:?}");
        }
    }

    #[test]
    fn a_database_that_another_program_locks_is_unavailable_but_not_full() {
        let source = Arc::new(std::io::Error::other("database is locked"));
        let error = Error::Store(StoreError::Locked { operation: "storing", source });
        assert_eq!((error.code(), error.outage()), (Code::StorageUnavailable, Some("another program has locked the database")));
    }

    #[test]
    fn a_thread_that_cannot_be_started_is_a_lack_of_capacity() {
        let error = Error::Store(StoreError::Thread { source: Arc::new(std::io::ErrorKind::WouldBlock.into()) });
        assert!(error.is_out_of_threads());
        assert_eq!(error.code(), Code::Unavailable);
        assert!(error.chain().contains("ulimit -u"), "{}", error.chain());
    }
}
