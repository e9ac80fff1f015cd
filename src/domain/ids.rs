//! Names and ids as types: parsed once at the edge, never a bare string or number below it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Says why a text is not a valid name or id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {problem}")]
pub struct InvalidId {
    /// What was parsed: "collection name" or "document id".
    pub what: &'static str,
    /// Expected and got, for the caller to read.
    pub problem: String,
}

/// A collection's name: the path key of the API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct CollectionName(String);

impl CollectionName {
    /// Longest name, in bytes.
    pub const BYTES_MAX: usize = 64;

    /// Accepts 1 to 64 ASCII letters, digits, `-`, `_` and `.`, beginning with a letter or digit.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let invalid = |problem: String| InvalidId { what: "collection name", problem };
        if text.is_empty() || text.len() > Self::BYTES_MAX {
            return Err(invalid(format!("must have 1 to {} bytes, got {}", Self::BYTES_MAX, text.len())));
        }
        if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Err(invalid("must begin with an ASCII letter or digit".to_owned()));
        }
        match text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))) {
            Some(c) => Err(invalid(format!("may contain only ASCII letters, digits, '-', '_' and '.', got {c:?}"))),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A document's id: the caller's own string, or a UUIDv7 generated on write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct DocumentId(String);

impl DocumentId {
    /// Longest id, in bytes.
    pub const BYTES_MAX: usize = 512;

    /// Accepts any non-empty UTF-8 text of at most 512 bytes without control characters.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let invalid = |problem: String| InvalidId { what: "document id", problem };
        if text.is_empty() || text.len() > Self::BYTES_MAX {
            return Err(invalid(format!("must have 1 to {} bytes, got {}", Self::BYTES_MAX, text.len())));
        }
        if let Some(c) = text.chars().find(|c| c.is_control()) {
            return Err(invalid(format!("must not contain control characters, got {c:?}")));
        }
        Ok(Self(text.to_owned()))
    }

    /// Accepts the id of a document to store: also not `.` or `..`, which clients remove from a path before they send it, so that
    /// such a document could never be requested.
    pub fn parse_new(text: &str) -> Result<Self, InvalidId> {
        if text == "." || text == ".." {
            return Err(InvalidId { what: "document id", problem: format!("must not be \".\" or \"..\", got {text:?}") });
        }
        Self::parse(text)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The stable id of a collection (a UUID): names its folder, survives renames, and is never reused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CollectionId(pub String);

/// A passage's key in SQLite and in the index. Never reused within a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PassageId(pub u64);

/// A position in a collection's sequence of changes. Every committed change has a higher number than those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
pub struct Sequence(pub u64);

/// Reads a name or an id out of text by its own `parse`.
macro_rules! deserialized_by_parse {
    ($type:ty) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(super) use deserialized_by_parse;

deserialized_by_parse!(CollectionName);
deserialized_by_parse!(DocumentId);

/// Checks that `text` is a UUID in lower case with hyphens. `what` is for the error.
pub(super) fn is_uuid(what: &'static str, text: &str) -> Result<(), InvalidId> {
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    if text.len() == 36 && text.bytes().enumerate().all(fits) {
        return Ok(());
    }
    Err(InvalidId { what, problem: "must be a UUID in lower case with hyphens".to_owned() })
}

impl fmt::Display for CollectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collection_names_are_checked() {
        for good in ["news", "a", "News-2026_v1.2", "0"] {
            assert_eq!(CollectionName::parse(good).map(|name| name.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "-a", "a b", "ä", "a/b", &"x".repeat(65)] {
            assert!(CollectionName::parse(bad).is_err(), "{bad:?} must be refused");
        }
    }

    #[test]
    fn document_ids_are_any_short_text() {
        for good in ["a", "été 1/2", "文書", &"x".repeat(512)] {
            assert!(DocumentId::parse(good).is_ok(), "{good:?} must be accepted");
        }
        for bad in ["", "a\nb", &"x".repeat(513)] {
            assert!(DocumentId::parse(bad).is_err(), "{bad:?} must be refused");
        }
        for unreachable in [".", ".."] {
            assert!(DocumentId::parse_new(unreachable).is_err() && DocumentId::parse(unreachable).is_ok(), "{unreachable:?}");
        }
        assert!(DocumentId::parse_new("...").is_ok());
    }
}
