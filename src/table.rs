//! Parses rows of CSV (RFC 4180) and of tab-separated values, and maps their columns to the members of a document.
//!
//! In CSV, a quoted cell may contain separators, line ends and doubled quotes. Tab-separated values have no quoting: a cell is
//! the text between two tabs.

use std::io::{self, BufRead};
use std::mem::discriminant;

use serde_json::{Map, Value};

use crate::domain::import_export::{CellType, ColumnTypes, METADATA_PREFIX};

/// Maximum number of columns. A row with more is surely not a header row.
const COLUMNS_MAX: usize = 1_000;
/// The columns that are members of the document itself. All others are metadata.
const DOCUMENT_COLUMNS: [&str; 4] = ["id", "title", "text", "language"];
/// Why a cell is refused. Spreadsheets often save files in another encoding.
const NOT_UTF8: &str = "is not valid UTF-8; save or convert the file as UTF-8";
/// Maximum number of columns that an error lists.
const LISTED_MAX: usize = 20;
/// Maximum characters of a column's name in an error.
const LISTED_CHARS_MAX: usize = 100;

/// The byte order mark that a text file may begin with.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A row as it was read.
pub(crate) struct Row {
    /// Number of blank lines before it.
    pub(crate) blank_lines: u64,
    /// Its cells, or why it is malformed. `None` at the end of the content.
    pub(crate) cells: Option<Result<Vec<Vec<u8>>, String>>,
    /// Number of bytes and lines that were read, with the blank lines.
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
}

/// Reads the next row that is not blank. In CSV it may span several lines.
pub(crate) fn read_row(reader: &mut impl BufRead, csv: bool, bytes_max: usize) -> io::Result<Row> {
    let mut row = Row { blank_lines: 0, cells: None, bytes: 0, lines: 0 };
    loop {
        let mut cells = Cells::new(csv, bytes_max);
        loop {
            let buffer = reader.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            let length = cells.take(buffer);
            reader.consume(length);
            row.bytes += length as u64;
            if cells.state == State::Complete {
                break;
            }
        }
        row.lines += cells.lines;
        row.cells = cells.finish();
        if row.cells.is_some() || reader.fill_buf()?.is_empty() {
            return Ok(row);
        }
        row.blank_lines = row.lines;
    }
}

/// Parses one row, byte by byte.
struct Cells {
    quoting: bool,
    bytes_max: usize,
    cells: Vec<Vec<u8>>,
    bytes: usize,
    /// Number of lines that the row spans.
    lines: u64,
    state: State,
    problem: Option<&'static str>,
    too_long: bool,
    /// Whether the previous byte was a carriage return. It is either half of a line end or part of the cell.
    half_end: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Bare,
    Quoted,
    /// After a quote within a quoted cell. It is either the closing quote or the first half of a doubled one.
    Quote,
    Complete,
}

impl Cells {
    fn new(quoting: bool, bytes_max: usize) -> Self {
        let cells = vec![Vec::new()];
        let (state, problem) = (State::Start, None);
        Self { quoting, bytes_max, cells, bytes: 0, lines: 0, state, problem, too_long: false, half_end: false }
    }

    /// Consumes bytes up to the end of the row. Returns how many.
    fn take(&mut self, bytes: &[u8]) -> usize {
        for (index, &byte) in bytes.iter().enumerate() {
            self.step(byte);
            if self.state == State::Complete {
                return index + 1;
            }
        }
        bytes.len()
    }

    /// Returns the cells, or `None` for a blank line or no input at all.
    fn finish(mut self) -> Option<Result<Vec<Vec<u8>>, String>> {
        if self.bytes == 0 && self.cells.len() == 1 && self.problem.is_none() {
            return None;
        }
        if self.too_long {
            return Some(Err(format!("the row must have at most {} bytes", self.bytes_max)));
        }
        if self.state == State::Quoted {
            self.problem = Some("has a quote that is never closed");
        }
        Some(self.problem.map_or(Ok(self.cells), |problem| Err(format!("the row {problem}"))))
    }

    fn step(&mut self, byte: u8) {
        if std::mem::take(&mut self.half_end) && byte != b'\n' {
            self.push_unquoted(b'\r');
        }
        let separator = if self.quoting { b',' } else { b'\t' };
        match (self.state, byte) {
            (State::Quoted, b'"') => self.state = State::Quote,
            (State::Quoted, _) => {
                self.lines += u64::from(byte == b'\n');
                self.push(byte);
            }
            (State::Quote, b'"') => {
                self.state = State::Quoted;
                self.push(byte);
            }
            (_, b'\n') => {
                self.lines += 1;
                self.state = State::Complete;
            }
            (_, b'\r') => self.half_end = true,
            (_, byte) if byte == separator => {
                self.bytes += 1;
                self.state = State::Start;
                if self.cells.len() == COLUMNS_MAX {
                    self.problem = Some("has more than 1000 cells");
                } else {
                    self.cells.push(Vec::new());
                }
            }
            (State::Start, b'"') if self.quoting => {
                self.bytes += 1;
                self.state = State::Quoted;
            }
            _ => self.push_unquoted(byte),
        }
    }

