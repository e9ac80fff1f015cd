//! Reads the texts of the input, in batches for an encoder.

use serde::Deserialize;

use super::args::InputFormat;
use crate::cli::error::CliError;
use crate::cli::files::{Input, is_blank};
use crate::cli::lines::{JSON_FACTOR, Line};
use crate::domain::Limits;
use crate::domain::json::error_in_line;

/// Maximum texts per batch. The encoder sorts them by length, so a batch should be larger than one forward pass.
pub const BATCH_TEXTS_MAX: usize = 256;
/// Maximum bytes of text per batch, unless a single text is longer.
const BATCH_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, PartialEq, Eq)]
pub struct Item {
    /// The line number, from 1.
    pub line: u64,
    pub id: Option<String>,
    /// The text, or why it cannot be embedded. `None` for a blank line.
    pub text: Result<Option<String>, String>,
    /// Its size in the input, in bytes.
    pub bytes: u64,
}

/// The members of a JSON line; others are ignored.
#[derive(Deserialize)]
struct Row {
    id: Option<String>,
    text: String,
}

/// Reads the texts of the input in batches.
pub fn batches(input: Input, format: InputFormat) -> impl Iterator<Item = Result<Vec<Item>, CliError>> {
    let text_bytes_max = Limits::default().text_bytes_max;
    let line_bytes_max = match format {
        InputFormat::Lines => text_bytes_max,
        InputFormat::Ndjson => text_bytes_max * JSON_FACTOR,
    };
    let mut lines = input.lines(line_bytes_max);
    std::iter::from_fn(move || {
        let (mut items, mut bytes) = (Vec::new(), 0);
        while items.len() < BATCH_TEXTS_MAX && bytes < BATCH_BYTES_MAX {
            match lines.next() {
                Some(Ok(line)) => {
                    bytes += line.bytes;
                    items.push(item(line, format, text_bytes_max));
                }
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        (!items.is_empty()).then_some(Ok(items))
    })
}

fn item(line: Line, format: InputFormat, text_bytes_max: usize) -> Item {
    let Line { number, text, bytes } = line;
    let (id, text) = match (format, text) {
        (_, Ok(text)) if is_blank(&text) => return Item { line: number, id: None, text: Ok(None), bytes },
        (InputFormat::Lines, text) => (None, text),
        (InputFormat::Ndjson, Err(problem)) => (None, Err(problem)),
        (InputFormat::Ndjson, Ok(text)) => match serde_json::from_str::<Row>(&text) {
            Ok(row) => (row.id, Ok(row.text)),
            Err(error) => (None, Err(format!("is not a JSON object with a text: {}", error_in_line(&error)))),
        },
    };
    let text = text.and_then(|text| match text.len() {
        _ if is_blank(&text) => Err("must not be blank".to_owned()),
        got if got > text_bytes_max => Err(format!("the text must have at most {text_bytes_max} bytes, got {got}")),
        _ => Ok(Some(text)),
    });
    Item { line: number, id, text, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: InputFormat, line: &str, id: Option<&str>, expect: Result<&str, &str>) {
        let line = Line { number: 7, text: Ok(line.to_owned()), bytes: 0 };
        let got = item(line, format, 10);
        assert_eq!((got.line, got.id.as_deref()), (7, id));
        match (&got.text, expect) {
            (Ok(got), Ok(expect)) => assert_eq!(got.as_deref(), Some(expect)),
            (Err(got), Err(expect)) => assert!(got.starts_with(expect), "{got}"),
            (got, expect) => assert_eq!(got.is_ok(), expect.is_ok(), "{got:?} {expect:?}"),
        }
    }

    #[test]
    fn each_plain_line_is_one_text() {
        check(InputFormat::Lines, " a text ", None, Ok(" a text "));
        check(InputFormat::Lines, "longer than ten", None, Err("the text must have at most 10 bytes, got 15"));
    }

    #[test]
    fn a_blank_line_has_no_text_and_no_error() {
        for format in [InputFormat::Lines, InputFormat::Ndjson] {
            let line = Line { number: 7, text: Ok(" \u{3000}".to_owned()), bytes: 5 };
            assert_eq!(item(line, format, 10), Item { line: 7, id: None, text: Ok(None), bytes: 5 });
        }
    }

    #[test]
    fn each_ndjson_line_must_be_an_object_with_a_text() {
        check(InputFormat::Ndjson, r#"{"id": "a", "text": "x", "metadata": {"n": 1}}"#, Some("a"), Ok("x"));
        check(InputFormat::Ndjson, r#"{"text": "x"}"#, None, Ok("x"));
        check(InputFormat::Ndjson, r#"{"id": "a", "text": " "}"#, Some("a"), Err("must not be blank"));
        check(InputFormat::Ndjson, r#"{"id": "a"}"#, None, Err("is not a JSON object with a text: missing field `text`"));
        check(InputFormat::Ndjson, "x", None, Err("is not a JSON object with a text"));
    }
}
