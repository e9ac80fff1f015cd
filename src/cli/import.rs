//! `dragoman import`: uploads a file, whose documents a job stores, and follows the job.

use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::EXIT_CODES;
use super::client::{Call, Client, Upload};
use super::collections::create_from;
use super::error::{CliError, Outcome};
use super::files::{Input, Target};
use super::jobs::{self, Only};
use super::output::{Output, Unit, shown};
use super::server::ServerArgs;
use crate::domain::CollectionName;

/// Failed lines that are reported one by one.
const FAILURES_TOLD_MAX: usize = 20;

/// The command's arguments.
#[derive(Debug, Args)]
#[command(after_long_help = EXIT_CODES)]
pub struct ImportArgs {
    /// Name of the collection.
    #[arg(value_parser = CollectionName::parse)]
    pub collection: CollectionName,
    /// The file, compressed or not (.gz, .zst); standard input for - or without a file.
    pub file: Option<PathBuf>,
    /// Format of the file; defaults to what its name says, or to NDJSON.
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Compression of the file; defaults to what its name says.
    #[arg(long, value_enum)]
    pub compression: Option<Compression>,
    /// Creates the collection if it does not exist.
    #[arg(long)]
    pub create: bool,
    /// Prints the job once the file is sent, without waiting for it.
    #[arg(long)]
    pub detach: bool,
    /// Writes every failed line, with the reason, to this file (NDJSON).
    #[arg(long, value_name = "FILE", conflicts_with = "detach")]
    pub failures: Option<PathBuf>,
    /// The options that every command has.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Format of a file of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object per line.
    Ndjson,
    /// Comma-separated values with a header row.
    Csv,
    /// Tab-separated values with a header row.
    Tsv,
}

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// The name in the header `content-encoding`.
    pub fn encoding(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }
}

/// Runs the command.
pub fn run(args: ImportArgs) -> Result<Outcome, CliError> {
    let output = Output::new(&args.server);
    let (named, packed) = by_name(args.file.as_deref());
    let (format, compression) = (args.format.unwrap_or(named), args.compression.unwrap_or(packed));
    let input = Input::open(args.file.as_deref(), &output)?;
    let client = Client::new(&args.server, &output)?;
    if args.create {
        create(&client, &output, args.collection.as_str())?;
    }
    let job = send(&client, &output, &args, input, (format, compression))?;
    if args.detach {
        jobs::show(&output, &job)?;
        return Ok(Outcome::Done);
    }
    let id = shown(&job["id"]);
    output.note(&format!("job {id} imports the file; it continues if you stop this command"));
    let job = jobs::watch(&client, &output, job)?;
    let failed = job["details"]["failed"].as_u64().unwrap_or(0);
    // Also if there are none: otherwise the file would keep those of an earlier import.
    if failed > 0 || args.failures.is_some() {
        failures(&client, &output, &id, args.failures.as_deref())?;
    }
    jobs::finish(&client, &output, &job)
}

