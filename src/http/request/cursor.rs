//! Cursors: where the next page of a list begins, opaque to clients.
//!
//! A cursor contains the last row's key, the format's version and its list, so that a cursor of another list is refused instead
//! of returning wrong rows. It stays valid if the row that it names is deleted.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::domain::{Code, CollectionName};
use crate::http::error::ApiError;

/// Format of the cursors that this program writes and reads.
const VERSION: u8 = 1;

/// A list that has pages.
#[derive(Debug, Clone, Copy)]
pub enum List<'a> {
    /// All collections, by name.
    Collections,
    /// All aliases, by name.
    Aliases,
    /// One collection's documents, by id.
    Documents(&'a CollectionName),
    /// One collection's documents that match a filter, in an order; the string identifies both.
    Scroll(&'a CollectionName, &'a str),
    /// All classifiers, by name.
    Classifiers,
    /// All keys, by id.
    Keys,
    /// All jobs, by id, the newest first.
    Jobs,
    /// All snapshots, by id, the newest first.
    Snapshots,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    v: u8,
    list: String,
    after: String,
}

impl List<'_> {
    fn key(&self) -> String {
        match self {
            Self::Collections => "collections".to_owned(),
            Self::Aliases => "aliases".to_owned(),
            Self::Classifiers => "classifiers".to_owned(),
            Self::Keys => "keys".to_owned(),
            Self::Jobs => "jobs".to_owned(),
            Self::Snapshots => "snapshots".to_owned(),
            Self::Documents(collection) => format!("documents/{collection}"),
            Self::Scroll(collection, what) => format!("scroll/{collection}/{:08x}", crc32fast::hash(what.as_bytes())),
        }
    }
}

/// The cursor for the page of `list` that begins after the row `after`.
pub fn encode(list: &List<'_>, after: &str) -> String {
    let cursor = Cursor { v: VERSION, list: list.key(), after: after.to_owned() };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&cursor).unwrap_or_default())
}

/// The key of the row after which the page begins.
pub fn decode(list: &List<'_>, text: &str) -> Result<String, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
    let cursor: Cursor = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
    if cursor.v == VERSION && cursor.list == list.key() { Ok(cursor.after) } else { Err(invalid()) }
}

/// The error for a cursor that is not valid, or belongs to another list.
pub fn invalid() -> ApiError {
    ApiError::parameter(Code::InvalidCursor, "cursor", "must be the unchanged next_cursor of an earlier page of the same list")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_valid_only_for_its_own_list() {
        let (news, blog) = (CollectionName::parse("news").unwrap(), CollectionName::parse("blog").unwrap());
        let cursor = encode(&List::Documents(&news), "été/文書");
        assert_eq!(decode(&List::Documents(&news), &cursor), Ok("été/文書".to_owned()));
        assert_eq!(decode(&List::Documents(&blog), &cursor), Err(invalid()));
        assert_eq!(decode(&List::Collections, &cursor), Err(invalid()));
        let cursor = encode(&List::Scroll(&news, "by id"), "x");
        assert_eq!(decode(&List::Scroll(&news, "by id"), &cursor), Ok("x".to_owned()));
        assert_eq!(decode(&List::Scroll(&news, "by time"), &cursor), Err(invalid()));
    }

    #[test]
    fn invalid_cursors_are_refused() {
        let other_version = URL_SAFE_NO_PAD.encode(r#"{"v":2,"list":"collections","after":"a"}"#);
        for text in ["", "a", "%", "bm90IGpzb24", &other_version] {
            assert_eq!(decode(&List::Collections, text), Err(invalid()), "{text:?}");
        }
    }
}
