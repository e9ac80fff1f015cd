//! `dragoman mine` and `dragoman duplicates`: start a job, follow it, and write its results.

mod corpora;
mod tmx;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::client::{Call, Client};
use super::error::{CliError, Outcome};
use super::files::Sink;
use super::jobs;
use super::output::{Output, format_cell, plural};
use super::request_body::{DocumentSelectionArgs, any_whole_number, finite_number, json_filter, request_members};
use crate::domain::CollectionName;
use corpora::{Corpora, KnownPairs, RequestCorpus};

/// The action in an error of the results' stream.
const READ_RESULTS: &str = "read the results to their end";

#[derive(Debug, Args)]
pub struct MineArgs {
    /// First corpus: the name of a collection, or @FILE for a file with one sentence per line. Skips blank lines; ids are line
    /// numbers from 0.
    pub first: String,
    /// Second corpus, in the same form.
    pub second: String,
    /// Only documents of the first collection in these languages. For a file, its language, which only TMX needs.
    #[arg(long, value_name = "CODE,…", value_delimiter = ',')]
    pub first_languages: Vec<String>,
    /// The same for the second corpus.
    #[arg(long, value_name = "CODE,…", value_delimiter = ',')]
    pub second_languages: Vec<String>,
    /// Only documents of the first collection that match this filter.
    #[arg(long, value_name = "JSON", value_parser = json_filter)]
    pub first_filter: Option<Map<String, Value>>,
    /// Only documents of the second collection that match this filter.
    #[arg(long, value_name = "JSON", value_parser = json_filter)]
    pub second_filter: Option<Map<String, Value>>,
    /// Minimum score of a pair.
    #[arg(long, value_name = "SCORE", value_parser = finite_number, conflicts_with = "known", allow_negative_numbers = true)]
    pub threshold: Option<f64>,
    /// Chooses the threshold from a file of known translations, which should be a random sample of all translations: two
    /// tab-separated ids per line. For a file of sentences, ids are line numbers from 0.
    #[arg(long, value_name = "FILE")]
    pub known: Option<PathBuf>,
    /// Treats the known translations as complete, so that any other pair counts as wrong.
    #[arg(long, requires = "known")]
    pub known_complete: bool,
    /// Number of neighbors per sentence. They are the candidates for its pairs, and the margin score is computed from them.
    #[arg(long, short = 'k', value_name = "COUNT", value_parser = any_whole_number::<u64>)]
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
    /// Does not merge sentences with identical text.
    #[arg(long)]
    pub keep_copies: bool,
    /// Also pairs identical texts. By default, pairs of texts that differ at most in case and surrounding spaces are left
    /// out, and so are numbers, dates and codes that both sides have.
    #[arg(long)]
    pub keep_identical: bool,
    /// Unit of text to compare in collections: passage, document or sentence.
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// Compares all pairs of sentences exactly, however long that takes.
    #[arg(long)]
    pub exact: bool,
    #[command(flatten)]
    pub results: ResultsArgs,
}

#[derive(Debug, Args, Serialize)]
pub struct DuplicatesArgs {
    /// Name of the collection.
    #[serde(skip)]
    pub collection: CollectionName,
    #[command(flatten)]
    #[serde(flatten)]
    pub only: DocumentSelectionArgs,
    /// Unit of text to compare: passage, document or sentence.
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// Minimum similarity of a pair that joins a cluster.
    #[arg(long, value_name = "SCORE", value_parser = finite_number, allow_negative_numbers = true)]
    pub score_min: Option<f64>,
    /// Number of neighbors to consider per passage.
    #[arg(long, short = 'k', value_name = "COUNT", value_parser = any_whole_number::<u64>)]
    pub neighbors: Option<u64>,
    /// Maximum passages per cluster.
    #[arg(long, value_name = "COUNT", value_parser = any_whole_number::<u64>)]
    pub size_max: Option<u64>,
    /// Pairs to consider by language: any, same or different.
    #[arg(long, value_name = "NAME")]
    pub pairs: Option<String>,
    #[command(flatten)]
    #[serde(skip)]
    pub results: ResultsArgs,
}

