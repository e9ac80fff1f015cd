//! The output of commands: results on standard output as tables or JSON, notes and progress on standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, TableStyle};
use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

use super::display::{isolate, one_line};
use super::error::CliError;

#[derive(Debug, Clone)]
pub struct Output {
    pub json: bool,
    quiet: bool,
    /// Width of the terminal in columns; `None` if standard output is a file or a pipe.
    pub columns: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
pub enum Unit<'a> {
    Bytes,
    /// Items, with their name in the plural.
    Items(&'a str),
}

#[derive(Debug, Clone, Copy)]
pub enum Column {
    /// Text, left-aligned.
    Text(&'static str),
    /// A number, right-aligned.
    Number(&'static str),
}

impl Output {
    pub fn new(json: bool, quiet: bool) -> Self {
        let terminal = Term::stdout();
        // `size` has a default for terminals that do not report their width.
        let columns = terminal.is_term().then(|| usize::from(terminal.size().1));
        Self { json, quiet, columns }
    }

    pub fn line(&self, text: &str) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).map_err(stdout_error)
    }

    /// Writes a result as one line of JSON.
    pub fn object(&self, value: &impl Serialize) -> Result<(), CliError> {
        self.line(&serde_json::json!(value).to_string())
    }

    /// Writes what a command did, or is doing, as one line of JSON. If the reader closed the pipe, the command continues, and
    /// its exit code does not depend on it.
    pub fn json_status(&self, value: &impl Serialize) -> Result<(), CliError> {
        match self.object(value) {
            Err(CliError::OutputClosed) => Ok(()),
            result => result,
        }
    }

    /// Reports what a command did: as one line of JSON, or as a note.
    pub fn outcome(&self, value: &impl Serialize, note: &str) -> Result<(), CliError> {
        if self.json {
            return self.json_status(value);
        }
        self.note(note);
        Ok(())
    }

