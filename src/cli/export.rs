//! `dragoman export`: streams all documents of a collection to NDJSON.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use clap::Args;
use indicatif::{BinaryBytes, ProgressBar};

use super::EXIT_CODES;
use super::client::{Call, Client};
use super::error::{CliError, Outcome};
use super::files::Target;
use super::import::{Compression, format_from_name};
use super::output::{Unit, plural, stdout_error};
use super::server::ServerArgs;
use crate::domain::CollectionName;

/// Size of the copy buffer.
const PIECE_BYTES: usize = 1 << 16;

/// The command's arguments.
#[derive(Debug, Args)]
#[command(after_long_help = EXIT_CODES)]
pub struct ExportArgs {
    /// Name of the collection.
    #[arg(value_parser = CollectionName::parse)]
    pub collection: CollectionName,
    /// Output file, renamed into place when complete; defaults to standard output. Compressed if the name ends in .gz or .zst.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Compression; by default derived from the file name.
    #[arg(long, value_enum)]
    pub compression: Option<Compression>,
    /// Includes the embedding of each document that has a single passage.
    #[arg(long)]
    pub vectors: bool,
    /// Options of every command.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Runs the command.
pub fn run(args: ExportArgs) -> Result<Outcome, CliError> {
    let (output, client) = Client::connect(&args.server)?;
    let name = args.collection.as_str();
    let documents = client.send(&Call::get(&["v1", "collections", name]))?.body["documents"].as_u64();
    let compression = args.compression.unwrap_or(format_from_name(args.output.as_deref()).1);
    let call = Call::get(&["v1", "collections", name, "export"]).with_optional_query("include", args.vectors.then_some("vector"));
    let mut download = client.open(&call.compressed(compression.encoding()))?;
    if download.encoding.as_deref() != compression.encoding() {
        let got = download.encoding.unwrap_or_else(|| "none".to_owned());
        return Err(client.unexpected_response(format!("its compression is {got}, not the requested one")));
    }
    let plain = compression == Compression::None;
    let bar = if plain { output.progress(documents, Unit::Items("documents")) } else { output.progress(None, Unit::Bytes) };
    let content = &mut *download.content;
    let copied = match &args.output {
        Some(path) => {
            let mut target = Target::create(path)?;
            let failed = target.write_error();
            let copied = copy(content, &mut target, (&bar, plain), failed)?;
            target.finish()?;
            copied
        }
        None => copy(content, &mut io::stdout().lock(), (&bar, plain), stdout_error)?,
    };
    bar.finish_and_clear();
    output.note(&if plain { plural(copied, "document") } else { format!("{} compressed", BinaryBytes(copied)) });
    Ok(Outcome::Done)
}

/// Copies the stream. Returns the number of lines, or of bytes if it is compressed.
fn copy(
    from: &mut dyn Read,
    to: &mut dyn Write,
    (bar, plain): (&ProgressBar, bool),
    failed: impl FnOnce(io::Error) -> CliError,
) -> Result<u64, CliError> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut copied = 0;
    loop {
        let bytes = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(CliError::io("read the export to its end")(error)),
        };
        if let Err(error) = to.write_all(&piece[..bytes]) {
            return Err(failed(error));
        }
        let lines = || piece[..bytes].iter().filter(|byte| **byte == b'\n').count();
        let more = if plain { lines() } else { bytes } as u64;
        copied += more;
        bar.inc(more);
    }
    to.flush().map_err(failed)?;
    Ok(copied)
}
