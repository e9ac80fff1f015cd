//! The command line for a running server. Each command calls it over HTTP; `embed` can also load a local model.
//!
//! Results go to standard output, everything else to standard error, so that output can be piped. Each command has a file.
//! Commands share `client` (HTTP), `listing` (lists), `output` (tables, progress bars), `display` (untrusted text on a
//! terminal) and `error`.

pub mod aliases;
pub mod classifiers;
pub mod client;
pub mod collections;
pub mod confirm;
pub mod detect;
pub mod display;
pub mod documents;
pub mod embed;
pub mod error;
pub mod eval;
pub mod export;
pub mod files;
pub mod health;
pub mod import;
pub mod jobs;
pub mod keys;
pub mod lines;
pub mod listing;
pub mod mine;
pub mod models;
pub mod output;
pub mod project;
pub mod search;
pub mod server;
pub mod similarity;
pub mod snapshot;
mod snapshot_target;

use std::process::ExitCode;

use clap::Subcommand;

use error::{CliError, Outcome};
use server::{Group, ServerArgs};

pub use crate::domain::chain;
pub use error::EXIT_CODES;

/// The commands for a running server.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists, shows, creates, changes and deletes collections.
    Collections(Group<collections::Action>),
    /// Lists, sets and deletes aliases of collections.
    Aliases(Group<aliases::Action>),
    /// Trains, lists, evaluates, applies and deletes classifiers, and predicts labels.
    Classifiers(Group<classifiers::Action>),
    /// Stores, lists, shows, updates and deletes documents.
    Documents(Group<documents::Action>),
    /// Searches a collection.
    Search(search::SearchArgs),
    /// Embeds texts, on a server or with a local model.
    Embed(embed::EmbedArgs),
    /// Evaluates a server's model on data files: retrieval, mining, classification, similarity, search.
    Eval(Box<eval::EvalArgs>),
    /// Measures the semantic similarity of texts.
    Similarity(similarity::SimilarityArgs),
    /// Detects the language of texts.
    Detect(detect::DetectArgs),
    /// Finds translation pairs between collections or files, as a job on the server.
    Mine(Box<mine::MineArgs>),
    /// Finds clusters of duplicates and translations in a collection, as a job on the server.
    Duplicates(mine::DuplicatesArgs),
    /// Computes a two-dimensional map of a collection's documents, as a job on the server.
    Project(project::ProjectArgs),
    /// Imports documents from a file, as a job on the server.
    Import(import::ImportArgs),
    /// Exports all documents of a collection as NDJSON.
    Export(export::ExportArgs),
    /// Lists, shows, watches and cancels jobs.
    Jobs(Group<jobs::Action>),
    /// Creates, lists, downloads, uploads, restores and deletes snapshots.
    Snapshot(Group<snapshot::Action>),
    /// Creates, lists and revokes keys.
    Keys(Group<keys::Action>),
    /// Lists the models that the server has loaded.
    Models(models::ModelsArgs),
}

impl Command {
    /// Options of every command.
    fn server(&self) -> &ServerArgs {
        match self {
            Self::Collections(args) => &args.server,
            Self::Aliases(args) => &args.server,
            Self::Classifiers(args) => &args.server,
            Self::Documents(args) => &args.server,
            Self::Search(args) => &args.server,
            Self::Embed(args) => &args.server,
            Self::Eval(args) => &args.server,
            Self::Similarity(args) => &args.server,
            Self::Detect(args) => &args.server,
            Self::Mine(args) => &args.server,
            Self::Duplicates(args) => &args.server,
            Self::Project(args) => &args.server,
            Self::Import(args) => &args.server,
            Self::Export(args) => &args.server,
            Self::Jobs(args) => &args.server,
            Self::Snapshot(args) => &args.server,
            Self::Keys(args) => &args.server,
            Self::Models(args) => &args.server,
        }
    }
}

/// Runs a command and reports errors on standard error.
pub fn run(command: Command) -> ExitCode {
    let json = command.server().json;
    let result = match command {
        Command::Collections(args) => collections::run(args),
        Command::Aliases(args) => aliases::run(args),
        Command::Classifiers(args) => classifiers::run(args),
        Command::Documents(args) => documents::run(args),
        Command::Search(args) => search::run(args),
        Command::Embed(args) => embed::run(args),
        Command::Eval(args) => eval::run(*args),
        Command::Similarity(args) => similarity::run(args),
        Command::Detect(args) => detect::run(args),
        Command::Mine(args) => mine::mine(*args),
        Command::Duplicates(args) => mine::duplicates(args),
        Command::Project(args) => project::run(args),
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(args),
        Command::Jobs(args) => jobs::run(args),
        Command::Snapshot(args) => snapshot::run(args),
        Command::Keys(args) => keys::run(args),
        Command::Models(args) => models::run(args),
    };
    match result {
        Ok(Outcome::Done) | Err(CliError::OutputClosed) => ExitCode::SUCCESS,
        Ok(Outcome::SomeFailed) => ExitCode::from(error::SOME_FAILED),
        Err(error) => {
            error.report(json);
            ExitCode::from(error.exit_code())
        }
    }
}