    /// Writes rows as a table without borders, so that tools such as grep and cut can process it.
    pub fn table(&self, columns: &[Column], rows: impl IntoIterator<Item = Vec<String>>) -> Result<(), CliError> {
        let mut table = Table::new();
        table.load_style(TableStyle::new());
        table.set_header(columns.iter().map(|column| match column {
            Column::Text(name) | Column::Number(name) => *name,
        }));
        for row in rows {
            table.add_row(row.iter().map(|cell| self.cell(cell)));
        }
        for (index, column) in columns.iter().enumerate() {
            if let Some(shape) = table.column_mut(index) {
                shape.set_padding((0, 2));
                if matches!(column, Column::Number(_)) {
                    shape.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        self.line(&table.trim_fmt())
    }

    pub fn members(&self, members: impl IntoIterator<Item = (String, String)>) -> Result<(), CliError> {
        let mut table = Table::new();
        table.load_style(TableStyle::new());
        for (name, value) in members {
            table.add_row([Cow::Borrowed(name.as_str()), self.cell(&value)]);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        self.line(&table.trim_fmt())
    }

    /// Isolates right-to-left text in each line of a cell, for output to a terminal.
    fn cell<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.columns {
            None => Cow::Borrowed(text),
            Some(_) => Cow::Owned(text.lines().map(isolate).collect::<Vec<_>>().join("\n")),
        }
    }

    /// Writes a note on standard error.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            // The command must not fail if standard error is closed.
            let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
        }
    }

    /// Reports a problem with one item on standard error, even with `--quiet`.
    pub fn problem(&self, text: &str) {
        let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
    }

    /// Creates a progress bar up to `total`, or a counter if that is unknown. It is only visible on a terminal.
    pub fn progress(&self, total: Option<u64>, unit: Unit<'_>) -> ProgressBar {
        if self.quiet || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let template = match (unit, total) {
            (Unit::Bytes, Some(_)) => {
                "{wide_bar} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left {msg}"
            }
            (Unit::Bytes, None) => "{spinner} {binary_bytes}, {binary_bytes_per_sec} {msg}",
            (Unit::Items(_), Some(_)) => "{wide_bar} {human_pos} of {human_len} {prefix}, {per_sec}, {eta} left {msg}",
            (Unit::Items(_), None) => "{spinner} {human_pos} {prefix}, {per_sec} {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if let Unit::Items(name) = unit {
            bar.set_prefix(name.to_owned());
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}

/// Returns the error for a failed write to standard output. It ends the command, but is not reported if the reader closed the
/// pipe.
pub fn stdout_error(source: io::Error) -> CliError {
    match source.kind() {
        io::ErrorKind::BrokenPipe => CliError::OutputClosed,
        _ => CliError::Io { what: "write to standard output".to_owned(), source },
    }
}

/// Formats a JSON value as a cell: on one line; empty for null.
pub fn format_cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => one_line(text),
        other => one_line(&other.to_string()),
    }
}

/// Formats a list as a cell: its values, separated by commas.
pub fn list_cell(values: &Value) -> String {
    values.as_array().into_iter().flatten().map(format_cell).collect::<Vec<_>>().join(", ")
}

/// Formats a score, a similarity or a confidence; empty if there is none.
pub fn score_cell(value: &Value) -> String {
    value.as_f64().map_or_else(String::new, |score| format!("{score:.4}"))
}

/// Prefixes a text with its title, if there is one.
pub fn with_title(title: &Value, text: String) -> String {
    match format_cell(title) {
        title if title.is_empty() => text,
        title if text.is_empty() => title,
        title => format!("{title}: {text}"),
    }
}

/// Formats a number with thousands separators.
pub fn count(value: &Value) -> String {
    value.as_u64().map_or_else(|| format_cell(value), |number| indicatif::HumanCount(number).to_string())
}

/// Formats a number with thousands separators and what it counts: `1 hit`, `1,200 hits`.
pub fn plural(number: u64, singular: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {singular}{end}", indicatif::HumanCount(number))
}

/// Formats a number of bytes with a binary unit.
pub fn bytes(value: &Value) -> String {
    value.as_u64().map_or_else(|| format_cell(value), |number| indicatif::BinaryBytes(number).to_string())
}

/// Formats a timestamp, to the second.
pub fn time(value: &Value) -> String {
    let text = format_cell(value);
    let seconds = text.split_once('.').map(|(seconds, _)| seconds).filter(|_| text.ends_with('Z'));
    seconds.map_or(text.clone(), |seconds| format!("{}Z", seconds.replace('T', " ")))
}

/// Formats the members of a response, with the server's names, for a table of names and values.
pub fn format_members(value: &Value) -> Vec<(String, String)> {
    let cell = |name: &str, value: &Value| match (name, value) {
        (name, value) if name.ends_with("_at") => time(value),
        (name, value) if name.ends_with("bytes") => bytes(value),
        (_, Value::Number(_)) => count(value),
        (_, Value::Array(rows)) if rows.iter().any(Value::is_object) => {
            rows.iter().map(format_cell).collect::<Vec<_>>().join("\n")
        }
        (_, value) => format_cell(value),
    };
    let members = value.as_object().into_iter().flatten();
    members.map(|(name, value)| (one_line(name), cell(name, value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_formatted_for_people() {
        assert_eq!(format_cell(&json!(null)), "");
        assert_eq!(format_cell(&json!({"a": 1})), r#"{"a":1}"#);
        assert_eq!(with_title(&json!("Fahrplan"), "Der Zug fährt.".to_owned()), "Fahrplan: Der Zug fährt.");
        assert_eq!(with_title(&json!(null), "Der Zug fährt.".to_owned()), "Der Zug fährt.");
        assert_eq!(with_title(&json!("Fahrplan"), String::new()), "Fahrplan");
        assert_eq!(count(&json!(1_234_567)), "1,234,567");
        assert_eq!(count(&json!(-0.5)), "-0.5");
        assert_eq!([0, 1, 1_200].map(|number| plural(number, "hit")), ["0 hits", "1 hit", "1,200 hits"]);
        assert_eq!(bytes(&json!(1_536)), "1.50 KiB");
        assert_eq!(time(&json!("2026-01-02T03:04:05.678Z")), "2026-01-02 03:04:05Z");
        assert_eq!(time(&json!("yesterday")), "yesterday");
    }

    #[test]
    fn members_keep_their_order_and_names() {
        let got = format_members(
            &json!({"name": "news", "created_at": "2026-01-02T03:04:05.678Z", "documents": 1200, "disk_bytes": 2048}),
        );
        let expect =
            [("name", "news"), ("created_at", "2026-01-02 03:04:05Z"), ("documents", "1,200"), ("disk_bytes", "2.00 KiB")];
        assert_eq!(got, expect.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn each_object_of_a_list_has_its_own_line() {
        let got = format_members(&json!({"tags": ["a", "b"], "labels": [{"label": "food"}, {"label": "sport"}]}));
        let expect = [("tags", r#"["a","b"]"#), ("labels", "{\"label\":\"food\"}\n{\"label\":\"sport\"}")];
        assert_eq!(got, expect.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
