//! Errors of the index. Every error of `load` means the same to the caller: rebuild the index from the database.

use std::path::PathBuf;

/// An error of the index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// An embedding has the wrong dimension.
    #[error("the index holds embeddings of {expected} values, got {got}")]
    Dimension {
        /// The index's.
        expected: usize,
        /// The embedding's.
        got: usize,
    },
    /// usearch failed; most often for lack of memory.
    #[error("usearch failed to {action}")]
    Engine {
        /// What it was asked to do.
        action: &'static str,
        /// Its reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file cannot be read or written.
    #[error("cannot access {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// usearch opens files by UTF-8 path only.
    #[error("the path {} is not UTF-8", path.display())]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// The saved index is missing or incomplete.
    #[error("there is no {}", path.display())]
    Missing {
        /// The file that is not there.
        path: PathBuf,
    },
    /// `index.json` does not describe an index.
    #[error("{} does not describe an index", path.display())]
    Description {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// `index.usearch` does not have the length that `index.json` says: a crash or a copy cut it short, or the two do not belong
    /// together.
    #[error("{} has {got} bytes, but its description says {expected}", path.display())]
    Torn {
        /// The file.
        path: PathBuf,
        /// Bytes by the description.
        expected: u64,
        /// Bytes on disk.
        got: u64,
    },
    /// `index.usearch` does not have the content that `index.json` says.
    #[error("{} has CRC-32 {got:08x}, but its description says {expected:08x}", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// By the description.
        expected: u32,
        /// Of the bytes on disk.
        got: u32,
    },
    /// The index was saved in another format or with other parameters.
    #[error("the saved index has {what} {got}, but this program needs {expected}")]
    Parameters {
        /// Which parameter.
        what: &'static str,
        /// Asked for.
        expected: String,
        /// Saved.
        got: String,
    },
}
