//! Converts texts and metadata to a form that PostgreSQL can store: its texts cannot contain U+0000, and its numbers are
//! decimals.

use std::borrow::Cow;
use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};

use crate::domain::{Metadata, Scalar};

/// Escape character. Followed by one of the next two, it stands for U+0000 or for itself.
const ESCAPE: char = '\u{1}';
/// After the escape: U+0000.
const ZERO: char = '\u{1}';
/// After the escape: U+0001.
const ONE: char = '\u{2}';

/// From this value on, not every integer is a float, so the shortest digits of a float need not be its exact value.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Escapes a text, so that it has no U+0000. Preserves the order by code points, and prefixes stay prefixes.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => escaped.extend([ESCAPE, ZERO]),
            ESCAPE => escaped.extend([ESCAPE, ONE]),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

pub(super) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ESCAPE => plain.push(if chars.next() == Some(ZERO) { '\0' } else { ESCAPE }),
            other => plain.push(other),
        }
    }
    plain
}

/// Converts metadata, or a value of it, to JSON to store: as it was sent, but with texts escaped.
pub(super) fn stored_json(value: &impl Serialize) -> String {
    json(value, StoredJson { with_decimals: false })
}

/// Converts metadata to JSON that filters compare.
pub(super) fn filter_json(metadata: &Metadata) -> String {
    json(metadata, StoredJson { with_decimals: true })
}

/// Converts a scalar to JSON in the same way as `filter_json`. Returns `None` for a number that JSON cannot express.
pub(super) fn scalar_json(scalar: &Scalar) -> Option<String> {
    match scalar {
        Scalar::Real(real) if !real.is_finite() => None,
        other => Some(json(other, StoredJson { with_decimals: true })),
    }
}

fn json(value: &impl Serialize, format: StoredJson) -> String {
    let mut json = Vec::new();
    // Serializing maps with text keys to memory cannot fail, and JSON is UTF-8.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut json, format));
    String::from_utf8(json).unwrap_or_default()
}

/// Writes JSON with escaped texts.
struct StoredJson {
    /// Whether numbers other than 64-bit integers are written as the decimals that filters compare.
    with_decimals: bool,
}

impl Formatter for StoredJson {
    fn write_u64<W: ?Sized + io::Write>(&mut self, writer: &mut W, number: u64) -> io::Result<()> {
        match i64::try_from(number) {
            Err(_) if self.with_decimals => self.write_f64(writer, number as f64),
            _ => CompactFormatter.write_u64(writer, number),
        }
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, real: f64) -> io::Result<()> {
        // As a decimal, it compares like the float with all other decimals and integers.
        match self.with_decimals && real.abs() >= EXACT_MAX {
            true => write!(writer, "{real:.0}"),
            false => CompactFormatter.write_f64(writer, real),
        }
    }

    fn write_char_escape<W: ?Sized + io::Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        match escape {
            CharEscape::AsciiControl(0) => writer.write_all(b"\\u0001\\u0001"),
            CharEscape::AsciiControl(1) => writer.write_all(b"\\u0001\\u0002"),
            other => CompactFormatter.write_char_escape(writer, other),
        }
    }
}

pub(super) fn parse_stored_json(json: &str) -> Result<Metadata, serde_json::Error> {
    let metadata = serde_json::from_str(json)?;
    // This is how JSON writes the escape character.
    Ok(if json.contains("\\u0001") { unescape_members(metadata) } else { metadata })
}

fn unescape_members(members: Metadata) -> Metadata {
    members.into_iter().map(|(key, member)| (unescape(&key), unescape_value(member))).collect()
}

fn unescape_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(unescape(&text)),
        Value::Array(elements) => Value::Array(elements.into_iter().map(unescape_value).collect()),
        Value::Object(members) => Value::Object(unescape_members(members)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn escaped_texts_round_trip_and_keep_order(a in "[\0\u{1}\u{2}ab]{0,5}|.*", b in "[\0\u{1}\u{2}ab]{0,5}|.*") {
            let (escaped, other) = (escape(&a), escape(&b));
            prop_assert!(!escaped.contains('\0'));
            prop_assert_eq!(unescape(&escaped), a.as_str());
            prop_assert_eq!(escaped.cmp(&other), a.cmp(&b));
            prop_assert_eq!(escaped.starts_with(other.as_ref()), a.starts_with(&b));
        }
    }

    #[test]
    fn numbers_are_written_with_their_exact_value() {
        for (real, expect) in [
            (0.1, "0.1"),
            (1_152_921_504_606_846_976.0, "1152921504606846976"),
            (-9_223_372_036_854_775_808.0, "-9223372036854775808"),
            (18_446_744_073_709_551_615.0, "18446744073709551616"),
        ] {
            assert_eq!(scalar_json(&Scalar::Real(real)).as_deref(), Some(expect));
        }
        assert_eq!(scalar_json(&Scalar::Real(f64::NAN)), None);
        let metadata = serde_json::json!({"a": [u64::MAX, {"b\u{1}": "\0", "c": null, "d": true}], "e": 5});
        let expect = "{\"a\":[18446744073709551616,{\"b\\u0001\\u0002\":\"\\u0001\\u0001\",\"c\":null,\"d\":true}],\"e\":5}";
        assert_eq!(metadata.as_object().map(filter_json).as_deref(), Some(expect));
    }

    #[test]
    fn metadata_round_trips() {
        let sent = serde_json::json!({"z": u64::MAX, "b\u{1}": ["\0", {"\0": "\u{1}\u{2}", "n": 1.0}], "a": 1e-300, "c": null});
        let sent = sent.as_object().cloned().unwrap_or_default();
        let stored = stored_json(&sent);
        assert!(!stored.contains("\\u0000"), "{stored}");
        assert_eq!(super::parse_stored_json(&stored).ok(), Some(sent));
        let plain = serde_json::json!({"z": [1, 2.5], "a": {"b": "é\n"}});
        assert_eq!(plain.as_object().map(stored_json), Some(plain.to_string()));
    }
}
