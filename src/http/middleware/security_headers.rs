//! Security headers of every response: browsers must respect its media type, run nothing in it, and show it in no frame.

use axum::http::header::{CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, HeaderValue};

/// For responses that are not pages, and for pages without scripts.
const NOTHING: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// For Swagger UI. Its scripts are files of this server; it sets inline styles.
const SWAGGER: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
    font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// For the console. Its scripts and styles are files of this server, and it calls no other server.
const CONSOLE: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Adds the headers to a response for `path`.
pub fn protect(path: &str, headers: &mut HeaderMap) {
    let swagger = path.starts_with("/docs") && path != "/docs/errors";
    let console = path == "/" || path.starts_with("/console/");
    let policy = match (swagger, console) {
        (true, _) => SWAGGER,
        (_, true) => CONSOLE,
        _ => NOTHING,
    };
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
}
