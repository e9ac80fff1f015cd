//! Errors of the index. Whatever the error of `load`, the caller must rebuild the index from the database.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("the index holds embeddings of {expected} values, got {got}")]
    Dimension { expected: usize, got: usize },
    #[error("usearch failed to {action}")]
    Engine { action: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("cannot access {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("the path {} is not UTF-8", path.display())]
    Path { path: PathBuf },
    #[error("there is no {}", path.display())]
    Missing { path: PathBuf },
    #[error("{} is not a regular file", path.display())]
    NotRegular { path: PathBuf },
    #[error("{} does not describe an index", path.display())]
    Description { path: PathBuf, source: serde_json::Error },
    /// `index.usearch` does not have the length given in `index.json`: a crash or a copy cut it short, or the two files do not
    /// belong together.
    #[error("{} has {got} bytes, but its description says {expected}", path.display())]
    Torn { path: PathBuf, expected: u64, got: u64 },
    #[error("{} has CRC-32 {got:08x}, but its description says {expected:08x}", path.display())]
    Checksum { path: PathBuf, expected: u32, got: u32 },
    #[error("the saved index has {what} {got}, but this program needs {expected}")]
    Parameters { what: &'static str, expected: String, got: String },
}
