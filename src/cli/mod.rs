//! The command line beside the server: each command calls a server over HTTP; `embed` can also load a model by itself.
//!
//! Results go to standard output, everything else to standard error, so that output can be piped. One file per command; what
//! they share is `client` (HTTP), `listing` (lists), `output` (tables, progress bars), `display` (text of others on a terminal) and `error`.

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
pub mod lines;
pub mod listing;
pub mod mine;
pub mod output;
pub mod project;
pub mod search;
pub mod server;
pub mod similarity;
pub mod snapshot;

use std::process::ExitCode;

use clap::Subcommand;

use error::{CliError, Outcome};
use server::ServerArgs;

pub use crate::domain::chain;
pub use error::EXIT_CODES;

/// The commands that work on a server.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists, shows, creates, changes and deletes collections.
    Collections(collections::CollectionsArgs),
    /// Trains, asks, judges, applies and deletes classifiers.
    Classifiers(classifiers::ClassifiersArgs),
    /// Stores, lists, shows and deletes documents.
    Documents(documents::DocumentsArgs),
    /// Searches a collection.
    Search(search::SearchArgs),
    /// Embeds texts, on a server or with a model of this machine.
    Embed(embed::EmbedArgs),
    /// Measures the model of a server over files: retrieval, mining, classification, similarity, search.
    Eval(Box<eval::EvalArgs>),
    /// Says how near texts are in meaning.
    Similarity(similarity::SimilarityArgs),
    /// Says which language texts are in.
    Detect(detect::DetectArgs),
    /// Finds translation pairs between collections or files, as a job of the server.
    Mine(Box<mine::MineArgs>),
    /// Finds clusters of near-duplicates and translations in a collection, as a job of the server.
    Duplicates(mine::DuplicatesArgs),
    /// Computes the map of a collection's documents, as a job of the server.
    Project(project::ProjectArgs),
    /// Imports documents from a file, as a job of the server.
    Import(import::ImportArgs),
    /// Exports all documents of a collection as NDJSON.
    Export(export::ExportArgs),
    /// Lists, shows, watches and cancels jobs.
    Jobs(jobs::JobsArgs),
    /// Creates, lists, downloads, uploads, restores and deletes snapshots.
    Snapshot(snapshot::SnapshotArgs),
}

impl Command {
    /// The options that all commands have.
    fn server(&self) -> &ServerArgs {
        match self {
            Self::Collections(args) => &args.server,
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
        }
    }
}

/// Runs a command; what goes wrong is told on standard error.
pub fn run(command: Command) -> ExitCode {
    let json = command.server().json;
    let result = match command {
        Command::Collections(args) => collections::run(args),
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
    };
    match result {
        Ok(Outcome::Done) | Err(CliError::ReaderGone) => ExitCode::SUCCESS,
        Ok(Outcome::SomeFailed) => ExitCode::from(error::SOME_FAILED),
        Err(error) => {
            error.report(json);
            ExitCode::from(error.exit_code())
        }
    }
}
