//! `dragoman import`: uploads a file, which a job on the server imports, and follows the job. Converts the exports of other
//! databases to documents during the upload.

mod chroma;
mod expected;
mod failures;
mod foreign;
mod header;
mod json_records;
mod record;
mod vectors;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::client::{Call, Client, Upload};
use super::error::{CliError, Outcome};
use super::files::{Input, is_standard};
use super::jobs::{self, ResultFilter};
use super::output::{Unit, format_cell};
use crate::domain::{CollectionName, FileEncoding, FileFormat};
use failures::Failures;
use foreign::{ForeignArgs, Source};

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Name of the collection.
    pub collection: CollectionName,
    /// File to import, optionally compressed (.gz, .zst); - or no file for standard input.
    pub file: Option<PathBuf>,
    /// Format of the file; by default derived from its name, otherwise NDJSON.
    #[arg(long, value_enum, conflicts_with = "from")]
    pub format: Option<FileFormat>,
    /// Column types of a CSV or TSV file: string (the default), int, float, bool or date, as in `year:int,published:date`.
    #[arg(long, value_name = "COLUMN:TYPE,…", conflicts_with = "from")]
    pub types: Option<String>,
    /// Compression of the file; by default derived from its name.
    #[arg(long, value_enum)]
    pub compression: Option<FileEncoding>,
    /// Creates the collection if it does not exist.
    #[arg(long)]
    pub create: bool,
    /// Prints the job after the upload, without waiting for it to finish.
    #[arg(long)]
    pub detach: bool,
    /// Writes all failed lines with the reasons to this file (NDJSON).
    #[arg(long, value_name = "FILE", conflicts_with = "detach")]
    pub failures: Option<PathBuf>,
    #[command(flatten)]
    pub foreign: ForeignArgs,
}

const CREATE_ADVICE: &str = "--create creates it";

pub fn run(args: ImportArgs, client: &Client) -> Result<Outcome, CliError> {
    check_order(&args.collection)?;
    let (named, packed) = format_from_name(args.file.as_deref());
    let (format, compression) = (args.format.unwrap_or(named), args.compression.unwrap_or(packed));
    let (job, mut failures) = match args.foreign.from {
        None => {
            let input = Input::open(args.file.as_deref(), &client.output)?;
            let failures = Failures::of_lines(args.failures.as_deref())?;
            let input = if args.create {
                let checked = header::check(input, (format, compression), args.types.as_deref())?;
                create(client, args.collection.as_str())?;
                checked
            } else {
                input
            };
            let bar = client.output.progress(input.bytes, Unit::Bytes);
            let mut content = bar.wrap_read(input.content);
            let job = send(client, &args, (&mut content, input.bytes), (format, compression), &bar)?;
            (job, failures)
        }
        Some(source) => send_foreign(client, &args, (source, compression))?,
    };
    let misfits = failures.count;
    if args.detach {
        failures.finish(&client.output, "name a file with --failures for all")?;
        let shown = jobs::show(&client.output, &job)?;
        return Ok(if misfits > 0 { Outcome::SomeFailed } else { shown });
    }
    let id = format_cell(&job["id"]);
    client.output.note(&format!("job {id} imports the file; it continues if you stop this command"));
    let mut job = jobs::watch(client, job)?;
    if job["details"]["failed"].as_u64().unwrap_or(0) > 0 {
        jobs::results(client, &id, ResultFilter::Failed, |line| failures.add(line))?;
    }
    failures.finish(&client.output, &format!("`dragoman jobs results {id} --failed` lists all that the server refused"))?;
    count_as_failed(&mut job, misfits);
    jobs::finish(client, &job)
}

/// Refuses a file in place of the collection. A collection may have such a name, but probably not if there is such a file.
fn check_order(collection: &CollectionName) -> Result<(), CliError> {
    let path = Path::new(collection.as_str());
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if ["ndjson", "jsonl", "json", "csv", "tsv", "gz", "zst"].contains(&extension) && path.is_file() {
        let advice = format!("{collection} is a file; the collection comes first: dragoman import COLLECTION {collection}");
        return Err(CliError::Usage(advice));
    }
    Ok(())
}

/// Adds the records that were not sent to those that failed, so that the counts of a job add up: its lines include them, as empty
/// lines.
fn count_as_failed(job: &mut Value, unsent: usize) {
    if let Some(failed) = job.get_mut("details").and_then(|details| details.get_mut("failed")) {
        *failed = json!(failed.as_u64().unwrap_or(0) + unsent as u64);
    }
}

