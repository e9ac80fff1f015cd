//! `dragoman eval`: runs the papers' evaluations on the model that a server has loaded, one subcommand per task.
//!
//! The command reads the files and computes the metrics (`crate::evaluation`, which the trainer uses too); the server embeds,
//! classifies, mines and searches. Whatever a task creates on the server is deleted when it ends, even if it fails.

mod classification;
mod configuration;
mod data;
mod encoder;
mod mining;
mod scratch;
mod search;
mod search_report;

use std::path::Path;

use clap::{Args, Subcommand};

use super::client::Client;
use super::error::{CliError, Outcome};
use super::files::Sink;
use super::server::ServerArgs;
use crate::domain::limits::at_least_one;
use crate::evaluation::{EvaluationError, Report, candidates, flores, measure, passages, short, sts, tatoeba};
use classification::ClassificationArgs;
use data::{no_data, to_cli_error};
use encoder::ServerEncoder;
use mining::MiningArgs;
use search::SearchArgs;

pub use data::DataArgs;

#[derive(Debug, Subcommand)]
pub enum Task {
    /// Measures P@1 between English and the other languages of Tatoeba.
    ///
    /// Files in LASER's layout: `tatoeba.XXX-eng.XXX` and `tatoeba.XXX-eng.eng`, aligned by line; XXX is an ISO 639-3 code.
    /// Languages outside the 62 are skipped.
    Tatoeba(DataArgs),
    /// Measures P@1 between the sides of translation pairs.
    ///
    /// Files `flores.xx.txt`: one sentence per line, aligned by line number across all files; every pair of languages is
    /// compared. Files `short.xx-en.tsv`: xx sentence, tab, English sentence; each file is a separate task. xx is an ISO 639-1
    /// code.
    Pairs(DataArgs),
    /// Measures precision, recall and F1 of translation pairs mined by margin scoring (BUCC 2018).
    ///
    /// Files `xx-en.PART.xx` and `xx-en.PART.en`: id, tab, sentence; `xx-en.PART.gold`: xx-id, tab, en-id. PART is `dev` or
    /// `training`, to choose the threshold with the highest F1, and optionally `test`, to apply it to.
    Mining(MiningArgs),
    /// Measures the accuracy of a classifier trained in one language and tested in the others.
    ///
    /// SIB-200: `sib200.xx.tsv`: split (train, dev or test), tab, index, tab, label, tab, text. MLDoc: `XX.train.1000`,
    /// `XX.dev` and `XX.test`: label, tab, text; XX is a code such as `en` or a name such as `english`. CLS: `XX.PRODUCT.train`
    /// and `XX.PRODUCT.test`: label, tab, text; PRODUCT is books, dvd, music, or all.
    Classification(ClassificationArgs),
    /// Measures P@1 of queries among many candidates, by margin scoring.
    ///
    /// Files `candidates.xx-yy.xx` (queries) and `candidates.xx-yy.yy` (candidates), one sentence per line: line n of the
    /// candidates translates line n of the queries; additional lines are distractors.
    Retrieval(RetrievalArgs),
    /// Measures Spearman's rank correlation between cosines and similarity scores.
    ///
    /// Files `sts.xx-yy.tsv`: score, tab, xx sentence, tab, yy sentence. A higher score means more similar.
    Sts(DataArgs),
    /// Measures MRR@10 and P@1 of questions among all passages of a language.
    ///
    /// Files `retrieval.xx-yy.tsv`: question in language xx, tab, passage in language yy; xx may equal yy. A question is compared
    /// with the distinct passages of all files with the same yy.
    Passages(DataArgs),
    /// Measures nDCG@10, recall@10, recall@100, MRR@10 and success@1 of searches, and compares several configurations.
    ///
    /// Queries: `queries.jsonl` (BEIR: _id, text, metadata.language), `queries.tsv` (id, language, text) or `topics.tsv` (id,
    /// text). Documents, unless --collection is given: `corpus.jsonl` (_id, title, text, metadata.language), `documents.tsv` (id,
    /// language, text) or `corpus.tsv` (id, text). Judgments: `qrels/test.tsv` (BEIR: query id, document id, score, below a
    /// header), `qrels.tsv` (the same without a header) or `qrels.txt` (TREC: query id, 0, document id, grade). Tabs separate the
    /// fields of .tsv files, and a language is a BCP 47 tag. A grade above 0 means relevant, and higher grades count more;
    /// unlisted documents are not relevant.
    Search(SearchArgs),
    /// Runs every task but `search` that has files in the folder; classification follows the papers.
    All(DataArgs),
}

#[derive(Debug, Args)]
pub struct RetrievalArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Maximum queries to use.
    #[arg(long, value_name = "COUNT", default_value_t = candidates::QUERIES, value_parser = at_least_one::<usize>)]
    pub queries: usize,
}

impl Task {
    fn data(&self) -> &DataArgs {
        match self {
            Self::Tatoeba(data) | Self::Pairs(data) | Self::Sts(data) | Self::Passages(data) | Self::All(data) => data,
            Self::Retrieval(RetrievalArgs { data, .. })
            | Self::Mining(MiningArgs { data, .. })
            | Self::Classification(ClassificationArgs { data, .. })
            | Self::Search(SearchArgs { data, .. }) => data,
        }
    }
}

pub fn run(task: Task, server: &ServerArgs) -> Result<Outcome, CliError> {
    Sink::check(task.data().output.as_deref())?;
    let client = Client::new(server)?;
    let plain = |data: DataArgs, evaluate: &dyn Fn(&Path, &mut ServerEncoder<'_>) -> Result<Report, EvaluationError>| {
        let report = evaluate(&data.data, &mut ServerEncoder::new(&client, &data)).map_err(to_cli_error)?;
        if report == Report::default() {
            return Err(no_data(&data.data));
        }
        data.write_report(&client, &report)
    };
    match task {
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
        Task::Passages(data) => plain(data, &|folder, encoder| {
            Ok(Report { passages: passages::measure(folder, usize::MAX, encoder)?, ..Report::default() })
        }),
        Task::All(data) => plain(data, &|folder, encoder| measure(folder, encoder)),
        Task::Mining(args) => mining::run(&client, args),
        Task::Classification(args) => classification::run(&client, args),
        Task::Search(args) => search::run(&client, args),
    }?;
    Ok(Outcome::Done)
}