    /// Consumes an ordinary byte outside of quotes: neither a separator nor a line end.
    fn push_unquoted(&mut self, byte: u8) {
        match self.state {
            State::Quote => self.problem = Some("has text after a closing quote"),
            _ => self.push(byte),
        }
        self.state = State::Bare;
    }

    fn push(&mut self, byte: u8) {
        self.bytes += 1;
        if self.too_long {
            return;
        }
        if self.bytes > self.bytes_max {
            self.too_long = true;
            self.cells.iter_mut().for_each(Vec::clear);
        } else if let Some(cell) = self.cells.last_mut() {
            cell.push(byte);
        }
    }
}

/// Which member of a document each column of a table holds.
#[derive(Debug, Default)]
pub(crate) struct Columns(Vec<Column>);

/// Why a row is no document.
#[derive(Debug)]
pub(crate) struct InvalidRow {
    /// The cell of the column `id`.
    pub(crate) id: Option<String>,
    /// The column of metadata that is wrong.
    pub(crate) metadata: Option<String>,
    /// What is wrong.
    pub(crate) problem: String,
}

impl From<String> for InvalidRow {
    fn from(problem: String) -> Self {
        Self { id: None, metadata: None, problem }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Column {
    Document(&'static str),
    Metadata(String, CellType),
}

impl Column {
    fn name(&self) -> &str {
        match self {
            Self::Document(name) => name,
            Self::Metadata(name, _) => name,
        }
    }
}

impl Columns {
    /// Reads the header row, which is the first row of a table, or returns what is wrong with it.
    pub(crate) fn of_header(row: Row, types: &ColumnTypes) -> Result<Self, String> {
        let line = row.blank_lines + 1;
        match row.cells {
            None => Err("is missing: the file is empty".to_owned()),
            Some(Err(problem)) => Err(format!("{} on line {line}", problem.trim_start_matches("the row "))),
            Some(Ok(cells)) => Self::of_cells(&cells, types),
        }
    }

    fn of_cells(cells: &[Vec<u8>], types: &ColumnTypes) -> Result<Self, String> {
        let mut columns: Vec<Column> = Vec::with_capacity(cells.len());
        for cell in cells {
            let name = std::str::from_utf8(cell).map_err(|_| NOT_UTF8.to_owned())?.trim();
            let column = match DOCUMENT_COLUMNS.into_iter().find(|field| *field == name) {
                Some(field) => Column::Document(field),
                None => {
                    let bare = name.strip_prefix(METADATA_PREFIX).unwrap_or(name);
                    let typed = types.0.iter().find(|(typed, _)| typed == name || typed == bare);
                    Column::Metadata(bare.to_owned(), typed.map_or(CellType::String, |(_, kind)| *kind))
                }
            };
            if column.name().is_empty() {
                return Err("has a column without a name".to_owned());
            }
            if columns.iter().any(|declared| discriminant(declared) == discriminant(&column) && declared.name() == column.name())
            {
                return Err(format!("names the column {} twice", column.name()));
            }
            columns.push(column);
        }
        if !columns.contains(&Column::Document("text")) {
            let unseparated = matches!(&*columns, [only] if only.name().contains([';', '\t', ',', '|']));
            let remedy = if unseparated {
                "; CSV separates cells by commas, TSV by tabs"
            } else {
                "; rename the column that contains the texts"
            };
            return Err(format!("must contain the column text, got only {}{remedy}", list(&columns)));
        }
        let metadata =
            |name: &str| columns.iter().any(|column| matches!(column, Column::Metadata(declared, _) if declared == name));
        let mut typed = types.0.iter().map(|(name, _)| name.as_str());
        match typed.find(|name| !metadata(name.strip_prefix(METADATA_PREFIX).unwrap_or(name))) {
            Some(name) => Err(format!("has no column of metadata {name}, which types names")),
            None => Ok(Self(columns)),
        }
    }

    /// Converts a row to a document. Leaves out empty cells. The others become text, or values of their column's type.
    pub(crate) fn document(&self, cells: Vec<Vec<u8>>) -> Result<Map<String, Value>, InvalidRow> {
        if cells.len() != self.0.len() {
            return Err(format!("the row has the wrong number of cells: expected {}, got {}", self.0.len(), cells.len()).into());
        }
        let id = self.0.iter().position(|column| *column == Column::Document("id"));
        let id = id.and_then(|column| String::from_utf8(cells[column].clone()).ok());
        let (mut fields, mut metadata) = (Map::new(), Map::new());
        for (column, cell) in self.0.iter().zip(cells) {
            let refuse = |problem: String| InvalidRow {
                id: id.clone(),
                metadata: matches!(column, Column::Metadata(..)).then(|| column.name().to_owned()),
                problem: format!("column {} {problem}", column.name()),
            };
            let text = String::from_utf8(cell).map_err(|_| refuse(NOT_UTF8.to_owned()))?;
            match column {
                Column::Document(name) if !text.is_empty() || *name == "text" => fields.insert((*name).to_owned(), text.into()),
                Column::Metadata(name, kind) if !text.is_empty() => {
                    metadata.insert(name.clone(), kind.value(text).map_err(refuse)?)
                }
                _ => None,
            };
        }
        let mut document = Map::new();
        for name in DOCUMENT_COLUMNS {
            document.extend(fields.remove(name).map(|value| (name.to_owned(), value)));
        }
        if !metadata.is_empty() {
            document.insert("metadata".to_owned(), metadata.into());
        }
        Ok(document)
    }
}

fn list(columns: &[Column]) -> String {
    let quoted = |column: &Column| {
        let name = column.name();
        let shown: String = name.chars().take(LISTED_CHARS_MAX).collect();
        format!("{shown:?}{}", if shown.len() < name.len() { "…" } else { "" })
    };
    let shown: Vec<String> = columns.iter().take(LISTED_MAX).map(quoted).collect();
    match columns.len().saturating_sub(LISTED_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses one row. Returns its cells as text, or what is wrong with it.
    fn row(quoting: bool, bytes_max: usize, text: &str) -> Result<Vec<String>, String> {
        let mut cells = Cells::new(quoting, bytes_max);
        assert_eq!(cells.take(text.as_bytes()), text.len());
        let cells = cells.finish().unwrap()?;
        Ok(cells.into_iter().map(|cell| String::from_utf8(cell).unwrap()).collect())
    }

    #[test]
    fn a_carriage_return_is_dropped_only_at_the_end_of_a_row() {
        for quoting in [true, false] {
            let separator = if quoting { "," } else { "\t" };
            let text = ["foo\rbar", "\r", "end\r\n"].join(separator);
            assert_eq!(row(quoting, 100, &text).unwrap(), ["foo\rbar", "\r", "end"]);
            assert_eq!(row(quoting, 100, "end\r").unwrap(), ["end"]);
        }
        assert_eq!(row(true, 100, "\"a\"\r\n").unwrap(), ["a"]);
        assert!(row(true, 100, "\"a\"\r\"b\"\n").unwrap_err().contains("after a closing quote"));
    }

    #[test]
    fn a_header_row_without_text_is_refused_with_its_columns() {
        let refused = |names: &[String]| {
            let cells: Vec<Vec<u8>> = names.iter().map(|name| name.clone().into_bytes()).collect();
            Columns::of_cells(&cells, &ColumnTypes::NONE).unwrap_err()
        };
        assert_eq!(
            refused(&["id".to_owned()]),
            r#"must contain the column text, got only "id"; rename the column that contains the texts"#
        );
        let many: Vec<String> = (0..25).map(|number| format!("c{number}")).collect();
        assert!(refused(&many).contains(r#", "c19" and 5 more; "#), "{}", refused(&many));
        assert!(refused(&["é".repeat(101)]).contains(&format!(" \"{}\"…; ", "é".repeat(100))));
    }

    #[test]
    fn another_separator_is_recognized_even_if_types_name_columns() {
        let types = ColumnTypes::parse("year:int").unwrap();
        let error = Columns::of_cells(&[b"id;text;year".to_vec()], &types).unwrap_err();
        let expect = r#"must contain the column text, got only "id;text;year"; CSV separates cells by commas, TSV by tabs"#;
        assert_eq!(error, expect);
    }

    #[test]
    fn a_row_may_have_as_many_cells_as_the_limit_says() {
        let of = |cells: usize| row(true, 10_000, &",".repeat(cells - 1));
        assert_eq!(of(COLUMNS_MAX).unwrap().len(), COLUMNS_MAX);
        assert!(of(COLUMNS_MAX + 1).unwrap_err().contains("more than 1000 cells"));
    }

    #[test]
    fn a_row_that_is_too_long_is_refused_and_not_buffered() {
        assert!(row(true, 5, "ab,cde\n").unwrap_err().contains("at most 5 bytes"));
        let mut cells = Cells::new(true, 5);
        cells.take(b"ab,\"cdefghijklmnop");
        assert!(cells.cells.iter().all(Vec::is_empty));
    }
}
