//! Reads and writes the file of a bundle's table.

use std::path::{Path, PathBuf};

/// Why a bundle's table cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants are")]
pub enum TableError {
    #[error("cannot access {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{} is not a {kind}: {problem}", path.display())]
    Content { path: PathBuf, kind: &'static str, problem: String },
}

/// Reads a table of the kind that errors name.
pub(super) fn read_table<T>(
    path: &Path,
    kind: &'static str,
    parse: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<T, TableError> {
    let bytes = std::fs::read(path).map_err(|source| TableError::File { path: path.to_owned(), source })?;
    parse(&bytes).map_err(|problem| TableError::Content { path: path.to_owned(), kind, problem })
}

/// Writes a table of the kind that errors name. `bytes` is its content, or the reason why it has none.
pub(super) fn write_table(path: &Path, kind: &'static str, bytes: Result<Vec<u8>, String>) -> Result<(), TableError> {
    let bytes = bytes.map_err(|problem| TableError::Content { path: path.to_owned(), kind, problem })?;
    std::fs::write(path, bytes).map_err(|source| TableError::File { path: path.to_owned(), source })
}
