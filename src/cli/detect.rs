//! `dragoman detect`: detects the language of texts, from arguments or line by line.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::client::{Call, Client};
use super::display::one_line;
use super::error::{CliError, Outcome};
use super::files::{Input, answers_in_place, for_each_batch, is_blank};
use super::output::{format_cell, plural, score_cell};
use crate::domain::Limits;

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
    if !args.texts.is_empty() {
        return args.texts.chunks(BATCH_TEXTS_MAX).try_for_each(|batch| detect(client, batch)).map(|()| Outcome::Done);
    }
    let texts = Input::open(args.file.as_deref(), &client.output)?.parse_lines(Limits::default().text_bytes_max, Ok);
    for_each_batch(texts, BATCH_TEXTS_MAX, |batch| detect(client, batch)).map(|()| Outcome::Done)
}

fn detect(client: &Client, texts: &[String]) -> Result<(), CliError> {
    let ask = |texts: &[&String]| {
        let call = Call::post(&["detect"]).repeatable().json(json!({ "texts": texts }));
        client.rows(&call, "detections", texts.len(), &plural(texts.len() as u64, "detection"))
    };
    let detections = answers_in_place(texts, |text| is_blank(text), ask)?;
    for (text, detection) in texts.iter().zip(detections) {
        let detection = detection.unwrap_or_else(|| json!({}));
        if client.output.json {
            let mut line = detection;
            line["text"] = json!(text);
            client.output.object(&line)?;
            continue;
        }
        let (language, confidence) = (format_cell(&detection["language"]), score_cell(&detection["confidence"]));
        client.output.line(&format!("{language}\t{confidence}\t{}", one_line(text)))?;
    }
    Ok(())
}
