//! `dragoman mine` and `dragoman duplicates`: start a job, follow it, and write its results.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::client::{Call, Client};
use super::collections::{DocumentSelectionArgs, json_object, request_members};
use super::error::{CliError, Outcome};
use super::files::{Input, Sink};
use super::jobs;
use super::output::{Output, format_cell, plural};
use crate::domain::{CollectionName, Limits};

/// The arguments of `mine`.
#[derive(Debug, Args)]
pub struct MineArgs {
    /// First corpus: the name of a collection, or @FILE for a file with one sentence per line.
    pub first: String,
    /// Second corpus, in the same form.
    pub second: String,
    /// Only documents of the first collection in these languages.
    #[arg(long, value_name = "CODE,…", value_delimiter = ',')]
    pub first_languages: Vec<String>,
    /// Only documents of the second collection in these languages.
    #[arg(long, value_name = "CODE,…", value_delimiter = ',')]
    pub second_languages: Vec<String>,
    /// Only documents of the first collection that match this filter.
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    pub first_filter: Option<Map<String, Value>>,
    /// Only documents of the second collection that match this filter.
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    pub second_filter: Option<Map<String, Value>>,
    /// Minimum score of a pair.
    #[arg(long, value_name = "SCORE", conflicts_with = "known", allow_negative_numbers = true)]
    pub threshold: Option<f64>,
    /// Estimates the threshold from a file of known translations: two tab-separated ids per line. For a file of sentences, ids
    /// are line numbers from 0.
    #[arg(long, value_name = "FILE")]
    pub known: Option<PathBuf>,
    /// Number of neighbors per sentence for the margin score.
    #[arg(long, short = 'k', value_name = "COUNT")]
    pub neighbors: Option<u64>,
    /// Margin: ratio, distance or absolute.
    #[arg(long, value_name = "NAME")]
    pub margin: Option<String>,
    /// Strategy to propose pairs: max_score, intersection, forward or backward.
    #[arg(long, value_name = "NAME")]
    pub strategy: Option<String>,
    /// Uses each sentence in at most one pair.
    #[arg(long)]
    pub one_to_one: bool,
    /// Keeps sentences with identical text apart.
    #[arg(long)]
    pub keep_copies: bool,
    /// Also pairs a text with an identical one. By default those are left out, whatever their case and the spaces around them.
    #[arg(long)]
    pub keep_identical: bool,
    /// Unit of text to compare in collections: passage, document or sentence.
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// Compares all pairs of sentences exactly, however long that takes.
    #[arg(long)]
    pub exact: bool,
    /// Output options.
    #[command(flatten)]
    pub results: ResultsArgs,
}

/// The arguments of `duplicates`.
#[derive(Debug, Args, Serialize)]
pub struct DuplicatesArgs {
    /// Name of the collection.
    #[serde(skip)]
    pub collection: CollectionName,
    /// Which of its documents.
    #[command(flatten)]
    #[serde(flatten)]
    pub only: DocumentSelectionArgs,
    /// Unit of text to compare: passage, document or sentence.
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// Minimum similarity of a pair that joins a cluster.
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true)]
    pub score_min: Option<f64>,
    /// Number of neighbors to consider per passage.
    #[arg(long, short = 'k', value_name = "COUNT")]
    pub neighbors: Option<u64>,
    /// Maximum passages per cluster.
    #[arg(long, value_name = "COUNT")]
    pub size_max: Option<u64>,
    /// Pairs to consider by language: any, same or different.
    #[arg(long, value_name = "NAME")]
    pub pairs: Option<String>,
    /// Output options.
    #[command(flatten)]
    #[serde(skip)]
    pub results: ResultsArgs,
}

