//! Reads the records of a file one by one, and converts each to the JSON of a document, whatever the file's format. The length
//! limit of a record bounds the memory. A record that is too long or malformed is reported with its line and does not stop the
//! rest.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::{Code, ColumnTypes, DocumentId, FileFormat};
use crate::service::documents::input::{DocumentProblem, InvalidDocument};
use crate::service::error::Error;
use crate::service::folders::{AtPath, open_file};
use crate::service::json::pointer_token;
use crate::table::{BYTE_ORDER_MARK, Columns, InvalidRow, Row, read_row};

pub(crate) struct Record {
    /// The line on which it begins, from 1.
    pub(crate) line: u64,
    /// A document as JSON, or why it is malformed.
    pub(crate) content: Result<Vec<u8>, InvalidDocument>,
}

pub(crate) struct Records {
    reader: BufReader<File>,
    format: FileFormat,
    columns: Columns,
    bytes_max: usize,
    position: RecordPosition,
}

/// A position between two records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct RecordPosition {
    /// Bytes before it.
    pub(crate) offset: u64,
    /// Lines before it.
    pub(crate) line: u64,
}

impl Records {
    /// Opens a file at its first record. Fails with `Error::Header` if its first row does not name usable columns.
    pub(crate) fn open(path: &Path, (format, types): (FileFormat, &ColumnTypes), bytes_max: usize) -> Result<Self, Error> {
        let reader = BufReader::with_capacity(1 << 18, open_file(path).at(path)?);
        let mut records = Self { reader, format, columns: Columns::default(), bytes_max, position: RecordPosition::default() };
        if records.reader.fill_buf().at(path)?.starts_with(BYTE_ORDER_MARK) {
            records.reader.consume(BYTE_ORDER_MARK.len());
            records.position.offset = BYTE_ORDER_MARK.len() as u64;
        }
        if format == FileFormat::Ndjson {
            return Ok(records);
        }
        let row = records.next_row().at(path)?;
        records.columns = Columns::of_header(row, types).map_err(|problem| Error::Header { problem })?;
        Ok(records)
    }

    pub(crate) fn seek(&mut self, position: RecordPosition) -> io::Result<()> {
        self.reader.seek(SeekFrom::Start(position.offset))?;
        self.position = position;
        Ok(())
    }

    pub(crate) fn position(&self) -> RecordPosition {
        self.position
    }

    /// Returns the next record, or `None` at the end. Skips blank lines.
    pub(crate) fn next(&mut self) -> io::Result<Option<Record>> {
        match self.format {
            FileFormat::Ndjson => self.next_json(),
            FileFormat::Csv | FileFormat::Tsv => {
                let before = self.position.line;
                let Row { blank_lines, cells: Some(cells), .. } = self.next_row()? else { return Ok(None) };
                let line = before + blank_lines + 1;
                let content = cells.map_err(InvalidRow::from).and_then(|cells| self.columns.document(cells));
                Ok(Some(Record { line, content: content.map(|object| json(&object)).map_err(refused_row) }))
            }
        }
    }

    fn next_json(&mut self) -> io::Result<Option<Record>> {
        loop {
            let (line, mut content) = (self.position.line + 1, Vec::new());
            let Some(complete) = self.read_line(&mut content)? else { return Ok(None) };
            if !complete {
                return Ok(Some(Record { line, content: Err(self.too_long()) }));
            }
            if !content.trim_ascii().is_empty() {
                return Ok(Some(Record { line, content: Ok(content) }));
            }
        }
    }

