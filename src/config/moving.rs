//! The settings of `dragoman move`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::EXIT_CODES;
use crate::domain::Secret;

/// What to move, and where.
///
/// The source is a data directory and the target a PostgreSQL database with pgvector, or the other way round. Collections with
/// their documents, embeddings and settings, aliases, classifiers and keys are moved and compared; jobs, idempotency records,
/// snapshots and maps are not. The source is only read. To continue an interrupted move, repeat the command.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = EXIT_CODES)]
pub struct MoveSettings {
    /// The source: a data directory, or postgres://USER@HOST/DATABASE. Other users of the machine can see flags, so put an
    /// address that contains a password into the environment variable.
    #[arg(long, env = "DRAGOMAN_MOVE_FROM", value_name = "FOLDER|URL", hide_env_values = true)]
    pub from: Secret,

    /// The target, in the same form. A data directory or the tables of a database are created if they do not exist.
    #[arg(long, env = "DRAGOMAN_MOVE_TO", value_name = "FOLDER|URL", hide_env_values = true)]
    pub to: Secret,

    /// Only compares source and target, and changes neither.
    #[arg(long)]
    pub verify: bool,

    /// Ignores unfinished jobs of the source instead of refusing to move. They stay in the source.
    #[arg(long, conflicts_with = "verify")]
    pub leave_jobs: bool,

    /// Certificate authorities to trust for the database server, in PEM format. Defaults to those that browsers trust.
    #[arg(long, env = "DRAGOMAN_STORE_AUTHORITIES", value_name = "FILE")]
    pub store_authorities: Option<PathBuf>,

    /// Prints JSON instead of a table, including errors.
    #[arg(long)]
    pub json: bool,

    /// Hides progress and notes: shows only results and errors.
    #[arg(long, short)]
    pub quiet: bool,
}
