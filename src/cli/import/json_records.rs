//! Finds the records of an export in a JSON stream, in bounded memory: concatenated objects, arrays of objects, or pages with
//! the records in a member.

use std::io::{self, BufRead};

use serde_json::{Map, Value};

use crate::domain::json::kind;
use crate::table::BYTE_ORDER_MARK;

const RECORD_BYTES_MAX: usize = 16 << 20;
/// Maximum size of a member name.
const NAME_BYTES_MAX: usize = 64 << 10;

/// A record, or why it is invalid.
pub type RecordResult = Result<Map<String, Value>, String>;

/// Splits a stream into JSON values without parsing them.
pub struct Values<R> {
    stream: R,
}

impl<R: BufRead> Values<R> {
    /// Starts reading a stream. Skips a byte order mark.
    pub fn new(mut stream: R) -> io::Result<Self> {
        if stream.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
            stream.consume(BYTE_ORDER_MARK.len());
        }
        Ok(Self { stream })
    }

    /// Returns the next byte after white space without consuming it, or `None` at the end.
    pub fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            let buffer = self.stream.fill_buf()?;
            if buffer.is_empty() {
                return Ok(None);
            }
            match buffer.iter().position(|byte| !byte.is_ascii_whitespace()) {
                Some(start) => {
                    let byte = buffer[start];
                    self.stream.consume(start);
                    return Ok(Some(byte));
                }
                None => {
                    let all = buffer.len();
                    self.stream.consume(all);
                }
            }
        }
    }

    /// Consumes the byte that `peek` returned.
    pub fn skip_byte(&mut self) {
        self.stream.consume(1);
    }

    /// Reads the name of a member, with its quotes, and skips the colon.
    pub fn name(&mut self) -> io::Result<Vec<u8>> {
        let mut name = Vec::new();
        self.value(&mut name, NAME_BYTES_MAX)?;
        match self.peek()? {
            Some(b':') => self.skip_byte(),
            other => return Err(unexpected(other)),
        }
        Ok(name)
    }

    /// Reads one value and appends its bytes to `buffer`, up to a length of `bytes_max` + 1, so that the caller can detect a
    /// value that is too long.
    pub fn value(&mut self, buffer: &mut Vec<u8>, bytes_max: usize) -> io::Result<()> {
        let first = self.peek()?;
        let scalar = !matches!(first, Some(b'{' | b'[' | b'"'));
        if matches!(first, None | Some(b',' | b':' | b']' | b'}')) {
            return Err(unexpected(first));
        }
        let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
        loop {
            let available = self.stream.fill_buf()?;
            if available.is_empty() {
                return if scalar { Ok(()) } else { Err(unexpected(None)) };
            }
            let mut end = None;
            for (index, &byte) in available.iter().enumerate() {
                if scalar {
                    if matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace() {
                        end = Some(index);
                        break;
                    }
                    continue;
                }
                match (quoted, byte) {
                    (true, _) if escaped => escaped = false,
                    (true, b'\\') => escaped = true,
                    (true, b'"') => quoted = false,
                    (false, b'"') => quoted = true,
                    (false, b'{' | b'[') => depth += 1,
                    (false, b'}' | b']') => depth -= 1,
                    _ => continue,
                }
                if depth == 0 && !quoted {
                    end = Some(index + 1);
                    break;
                }
            }
            let length = end.unwrap_or(available.len());
            let space = (bytes_max + 1).saturating_sub(buffer.len());
            buffer.extend_from_slice(&available[..length.min(space)]);
            self.stream.consume(length);
            if end.is_some() {
                return Ok(());
            }
        }
    }

    pub fn skip(&mut self) -> io::Result<()> {
        self.value(&mut Vec::new(), 0)
    }
}

/// Where pages contain the records.
#[derive(Debug, Clone, Copy)]
pub struct Pages {
    /// The members that lead to the records. Records have no members with these names.
    pub members: &'static [&'static str],
    /// Whether only the first member of an object can lead to records, because a record may have a later member with that name.
    pub first_only: bool,
}

pub struct Records<R> {
    values: Values<R>,
    pages: Pages,
    open: Vec<Open>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    List,
    Page,
}

impl<R: BufRead> Records<R> {
    pub fn new(stream: R, pages: Pages) -> io::Result<Self> {
        Ok(Self { values: Values::new(stream)?, pages, open: Vec::new() })
    }

