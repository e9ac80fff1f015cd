//! `dragoman detect`: detects the language of texts, from arguments or line by line.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::client::{Call, Client};
use super::display::one_line;
use super::error::{CliError, Outcome};
use super::files::{answer_each, is_blank, texts_or_lines};
use super::output::{format_cell, plural, score_cell};

const BATCH_TEXTS_MAX: usize = 256;

#[derive(Debug, Args)]
pub struct DetectArgs {
    /// The texts; if omitted, reads them from the file.
    #[arg(conflicts_with = "file")]
    pub texts: Vec<String>,
    /// A file with one text per line; - or no texts and no file for standard input.
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Runs the command. Writes one line per text: language, confidence and text, separated by tabs.
pub fn run(args: DetectArgs, client: &Client) -> Result<Outcome, CliError> {
    let texts = texts_or_lines(args.texts, args.file.as_deref(), &client.output)?;
    let ask = |texts: &[&String]| {
        let call = Call::post(&["detect"]).repeatable().json(json!({ "texts": texts }));
        client.rows(&call, "detections", texts.len(), &plural(texts.len() as u64, "detection"))
    };
    let show = |text: &String, mut detection: Value| {
        if client.output.json {
            detection["text"] = json!(text);
            return client.output.object(&detection);
        }
        let (language, confidence) = (format_cell(&detection["language"]), score_cell(&detection["confidence"]));
        client.output.line(&format!("{language}\t{confidence}\t{}", one_line(text)))
    };
    answer_each(texts, BATCH_TEXTS_MAX, |text| is_blank(text), ask, show).map(|()| Outcome::Done)
}
