//! The console's files as browsers get them: media types, content policy, caching, no references to other servers. The behavior
//! of the pages is tested in a browser (`scripts/console_tests.sh`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::{Method, Request};
use dragoman::domain::Limits;
use dragoman::http;
use dragoman::http::settings::Settings;

use crate::server::{Response, Server};

/// Maximum size of the whole console, in bytes.
const BYTES_MAX: u64 = 150_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/console")
}

fn files() -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(folder()).expect("the folder").map(|entry| entry.expect("an entry"));
    let files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().expect("a name"), entry.metadata().expect("a size").len()))
        .collect();
    assert!(!files.is_empty(), "the folder is empty");
    files
}

async fn conditional(server: &Server, path: &str, tag: &str) -> Response {
    let request = Request::builder().uri(path).header("if-none-match", tag).body(Body::empty()).expect("a request");
    server.send_unchecked(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_console_file_has_its_media_type_and_a_strict_policy() {
    let server = Server::start();
    let names = files().into_iter().map(|(name, _)| format!("/console/{name}"));
    for path in names.chain(["/".to_owned()]) {
        let response = server.send_unchecked(Request::builder().uri(&path).body(Body::empty()).expect("a request")).await;
        let kind = match path.rsplit_once('.') {
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!((response.status, response.header("content-type")), (200, Some(kind)), "{path}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
        let policy: BTreeSet<&str> =
            response.header("content-security-policy").expect("a policy").split(';').map(str::trim).collect();
        let expect = [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self' data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ];
        assert_eq!(policy, BTreeSet::from(expect), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revalidating_an_unchanged_console_file_returns_304() {
    let server = Server::start();
    for path in ["/", "/console/app.js"] {
        let first = conditional(&server, path, "\"another\"").await;
        let tag = first.header("etag").expect("a tag").to_owned();
        assert_eq!((first.status, first.header("cache-control")), (200, Some("no-cache")), "{path}");
        for known in [tag.clone(), tag.trim_start_matches("W/").to_owned(), format!("\"another\", {tag}"), "*".to_owned()] {
            let again = conditional(&server, path, &known).await;
            assert_eq!((again.status, again.bytes.len(), again.header("etag")), (304, 0, Some(tag.as_str())), "{path} {known}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_needs_no_key_even_if_the_api_does() {
    let server = Server::with_settings(Limits::default(), Settings::default(), Some("an admin key for this test"));
    let ask = async |path: &str| {
        let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
        server.send_unchecked(request).await.status
    };
    assert_eq!((ask("/").await, ask("/console/app.js").await, ask("/v1/collections").await), (200, 200, 401));
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_console_paths_are_not_found() {
    let server = Server::start();
    for path in ["/console", "/console/", "/console/none.js", "/console/..%2Fmod.rs", "/index.html"] {
        let response = server.send_unchecked(Request::builder().uri(path).body(Body::empty()).expect("a request")).await;
        assert_eq!((response.status, response.code()), (404, Some("route_not_found")), "{path}");
    }
    let request = Request::builder().method(Method::POST).uri("/").body(Body::empty()).expect("a request");
    let response = server.send_unchecked(request).await;
    assert_eq!((response.status, response.code()), (405, Some("method_not_allowed")));
    assert!(
        http::document()["paths"].as_object().expect("paths").keys().all(|path| path != "/" && !path.starts_with("/console"))
    );
}

#[test]
fn console_files_are_small_and_reference_no_other_server() {
    let total: u64 = files().iter().map(|(_, bytes)| bytes).sum();
    assert!(total <= BYTES_MAX, "{total} bytes, more than {BYTES_MAX}");
    for (name, _) in files() {
        let text = std::fs::read_to_string(folder().join(&name)).expect("text");
        // SVG namespaces are identifiers, not addresses.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for foreign in ["http://", "https://", "\"//", "'//", "@import"] {
            assert!(!text.contains(foreign), "{name} has {foreign}");
        }
        assert!(name.ends_with(".js") || !text.contains("url("), "{name} loads something");
        for inline in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", " style=\""] {
            assert!(!text.contains(inline), "{name} has {inline}");
        }
    }
}

#[test]
fn console_sources_are_short_and_start_with_a_comment() {
    for (name, _) in files() {
        let text = std::fs::read_to_string(folder().join(&name)).expect("text");
        // A page and an image start with their type; their content needs no comment.
        let openings = [(".js", "// "), (".css", "/* "), (".html", "<!doctype html>"), (".svg", "<svg ")];
        let (_, opening) = openings.iter().find(|(end, _)| name.ends_with(end)).expect("a known file type");
        assert!(text.starts_with(opening) && text.lines().count() < 500, "{name}");
    }
}

#[test]
fn the_console_page_has_no_inline_script_or_style() {
    let page = std::fs::read_to_string(folder().join("index.html")).expect("the page");
    assert!(!page.contains("<style") && !page.contains("javascript:"), "{page}");
    for part in page.split("<script").skip(1) {
        let (tag, rest) = part.split_once('>').expect("the end of a tag");
        assert!(tag.contains("src=\"console/") && rest.starts_with("</script>"), "{part}");
    }
    for event in ["onload=", "onclick=", "onerror=", "onsubmit="] {
        assert!(!page.contains(event), "{event}");
    }
}