    /// Returns the next record, or `None` at the end. After an error the stream cannot be read further.
    pub fn next(&mut self) -> io::Result<Option<RecordResult>> {
        loop {
            let byte = self.values.peek()?;
            match (self.open.last(), byte) {
                (None, None) => return Ok(None),
                (Some(_), Some(b',')) => self.values.skip_byte(),
                (Some(Open::List), Some(b']')) | (Some(Open::Page), Some(b'}')) => {
                    self.values.skip_byte();
                    self.open.pop();
                }
                (Some(Open::Page), Some(b'"')) => {
                    let name = self.values.name()?;
                    if !self.try_enter(&name)? {
                        self.values.skip()?;
                    }
                }
                (Some(Open::List), Some(_)) => {
                    let mut record = Vec::new();
                    self.values.value(&mut record, RECORD_BYTES_MAX)?;
                    return Ok(Some(parse_record(&record)));
                }
                (None, Some(b'[')) => {
                    self.values.skip_byte();
                    self.open.push(Open::List);
                }
                (None, Some(b'{')) => {
                    if let Some(found) = self.record_or_page()? {
                        return Ok(Some(found));
                    }
                }
                (_, other) => return Err(unexpected(other)),
            }
        }
    }

    /// Reads a top-level object. Returns `None` if it turns out to be a page.
    fn record_or_page(&mut self) -> io::Result<Option<RecordResult>> {
        self.values.skip_byte();
        let mut record = vec![b'{'];
        loop {
            match self.values.peek()? {
                Some(b'}') => {
                    self.values.skip_byte();
                    record.push(b'}');
                    return Ok(Some(parse_record(&record)));
                }
                Some(b',') => {
                    self.values.skip_byte();
                    record.push(b',');
                }
                Some(b'"') => {
                    let name = self.values.name()?;
                    if !(self.pages.first_only && record.len() > 1) && self.try_enter(&name)? {
                        self.open.insert(0, Open::Page);
                        return Ok(None);
                    }
                    if record.len() <= RECORD_BYTES_MAX {
                        record.extend(name);
                        record.push(b':');
                    }
                    self.values.value(&mut record, RECORD_BYTES_MAX)?;
                }
                other => return Err(unexpected(other)),
            }
        }
    }

    /// Enters the value of this member if it leads to records.
    fn try_enter(&mut self, name: &[u8]) -> io::Result<bool> {
        let name = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or_default();
        if !self.pages.members.iter().any(|member| member.as_bytes() == name) {
            return Ok(false);
        }
        let open = match self.values.peek()? {
            Some(b'[') => Open::List,
            Some(b'{') => Open::Page,
            _ => return Ok(false),
        };
        self.values.skip_byte();
        self.open.push(open);
        Ok(true)
    }
}

/// A column of a file in column format: the values of one member, page by page.
pub struct Column<R> {
    values: Values<R>,
    name: &'static str,
    has_more: bool,
}

impl<R: BufRead> Column<R> {
    /// Opens the column with this name, before its first page.
    pub fn new(stream: R, name: &'static str) -> io::Result<Self> {
        Ok(Self { values: Values::new(stream)?, name, has_more: false })
    }

    /// Moves to the next page. Returns false at the end. All values of the current page must have been read.
    pub fn next_page(&mut self) -> io::Result<bool> {
        match self.values.peek()? {
            None => return Ok(false),
            Some(b'{') => self.values.skip_byte(),
            other => return Err(unexpected(other)),
        }
        self.has_more = self.find()?;
        Ok(true)
    }

    /// Whether the page has more values of this column.
    pub fn has_more_values(&self) -> bool {
        self.has_more
    }

    /// Returns the next value of the page, or `None` after the last one.
    pub fn next(&mut self) -> io::Result<Option<Result<Value, String>>> {
        while self.has_more {
            match self.values.peek()? {
                Some(b',') => self.values.skip_byte(),
                Some(b']') => {
                    self.values.skip_byte();
                    self.has_more = self.find()?;
                }
                _ => {
                    let mut value = Vec::new();
                    self.values.value(&mut value, RECORD_BYTES_MAX)?;
                    return Ok(Some(parse_value(&value)));
                }
            }
        }
        Ok(None)
    }

    /// Skips to the column's array. Returns false if the page ends before it.
    fn find(&mut self) -> io::Result<bool> {
        loop {
            match self.values.peek()? {
                Some(b',') => self.values.skip_byte(),
                Some(b'}') => {
                    self.values.skip_byte();
                    return Ok(false);
                }
                Some(b'"') => {
                    let name = self.values.name()?;
                    let mine = name.get(1..name.len().saturating_sub(1)) == Some(self.name.as_bytes());
                    if mine && self.values.peek()? == Some(b'[') {
                        self.values.skip_byte();
                        return Ok(true);
                    }
                    self.values.skip()?;
                }
                other => return Err(unexpected(other)),
            }
        }
    }
}

