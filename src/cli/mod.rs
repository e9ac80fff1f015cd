//! The command line for a running server. Each command calls it over HTTP; `embed` can also load a local model.
//!
//! Results go to standard output, everything else to standard error, so that output can be piped. Each command has a file.
//! Commands share `client` (HTTP), `request_body`, `listing` (lists), `output` (tables, progress bars), `display` (untrusted
//! text on a terminal) and `error`.

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
mod request_body;
pub mod search;
pub mod server;
pub mod similarity;
pub mod snapshot;
mod snapshot_target;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use client::Client;
use error::{CliError, Outcome};
use server::ServerArgs;

pub use crate::domain::chain;
pub use error::EXIT_CODES;

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
    Search(Single<search::SearchArgs>),
    /// Embeds texts, on a server or with a local model.
    Embed(Single<embed::EmbedArgs>),
    /// Evaluates a server's model on data files: retrieval, mining, classification, similarity, search.
    Eval(Box<Group<eval::Task>>),
    /// Measures the semantic similarity of texts.
    Similarity(Single<similarity::SimilarityArgs>),
    /// Detects the language of texts.
    Detect(Single<detect::DetectArgs>),
    /// Finds translation pairs between collections or files, as a job on the server.
    Mine(Box<Single<mine::MineArgs>>),
    /// Finds clusters of duplicates and translations in a collection, as a job on the server.
    Duplicates(Single<mine::DuplicatesArgs>),
    /// Computes a two-dimensional map of a collection's documents, as a job on the server.
    Project(Single<project::ProjectArgs>),
    /// Imports documents from a file, as a job on the server.
    Import(Single<import::ImportArgs>),
    /// Exports all documents of a collection as NDJSON.
    Export(Single<export::ExportArgs>),
    /// Lists, shows, watches and cancels jobs.
    Jobs(Group<jobs::Action>),
    /// Creates, lists, downloads, uploads, restores and deletes snapshots.
    Snapshot(Group<snapshot::Action>),
    /// Creates, lists and revokes keys.
    Keys(Group<keys::Action>),
    /// Lists the models that the server has loaded.
    Models(Single<()>),
}

/// A command with subcommands.
#[derive(Debug, Args)]
#[command(after_long_help = EXIT_CODES)]
pub struct Group<A: Subcommand> {
    #[command(subcommand)]
    pub action: A,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// A command without subcommands.
#[derive(Debug, Args)]
#[command(after_long_help = EXIT_CODES)]
pub struct Single<A: Args> {
    #[command(flatten)]
    pub args: A,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Runs a command and reports errors on standard error.
pub fn run(command: Command) -> ExitCode {
    match command {
        Command::Collections(group) => call(group.action, &group.server, collections::run),
        Command::Aliases(group) => call(group.action, &group.server, aliases::run),
        Command::Classifiers(group) => call(group.action, &group.server, classifiers::run),
        Command::Documents(group) => call(group.action, &group.server, documents::run),
        Command::Search(single) => call(single.args, &single.server, search::run),
        Command::Embed(single) => report(embed::run(single.args, &single.server), single.server.json),
        Command::Eval(group) => report(eval::run(group.action, &group.server), group.server.json),
        Command::Similarity(single) => call(single.args, &single.server, similarity::run),
        Command::Detect(single) => call(single.args, &single.server, detect::run),
        Command::Mine(single) => call(single.args, &single.server, mine::mine),
        Command::Duplicates(single) => call(single.args, &single.server, mine::duplicates),
        Command::Project(single) => call(single.args, &single.server, project::run),
        Command::Import(single) => call(single.args, &single.server, import::run),
        Command::Export(single) => call(single.args, &single.server, export::run),
        Command::Jobs(group) => call(group.action, &group.server, jobs::run),
        Command::Snapshot(group) => call(group.action, &group.server, snapshot::run),
        Command::Keys(group) => call(group.action, &group.server, keys::run),
        Command::Models(single) => call((), &single.server, models::run),
    }
}

/// Runs a command that calls the server.
fn call<A>(args: A, server: &ServerArgs, command: impl FnOnce(A, &Client) -> Result<Outcome, CliError>) -> ExitCode {
    report(Client::new(server).and_then(|client| command(args, &client)), server.json)
}

/// Reports the error of a command, as text or as JSON, and returns its exit code.
pub fn report(result: Result<Outcome, CliError>, as_json: bool) -> ExitCode {
    match result {
        Ok(Outcome::Done) | Err(CliError::OutputClosed) => ExitCode::SUCCESS,
        Ok(Outcome::SomeFailed) => ExitCode::from(error::SOME_FAILED),
        Err(error) => {
            error.report(as_json);
            ExitCode::from(error.exit_code())
        }
    }
}
