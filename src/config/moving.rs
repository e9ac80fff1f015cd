//! The settings of `dragoman move`.

use std::path::PathBuf;

use clap::Args;

use super::secret::Secret;
use crate::cli::EXIT_CODES;

/// What to move, and where to.
///
/// One place is a data directory, the other a PostgreSQL database with pgvector. Collections with their documents, embeddings and
/// settings, aliases, classifiers and keys are moved and compared; jobs, idempotency records, snapshots and maps are not. The source is
/// only read. An interrupted move goes on when the command is repeated.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = EXIT_CODES)]
pub struct MoveSettings {
    /// The source: a data directory, or postgres://USER@HOST/DATABASE. Other users of the machine can read flags, so give an address
    /// with a password in the variable.
    #[arg(long, env = "DRAGOMAN_MOVE_FROM", value_name = "FOLDER|URL", hide_env_values = true)]
    pub from: Secret,

    /// The target, in the same form. A data directory is created if it does not exist, and so are the tables of a database.
    #[arg(long, env = "DRAGOMAN_MOVE_TO", value_name = "FOLDER|URL", hide_env_values = true)]
    pub to: Secret,

    /// Only compares both places, and changes neither.
    #[arg(long)]
    pub verify: bool,

    /// Leaves unfinished jobs of the source behind, instead of refusing to move.
    #[arg(long, conflicts_with = "verify")]
    pub leave_jobs: bool,

    /// The authorities that the database server's certificate may come from, in PEM format. Defaults to those that browsers trust.
    #[arg(long, env = "DRAGOMAN_STORE_AUTHORITIES", value_name = "FILE")]
    pub store_authorities: Option<PathBuf>,

    /// Prints JSON instead of a table; errors too.
    #[arg(long)]
    pub json: bool,

    /// Hides progress and notes: shows only results and errors.
    #[arg(long, short)]
    pub quiet: bool,
}