    /// Reads a line without its line end. Returns whether the line is complete, or false if it was truncated because it is too
    /// long. `None` at the end of the file.
    fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
        let mut bytes = self.reader.by_ref().take(self.bytes_max as u64 + 1).read_until(b'\n', line)?;
        if bytes == 0 {
            return Ok(None);
        }
        let complete = line.pop_if(|last| *last == b'\n').is_some() || bytes <= self.bytes_max;
        if !complete {
            bytes += self.reader.skip_until(b'\n')?;
        }
        self.position.offset += bytes as u64;
        self.position.line += 1;
        Ok(Some(complete))
    }

    fn next_row(&mut self) -> io::Result<Row> {
        let row = read_row(&mut self.reader, self.format == FileFormat::Csv, self.bytes_max)?;
        self.position.offset += row.bytes;
        self.position.line += row.lines;
        Ok(row)
    }

    fn too_long(&self) -> InvalidDocument {
        refused_row(format!("the line must have at most {} bytes", self.bytes_max).into())
    }
}

fn refused_row(InvalidRow { id, metadata, problem }: InvalidRow) -> InvalidDocument {
    let pointer = metadata.map_or_else(String::new, |name| format!("/metadata/{}", pointer_token(&name)));
    let id = id.and_then(|id| DocumentId::parse_new(&id).ok());
    InvalidDocument { id, code: Code::InvalidRequest, problems: vec![DocumentProblem::at(pointer, problem)] }
}

