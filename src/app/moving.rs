//! `dragoman move`: moves a server's data between a data directory and a database server, and reports like other commands.

use std::process::ExitCode;

use serde_json::json;

use super::private_files::keep_private;
use super::settings::is_postgres;
use crate::cli::error::{CliError, Outcome};
use crate::cli::output::{Column, Output, Unit, count};
use crate::cli::report;
use crate::config::MoveSettings;
use crate::domain::{CollectionName, Secret, chain};
use crate::service::PostgresOptions;
use crate::service::moving::{self, DataLocation, MoveError, MoveSummary, Phase, Step};

/// Maximum connections to the database server, in addition to the one that holds the lock.
const CONNECTIONS_MAX: u32 = 2;

/// Runs the command, and reports errors on standard error.
pub fn move_data(settings: &MoveSettings) -> ExitCode {
    report(run(settings), settings.json)
}

fn run(settings: &MoveSettings) -> Result<Outcome, CliError> {
    let output = Output::new(settings.json, settings.quiet);
    let [from, to] = [&settings.from, &settings.to].map(|location| self::parse_location(location, settings));
    if matches!(from, DataLocation::Folder(_)) == matches!(to, DataLocation::Folder(_)) {
        let expected = "expected a data directory and an address that begins with postgres://, one for --from and one for --to";
        return Err(CliError::Usage(expected.to_owned()));
    }
    let mut bars = Bars { output: &output, current: None };
    let mut progress = |step: Step<'_>| bars.show(step);
    let failed = |error: MoveError| CliError::Failed(chain(&error));
    if settings.verify {
        let same = moving::compare_all(&from, &to, &mut progress).map_err(failed)?;
        bars.clear();
        print_summary(&output, &same)?;
        output.note("both places have the same data");
        return Ok(Outcome::Done);
    }
    if let DataLocation::Folder(data_dir) = &to {
        keep_private(data_dir);
    }
    let moved = moving::move_all(&from, &to, settings.leave_jobs, &mut progress).map_err(failed)?;
    bars.clear();
    print_summary(&output, &moved)?;
    output.note("the source is unchanged; once the target serves what you expect, you can delete the source");
    Ok(Outcome::Done)
}

/// Parses a source or target. The setting may contain a password.
fn parse_location(setting: &Secret, settings: &MoveSettings) -> DataLocation {
    let text = setting.expose();
    if !is_postgres(text) {
        return DataLocation::Folder(text.into());
    }
    let (url, authorities) = (text.to_owned(), settings.store_authorities.clone());
    DataLocation::Server(PostgresOptions { url, authorities, connections_max: CONNECTIONS_MAX })
}

fn print_summary(output: &Output, moved: &MoveSummary) -> Result<(), CliError> {
    if output.json {
        return output.json_status(&json!(moved));
    }
    let columns = [Column::Text("COLLECTION"), Column::Number("DOCUMENTS"), Column::Number("PASSAGES"), Column::Text("CHECKSUM")];
    let rows = moved.collections.iter().map(|collection| {
        vec![
            collection.name.clone(),
            count(&json!(collection.documents)),
            count(&json!(collection.passages)),
            collection.checksum.clone(),
        ]
    });
    match output.table(&columns, rows) {
        Err(CliError::OutputClosed) => (),
        shown => shown?,
    }
    output.note(&format!("aliases {}, classifiers {}, keys {}", moved.aliases, moved.classifiers, moved.keys));
    if moved.jobs_left > 0 {
        output.note(&format!("unfinished jobs that stay in the source: {}", moved.jobs_left));
    }
    Ok(())
}

/// The progress bar of the current step.
struct Bars<'o> {
    output: &'o Output,
    current: Option<(CollectionName, Phase, indicatif::ProgressBar)>,
}

impl Bars<'_> {
    fn show(&mut self, step: Step<'_>) {
        let same = |(name, phase, _): &(CollectionName, Phase, _)| name == step.collection && *phase == step.phase;
        if !self.current.as_ref().is_some_and(same) {
            self.clear();
            let bar = self.output.progress(Some(step.total), Unit::Items("documents"));
            let phase = if step.phase == Phase::Copying { "copying" } else { "comparing" };
            bar.set_message(format!("{phase} {}", step.collection));
            self.current = Some((step.collection.clone(), step.phase, bar));
        }
        if let Some((.., bar)) = &self.current {
            bar.set_position(step.done);
        }
    }

    fn clear(&mut self) {
        if let Some((.., bar)) = self.current.take() {
            bar.finish_and_clear();
        }
    }
}
