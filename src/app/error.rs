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
    /// There is no bundle in the folder.
    #[error("there is no model in {} (no {MANIFEST}); name a bundle's folder with --model", path.display())]
    NoModel {
        /// The folder.
        path: PathBuf,
    },
    /// The bundle cannot be used.
    #[error("cannot use the model in {}", path.display())]
    Bundle {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: BundleError,
    },
    /// The encoder cannot be started.
    #[error("cannot start the encoder")]
    Embedder(#[source] EmbedError),
    /// The data directory may not be written.
    #[error("user {user} of group {group}, who runs the server, cannot write the data directory {}: {obstacle}", path.display())]
    NotWritable {
        /// The directory.
        path: PathBuf,
        /// The server's user.
        user: u32,
        /// The server's group.
        group: u32,
        /// What is in the way, and what helps.
        obstacle: String,
        /// The cause.
        #[source]
        source: Box<service::Error>,
    },
    /// The data directory cannot be opened.
    #[error("cannot open the data directory {}", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<service::Error>,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A setting is wrong.
    #[error("{setting} {problem}")]
    Setting {
        /// Its key in the file.
        setting: &'static str,
        /// What was expected and what was given.
        problem: String,
    },
    /// Snapshots cannot be stored where they should be.
    #[error("snapshot_target cannot be used")]
    SnapshotTarget(#[source] Box<TargetError>),
    /// The file with the admin key cannot be read.
    #[error("cannot read the admin key from {}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The certificate cannot be used.
    #[error("cannot start TLS")]
    Tls(#[source] TlsError),
    /// Everybody could do everything.
    #[error(
        "{address} can be reached from other machines, but the server has no keys: set an admin key (--admin-key-file), \
         listen on 127.0.0.1, or pass --insecure if a firewall or proxy keeps others out"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// Signals cannot be received.
    #[error("cannot receive signals")]
    Serve(#[source] std::io::Error),
    /// Something could not be saved or closed at the end. What was acknowledged is in the databases all the same.
    #[error("cannot shut down cleanly")]
    Shutdown(#[source] Box<service::Error>),
    /// A task on another thread panicked.
    #[error("a start-up task failed")]
    Task(#[from] tokio::task::JoinError),
}
