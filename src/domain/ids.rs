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

/// Defines a newtype for a textual name or id: it holds any text that passes the check, and is written and displayed unchanged.
macro_rules! text_id {
    ($(#[$about:meta])+ $type:ident, $check:expr) => {
        $(#[$about])+
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        pub struct $type(String);

        impl $type {
            /// Parses a valid text; the error says what is wrong with any other.
            pub fn parse(text: &str) -> Result<Self, crate::domain::InvalidId> {
                let check: fn(&str) -> Result<(), crate::domain::InvalidId> = $check;
                check(text).map(|()| Self(text.to_owned()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $type {
            type Err = crate::domain::InvalidId;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
pub(super) use text_id;

text_id! {
    /// A collection's name, which its paths in the API contain: 1 to 64 ASCII letters, digits, `-`, `_` and `.`, beginning with
    /// a letter or digit.
    CollectionName, |text| {
        let invalid = |problem: String| Err(InvalidId { what: "collection name", problem });
        if text.is_empty() || text.len() > CollectionName::BYTES_MAX {
            return invalid(format!("must have 1 to {} bytes, got {}", CollectionName::BYTES_MAX, text.len()));
        }
        if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return invalid(format!("must begin with an ASCII letter or digit, got {text:?}"));
        }
        match text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))) {
            Some(c) => invalid(format!("may contain only ASCII letters, digits, '-', '_' and '.', got {c:?} in {text:?}")),
            None => Ok(()),
        }
    }
}

impl CollectionName {
    /// Maximum length of a name, in bytes.
    pub const BYTES_MAX: usize = 64;
}

text_id! {
    /// A document's id: the caller's own string, of 1 to 512 bytes without control characters, or a UUIDv7 generated on write.
    DocumentId, |text| {
        let invalid = |problem: String| Err(InvalidId { what: "document id", problem });
        if text.is_empty() || text.len() > DocumentId::BYTES_MAX {
            return invalid(format!("must have 1 to {} bytes, got {}", DocumentId::BYTES_MAX, text.len()));
        }
        match text.chars().find(|c| c.is_control()) {
            Some(c) => invalid(format!("must not contain control characters, got {c:?}")),
            None => Ok(()),
        }
    }
}

impl DocumentId {
    /// Maximum length of an id, in bytes.
    pub const BYTES_MAX: usize = 512;

    /// Parses the id of a document to store. Also refuses `.` and `..`: clients remove them from a path before they send it, so
    /// such a document could never be requested.
    pub fn parse_new(text: &str) -> Result<Self, InvalidId> {
        if text == "." || text == ".." {
            return Err(InvalidId { what: "document id", problem: format!("must not be \".\" or \"..\", got {text:?}") });
        }
        Self::parse(text)
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

/// Maximum characters of a wrong id in an error.
const QUOTED_CHARS_MAX: usize = 64;

/// Checks that `text` is a UUID in lower case with hyphens. `what` is for the error.
pub(super) fn check_uuid(what: &'static str, text: &str) -> Result<(), InvalidId> {
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    if text.len() == 36 && text.bytes().enumerate().all(fits) {
        return Ok(());
    }
    let got: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    Err(InvalidId { what, problem: format!("must be a UUID in lower case with hyphens, got {got:?}") })
}

impl fmt::Display for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::JobId;

    #[test]
    fn errors_quote_the_wrong_name_or_id() {
        let check = |error: InvalidId, expect: &str| assert_eq!(error.to_string(), expect);
        let name = |text: &str| CollectionName::parse(text).unwrap_err();
        check(name("_news"), "collection name must begin with an ASCII letter or digit, got \"_news\"");
        let characters = "collection name may contain only ASCII letters, digits, '-', '_' and '.', got ' ' in \"my news\"";
        check(name("my news"), characters);
        let job = |text: &str| JobId::parse(text).unwrap_err();
        check(job("import-1"), "job id must be a UUID in lower case with hyphens, got \"import-1\"");
        let long = format!("job id must be a UUID in lower case with hyphens, got {:?}", "x".repeat(64));
        check(job(&"x".repeat(9_000)), &long);
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