fn json(object: &Map<String, Value>) -> Vec<u8> {
    // Serializing text and objects of text to JSON cannot fail.
    serde_json::to_vec(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 200;

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        file
    }

    fn read_all(records: &mut Records) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        while let Some(Record { line, content }) = records.next().unwrap() {
            let content = content.map(|json| String::from_utf8(json).unwrap());
            found.push((line, content.unwrap_or_else(|refused| format!("! {}", refused.problems[0].detail))));
        }
        found
    }

    #[track_caller]
    fn check(format: FileFormat, content: &str, expect: &[(u64, &str)]) {
        let file = file(content.as_bytes());
        let mut records = Records::open(file.path(), (format, &ColumnTypes::NONE), BYTES_MAX).unwrap();
        let found = read_all(&mut records);
        let found: Vec<_> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(found, expect, "{content:?}");
        assert_eq!(records.position().offset, content.len() as u64);
    }

    #[track_caller]
    fn check_header(format: FileFormat, content: &str, words: &str) {
        let file = file(content.as_bytes());
        let error = Records::open(file.path(), (format, &ColumnTypes::NONE), BYTES_MAX).err().unwrap().to_string();
        assert!(error.contains(words), "{error:?} for {content:?}");
    }

    #[test]
    fn json_is_read_line_by_line() {
        check(FileFormat::Ndjson, "", &[]);
        check(
            FileFormat::Ndjson,
            "{\"a\":1}\n\n  \r\n{\"b\":2}\r\nnonsense",
            &[(1, "{\"a\":1}"), (4, "{\"b\":2}\r"), (5, "nonsense")],
        );
        check(FileFormat::Ndjson, "\u{feff}{}\n", &[(1, "{}")]);
        let long = format!("{}\n{{}}\n", "x".repeat(BYTES_MAX + 1));
        check(FileFormat::Ndjson, &long, &[(1, "! the line must have at most 200 bytes"), (2, "{}")]);
    }

    #[test]
    fn table_rows_become_documents_with_extra_columns_as_metadata() {
        check(
            FileFormat::Csv,
            "id,text,language,year,metadata.source\n1,\"Ein \"\"Zug\"\", spät\",de,2020,dpa\n2,雨が\n",
            &[
                (2, r#"{"id":"1","text":"Ein \"Zug\", spät","language":"de","metadata":{"year":"2020","source":"dpa"}}"#),
                (3, "! the row has the wrong number of cells: expected 5, got 2"),
            ],
        );
        check(FileFormat::Csv, "text\n\"two\nlines\"\n\nx\n", &[(2, r#"{"text":"two\nlines"}"#), (5, r#"{"text":"x"}"#)]);
        check(FileFormat::Csv, "id,text,n\r\n,a,\r\n", &[(2, r#"{"text":"a"}"#)]);
        check(FileFormat::Tsv, "text\tid\nsay \"hi\"\t7\n", &[(2, r#"{"id":"7","text":"say \"hi\""}"#)]);
    }

    #[test]
    fn rows_after_a_malformed_row_are_still_read() {
        check(FileFormat::Csv, "text\n\"a\"b\nc\n", &[(2, "! the row has text after a closing quote"), (3, r#"{"text":"c"}"#)]);
        check(
            FileFormat::Csv,
            "text\nc\n\"never\nclosed",
            &[(2, r#"{"text":"c"}"#), (3, "! the row has a quote that is never closed")],
        );
        let long = format!("text\n{}\nc\n", "x".repeat(BYTES_MAX + 1));
        check(FileFormat::Csv, &long, &[(2, "! the row must have at most 200 bytes"), (3, r#"{"text":"c"}"#)]);
        let file = file(b"text\n\xff\nc\n");
        let mut records = Records::open(file.path(), (FileFormat::Csv, &ColumnTypes::NONE), BYTES_MAX).unwrap();
        assert_eq!(read_all(&mut records)[0].1, "! column text is not valid UTF-8; save or convert the file as UTF-8");
    }

    #[test]
    fn invalid_header_rows_are_refused() {
        check_header(FileFormat::Csv, "", "is missing");
        check_header(FileFormat::Csv, "id,title\n", "must contain the column text, got only \"id\", \"title\"");
        check_header(FileFormat::Csv, "id;text;year\n", "got only \"id;text;year\"");
        check_header(FileFormat::Tsv, "text\ttext\n", "names the column text twice");
        check_header(FileFormat::Csv, "text,year,metadata.year\n", "year twice");
        check_header(FileFormat::Csv, "text,\n", "has a column without a name");
        check_header(FileFormat::Csv, "\"text\n", "the header row has a quote that is never closed on line 1");
    }

    #[test]
    fn a_typed_column_cannot_be_named_twice() {
        let file = file(b"text,year,metadata.year\n");
        let types = ColumnTypes::parse("metadata.year:int").unwrap();
        let error = Records::open(file.path(), (FileFormat::Csv, &types), BYTES_MAX).err().unwrap();
        assert!(error.to_string().contains("names the column year twice"), "{error}");
    }

    #[test]
    fn cells_are_converted_to_their_column_types() {
        let file = file(b"text,year,metadata.hot\na,2026,true\nb,soon,\nc,,0\n");
        let types = ColumnTypes::parse("year:int,hot:bool").unwrap();
        let mut records = Records::open(file.path(), (FileFormat::Csv, &types), BYTES_MAX).unwrap();
        let expect = [
            (2, r#"{"text":"a","metadata":{"year":2026,"hot":true}}"#),
            (3, "! column year must be an integer of 64 bits, got \"soon\""),
            (4, r#"{"text":"c","metadata":{"hot":false}}"#),
        ];
        assert_eq!(read_all(&mut records), expect.map(|(line, text)| (line, text.to_owned())));
        for types in ["month:int", "text:int"] {
            let types = ColumnTypes::parse(types).unwrap();
            let error = Records::open(file.path(), (FileFormat::Csv, &types), BYTES_MAX).err().unwrap();
            assert!(error.to_string().contains("has no column of metadata"), "{error}");
        }
    }

    #[test]
    fn reading_continues_from_any_position() {
        for (format, content) in [
            (FileFormat::Ndjson, "{\"a\":1}\n\n{\"b\":2}\n{\"c\":3}".to_owned()),
            (FileFormat::Csv, "text,n\na,1\n\"b\nb\",2\n\nc,3\n".to_owned()),
        ] {
            let file = file(content.as_bytes());
            let all = read_all(&mut Records::open(file.path(), (format, &ColumnTypes::NONE), BYTES_MAX).unwrap());
            for count in 0..=all.len() {
                let mut first = Records::open(file.path(), (format, &ColumnTypes::NONE), BYTES_MAX).unwrap();
                (0..count).for_each(|_| drop(first.next().unwrap()));
                let mut second = Records::open(file.path(), (format, &ColumnTypes::NONE), BYTES_MAX).unwrap();
                second.seek(first.position()).unwrap();
                assert_eq!(read_all(&mut second), all[count..]);
            }
        }
    }
}
