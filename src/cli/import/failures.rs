//! The lines of an import that failed: all of them to a file, the first ones to people.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::record::Misfit;
use crate::cli::error::CliError;
use crate::cli::files::Target;
use crate::cli::output::{Output, shown};

/// Failed lines that are reported one by one.
const FAILURES_TOLD_MAX: usize = 20;

/// Failed lines.
pub struct Failures {
    file: Option<Target>,
    told: Vec<String>,
    /// How many there are.
    pub count: usize,
}

impl Failures {
    /// None yet. The file, if there is one, gets a line of JSON for each.
    pub fn new(file: Option<&Path>) -> Result<Self, CliError> {
        Ok(Self { file: file.map(Target::create).transpose()?, told: Vec::new(), count: 0 })
    }

    /// Adds a line in the form of a job's results.
    pub fn add(&mut self, line: &str) -> Result<(), CliError> {
        if let Some(file) = &mut self.file {
            file.write_all(format!("{line}\n").as_bytes()).map_err(file.failed())?;
        }
        if self.told.len() < FAILURES_TOLD_MAX {
            self.told.push(failure(line));
        }
        self.count += 1;
        Ok(())
    }

    /// Adds a record that became no document.
    pub fn add_misfit(&mut self, number: u64, misfit: &Misfit) -> Result<(), CliError> {
        let Misfit { id, pointer, detail } = misfit;
        let error = json!({ "code": "invalid_request", "pointer": pointer, "detail": detail });
        self.add(&json!({ "line": number, "id": id, "status": "failed", "error": error }).to_string())
    }

    /// Reports them. `rest` says where those that are not told can be read.
    pub fn finish(self, output: &Output, rest: &str) -> Result<(), CliError> {
        if !output.json {
            self.told.iter().for_each(|line| output.problem(line));
            if self.count > self.told.len() {
                output.problem(&format!("and {} more; {rest}", self.count - self.told.len()));
            }
        }
        self.file.map_or(Ok(()), Target::finish)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_line_is_told_in_one_line() {
        let line =
            r#"{"line": 3, "id": "a", "status": "failed", "error": {"code": "invalid_request", "detail": "/text: is\nblank"}}"#;
        assert_eq!(failure(line), "line 3 (a): invalid_request: /text: is blank");
    }
}
