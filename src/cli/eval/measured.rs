//! The server under evaluation: its embeddings, the output of reports, and errors.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::encoder::ServerEncoder;
use crate::cli::client::{Call, Client};
use crate::cli::error::CliError;
use crate::cli::files::Sink;
use crate::cli::output::Output;
use crate::evaluation::EvaluationError;

/// Input files, model and output of an evaluation.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// Folder with the task's files.
    #[arg(long, value_name = "FOLDER")]
    pub data: PathBuf,
    /// Name of the model to evaluate, which the server must have loaded; defaults to the loaded one.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Output file, renamed into place when complete; - or none for standard output. JSON if the name ends in .json.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The server under evaluation.
pub(super) struct Measured {
    pub(super) client: Client,
    pub(super) output: Output,
}

impl Measured {
    pub(super) fn encoder(&self, data: &DataArgs) -> ServerEncoder<'_> {
        ServerEncoder::new(&self.client, &self.output, data.model.clone())
    }

    /// Checks that the server has loaded the model in the arguments, if there is one. For calls that cannot name it.
    pub(super) fn check_model(&self, data: &DataArgs) -> Result<(), CliError> {
        match &data.model {
            Some(model) => self.client.send(&Call::get(&["models", model])).map(drop),
            None => Ok(()),
        }
    }

    /// Writes a report to the output file or standard output, as text or JSON.
    pub(super) fn write_report(&self, data: &DataArgs, report: &(impl Display + Serialize)) -> Result<(), CliError> {
        let named = data.output.as_deref().and_then(Path::extension).is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let text = if self.output.json || named { json!(report).to_string() } else { report.to_string() };
        let mut sink = Sink::open(data.output.as_deref())?;
        sink.write_all(format!("{}\n", text.trim_end()).as_bytes())?;
        sink.finish()
    }
}

/// Converts an evaluation error: to the server's error if a call failed, otherwise to an input error.
pub(super) fn to_cli_error(error: EvaluationError) -> CliError {
    match error {
        EvaluationError::Measured(cause) => match cause.downcast::<CliError>() {
            Ok(error) => *error,
            Err(cause) => CliError::Failed(crate::cli::chain(&*cause)),
        },
        other => CliError::Failed(crate::cli::chain(&other)),
    }
}

/// Returns the error for a folder without files of the task.
pub(super) fn no_data(folder: &Path) -> CliError {
    to_cli_error(EvaluationError::NoData { path: folder.to_owned() })
}
