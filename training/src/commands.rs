//! What the larger subcommands do, each with its arguments.

/// The subcommand `add-questions`.
pub mod add_questions;
/// The subcommand `eval` and its tasks.
pub mod eval;
/// The subcommand `export`.
pub mod export;
/// The subcommand `from-bundle`.
pub mod from_bundle;
/// The subcommands `language` and `language-eval`.
pub mod language;
/// What the commands that write a bundle share.
pub mod material;
/// The subcommand `relevance`.
pub mod relevance;
/// The subcommands `translations` and `add-translations`.
pub mod translations;

use std::path::Path;

use crate::error::Error;
use crate::progress;

/// Draws `loss.svg` from the run's `loss.csv`.
pub fn plot(run: &Path) -> Result<(), Error> {
    progress::plot(run)
}
