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
