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
            (None, Some(tags)) => Err(malformed_none_match(&tags)),
            (Some(_), Some(_)) => Err(malformed("if-none-match", "if-match as well, and only one of them is allowed")),
        }
    }
}

pub fn etag(version: Sequence) -> String {
    format!("\"{}\"", version.0)
}

fn parse_match(text: &str) -> Result<Precondition, ApiError> {
    if text.trim() == "*" {
        return Ok(Precondition::Present);
    }
    let mut versions = Vec::new();
    for tag in text.split(',').map(str::trim) {
        // A weak tag never matches where the bytes must be the same (RFC 9110, section 13.1.1).
        let (weak, quoted) = tag.strip_prefix("W/").map_or((false, tag), |rest| (true, rest));
        let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let inner = inner.filter(|inner| !inner.contains('"')).ok_or_else(|| malformed("if-match", &format!("{tag:?}")))?;
        if let Some(version) = inner.parse().ok().filter(|_| !weak) {
            versions.push(Sequence(version));
        }
    }
    Ok(Precondition::Version(versions))
}

fn malformed(name: &str, got: &str) -> ApiError {
    let detail = format!("must be * or a comma-separated list of entity tags in double quotes, as ETag gives them, got {got}");
    ApiError::parameter(Code::InvalidRequest, name, detail)
}

fn malformed_none_match(got: &str) -> ApiError {
    ApiError::parameter(Code::InvalidRequest, "if-none-match", format!("must be * on a write, got {got:?}"))
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
        assert_eq!(parse_match("W/\"1\""), versions(&[]));
        assert_eq!(parse_match("\"other\""), versions(&[]));
        for bad in ["17", "\"17", "", "\"1\",", "W/17", "\"a\"b\""] {
            assert_eq!(parse_match(bad).map_err(|error| error.code), Err(Code::InvalidRequest), "{bad}");
        }
    }
}