/// Creates the collection unless it exists.
fn create(client: &Client, output: &Output, name: &str) -> Result<(), CliError> {
    match create_from(client, &json!({ "name": name })) {
        Ok(_) => output.note(&format!("created collection {name}")),
        Err(error) if error.code() == Some("collection_exists") => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

fn send(
    client: &Client,
    output: &Output,
    args: &ImportArgs,
    input: Input,
    (format, compression): (Format, Compression),
) -> Result<Value, CliError> {
    let bar = output.progress(input.bytes, Unit::Bytes);
    bar.set_message("sent");
    let mut content = Counted { content: input.content, bar: &bar, error: None };
    let upload = Upload {
        content_type: match format {
            Format::Ndjson => "application/x-ndjson",
            Format::Csv => "text/csv",
            Format::Tsv => "text/tab-separated-values",
        },
        content_encoding: compression.encoding(),
        bytes: input.bytes,
        content: &mut content,
    };
    let sent = client.upload(&Call::post(&["v1", "collections", args.collection.as_str(), "import"]), upload);
    let broken = content.error.take();
    bar.finish_and_clear();
    match (sent, broken) {
        (Ok(answer), _) => Ok(answer.body),
        (Err(_), Some(error)) => Err(CliError::io(format!("read {}", input.name))(error)),
        (Err(error), None) => Err(error),
    }
}

/// Reports the failed lines: the first ones to people, all of them to the file.
fn failures(client: &Client, output: &Output, job: &str, file: Option<&Path>) -> Result<(), CliError> {
    let mut file = file.map(Target::create).transpose()?;
    let mut told = 0;
    jobs::results(client, job, Only::Failed, |line| {
        if let Some(file) = &mut file {
            file.write_all(format!("{line}\n").as_bytes()).map_err(file.failed())?;
        }
        if told < FAILURES_TOLD_MAX && !output.json {
            output.problem(&failure(line));
        }
        told += 1;
        Ok(())
    })?;
    if told > FAILURES_TOLD_MAX && !output.json {
        output.problem(&format!("and {} more; `dragoman jobs results {job} --failed` lists all", told - FAILURES_TOLD_MAX));
    }
    file.map_or(Ok(()), Target::finish)
}

fn failure(line: &str) -> String {
    let result: Value = serde_json::from_str(line).unwrap_or(Value::Null);
    let id = result["id"].as_str().map(|id| format!(" ({})", shown(&json!(id)))).unwrap_or_default();
    let error = &result["error"];
    let place =
        error["pointer"].as_str().filter(|pointer| !pointer.is_empty()).map(|pointer| format!("{}: ", shown(&json!(pointer))));
    let place = place.unwrap_or_default();
    format!("line {}{id}: {}: {place}{}", shown(&result["line"]), shown(&error["code"]), shown(&error["detail"]))
}

/// The format and compression that the name of a file implies.
pub fn by_name(path: Option<&Path>) -> (Format, Compression) {
    let name = path.and_then(Path::file_name).map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let (name, compression) = if let Some(name) = name.strip_suffix(".gz") {
        (name, Compression::Gzip)
    } else if let Some(name) = name.strip_suffix(".zst") {
        (name, Compression::Zstd)
    } else {
        (name.as_str(), Compression::None)
    };
    let format = match name.rsplit('.').next() {
        Some("csv") => Format::Csv,
        Some("tsv") => Format::Tsv,
        _ => Format::Ndjson,
    };
    (format, compression)
}

/// Counts the bytes read, and keeps read errors, which the client would take for connection errors.
struct Counted<'a> {
    content: Box<dyn Read>,
    bar: &'a ProgressBar,
    error: Option<io::Error>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.content.read(buffer) {
            Ok(bytes) => {
                self.bar.inc(bytes as u64);
                Ok(bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let kind = error.kind();
                self.error = Some(error);
                Err(kind.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_format_and_compression() {
        for (name, expect) in [
            ("a.ndjson", (Format::Ndjson, Compression::None)),
            ("a.jsonl.gz", (Format::Ndjson, Compression::Gzip)),
            ("A.CSV", (Format::Csv, Compression::None)),
            ("a.tsv.zst", (Format::Tsv, Compression::Zstd)),
            ("csv", (Format::Csv, Compression::None)),
            ("a", (Format::Ndjson, Compression::None)),
        ] {
            assert_eq!(by_name(Some(Path::new(name))), expect, "{name}");
        }
        assert_eq!(by_name(None), (Format::Ndjson, Compression::None));
    }

    #[test]
    fn a_failed_line_is_told_in_one_line() {
        let line =
            r#"{"line": 3, "id": "a", "status": "failed", "error": {"code": "invalid_request", "detail": "/text: is\nblank"}}"#;
        assert_eq!(failure(line), "line 3 (a): invalid_request: /text: is blank");
    }
}
