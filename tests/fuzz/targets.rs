//! The fuzz targets, and what counts as a failure.

use axum::body::Body;
use axum::http::{Method, Request};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dragoman::http::settings::ConnectionMeter;
use dragoman::server::{ServeOptions, serve};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::archives::{Parts, parts};
use crate::hunt::Target;
use crate::server::{Response, Server};

/// A server with a few documents that have all kinds of metadata.
async fn server() -> Server {
    let documents = json!([
        {"id": "a", "title": "Gare du Nord", "text": "Le train est en retard.", "language": "fr", "metadata": {"year": 2026, "tags": ["x", "y"], "a": {"b": 1.5}}},
        {"id": "b", "text": "電車が遅れている。", "language": "ja", "metadata": {"year": "2026", "tags": [], "deep": [[null]]}},
        {"id": "c", "text": "The dog barks.", "metadata": {"year": null, "flag": true, "": {"": 0}}},
        {"id": "d", "text": "Der Zug"},
    ]);
    let server = Server::with_documents(documents).await;
    let indexed = server.patch("/v1/collections/news", &json!({"metadata_indexes": ["year", "a.b"]})).await;
    assert_eq!(indexed.status, 200, "{}", indexed.text);
    server
}

/// A summary of a response, unless the server failed.
fn said(response: &Response) -> Result<String, String> {
    let detail = response.body["detail"].as_str().unwrap_or_default();
    let short = format!("{} {} {detail}", response.status, response.code().unwrap_or_default());
    if response.status >= 500 && response.status != 503 { Err(response.text.clone()) } else { Ok(short) }
}

/// A summary of a job, unless the server failed.
fn ended(job: &Value) -> Result<String, String> {
    let error = &job["error"];
    let short = format!(
        "{} {} {}",
        job["status"],
        error["code"].as_str().unwrap_or_default(),
        error["detail"].as_str().unwrap_or_default()
    );
    if error["code"] == "internal" { Err(job.to_string()) } else { Ok(short) }
}

/// Filters: any bytes as a filter. Together, the matches of a filter and of its negation are all documents.
pub struct Filters(Server);

impl Filters {
    pub async fn start() -> Self {
        Self(server().await)
    }

    async fn count(&self, filter: &[u8]) -> Response {
        let body = [&b"{\"filter\":"[..], filter, b"}"].concat();
        self.0.call(Method::POST, "/v1/collections/news/documents/count", Body::from(body)).await
    }
}

impl Target for Filters {
    const WORDS: &'static [&'static str] = &[
        "\"and\":",
        "\"or\":",
        "\"not\":",
        "\"field\":",
        "\"eq\":",
        "\"ne\":",
        "\"in\":",
        "\"any\":",
        "\"gt\":",
        "\"gte\":",
        "\"lt\":",
        "\"lte\":",
        "\"exists\":",
        "\"prefix\":",
        "\"year\"",
        "\"a.b\"",
        "\"created_at\"",
        "\"id\"",
        "\"language\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        "null",
        "true",
        "1e308",
        "-0.0",
        "9007199254740993",
        "18446744073709551615",
        "\"\\u0000\"",
        "\"\\\\.\"",
        "\"2026-01-01T00:00:00Z\"",
        "'",
        "\"$\"",
    ];

    async fn feed(&mut self, input: &[u8]) -> Result<String, String> {
        let response = self.count(input).await;
        let mut short = said(&response)?;
        if response.status == 200 && !input.is_empty() {
            let other = self.count(&[&b"{\"not\":"[..], input, b"}"].concat()).await;
            let [with, without] = [&response, &other].map(|response| response.body["documents"].as_u64());
            match (with, without) {
                (Some(with), Some(without)) if with + without != 4 => {
                    return Err(format!("{with} match, {without} do not, there are 4"));
                }
                (with, without) => short += if with > without { "more" } else { "less" },
            }
        }
        Ok(short)
    }
}

/// Imported files: the first byte selects the type and the encoding.
pub struct Imports {
    server: Server,
    fed: u64,
}

impl Imports {
    pub async fn start() -> Self {
        Self { server: server().await, fed: 0 }
    }
}

