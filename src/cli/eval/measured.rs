//! The server under evaluation: its embeddings, the output of reports, and errors.

use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::encoder::ServerEncoder;
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::files::Target;
use crate::cli::output::Output;
use crate::evaluation::EvaluationError;

/// Input files and the output.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// Folder with the files of the task.
    #[arg(long, value_name = "FOLDER")]
    pub data: PathBuf,
    /// The model to ask the server for; defaults to the loaded one.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// The file to write instead of standard output, which appears once it is complete; JSON if its name ends in .json.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The server under evaluation.
pub(super) struct Measured {
    pub(super) client: Client,
    pub(super) output: Output,
}

impl Measured {
    /// Embeds with the server for a task.
    pub(super) fn encoder(&self, data: &DataArgs) -> ServerEncoder<'_> {
        ServerEncoder::new(&self.client, &self.output, data.model.clone())
    }

    /// Writes a report: to a file if one is named, as JSON if requested.
    pub(super) fn tell(&self, data: &DataArgs, report: &(impl Display + Serialize)) -> Result<(), CliError> {
        let named = data.output.as_deref().and_then(Path::extension).is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let text = if self.output.json || named { json!(report).to_string() } else { report.to_string() };
        match &data.output {
            None => self.output.line(text.trim_end()),
            Some(path) => {
                let mut target = Target::create(path)?;
                let failed = target.failed();
                writeln!(target, "{}", text.trim_end()).map_err(failed)?;
                target.finish()
            }
        }
    }
}

/// Converts an error: to one of the server if the server failed, otherwise to one of the files.
pub(super) fn failed(error: EvaluationError) -> CliError {
    match error {
        EvaluationError::Measured(cause) => match cause.downcast::<CliError>() {
            Ok(error) => *error,
            Err(cause) => CliError::Input(crate::cli::chain(&*cause)),
        },
        other => CliError::Input(crate::cli::chain(&other)),
    }
}

/// An error for a folder that has no files of the task.
pub(super) fn no_data(folder: &Path) -> CliError {
    failed(EvaluationError::NoData { path: folder.to_owned() })
}
