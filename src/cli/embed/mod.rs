//! `dragoman embed`: embeds texts, on a server or with a local model.
//!
//! Reads, embeds and writes texts in batches, with several batches in flight. Memory use does not depend on the number of
//! texts.

mod args;
pub mod encoder;
mod npy;
pub mod texts;
mod vectors;

use std::collections::VecDeque;
use std::path::Path;
use std::time::Instant;

use indicatif::ProgressBar;

pub use args::{EmbedArgs, Format, InputFormat};

use super::error::{CliError, Outcome};
use super::files::{Input, is_standard};
use super::output::{Output, Unit, plural};
use super::server::ServerArgs;
use encoder::{BATCHES_MAX, Encoder, Pending};
use texts::{Item, batches};
use vectors::Vectors;

#[derive(Default)]
struct Tally {
    embedded: u64,
    truncated: u64,
    failed: u64,
}

/// A batch in flight and its lines.
struct Batch {
    items: Vec<Item>,
    pending: Pending,
}

pub fn run(args: EmbedArgs, server: &ServerArgs) -> Result<Outcome, CliError> {
    let format = output_format(args.format, args.output.as_deref())?;
    let output = Output::new(server.json, server.quiet);
    let input = Input::open(args.file.as_deref(), &output)?;
    let encoder = Encoder::open(&args, server)?;
    let mut vectors = Vectors::open(format, args.output.as_deref(), encoder.dimension())?;
    let bar = output.progress(input.bytes, Unit::Bytes);
    let started = Instant::now();
    let mut tally = Tally::default();
    embed(&encoder, batches(input, args.input), &mut vectors, &bar, &mut tally)?;
    bar.finish_and_clear();
    let dimension = vectors.finish()?;
    let seconds = started.elapsed().as_secs_f64();
    let rate = tally.embedded as f64 / seconds.max(1e-9);
    let (texts, values) = (plural(tally.embedded, "text"), plural(dimension as u64, "value"));
    output.note(&format!("{texts}, {values} each, in {seconds:.1} s ({rate:.0} texts/s)"));
    if tally.truncated > 0 {
        output.note(&format!("ignored the end of {}: the model does not read that far", plural(tally.truncated, "text")));
    }
    match (tally.failed, tally.embedded) {
        (0, _) => Ok(Outcome::Done),
        (_, 0) => Err(CliError::Failed("no text was embedded".to_owned())),
        (failed, _) => {
            output.problem(&format!("{} failed; the output says why", plural(failed, "line")));
            Ok(Outcome::SomeFailed)
        }
    }
}

fn output_format(requested: Option<Format>, output: Option<&Path>) -> Result<Format, CliError> {
    let named = output.and_then(Path::extension).is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
    let format = requested.unwrap_or(if named { Format::Npy } else { Format::Ndjson });
    if format == Format::Npy && output.is_none_or(is_standard) {
        return Err(CliError::Usage(
            "--format npy needs --output FILE, because the number of texts goes into the file's header at the end".to_owned(),
        ));
    }
    Ok(format)
}

fn embed(
    encoder: &Encoder,
    mut batches: impl Iterator<Item = Result<Vec<Item>, CliError>>,
    vectors: &mut Vectors,
    bar: &ProgressBar,
    tally: &mut Tally,
) -> Result<(), CliError> {
    let mut under_way: VecDeque<Batch> = VecDeque::new();
    loop {
        while under_way.len() < BATCHES_MAX {
            let Some(items) = batches.next().transpose()? else { break };
            let pending = encoder.submit(items.iter().filter_map(|item| item.text.clone().ok().flatten()).collect());
            under_way.push_back(Batch { items, pending });
        }
        let Some(batch) = under_way.pop_front() else { return Ok(()) };
        bar.inc(batch.items.iter().map(|item| item.bytes).sum());
        write(encoder, batch, vectors, tally)?;
    }
}

/// Waits for a batch and writes its vectors in input order.
fn write(encoder: &Encoder, batch: Batch, vectors: &mut Vectors, tally: &mut Tally) -> Result<(), CliError> {
    let (first, last) = (batch.items.first().map_or(0, |item| item.line), batch.items.last().map_or(0, |item| item.line));
    let mut rows = encoder.wait(batch.pending, first, last)?.into_iter();
    for item in &batch.items {
        match &item.text {
            Ok(None) => vectors.write_without(item, None)?,
            Ok(Some(_)) => {
                let Some(row) = rows.next() else {
                    return Err(CliError::Failed(format!("line {}: the encoder returned no embedding", item.line)));
                };
                vectors.write(item, &row)?;
                tally.embedded += 1;
                tally.truncated += u64::from(row.truncated);
            }
            Err(problem) => {
                vectors.write_without(item, Some(problem))?;
                tally.failed += 1;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_follows_the_option_then_the_file_extension() {
        let check = |requested, output: Option<&str>, expect| {
            assert_eq!(output_format(requested, output.map(Path::new)).ok(), expect, "{requested:?} {output:?}");
        };
        check(None, None, Some(Format::Ndjson));
        check(None, Some("a.npy"), Some(Format::Npy));
        check(None, Some("a.NPY"), Some(Format::Npy));
        check(None, Some("npy"), Some(Format::Ndjson));
        check(Some(Format::Ndjson), Some("a.npy"), Some(Format::Ndjson));
        check(Some(Format::Npy), None, None);
        check(Some(Format::Npy), Some("-"), None);
    }
}
