//! `dragoman export`: streams all documents of a collection to NDJSON.

use std::path::PathBuf;

use clap::Args;
use indicatif::BinaryBytes;

use super::client::{Call, Client};
use super::error::{CliError, Outcome};
use super::files::Sink;
use super::import::format_from_name;
use super::output::{Unit, plural};
use crate::domain::{CollectionName, FileEncoding, FileFormat};

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Name of the collection.
    pub collection: CollectionName,
    /// Output NDJSON file, renamed into place when complete; - or none for standard output. Compressed if the name ends in .gz or
    /// .zst.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Compression; by default derived from the file name.
    #[arg(long, value_enum)]
    pub compression: Option<FileEncoding>,
    /// Includes the embedding of each document that has a single passage.
    #[arg(long)]
    pub vectors: bool,
}

pub fn run(args: ExportArgs, client: &Client) -> Result<Outcome, CliError> {
    let (format, packed) = format_from_name(args.output.as_deref());
    if let (Some(path), FileFormat::Csv | FileFormat::Tsv) = (&args.output, format) {
        return Err(CliError::Usage(format!(
            "exports are NDJSON and cannot be written as CSV or TSV, as the name {} says; end it in .ndjson or .jsonl, optionally \
             followed by .gz or .zst",
            path.display()
        )));
    }
    let name = args.collection.as_str();
    let documents = client.send(&Call::get(&["collections", name]))?["documents"].as_u64();
    let compression = args.compression.unwrap_or(packed);
    let call = Call::get(&["collections", name, "export"]).with_optional_query("include", args.vectors.then_some("vector"));
    let mut download = client.open(&call.compressed(compression.content_encoding()))?;
    if download.encoding.as_deref() != compression.content_encoding() {
        let got = download.encoding.unwrap_or_else(|| "none".to_owned());
        return Err(client.unexpected_response(format!("its compression is {got}, not the requested one")));
    }
    let plain = compression == FileEncoding::Identity;
    let bar = if plain {
        client.output.progress(documents, Unit::Items("documents"))
    } else {
        client.output.progress(None, Unit::Bytes)
    };
    let mut sink = Sink::open(args.output.as_deref())?;
    let mut copied = 0;
    sink.copy(&mut *download.content, "read the export to its end", |piece| {
        let lines = || piece.iter().filter(|byte| **byte == b'\n').count();
        let more = if plain { lines() } else { piece.len() } as u64;
        copied += more;
        bar.inc(more);
    })?;
    sink.finish()?;
    bar.finish_and_clear();
    client.output.note(&if plain { plural(copied, "document") } else { format!("{} compressed", BinaryBytes(copied)) });
    Ok(Outcome::Done)
}
