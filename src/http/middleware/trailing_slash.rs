//! Ignores a slash at the end of an API path: `/v1/collections/` is the same as `/v1/collections`.
//!
//! A redirect would cost a round trip, and many clients do not follow one with a body. No id loses its slash: a slash within an
//! id is percent-encoded.

use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;

use crate::http::openapi::operations::MCP_PATH;

/// The same request, with the path of its route.
pub fn trim(mut request: Request) -> Request {
    if let Some(uri) = trimmed(request.uri()) {
        *request.uri_mut() = uri;
    }
    request
}

fn trimmed(uri: &Uri) -> Option<Uri> {
    let path = uri.path().strip_suffix('/').filter(|path| path.starts_with("/v1/") || *path == MCP_PATH)?;
    let target = uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_trailing_slash_of_an_api_path_is_removed() {
        for (uri, expect) in [
            ("/v1/collections/", Some("/v1/collections")),
            ("/v1/collections/?limit=2&cursor=a/", Some("/v1/collections?limit=2&cursor=a/")),
            ("http://localhost:7700/v1/collections/a%2F/", Some("http://localhost:7700/v1/collections/a%2F")),
            ("/v1/collections//", Some("/v1/collections/")),
            ("/mcp/", Some("/mcp")),
            ("/v1/collections", None),
            ("/v1/", None),
            ("/docs/", None),
            ("/", None),
        ] {
            let trimmed = trimmed(&uri.parse().unwrap());
            assert_eq!(trimmed.map(|uri| uri.to_string()).as_deref(), expect, "{uri}");
        }
    }
}
