//! Why the server did not start, or did not shut down cleanly.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::bundle::{BundleError, MANIFEST};
use crate::embed::EmbedError;
use crate::server::TlsError;
use crate::service;
use crate::targets::TargetError;

/// Why the server did not start, or did not shut down cleanly.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    #[error("the clock of this machine must show 1970 or later, got {now}")]
    Clock { now: jiff::Timestamp },
    #[error(
        "the system does not let the server start the {needed} threads that it needs: raise the limit on threads (ulimit -u, \
         pids.max of the container, TasksMax of the service) or on address space (ulimit -v)"
    )]
    Threads { needed: usize, source: std::io::Error },
    #[error("there is no model in {} (no {MANIFEST}); name the model's folder with --model", path.display())]
    NoModel { path: PathBuf },
    #[error("cannot use the model in {}", path.display())]
    Bundle { path: PathBuf, source: BundleError },
    #[error("cannot start the encoder")]
    Embedder(#[source] EmbedError),
    #[error("the server runs as user {user} of group {group}, who cannot write the data directory {}: {obstacle}", path.display())]
    NotWritable { path: PathBuf, user: u32, group: u32, obstacle: String, source: Box<service::Error> },
    #[error("cannot open the data directory {}", path.display())]
    Open { path: PathBuf, source: Box<service::Error> },
    #[error("cannot use the store on the database server")]
    Store(#[source] Box<service::Error>),
    #[error("cannot listen on {address}")]
    Listen { address: String, source: std::io::Error },
    #[error("{setting} {problem}")]
    Setting { setting: &'static str, problem: String },
    #[error("snapshot_target cannot be used")]
    SnapshotTarget(#[source] Box<TargetError>),
    #[error("cannot read the admin key from {}", path.display())]
    KeyFile { path: PathBuf, source: std::io::Error },
    #[error("cannot start TLS")]
    Tls(#[source] TlsError),
    #[error(
        "{address} can be reached from other machines, but the server has no keys: set an admin key (--admin-key-file), \
         listen on 127.0.0.1, or pass --insecure if a firewall or proxy keeps others out"
    )]
    Exposed { address: SocketAddr },
    #[error("cannot receive signals")]
    Serve(#[source] std::io::Error),
    /// Something could not be saved or closed at shutdown. Acknowledged writes are still in the databases.
    #[error("cannot shut down cleanly")]
    Shutdown(#[source] Box<service::Error>),
    #[error("a start-up task failed")]
    Task(#[from] tokio::task::JoinError),
}