/// Creates the collection if it does not exist.
fn create(client: &Client, name: &str) -> Result<(), CliError> {
    match client.send(&Call::post(&["collections"]).json(json!({ "name": name }))) {
        Ok(_) => client.output.note(&format!("created collection {name}")),
        Err(error) if error.code() == Some("collection_exists") => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Uploads documents. `bar` shows how much of the file was read.
fn send(
    client: &Client,
    args: &ImportArgs,
    (content, bytes): (&mut dyn Read, Option<u64>),
    (format, compression): (FileFormat, FileEncoding),
    bar: &ProgressBar,
) -> Result<Value, CliError> {
    bar.set_message("sent");
    let mut content = ErrorCapture { content, error: None };
    let upload = Upload {
        content_type: match format {
            FileFormat::Ndjson => "application/x-ndjson",
            FileFormat::Csv => "text/csv",
            FileFormat::Tsv => "text/tab-separated-values",
        },
        content_encoding: compression.content_encoding(),
        bytes,
        content: &mut content,
    };
    let call = Call::post(&["collections", args.collection.as_str(), "import"]);
    let sent = client.upload(&call.with_optional_query("types", args.types.as_deref()), upload);
    let broken = content.error.take();
    bar.finish_and_clear();
    match (sent, broken) {
        (Ok(job), _) => Ok(job),
        (Err(_), Some(error)) => Err(unreadable(args)(error)),
        (Err(error), None) => Err(error.advise("collection_not_found", CREATE_ADVICE)),
    }
}

/// Makes the error for a file that cannot be read or used.
fn unreadable(args: &ImportArgs) -> impl FnOnce(io::Error) -> CliError {
    let file = args.file.as_deref().filter(|file| !is_standard(file));
    let name = file.map_or("standard input".to_owned(), |file| file.display().to_string());
    CliError::io(format!("read {name}"))
}

/// Uploads the documents of another database's export. Returns the records that could not be converted.
fn send_foreign(
    client: &Client,
    args: &ImportArgs,
    (source, compression): (Source, FileEncoding),
) -> Result<(Value, Failures), CliError> {
    let name = args.collection.as_str();
    let file = args.file.as_deref().filter(|file| !is_standard(file));
    let about = file.map(|file| file.metadata().map_err(CliError::io(format!("read {}", file.display())))).transpose()?;
    let failures = Failures::of_records(args.failures.as_deref())?;
    let takes_vectors = match client.send(&Call::get(&["collections", name])) {
        Ok(about_collection) => about_collection["model"].is_null(),
        // A new collection embeds texts itself.
        Err(error) if args.create && error.code() == Some("collection_not_found") => false,
        Err(error) => return Err(error.advise("collection_not_found", CREATE_ADVICE)),
    };
    let bar = client.output.progress(about.filter(|about| about.is_file()).map(|about| about.len()), Unit::Bytes);
    let mut documents = args.foreign.documents(source, (file, compression), takes_vectors, (&bar, failures))?;
    if args.create {
        documents.find_needed().map_err(unreadable(args))?;
        create(client, name)?;
    }
    let job = send(client, args, (&mut documents, None), (FileFormat::Ndjson, FileEncoding::Identity), &bar)?;
    if documents.drops_vectors {
        client.output.note("the file's vectors are left out: the collection embeds the texts itself");
    }
    documents.named_fields.warnings().iter().for_each(|warning| client.output.problem(warning));
    Ok((job, documents.failures))
}

/// The format and compression that the name of a file implies.
pub fn format_from_name(path: Option<&Path>) -> (FileFormat, FileEncoding) {
    let name = path.and_then(Path::file_name).map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let (name, compression) = if let Some(name) = name.strip_suffix(".gz") {
        (name, FileEncoding::Gzip)
    } else if let Some(name) = name.strip_suffix(".zst") {
        (name, FileEncoding::Zstd)
    } else {
        (name.as_str(), FileEncoding::Identity)
    };
    let format = match name.rsplit('.').next() {
        Some("csv") => FileFormat::Csv,
        Some("tsv") => FileFormat::Tsv,
        _ => FileFormat::Ndjson,
    };
    (format, compression)
}

/// Saves read errors, which the client would report as connection errors.
struct ErrorCapture<'a> {
    content: &'a mut dyn Read,
    error: Option<io::Error>,
}

impl Read for ErrorCapture<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.content.read(buffer) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                let kind = error.kind();
                self.error = Some(error);
                Err(kind.into())
            }
            read => read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_were_not_sent_count_as_failed() {
        let mut job = json!({ "details": { "lines": 5, "created": 2, "failed": 1 } });
        count_as_failed(&mut job, 2);
        assert_eq!(job["details"], json!({ "lines": 5, "created": 2, "failed": 3 }));
        let mut unfinished = json!({ "details": null });
        count_as_failed(&mut unfinished, 2);
        assert_eq!(unfinished, json!({ "details": null }));
    }

    #[test]
    fn file_extensions_determine_format_and_compression() {
        for (name, expect) in [
            ("a.ndjson", (FileFormat::Ndjson, FileEncoding::Identity)),
            ("a.jsonl.gz", (FileFormat::Ndjson, FileEncoding::Gzip)),
            ("A.CSV", (FileFormat::Csv, FileEncoding::Identity)),
            ("a.tsv.zst", (FileFormat::Tsv, FileEncoding::Zstd)),
            ("csv", (FileFormat::Csv, FileEncoding::Identity)),
            ("a", (FileFormat::Ndjson, FileEncoding::Identity)),
        ] {
            assert_eq!(format_from_name(Some(Path::new(name))), expect, "{name}");
        }
        assert_eq!(format_from_name(None), (FileFormat::Ndjson, FileEncoding::Identity));
    }
}