/// Output options.
#[derive(Debug, Args)]
pub struct ResultsArgs {
    /// Output file, renamed into place when complete; defaults to standard output.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Output format; by default derived from the file name, otherwise a table, or NDJSON with --json.
    #[arg(long, value_enum)]
    pub format: Option<ResultsFormat>,
    /// Prints the job once it is accepted, without waiting for it to finish.
    #[arg(long, conflicts_with = "output")]
    pub detach: bool,
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ResultsFormat {
    /// One JSON object per line.
    Ndjson,
    /// Tab-separated values with a header row.
    Tsv,
}

pub fn mine(args: MineArgs, output: &Output, client: &Client) -> Result<Outcome, CliError> {
    let mut body = request_members(&json!({
        "first": corpus(&args.first, args.first_languages, args.first_filter, output)?,
        "second": corpus(&args.second, args.second_languages, args.second_filter, output)?,
        "threshold": args.threshold,
        "neighbors": args.neighbors,
        "margin": args.margin,
        "strategy": args.strategy,
        "one_to_one": args.one_to_one,
        "unit": args.unit,
        "exact": args.exact,
    }));
    // Sends an empty list, too, which the server refuses.
    let known = args.known.as_deref().map(|path| read_known_pairs(path, output)).transpose()?;
    body.extend(known.map(|known| ("known_pairs".to_owned(), known)));
    body.extend(args.keep_copies.then(|| ("deduplicate".to_owned(), json!(false))));
    body.extend(args.keep_identical.then(|| ("skip_identical".to_owned(), json!(false))));
    follow(client, output, &Call::post(&["v1", "mine"]).json(&body.into()), &args.results, "pair")
}

pub fn duplicates(args: DuplicatesArgs, output: &Output, client: &Client) -> Result<Outcome, CliError> {
    let call = Call::post(&["v1", "collections", args.collection.as_str(), "duplicates"]).json(&request_members(&args).into());
    follow(client, output, &call, &args.results, "cluster")
}

/// Returns one corpus of the request: a collection, or the lines of a file.
fn corpus(name: &str, languages: Vec<String>, filter: Option<Map<String, Value>>, output: &Output) -> Result<Value, CliError> {
    let mut side = request_members(&json!({"languages": languages, "filter": filter}));
    let source = match name.strip_prefix('@') {
        Some(path) => ("texts".to_owned(), json!(read_lines(Path::new(path), output)?)),
        None => {
            let name =
                CollectionName::parse(name).map_err(|error| CliError::Usage(format!("{error}; write @FILE for a file")))?;
            ("collection".to_owned(), json!(name))
        }
    };
    side.extend([source]);
    Ok(side.into())
}

fn read_lines(path: &Path, output: &Output) -> Result<Vec<String>, CliError> {
    Input::open(Some(path), output)?.parse_lines(Limits::default().text_bytes_max, Ok).collect()
}

fn read_known_pairs(path: &Path, output: &Output) -> Result<Value, CliError> {
    let pair = |(index, line): (usize, &String)| {
        let wrong = || CliError::Usage(format!("line {} of {} must have two ids, separated by a tab", index + 1, path.display()));
        line.split_once('\t').map(|(first, second)| json!({ "first": first, "second": second })).ok_or_else(wrong)
    };
    Ok(Value::Array(read_lines(path, output)?.iter().enumerate().map(pair).collect::<Result<_, _>>()?))
}

/// Starts a job, waits until it ends, and writes its results. `one` is the word for one of them.
fn follow(client: &Client, output: &Output, call: &Call, args: &ResultsArgs, one: &str) -> Result<Outcome, CliError> {
    let what = &format!("{one}s");
    let job = client.send(call)?.body;
    if args.detach {
        return jobs::show(output, &job);
    }
    let id = format_cell(&job["id"]);
    output.note(&format!("job {id} is running; it continues if you stop this command"));
    let job = jobs::watch(client, output, job)?;
    if job["status"] != "succeeded" {
        return jobs::finish(client, output, &job);
    }
    let named = args.output.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
    let format = args.format.unwrap_or(match named {
        Some("ndjson" | "jsonl") => ResultsFormat::Ndjson,
        Some("tsv") => ResultsFormat::Tsv,
        _ if output.json => ResultsFormat::Ndjson,
        _ => ResultsFormat::Tsv,
    });
    let table = format!("{what}.tsv");
    let part = if format == ResultsFormat::Tsv { &table } else { what };
    let mut content = client.open(&Call::get(&["v1", "jobs", &id, part]))?.content;
    let mut sink = Sink::open(args.output.as_deref())?;
    sink.copy(&mut *content, "read the results to their end", |_| ())?;
    sink.finish()?;
    let threshold = job["details"]["threshold"].as_f64().map(|threshold| format!(" with threshold {threshold:.4}"));
    let count = job["details"][what].as_u64().unwrap_or(0);
    output.note(&format!("{}{}", plural(count, one), threshold.unwrap_or_default()));
    Ok(Outcome::Done)
}
