//! The larger subcommands, each with its arguments.

/// The subcommand `add-questions`.
pub mod add_questions;
/// Shared parts of the commands that write a bundle.
pub mod bundle_arguments;
/// The subcommand `eval` and its tasks.
pub mod eval;
/// The subcommand `export`.
pub mod export;
/// The subcommand `from-bundle`.
pub mod from_bundle;
/// The subcommands `language` and `language-eval`.
pub mod language;
/// The subcommand `relevance`.
pub mod relevance;
/// The subcommand `translations`.
pub mod translations;

use std::path::Path;

use crate::error::Error;

/// Writes `value` to `path` as JSON for people to read.
fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), Error> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Error::Content { path: path.to_owned(), problem: error.to_string() })?;
    std::fs::write(path, json + "\n").map_err(|source| Error::file(path, source))
}
