//! `dragoman similarity`: measures the semantic similarity of two texts on the command line, or of pairs from a file.

use std::iter;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::client::{Call, Client};
use super::display::one_line;
use super::error::{CliError, Outcome};
use super::files::{Input, answer_each, is_blank, two_columns};
use super::output::{plural, score_cell};
use crate::domain::Limits;

const BATCH_PAIRS_MAX: usize = 128;

#[derive(Debug, Args)]
pub struct SimilarityArgs {
    /// First text; if omitted, reads pairs from the file.
    #[arg(requires = "second", conflicts_with = "file")]
    pub first: Option<String>,
    /// Second text.
    pub second: Option<String>,
    /// File with two tab-separated texts per line; - or no texts and no file for standard input.
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Runs the command. Writes one line per pair: score and texts, separated by tabs.
pub fn run(args: SimilarityArgs, client: &Client) -> Result<Outcome, CliError> {
    let pairs: Box<dyn Iterator<Item = _>> = match (args.first, args.second) {
        (Some(first), Some(second)) => Box::new(iter::once(Ok((first, second)))),
        _ => Box::new(
            Input::open(args.file.as_deref(), &client.output)?.parse_lines(2 * Limits::default().text_bytes_max, parse_pair),
        ),
    };
    let ask = |pairs: &[&(String, String)]| {
        let body: Vec<Value> = pairs.iter().map(|(first, second)| json!({ "first": first, "second": second })).collect();
        let call = Call::post(&["similarity"]).repeatable().json(json!({ "pairs": body }));
        client.rows(&call, "results", pairs.len(), &plural(pairs.len() as u64, "result"))
    };
    let show = |(first, second): &(String, String), mut result: Value| {
        if client.output.json {
            (result["first"], result["second"]) = (json!(first), json!(second));
            return client.output.object(&result);
        }
        client.output.line(&format!("{}\t{}\t{}", score_cell(&result["score"]), one_line(first), one_line(second)))
    };
    let is_incomplete = |(first, second): &(String, String)| is_blank(first) || is_blank(second);
    answer_each(pairs, BATCH_PAIRS_MAX, is_incomplete, ask, show).map(|()| Outcome::Done)
}

fn parse_pair(line: String) -> Result<(String, String), String> {
    if is_blank(&line) {
        return Ok((String::new(), String::new()));
    }
    let (first, second) = two_columns(&line).ok_or("must have two texts, separated by one tab")?;
    Ok((first.to_owned(), second.to_owned()))
}