#[derive(Debug, Args)]
pub struct ResultsArgs {
    /// Output file, renamed into place when complete; - or none for standard output.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Output format; by default derived from the file name (.tsv, .tmx, .ndjson, .jsonl), otherwise a table, or NDJSON with
    /// --json.
    #[arg(long, value_enum)]
    pub format: Option<ResultsFormat>,
    /// Prints the job once it is accepted, without waiting for it to finish.
    #[arg(long, conflicts_with = "output")]
    pub detach: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ResultsFormat {
    /// One JSON object per line.
    Ndjson,
    /// Tab-separated values with a header row.
    Tsv,
    /// TMX 1.4, for translation memories; only for pairs.
    Tmx,
}

pub fn mine(args: MineArgs, client: &Client) -> Result<Outcome, CliError> {
    let mut first = RequestCorpus::read(&args.first, args.first_languages, args.first_filter, &client.output)?;
    let mut second = RequestCorpus::read(&args.second, args.second_languages, args.second_filter, &client.output)?;
    if results_format(&args.results, &client.output)? == ResultsFormat::Tmx {
        first.take_language("--first-languages")?;
        second.take_language("--second-languages")?;
    }
    let known = args.known.as_deref().map(|path| KnownPairs::read(path, &first, &second, &client.output)).transpose()?;
    let mut body = request_members(&json!({
        "first": first.member,
        "second": second.member,
        "threshold": args.threshold,
        "known_pairs_complete": args.known_complete,
        "neighbors": args.neighbors,
        "margin": args.margin,
        // The names in reports of `eval mining` have a hyphen.
        "strategy": args.strategy.map(|name| name.replace('-', "_")),
        "one_to_one": args.one_to_one,
        "unit": args.unit,
        "exact": args.exact,
    }));
    // Sends an empty list, too, which the server refuses.
    body.extend(known.as_ref().map(|known| ("known_pairs".to_owned(), known.member.clone())));
    body.extend(args.keep_copies.then(|| ("deduplicate".to_owned(), json!(false))));
    body.extend(args.keep_identical.then(|| ("skip_identical".to_owned(), json!(false))));
    let corpora = Corpora { first, second, known };
    let call = Call::post(&["mine"]).json(body);
    let followed = follow(client, &call, &args.results, "pair", Some(&corpora));
    followed.map_err(|error| name_missing_at_sign(corpora.located(error), [&args.first, &args.second]))
}

/// Explains how to name a file, if a collection that does not exist is named like one.
fn name_missing_at_sign(error: CliError, corpora: [&String; 2]) -> CliError {
    let missing = error.code() == Some("collection_not_found");
    match corpora.into_iter().find(|name| missing && Path::new(name).is_file()) {
        Some(name) => CliError::Usage(format!("there is no collection {name}; to read the file, write @{name}")),
        None => error,
    }
}

pub fn duplicates(args: DuplicatesArgs, client: &Client) -> Result<Outcome, CliError> {
    let call = Call::post(&["collections", args.collection.as_str(), "duplicates"]).json(request_members(&args));
    follow(client, &call, &args.results, "cluster", None)
}

/// Starts a job, waits until it ends, and writes its results. `noun` is the word for a result. `corpora` is for pairs.
fn follow(client: &Client, call: &Call, args: &ResultsArgs, noun: &str, corpora: Option<&Corpora>) -> Result<Outcome, CliError> {
    let what = &format!("{noun}s");
    let format = results_format(args, &client.output)?;
    if format == ResultsFormat::Tmx && corpora.is_none() {
        return Err(CliError::Usage(format!("{what} cannot be written as TMX: use .tsv or .ndjson")));
    }
    Sink::check(args.output.as_deref())?;
    let job = client.send(call)?;
    if args.detach {
        for file in corpora.iter().flat_map(|corpora| corpora.files_with_blank_lines()) {
            client.output.note(&format!("{file} has blank lines, which were not sent: the job's ids count only its other lines"));
        }
        return jobs::show(&client.output, &job);
    }
    let id = format_cell(&job["id"]);
    client.output.note(&format!("job {id} is running; it continues if you stop this command"));
    let job = jobs::wait(client, job)?;
    let table = format!("{what}.tsv");
    let part = if format == ResultsFormat::Tsv { &table } else { what };
    let mut content = client.open(&Call::get(&["jobs", &id, part]))?.content;
    let mut sink = Sink::open(args.output.as_deref())?;
    match corpora.filter(|corpora| format == ResultsFormat::Tmx || !corpora.files_with_blank_lines().is_empty()) {
        None => sink.copy(&mut *content, READ_RESULTS, |_| ())?,
        Some(corpora) if format == ResultsFormat::Tmx => {
            let unreadable = |error: serde_json::Error| client.unexpected_response(format!("a pair is not JSON: {error}"));
            let pairs = BufReader::new(content).lines().map(|line| {
                let line = line.map_err(CliError::io(READ_RESULTS))?;
                corpora.pair(&line).map_err(unreadable)
            });
            tmx::write(pairs, corpora, &mut sink)?;
        }
        Some(corpora) => {
            for line in BufReader::new(content).lines() {
                let line = line.map_err(CliError::io(READ_RESULTS))?;
                let shown = if format == ResultsFormat::Tsv { corpora.table_row(&line) } else { corpora.json_line(&line) };
                sink.write_all(format!("{shown}\n").as_bytes())?;
            }
        }
    }
    sink.finish()?;
    let count = job["details"][what].as_u64().unwrap_or(0);
    client.output.note(&format!("{}{}", plural(count, noun), threshold(&job["details"])));
    Ok(Outcome::Done)
}

/// Returns the format of the results. Refuses a file name that implies another format.
fn results_format(args: &ResultsArgs, output: &Output) -> Result<ResultsFormat, CliError> {
    let ending = args.output.as_deref().and_then(Path::extension).map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match (args.format, ending.as_deref()) {
        (Some(format), _) => Ok(format),
        (None, Some("ndjson" | "jsonl")) => Ok(ResultsFormat::Ndjson),
        (None, Some("tsv")) => Ok(ResultsFormat::Tsv),
        (None, Some("tmx")) => Ok(ResultsFormat::Tmx),
        (None, Some(other @ ("csv" | "json" | "npy" | "parquet" | "xlsx" | "gz" | "zst"))) => Err(CliError::Usage(format!(
            "the results cannot be written as .{other}: use .tsv or .ndjson, or choose the format with --format"
        ))),
        (None, _) if output.json => Ok(ResultsFormat::Ndjson),
        (None, _) => Ok(ResultsFormat::Tsv),
    }
}

/// Describes the threshold of a job, and its quality on known pairs.
fn threshold(details: &Value) -> String {
    let Some(threshold) = details["threshold"].as_f64() else { return String::new() };
    let quality = ["precision", "recall", "f1"].map(|name| details[name].as_f64());
    match quality {
        [Some(precision), Some(recall), Some(f1)] => format!(
            " with threshold {threshold:.4}; by the known pairs, precision {precision:.3}, recall {recall:.3}, F1 {f1:.3}"
        ),
        _ => format!(" with threshold {threshold:.4}"),
    }
}
