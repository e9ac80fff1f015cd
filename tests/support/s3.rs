//! A fake S3 server on a local port, with just what scheduled snapshots need. It can be told to fail.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};

/// A running fake; it ends with the test process.
#[derive(Clone, Default)]
pub struct S3 {
    /// The stored objects, by bucket and key.
    pub objects: Arc<Mutex<BTreeMap<String, Bytes>>>,
    /// Multipart uploads that were started but not completed.
    pub uploads: Arc<Mutex<BTreeMap<String, BTreeMap<u32, Bytes>>>>,
    /// Whether it refuses writes.
    pub refuses: Arc<AtomicBool>,
}

impl S3 {
    /// Starts it; also returns its URL.
    pub fn start() -> (Self, String) {
        let s3 = Self::default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(serve).layer(axum::extract::DefaultBodyLimit::disable()).with_state(s3.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                listener.set_nonblocking(true).unwrap();
                axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), router).await.unwrap();
            });
        });
        (s3, url)
    }

    /// The keys with this suffix.
    pub fn keys(&self, end: &str) -> Vec<String> {
        self.objects.lock().unwrap().keys().filter(|key| key.ends_with(end)).cloned().collect()
    }
}

async fn serve(
    State(s3): State<S3>,
    method: Method,
    uri: Uri,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let is_signed =
        headers.get("authorization").is_some_and(|value| value.as_bytes().starts_with(b"AWS4-HMAC-SHA256 Credential=reader/"));
    if !is_signed {
        return (StatusCode::FORBIDDEN, "<Error><Code>AccessDenied</Code></Error>").into_response();
    }
    if s3.refuses.load(Ordering::SeqCst) && method != Method::GET {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let key = uri.path().trim_matches('/').to_owned();
    let (upload, etag) = (query.get("uploadId"), [("etag", "\"1\"")]);
    match (method, upload) {
        (Method::POST, None) => {
            s3.uploads.lock().unwrap().insert(key.clone(), BTreeMap::new());
            format!("<InitiateMultipartUploadResult><UploadId>{key}</UploadId></InitiateMultipartUploadResult>").into_response()
        }
        (Method::PUT, Some(upload)) => {
            let number = query["partNumber"].parse().unwrap();
            s3.uploads.lock().unwrap().get_mut(upload).unwrap().insert(number, body);
            etag.into_response()
        }
        (Method::POST, Some(upload)) => {
            let parts = s3.uploads.lock().unwrap().remove(upload).unwrap();
            let whole: Vec<u8> = parts.into_values().flatten().collect();
            s3.objects.lock().unwrap().insert(key, whole.into());
            "<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>".into_response()
        }
        (Method::DELETE, Some(upload)) => {
            s3.uploads.lock().unwrap().remove(upload);
            StatusCode::NO_CONTENT.into_response()
        }
        (Method::DELETE, None) => {
            s3.objects.lock().unwrap().remove(&key);
            StatusCode::NO_CONTENT.into_response()
        }
        (Method::PUT, None) => {
            s3.objects.lock().unwrap().insert(key, body);
            etag.into_response()
        }
        (Method::GET, None) if query.contains_key("list-type") => list(&s3, &key, query.get("prefix").map_or("", String::as_str)),
        (_, None) => match s3.objects.lock().unwrap().get(&key) {
            Some(object) => {
                ([("etag", "\"1\""), ("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")], object.clone()).into_response()
            }
            None => (StatusCode::NOT_FOUND, "<Error><Code>NoSuchKey</Code></Error>").into_response(),
        },
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

fn list(s3: &S3, bucket: &str, prefix: &str) -> Response {
    let objects = s3.objects.lock().unwrap();
    let keys = objects.iter().filter_map(|(key, object)| Some((key.strip_prefix(bucket)?.trim_start_matches('/'), object.len())));
    let listed: String = keys
        .filter(|(key, _)| key.strip_prefix(prefix).is_some_and(|rest| !rest.contains('/')))
        .map(|(key, size)| {
            format!("<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>")
        })
        .collect();
    format!("<ListBucketResult>{listed}</ListBucketResult>").into_response()
}