impl Target for Imports {
    const WORDS: &'static [&'static str] = &[
        "{\"id\":\"a\",\"text\":\"b\"}\n",
        "\"metadata\":",
        "\"language\":\"fr\"",
        "\"vector\":[1]",
        "id\ttext\n",
        "id,text\n",
        "\r\n",
        "\n",
        "\t",
        ",",
        "\"",
        "\"\"",
        "\\t",
        "\u{feff}",
        "metadata.year",
        "{}",
        "\u{0}",
        "\u{85}",
        "text",
        "title",
        "id",
        "created_at",
    ];

    async fn feed(&mut self, input: &[u8]) -> Result<String, String> {
        let Some((&kind, file)) = input.split_first() else { return Ok(String::new()) };
        // Keeps the imports from growing the collection forever.
        self.fed += 1;
        if self.fed.is_multiple_of(500) {
            assert_eq!(self.server.delete("/v1/collections/news").await.status, 204);
            assert_eq!(self.server.post("/v1/collections", &json!({"name": "news"})).await.status, 201);
        }
        let media_type = ["application/x-ndjson", "text/csv", "text/tab-separated-values"][usize::from(kind % 3)];
        let encoding = [None, None, Some("gzip"), Some("zstd")][usize::from(kind / 3 % 4)];
        let mut request = Request::post("/v1/collections/news/import").header("content-type", media_type);
        if let Some(encoding) = encoding {
            request = request.header("content-encoding", encoding);
        }
        let response = self.server.send(request.body(Body::from(file.to_vec())).unwrap()).await;
        let short = said(&response)?;
        if response.status != 202 {
            return Ok(short);
        }
        let job = self.server.finished(&response).await;
        let results = self.server.get(&format!("/v1/jobs/{}/results", job["id"].as_str().unwrap_or_default())).await;
        let failed = results
            .text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|line| line["error"].is_object());
        Ok(format!("{} {}", ended(&job)?, failed.map(|line| line["error"].to_string().replace('"', "")).unwrap_or_default()))
    }
}

/// Cursors: the first byte selects the list, and whether the rest is the cursor itself or the JSON inside it.
pub struct Cursors(Server);

impl Cursors {
    pub async fn start() -> Self {
        Self(server().await)
    }
}

impl Target for Cursors {
    const WORDS: &'static [&'static str] = &[
        "{\"v\":1,\"list\":\"collections\",\"after\":\"a\"}",
        "\"documents/news\"",
        "\"after\":",
        "\"v\":",
        "\"list\":",
        "1",
        "null",
        "%00",
        "==",
        "+",
        "-",
        "_",
        "\u{0}",
        "\\u0000",
        "é",
        "0198c0de-7a11-7000-8000-2f1de5c0ffee",
        "9223372036854775807",
    ];

    async fn feed(&mut self, input: &[u8]) -> Result<String, String> {
        let Some((&kind, rest)) = input.split_first() else { return Ok(String::new()) };
        // A URI has at most 64 KiB.
        let rest = &rest[..rest.len().min(4_096)];
        let cursor = if kind & 0x80 == 0 { URL_SAFE_NO_PAD.encode(rest).into_bytes() } else { rest.to_vec() };
        let text = String::from_utf8_lossy(&cursor).into_owned();
        let escaped =
            cursor.iter().fold(String::new(), |mut text, byte| write!(text, "%{byte:02x}").map(|()| text).unwrap_or_default());
        let lists = ["collections", "aliases", "classifiers", "keys", "jobs", "snapshots", "collections/news/documents"];
        let response = match usize::from(kind & 0x7f) % 9 {
            list @ 0..7 => self.0.get(&format!("/v1/{}?limit=2&cursor={escaped}", lists[list])).await,
            order => {
                let field = ["created_at", "year"][order - 7];
                let body = json!({"cursor": text, "limit": 2, "order_by": {"field": field}});
                self.0.post("/v1/collections/news/documents/scroll", &body).await
            }
        };
        said(&response)
    }
}

/// Snapshot archives: an input modifies a valid archive, five bytes per change: which file, where, and the new value. Checksums
/// are recomputed, so that the changes get as far as the restore.
pub struct Archives {
    server: Server,
    good: Parts,
}

const SNAPSHOT: &str = "0198c0de-7a11-7000-8000-2f1de5c0ffee";

impl Archives {
    pub async fn start() -> Self {
        let server = server().await;
        let job = server.finished(&server.post("/v1/snapshots", &json!({})).await).await;
        let id = job["details"]["snapshot"].as_str().unwrap().to_owned();
        let good = parts(&server.get(&format!("/v1/snapshots/{id}/archive")).await.bytes);
        Self { server, good }
    }

    fn changed(&self, input: &[u8]) -> Parts {
        let mut archive = self.good.clone();
        let names: Vec<String> = archive.0.iter().map(|part| part.name.clone()).collect();
        for (place, name) in names.iter().enumerate() {
            let mut bytes = archive.bytes(name).to_vec();
            for edit in input.chunks_exact(5).filter(|edit| usize::from(edit[0]) % names.len() == place) {
                let at = (usize::from(edit[1]) << 16) | (usize::from(edit[2]) << 8) | usize::from(edit[3]);
                let at = at % bytes.len();
                bytes[at] = edit[4];
            }
            if bytes != archive.bytes(name) {
                archive = match &**name {
                    "manifest.json" => {
                        archive.0.iter_mut().filter(|part| part.name == *name).for_each(|part| part.bytes = bytes.clone());
                        archive
                    }
                    name => archive.with(name, bytes),
                };
            }
        }
        archive
    }
}

