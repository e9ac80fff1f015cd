//! Versions of documents in HTTP: `ETag` in responses, `If-Match` and `If-None-Match` in requests.

use axum::extract::FromRequestParts;
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;

use crate::domain::{Code, Precondition, Sequence};
use crate::http::api::Api;
use crate::http::error::ApiError;

/// The precondition on the document's version.
pub struct RequiredPrecondition(pub Precondition);

impl FromRequestParts<Api> for RequiredPrecondition {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _api: &Api) -> Result<Self, ApiError> {
        let read = |name: HeaderName| -> Result<Option<String>, ApiError> {
            let values = parts.headers.get_all(&name).iter().map(|value| value.to_str());
            let values: Vec<&str> = values.collect::<Result<_, _>>().map_err(|_| malformed(name.as_str(), "no ASCII"))?;
            Ok((!values.is_empty()).then(|| values.join(", ")))
        };
        match (read(IF_MATCH)?, read(IF_NONE_MATCH)?) {
            (None, None) => Ok(Self(Precondition::None)),
            (Some(tags), None) => parse_match(&tags).map(Self),
            (None, Some(tags)) if tags.trim() == "*" => Ok(Self(Precondition::Absent)),
            (None, Some(tags)) => Err(refused("if-none-match", &format!("must be * on a write, got {tags:?}"))),
            (Some(_), Some(_)) => Err(refused("if-none-match", "must not be given with if-match, got both")),
        }
    }
}

/// Returns the tag of a document's version. It is strong, also for a compressed body, although RFC 9110 (section 8.8.1) wants
/// another one for that: a weak tag never matches `If-Match`, and clients may use a version as the tag. The server sends no parts
/// of documents, which are what the rule protects.
pub fn etag(version: Sequence) -> String {
    format!("\"{}\"", version.0)
}

fn parse_match(text: &str) -> Result<Precondition, ApiError> {
    if text.trim() == "*" {
        return Ok(Precondition::Present);
    }
    let (mut versions, mut tags, mut rest) = (Vec::new(), 0, text);
    loop {
        // Elements of a list may be empty (RFC 9110, section 5.6.1).
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            break;
        }
        let refuse = || malformed("if-match", &format!("{rest:?}"));
        let (weak, quoted) = rest.strip_prefix("W/").map_or((false, rest), |rest| (true, rest));
        // A tag may have commas.
        let (tag, after) = quoted.strip_prefix('"').and_then(|quoted| quoted.split_once('"')).ok_or_else(refuse)?;
        if !after.trim_start().is_empty() && !after.trim_start().starts_with(',') {
            return Err(refuse());
        }
        // A weak tag never matches where the bytes must be the same (section 13.1.1), nor does another spelling of a number.
        let version = tag.parse().ok().filter(|version: &u64| !weak && version.to_string() == tag);
        versions.extend(version.map(Sequence));
        (tags, rest) = (tags + 1, after);
    }
    if tags == 0 { Err(malformed("if-match", &format!("{text:?}"))) } else { Ok(Precondition::Version(versions)) }
}

fn malformed(name: &str, got: &str) -> ApiError {
    let must = "must be * or a comma-separated list of entity tags in double quotes, as ETag gives them";
    refused(name, &format!("{must}, got {got}"))
}

fn refused(name: &str, detail: &str) -> ApiError {
    ApiError::parameter(Code::InvalidRequest, name, detail.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_tags_are_parsed_into_preconditions() {
        let versions = |numbers: &[u64]| Ok(Precondition::Version(numbers.iter().copied().map(Sequence).collect()));
        assert_eq!(parse_match("*"), Ok(Precondition::Present));
        assert_eq!(parse_match(&etag(Sequence(17))), versions(&[17]));
        assert_eq!(parse_match("\"1\", \"2\""), versions(&[1, 2]));
        assert_eq!(parse_match(",\"1\",, \"2\",\t"), versions(&[1, 2]), "empty elements");
        assert_eq!(parse_match("\"a,b\", W/\"3\",\"2\""), versions(&[2]), "a comma in a tag, and a weak tag");
        assert_eq!(parse_match("W/\"1\""), versions(&[]));
        for other in ["\"other\"", "\"+17\"", "\"017\"", "\"\""] {
            assert_eq!(parse_match(other), versions(&[]), "{other}");
        }
        for bad in ["17", "\"17", "", ",", "W/17", "\"a\"b\"", "\"1\" \"2\"", "\"1\", 2"] {
            assert_eq!(parse_match(bad).map_err(|error| error.code), Err(Code::InvalidRequest), "{bad}");
        }
    }
}
