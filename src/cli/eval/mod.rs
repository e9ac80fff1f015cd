//! `dragoman eval`: the papers' measurements of whatever model a server has loaded, one subcommand per task.
//!
//! Files are read and numbers computed here (`crate::evaluation`, which the trainer uses too); the server embeds, classifies, mines
//! and searches. What a task makes on the server is gone when it ends, however it ends.

mod classification;
mod configuration;
mod encoder;
mod measured;
mod mining;
mod scratch;
mod search;
mod search_report;

use std::path::Path;

use clap::{Args, Subcommand};

use super::EXIT_CODES;
use super::client::Client;
use super::error::{CliError, Outcome};
use super::output::Output;
use super::server::ServerArgs;
use crate::evaluation::{EvaluationError, Report, candidates, flores, measure, short, sts, tatoeba};
use classification::ClassificationArgs;
use encoder::ServerEncoder;
use measured::{Measured, failed, no_data};
use mining::MiningArgs;
use search::SearchArgs;

pub use measured::DataArgs;

/// The command's arguments.
#[derive(Debug, Args)]
#[command(after_long_help = EXIT_CODES)]
pub struct EvalArgs {
    /// What to measure.
    #[command(subcommand)]
    pub task: Task,
    /// The options that all commands have.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// P@1 between English and the others on Tatoeba.
    ///
    /// Files in LASER's layout: `tatoeba.XXX-eng.XXX` beside `tatoeba.XXX-eng.eng`, aligned by line, XXX an ISO 639-3 code.
    /// Languages outside the 62 are passed over.
    Tatoeba(DataArgs),
    /// P@1 between the sides of translation pairs.
    ///
    /// Files `flores.xx.txt`: one sentence per line, the same line number in every file is the same sentence; any two languages are
    /// measured. Files `short.xx-en.tsv`: xx-sentence, tab, English sentence; each is a task of its own. xx is an ISO 639-1 code.
    Pairs(DataArgs),
    /// Precision, recall and F1 of mined translation pairs, by margin scoring (BUCC 2018).
    ///
    /// Files `xx-en.PART.xx` and `xx-en.PART.en`: id, tab, sentence; `xx-en.PART.gold`: xx-id, tab, en-id. PART is `dev` or
    /// `training`, on which the threshold with the highest F1 is found, and `test`, to which it is applied and which may be absent.
    Mining(MiningArgs),
    /// Accuracy of a classifier that learns in one language and is asked about the others.
    ///
    /// SIB-200: `sib200.xx.tsv`: part (train, dev or test), tab, index, tab, label, tab, text. MLDoc: `XX.train.1000`, `XX.dev` and
    /// `XX.test`: label, tab, text; XX as `en` or `english`. CLS: `XX.PRODUCT.train` and `XX.PRODUCT.test`: label, tab, text; PRODUCT
    /// is books, dvd, music, or all.
    Classification(ClassificationArgs),
    /// P@1 of some queries among many candidates, by margin scoring.
    ///
    /// Files `candidates.xx-yy.xx`, the queries, beside `candidates.xx-yy.yy`, the candidates, one sentence per line: line n of the
    /// candidates translates line n of the queries, and further lines are only in the way.
    Retrieval(RetrievalArgs),
    /// Spearman's rank correlation between cosines and scores of similarity.
    ///
    /// Files `sts.xx-yy.tsv`: score, tab, xx-sentence, tab, yy-sentence. A higher score is more alike.
    Sts(DataArgs),
    /// nDCG@10, recall@10, recall@100, MRR@10 and success@1 of searches, several configurations side by side.
    ///
    /// Queries: `queries.jsonl` (BEIR: _id, text, metadata.language), `queries.tsv` (id, language, text) or `topics.tsv` (id, text).
    /// Documents, unless --collection is given: `corpus.jsonl` (_id, title, text, metadata.language), `documents.tsv` (id, language,
    /// text) or `corpus.tsv` (id, text). Judgments: `qrels/test.tsv` (BEIR: query id, document id, score, below a heading), `qrels.tsv`
    /// (the same without heading) or `qrels.txt` (TREC: query id, 0, document id, grade). Fields of .tsv files are separated by tabs,
    /// a language is a tag of BCP 47. A grade above 0 is relevant, the more the higher; what has no line is not relevant.
    Search(SearchArgs),
    /// Every task but `search` that has files in the folder; classification as the papers do it.
    All(DataArgs),
}

/// Retrieval among many candidates.
#[derive(Debug, Args)]
pub struct RetrievalArgs {
    /// Which files, and where the numbers go.
    #[command(flatten)]
    pub data: DataArgs,
    /// How many of the queries are asked.
    #[arg(long, value_name = "COUNT", default_value_t = candidates::QUERIES)]
    pub queries: usize,
}

/// Runs the command.
pub fn run(args: EvalArgs) -> Result<Outcome, CliError> {
    let output = Output::new(&args.server);
    let measured = Measured { client: Client::new(&args.server, &output)?, output };
    let plain = |data: DataArgs, task: &dyn Fn(&Path, &mut ServerEncoder<'_>) -> Result<Report, EvaluationError>| {
        let report = task(&data.data, &mut measured.encoder(&data)).map_err(failed)?;
        if report == Report::default() {
            return Err(no_data(&data.data));
        }
        measured.tell(&data, &report)
    };
    match args.task {
        Task::Tatoeba(data) => {
            plain(data, &|folder, encoder| Ok(Report { tatoeba: tatoeba::measure(folder, encoder)?, ..Report::default() }))
        }
        Task::Pairs(data) => plain(data, &|folder, encoder| {
            let flores = flores::measure(folder, encoder)?;
            Ok(Report { flores, short: short::measure(folder, encoder)?, ..Report::default() })
        }),
        Task::Retrieval(RetrievalArgs { data, queries }) => plain(data, &|folder, encoder| {
            Ok(Report { candidates: candidates::measure(folder, queries, encoder)?, ..Report::default() })
        }),
        Task::Sts(data) => {
            plain(data, &|folder, encoder| Ok(Report { sts: sts::measure(folder, encoder)?, ..Report::default() }))
        }
        Task::All(data) => plain(data, &|folder, encoder| measure(folder, encoder)),
        Task::Mining(args) => mining::run(&measured, args),
        Task::Classification(args) => classification::run(&measured, args),
        Task::Search(args) => search::run(&measured, args),
    }?;
    Ok(Outcome::Done)
}