impl Target for Archives {
    const WORDS: &'static [&'static str] =
        &["\u{0}\u{0}\u{0}\u{10}\u{0}", "\u{1}\u{0}\u{0}\u{64}\u{5}", "\u{1}\u{0}\u{10}\u{3}\u{0}"];

    async fn feed(&mut self, input: &[u8]) -> Result<String, String> {
        let archive = self.changed(input).pack(0);
        let request = Request::put(format!("/v1/snapshots/{SNAPSHOT}/archive")).header("content-type", "application/zstd");
        let response = self.server.send(request.body(Body::from(archive)).unwrap()).await;
        let mut short = said(&response)?;
        if response.status == 201 {
            let restored = json!({"collection": "news", "rename_to": "restored", "replace": true});
            let accepted = self.server.post(&format!("/v1/snapshots/{SNAPSHOT}/restore"), &restored).await;
            short += &said(&accepted)?;
            if accepted.status == 202 {
                let job = self.server.finished(&accepted).await;
                short += &ended(&job)?;
                if job["status"] == "succeeded" {
                    short += &self.used().await?;
                }
            }
            assert_eq!(self.server.delete(&format!("/v1/snapshots/{SNAPSHOT}")).await.status, 204);
        }
        Ok(short)
    }
}

impl Archives {
    /// Uses what was restored: it may report damage, but not fail in any other way.
    async fn used(&self) -> Result<String, String> {
        let path = "/v1/collections/restored";
        let written = json!({"documents": [{"id": "a", "text": "changed"}, {"id": "new", "text": "Der Zug"}]});
        let mut short = String::new();
        for response in [
            self.server.get(path).await,
            self.server.get(&format!("{path}/documents")).await,
            self.server.post(&format!("{path}/search"), &json!({"query": "train", "mode": "hybrid"})).await,
            self.server.post(&format!("{path}/documents"), &written).await,
            self.server.delete(&format!("{path}/documents/b")).await,
        ] {
            if response.code() != Some("collection_damaged") {
                short += &said(&response)?;
            }
        }
        assert_eq!(self.server.delete(path).await.status, 204);
        Ok(short)
    }
}

/// The wire: any bytes sent to the listener.
pub struct Wire {
    server: Server,
    address: std::net::SocketAddr,
    _stop: watch::Sender<bool>,
}

impl Wire {
    pub async fn start() -> Self {
        let server = server().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let options = ServeOptions {
            connections_max: 64,
            connections: ConnectionMeter::default(),
            header_timeout: Duration::from_secs(1),
            write_timeout: Duration::from_secs(5),
            tls: None,
        };
        tokio::spawn(serve(listener, server.router.clone(), options, stopped));
        Self { server, address, _stop: stop }
    }
}

impl Target for Wire {
    const WORDS: &'static [&'static str] = &[
        "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "POST /v1/collections/news/search HTTP/1.1\r\n",
        "content-length: 2\r\n",
        "transfer-encoding: chunked\r\n",
        "5\r\nhello\r\n",
        "0\r\n\r\n",
        "\r\n",
        "\r\n\r\n",
        "host: a\r\n",
        "HTTP/1.0",
        "HTTP/2",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "expect: 100-continue\r\n",
        "connection: upgrade\r\n",
        "content-type: application/json\r\n",
        "{}",
        "authorization: Bearer x\r\n",
        "%2e%2e",
        "//",
        "?",
        "*",
        "\u{0}",
        "range: bytes=0-\r\n",
        "accept-encoding: gzip\r\n",
        "idempotency-key: a\r\n",
        "if-match: \"1\"\r\n",
        "DELETE ",
        "PUT ",
        "OPTIONS * HTTP/1.1\r\n",
    ];

    async fn feed(&mut self, input: &[u8]) -> Result<String, String> {
        let mut stream = TcpStream::connect(self.address).await.map_err(|error| error.to_string())?;
        // A server that refuses early stops reading.
        let _ = stream.write_all(input).await;
        let _ = stream.shutdown().await;
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        let text = String::from_utf8_lossy(&response).into_owned();
        let mut short = String::new();
        for line in text.lines().filter(|line| line.starts_with("HTTP/1.")) {
            let status = line.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok()).ok_or_else(|| line.to_owned())?;
            if status >= 500 && ![501, 503, 505].contains(&status) {
                return Err(text);
            }
            short += &format!("s{} ", char::from(b'a' + (status % 26) as u8));
        }
        let code = text.split("\"code\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        let well = self.server.get("/healthz").await;
        if well.status != 200 { Err(well.text) } else { Ok(short + code) }
    }
}
