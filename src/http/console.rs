//! The web console at `/`: files inside the program, served without a key. It uses only the public API, which checks keys.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;

use super::error::{self, ApiError};
use crate::http::response::etags;

pub const PAGE_PATH: &str = "/";
pub const FILE_PATH: &str = "/console/{file}";

struct File {
    name: &'static str,
    content: &'static [u8],
    /// Changes with the content.
    etag: String,
}

/// Every file under `src/http/console/`.
static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    macro_rules! files {
        ($($name:literal)+) => { vec![$(File::new($name, include_bytes!(concat!("console/", $name)))),+] };
    }
    files!["index.html" "style.css" "pages.css" "icon.svg" "app.js" "api.js" "dom.js" "text.js" "filter.js" "settings.js" "hits.js"
        "request.js" "search.js" "collections.js" "documents.js" "map.js" "scatter.js" "jobs.js" "mining.js" "classifiers.js" "models.js" "keys.js"
        "snapshots.js"]
});

impl File {
    fn new(name: &'static str, content: &'static [u8]) -> Self {
        Self { name, content, etag: etags::compute(content) }
    }

    fn content_type(&self) -> &'static str {
        match self.name.rsplit_once('.') {
            Some((_, "html")) => "text/html; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        }
    }
}

pub async fn serve_page(uri: Uri, headers: HeaderMap) -> Result<Response, ApiError> {
    serve("index.html", &uri, &headers)
}

pub async fn serve_file(Path(name): Path<String>, uri: Uri, headers: HeaderMap) -> Result<Response, ApiError> {
    serve(&name, &uri, &headers)
}

fn serve(name: &str, uri: &Uri, headers: &HeaderMap) -> Result<Response, ApiError> {
    match FILES.iter().find(|file| file.name == name) {
        Some(file) => Ok(etags::serve(headers, &file.etag, file.content_type(), file.content)),
        None => Err(error::no_route(uri.path())),
    }
}
