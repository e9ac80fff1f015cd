//! Cursors: where the next page of a list begins, opaque to clients.
//!
//! A cursor contains the last row's key, the format's version and the name of its list, so that a cursor of another list is
//! refused instead of returning wrong rows. It stays valid if the row that it names is deleted.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::domain::Code;
use crate::http::error::ApiError;

/// Format of the cursors that this program writes and reads.
const VERSION: u8 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    v: u8,
    list: String,
    after: String,
}

/// The cursor for the page of `list` that begins after the row `after`.
pub fn encode(list: &str, after: &str) -> String {
    let cursor = Cursor { v: VERSION, list: list.to_owned(), after: after.to_owned() };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&cursor).unwrap_or_default())
}

/// The key of the row after which the page begins.
pub fn decode(list: &str, text: &str) -> Result<String, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
    let cursor: Cursor = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
    if cursor.v == VERSION && cursor.list == list { Ok(cursor.after) } else { Err(invalid()) }
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
        let cursor = encode("documents/news", "été/文書");
        assert_eq!(decode("documents/news", &cursor), Ok("été/文書".to_owned()));
        assert_eq!(decode("documents/blog", &cursor), Err(invalid()));
        assert_eq!(decode("collections", &cursor), Err(invalid()));
    }

    #[test]
    fn invalid_cursors_are_refused() {
        let other_version = URL_SAFE_NO_PAD.encode(r#"{"v":2,"list":"collections","after":"a"}"#);
        for text in ["", "a", "%", "bm90IGpzb24", &other_version] {
            assert_eq!(decode("collections", text), Err(invalid()), "{text:?}");
        }
    }
}
