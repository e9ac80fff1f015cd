//! What all evaluations have in common: their files, the model, the output of reports, and errors.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::cli::client::{Call, Client};
use crate::cli::error::CliError;
use crate::cli::files::Sink;
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

impl DataArgs {
    /// Checks that the server has loaded the model, if one is given. For calls that cannot name it.
    pub(super) fn check_model(&self, client: &Client) -> Result<(), CliError> {
        match &self.model {
            Some(model) => client.send(&Call::get(&["models", model])).map(drop),
            None => Ok(()),
        }
    }

    pub(super) fn write_report(&self, client: &Client, report: &(impl Display + Serialize)) -> Result<(), CliError> {
        let named = self.output.as_deref().and_then(Path::extension).is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let text = if client.output.json || named { json!(report).to_string() } else { report.to_string() };
        let mut sink = Sink::open(self.output.as_deref())?;
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

pub(super) fn no_data(folder: &Path) -> CliError {
    to_cli_error(EvaluationError::NoData { path: folder.to_owned() })
}
