//! Converts errors of a database server to errors of the store.

use std::sync::Arc;

use tokio_postgres::error::SqlState;

use crate::store::StoreError;

/// An error that does not name the failed operation yet.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) enum Fault {
    /// An error of the server, or of the connection to it.
    Server(#[from] tokio_postgres::Error),
    /// No connection became free in time, or none could be opened.
    Pool(#[from] r2d2::Error),
    /// The server does not answer, although the connection may still exist.
    #[error("it does not answer")]
    Silent,
    /// The address of a host was not found, or this machine cannot open another connection.
    System(std::io::Error),
    /// An error that is already complete.
    Store(#[from] StoreError),
}

impl Fault {
    /// Adds the name of the failed operation.
    pub(super) fn into_store_error(self, operation: &'static str) -> StoreError {
        let source = match self {
            Self::Store(error) => return error,
            Self::Pool(source) => return StoreError::ServerUnreachable { operation, source: Arc::new(source) },
            Self::Silent => return StoreError::ServerUnreachable { operation, source: Arc::new(Self::Silent) },
            Self::System(source) => return StoreError::ServerUnreachable { operation, source: Arc::new(source) },
            Self::Server(source) => source,
        };
        let Some(state) = source.code() else {
            // There is no SQLSTATE if the connection broke or a response could not be read.
            return match source.is_closed() || is_io(&source) {
                true => StoreError::ServerUnreachable { operation, source: Arc::new(source) },
                false => StoreError::Server { operation, source: Arc::new(source) },
            };
        };
        match *state {
            SqlState::DISK_FULL | SqlState::READ_ONLY_SQL_TRANSACTION | SqlState::IO_ERROR => {
                StoreError::StorageUnavailable { operation, source: Arc::new(source) }
            }
            // In a deadlock the database ends one statement. It succeeds when it is repeated.
            SqlState::QUERY_CANCELED | SqlState::T_R_DEADLOCK_DETECTED | SqlState::LOCK_NOT_AVAILABLE => {
                StoreError::Interrupted { operation }
            }
            // This process hung, for example because it was suspended, and the database ended its transaction.
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => {
                StoreError::ServerUnreachable { operation, source: Arc::new(source) }
            }
            // The collection has just been deleted.
            SqlState::UNDEFINED_TABLE => StoreError::Closed,
            SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => StoreError::Damaged { operation, source: Arc::new(source) },
            _ => match &state.code()[..2] {
                // Connection failures, too many connections, and a server that is stopping or starting.
                "08" | "53" | "57" => StoreError::ServerUnreachable { operation, source: Arc::new(source) },
                _ => StoreError::Server { operation, source: Arc::new(source) },
            },
        }
    }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}