fn parse_record(json: &[u8]) -> RecordResult {
    match parse_value(json)? {
        Value::Object(record) => Ok(record),
        other => Err(format!("the record must be an object, got {}", kind(&other))),
    }
}

fn parse_value(json: &[u8]) -> Result<Value, String> {
    if json.len() > RECORD_BYTES_MAX {
        return Err(format!("the record must have at most {RECORD_BYTES_MAX} bytes, got more"));
    }
    serde_json::from_slice(json).map_err(|error| format!("the record is not valid JSON: {error}"))
}

fn unexpected(byte: Option<u8>) -> io::Error {
    let problem = match byte {
        None => "the JSON is cut off".to_owned(),
        Some(byte) => format!("the JSON continues with an unexpected {:?}", char::from(byte)),
    };
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QDRANT: Pages = Pages { members: &["result", "points"], first_only: false };

    /// Reads through a buffer of five bytes, so that values cross buffer boundaries.
    fn small(text: &str) -> io::BufReader<&[u8]> {
        io::BufReader::with_capacity(5, text.as_bytes())
    }

    /// Checks the ids or errors of the records, and how the stream ends.
    fn check(pages: Pages, text: &str, expect: &[&str]) {
        let mut records = Records::new(small(text), pages).unwrap();
        let mut found = Vec::new();
        loop {
            match records.next() {
                Ok(Some(Ok(record))) => found.push(record["id"].to_string()),
                Ok(Some(Err(problem))) => found.push(problem),
                Ok(None) => break,
                Err(error) => {
                    found.push(error.to_string());
                    break;
                }
            }
        }
        let starts = found.len() == expect.len() && found.iter().zip(expect).all(|(got, expect)| got.starts_with(expect));
        assert!(starts, "{text}: {found:?}");
    }

    #[test]
    fn records_are_found_in_lines_lists_and_pages() {
        check(QDRANT, "", &[]);
        check(QDRANT, "\u{feff}{\"id\": 1, \"payload\": {\"points\": []}}\n{\"id\": \"}\\\"]\"}", &["1", "\"}\\\"]\""]);
        check(QDRANT, "[{\"id\": 1}, {\"id\": [2]}]\n[]", &["1", "[2]"]);
        let page =
            r#"{"usage": {"x": [1]}, "result": {"points": [{"id": 1}, {"id": 2}], "next_page_offset": 3}, "status": "ok"}"#;
        check(QDRANT, &format!("{page}\n{page}"), &["1", "2", "1", "2"]);
        check(QDRANT, r#"{"result": [{"id": 7}], "time": 0.1}{"id": 8}"#, &["7", "8"]);
        let first = Pages { members: &["results"], first_only: true };
        check(first, r#"{"results": [{"id": 1}], "offset": 0} {"id": 2, "results": [{"id": 3}]}"#, &["1", "2"]);
    }

    #[test]
    fn a_bad_record_does_not_hide_the_others() {
        let text = r#"[{"id": NaN}, 5, {"id": 2}]"#;
        check(QDRANT, text, &["the record is not valid JSON", "the record must be an object, got a number", "2"]);
    }

    #[test]
    fn a_stream_that_is_cut_off_is_an_error() {
        for text in ["[{\"id\": 1}", "[{\"id\": 1}, {\"id\": \"x", "{\"result\": {\"points\": [{\"id\": 1}]"] {
            let mut records = Records::new(small(text), QDRANT).unwrap();
            assert!(records.next().unwrap().unwrap().is_ok(), "{text}");
            assert!(records.next().unwrap_err().to_string().contains("cut off"), "{text}");
        }
        check(QDRANT, "id,text\n1,a", &["the JSON continues with an unexpected 'i'"]);
    }

    #[test]
    fn columns_are_read_page_by_page() {
        let text = r#"{"ids": ["a", "b"], "documents": null} {"documents": ["x"], "ids": ["c"], "included": ["documents"]}"#;
        let (mut ids, mut documents) = (Column::new(small(text), "ids").unwrap(), Column::new(small(text), "documents").unwrap());
        let all = |column: &mut Column<_>| {
            let mut values = Vec::new();
            while let Some(value) = column.next().unwrap() {
                values.push(value.unwrap());
            }
            values
        };
        for (expect, has_more) in [(vec!["a", "b"], false), (vec!["c"], true)] {
            assert!(ids.next_page().unwrap() && documents.next_page().unwrap());
            assert_eq!(all(&mut ids), expect);
            assert_eq!(documents.has_more_values(), has_more);
            assert_eq!(all(&mut documents).len(), usize::from(has_more));
        }
        assert!(!ids.next_page().unwrap() && !documents.next_page().unwrap());
    }
}
