//! Failed lines of an import: writes all of them to a file and prints the first ones.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::record::InvalidRecord;
use crate::cli::display::one_line;
use crate::cli::error::CliError;
use crate::cli::files::Target;
use crate::cli::output::{Output, format_cell};

const FAILURES_PRINTED_MAX: usize = 20;

pub struct Failures {
    /// What the lines of the results are in the file.
    unit: &'static str,
    file: Option<Target>,
    printed: Vec<String>,
    pub count: usize,
}

impl Failures {
    /// Starts without failures. Writes one line of JSON per failure to the file, if given.
    pub fn of_lines(file: Option<&Path>) -> Result<Self, CliError> {
        Ok(Self { unit: "line", file: file.map(Target::create).transpose()?, printed: Vec::new(), count: 0 })
    }

    /// The same for the records of an export. A line may hold several records.
    pub fn of_records(file: Option<&Path>) -> Result<Self, CliError> {
        Ok(Self { unit: "record", ..Self::of_lines(file)? })
    }

    /// Adds a line in the format of a job's results.
    pub fn add(&mut self, line: &str) -> Result<(), CliError> {
        if let Some(file) = &mut self.file {
            file.write_all(format!("{line}\n").as_bytes()).map_err(file.write_error())?;
        }
        if self.printed.len() < FAILURES_PRINTED_MAX {
            self.printed.push(failure(self.unit, line));
        }
        self.count += 1;
        Ok(())
    }

    pub fn add_invalid_record(&mut self, number: u64, misfit: &InvalidRecord) -> Result<(), CliError> {
        let InvalidRecord { id, pointer, detail } = misfit;
        let error = json!({ "code": "invalid_request", "pointer": pointer, "detail": detail });
        self.add(&json!({ "line": number, "id": id, "status": "failed", "error": error }).to_string())
    }

    /// Prints the first failures and completes the file. `rest` says where to find the others.
    pub fn finish(self, output: &Output, rest: &str) -> Result<(), CliError> {
        if !output.json {
            self.printed.iter().for_each(|line| output.problem(line));
            if self.count > self.printed.len() {
                output.problem(&format!("and {} more; {rest}", self.count - self.printed.len()));
            }
        }
        self.file.map_or(Ok(()), Target::finish)
    }
}

fn failure(unit: &str, line: &str) -> String {
    let result: Value = serde_json::from_str(line).unwrap_or(Value::Null);
    let id = result["id"].as_str().map(|id| format!(" ({})", one_line(id))).unwrap_or_default();
    let error = &result["error"];
    let location = error["pointer"].as_str().filter(|pointer| !pointer.is_empty());
    let location = location.map(|pointer| format!("{}: ", one_line(pointer))).unwrap_or_default();
    format!(
        "{unit} {}{id}: {}: {location}{}",
        format_cell(&result["line"]),
        format_cell(&error["code"]),
        format_cell(&error["detail"])
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_line_is_reported_on_one_line() {
        let line =
            r#"{"line": 3, "id": "a", "status": "failed", "error": {"code": "invalid_request", "detail": "/text: is\nblank"}}"#;
        assert_eq!(failure("line", line), "line 3 (a): invalid_request: /text: is blank");
    }
}
