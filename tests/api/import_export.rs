//! `/v1/collections/{collection}/import` and `/export`.

use std::io::{Read as _, Write as _};

use axum::body::Body;
use axum::http::Request;
use dragoman::domain::Limits;
use serde_json::{Value, json};

use crate::server::Server;

const IMPORT: &str = "/v1/collections/news/import";
const EXPORT: &str = "/v1/collections/news/export";
const NDJSON: &str = "application/x-ndjson";

fn request(media_type: &str, encoding: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::post(IMPORT).header("content-type", media_type).header("content-encoding", encoding);
    request.body(body.into()).expect("a request")
}

/// The lines of an NDJSON stream.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

async fn results(server: &Server, job: &Value, query: &str) -> Vec<Value> {
    let path = format!("/v1/jobs/{}/results{query}", job["id"].as_str().expect("an id"));
    let response = server.get(&path).await;
    assert_eq!(response.header("content-type"), Some(NDJSON));
    lines(&response.text)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_imported_line_has_a_result() {
    let server = Server::with_documents(json!([{"id": "c", "text": "alt"}])).await;
    let body = concat!(
        r#"{"id": "a", "text": "Le train est en retard.", "language": "fr", "metadata": {"year": 2026}}"#,
        "\n\n",
        r#"{"id": "b", "text": " "}"#,
        "\nnonsense\n",
        r#"{"id": "c", "text": "Поезд опаздывает."}"#,
        "\r\n",
        r#"{"id": "d", "text": "x", "year": 3}"#,
        "\n",
        r#"{"text": "電車が遅れている。"}"#,
    );
    let job = server.import(NDJSON, body).await;
    assert_eq!((&job["type"], &job["status"], &job["collection"]), (&json!("import"), &json!("succeeded"), &json!("news")));
    assert_eq!(job["details"], json!({"lines": 7, "created": 2, "updated": 1, "failed": 3}));
    let bytes = body.len();
    assert_eq!((&job["progress"]["done"], &job["progress"]["total"]), (&json!(bytes), &json!(bytes)));
    let all = results(&server, &job, "").await;
    let shown: Vec<_> = all.iter().map(|result| (result["line"].as_u64().expect("a line"), result["status"].clone())).collect();
    assert_eq!(
        shown,
        [(1, "created"), (3, "failed"), (4, "failed"), (5, "updated"), (6, "failed"), (7, "created")]
            .map(|(line, status)| (line, json!(status)))
    );
    assert_eq!(all[0], json!({"line": 1, "id": "a", "status": "created"}));
    assert_eq!((&all[1]["id"], &all[1]["error"]["pointer"]), (&json!("b"), &json!("/text")));
    assert_eq!(all[2]["error"]["code"], "malformed_json");
    assert!(all[2]["error"]["detail"].as_str().is_some_and(|detail| detail.contains("the line is not")), "{}", all[2]);
    assert_eq!(all[4]["error"]["pointer"], "/year");
    assert_eq!(results(&server, &job, "?status=failed").await.len(), 3);
    let hits = server.post("/v1/collections/news/search", &json!({"query": "電車が遅れている。", "include": ["text"]})).await;
    assert_eq!(hits.body["hits"][0]["text"], "電車が遅れている。");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_with_more_values_than_a_document_can_have_is_not_parsed() {
    let server = Server::with_news().await;
    let many = json!({"id": "a", "text": "b", "metadata": {"n": vec![0; 80_000]}});
    let job = server.import(NDJSON, format!("{many}\n{}", json!({"id": "c", "text": "\",".repeat(80_000)}))).await;
    let all = results(&server, &job, "").await;
    let detail = all[0]["error"]["detail"].as_str().expect("a detail");
    assert!(detail.contains("too many values") && detail.contains("65536 bytes"), "{detail}");
    assert_eq!((&all[0]["id"], &all[1]["status"]), (&Value::Null, &json!("created")), "the commas in a text are no values");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_column_types_of_an_import_are_refused() {
    let server = Server::with_news().await;
    let send = |types: &str, media_type: &str, body: &'static str| {
        let request = Request::post(format!("{IMPORT}?types={types}")).header("content-type", media_type);
        server.send(request.body(Body::from(body)).expect("a request"))
    };
    for (types, media_type, place, words) in [
        ("year:int", NDJSON, "types", "must be left out"),
        ("year:number", "text/csv", "types", "string, int, float, bool, date"),
        ("year:int,metadata.year:date", "text/csv", "types", "got \"year\" twice"),
        ("month:int", "text/csv", "", "has no column of metadata month"),
    ] {
        let refused = send(types, media_type, "text,year\na,2026\n").await;
        refused.assert_error(422, "invalid_request", place, &[words]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_imported_with_metadata_columns() {
    let server = Server::with_news().await;
    let job =
        server.import("text/csv; charset=utf-8", "id,text,language,metadata.source\n1,\"Zug, spät\",de,dpa\n2,雨,xx,\n").await;
    assert_eq!(job["details"], json!({"lines": 3, "created": 1, "updated": 0, "failed": 1}));
    assert_eq!(results(&server, &job, "?status=failed").await[0]["error"]["code"], "unknown_language");
    let job = server.import("text/tab-separated-values", "text\tid\nsay \"hi\"\tq\n").await;
    assert_eq!(job["status"], "succeeded");
    let stored = server.get("/v1/collections/news/documents/1").await.body;
    assert_eq!((&stored["text"], &stored["metadata"]), (&json!("Zug, spät"), &json!({"source": "dpa"})));
    assert_eq!(server.get("/v1/collections/news/documents/q").await.body["text"], "say \"hi\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_with_a_wrong_cell_names_its_document_and_field() {
    let server = Server::with_news().await;
    let request = Request::post(format!("{IMPORT}?types=year:int")).header("content-type", "text/csv");
    let sent = server.send(request.body(Body::from("text,year,id\na,20x,first\n")).expect("a request")).await;
    let failed = &results(&server, &server.finished(&sent).await, "?status=failed").await[0];
    assert_eq!((&failed["id"], &failed["error"]["pointer"]), (&json!("first"), &json!("/metadata/year")), "{failed}");
    let detail = failed["error"]["detail"].as_str().expect("text");
    assert!(detail.contains("column year must be an integer of 64 bits, got \"20x\""), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_progress_of_an_import_counts_blank_lines_at_the_end() {
    let server = Server::with_news().await;
    for body in ["\n\n", "{\"text\":\"Bonjour\"}\n\n\n"] {
        let progress = server.import(NDJSON, body).await["progress"].clone();
        assert_eq!((&progress["done"], &progress["total"]), (&json!(body.len()), &json!(body.len())), "{body:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_files_are_imported_but_decompression_bombs_refused() {
    let server = Server::with_news().await;
    let line = b"{\"id\":\"a\",\"text\":\"Bonjour\"}\n";
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("gzip")
    };
    for (encoding, body) in [("gzip", gzip(line)), ("zstd", zstd::encode_all(&line[..], 3).expect("zstd"))] {
        let job = server.finished(&server.send(request(NDJSON, encoding, body)).await).await;
        assert_eq!(job["details"]["lines"], 1, "{encoding}: {job}");
    }
    let bomb = zstd::encode_all(&vec![b' '; 80 << 20][..], 3).expect("zstd");
    server.send(request(NDJSON, "zstd", bomb)).await.assert_error(413, "body_too_large", "", &["200 times"]);
    let torn = gzip(line)[..12].to_vec();
    server.send(request(NDJSON, "gzip", torn)).await.assert_error(400, "malformed_file", "", &["gzip"]);
    let mut wide = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("zstd");
    wide.window_log(27).and_then(|()| wide.write_all(line)).expect("zstd");
    let refused = server.send(request(NDJSON, "zstd", wide.finish().expect("zstd"))).await;
    refused.assert_error(400, "malformed_file", "", &["window is larger than 8 MiB", "without --long and --ultra"]);
    let refused = server.send(request(NDJSON, "br", "x")).await;
    refused.assert_error(415, "unsupported_media_type", "content-encoding", &["br"]);
    assert_eq!(server.get("/v1/jobs").await.body["jobs"].as_array().map(Vec::len), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_response_to_head_announces_only_a_known_length() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Die Fähre fährt wieder."}])).await;
    let head = async |path: &str| server.send_unchecked(Request::head(path).body(Body::empty()).expect("a request")).await;
    let known = head("/v1/collections/news").await;
    let length = known.header("content-length").map(str::to_owned);
    assert_eq!(length, server.get("/v1/collections/news").await.header("content-length").map(str::to_owned));
    assert!(length.is_some_and(|length| length != "0"));
    let stream = head(EXPORT).await;
    assert_eq!((stream.status, stream.header("content-length"), stream.text.as_str()), (200, None, ""));
    assert_eq!(stream.header("content-type"), Some(NDJSON));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_before_the_end_of_the_body_announces_that_the_connection_closes() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Die Fähre fährt wieder."}])).await;
    let post = |path: &str, body: &str| Request::post(path).header("content-type", NDJSON).body(Body::from(body.to_owned()));
    let refused = server.send(post("/v1/collections/nope/import", "{}").expect("a request")).await;
    assert_eq!((refused.status, refused.header("connection")), (404, Some("close")));
    let search = Request::post("/v1/collections/news/search").header("content-type", "application/json");
    let invalid = server.send(search.body(Body::from(r#"{"query": "ferry", "limit": 0}"#)).expect("a request")).await;
    assert_eq!((invalid.status, invalid.header("connection")), (422, None), "the body was read");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_octet_stream_is_read_as_ndjson() {
    let server = Server::with_news().await;
    let job = server.import("application/octet-stream", "{\"id\":\"a\",\"text\":\"Bonjour\"}\n").await;
    assert_eq!((&job["status"], &job["details"]["created"]), (&json!("succeeded"), &json!(1)), "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_imports_are_refused_and_leave_no_job() {
    let limits = Limits { import_bytes_max: 1_000, ..Limits::default() };
    let server = Server::with_limits(limits);
    let post = |media_type: &str, body: String| request(media_type, "identity", body);
    server.send(post(NDJSON, String::new())).await.assert_error(404, "collection_not_found", "", &["news"]);
    server.post("/v1/collections", &json!({"name": "news"})).await;
    server.send(post("application/json", String::new())).await.assert_error(
        415,
        "unsupported_media_type",
        "content-type",
        &["csv"],
    );
    server.send(post("text/csv; charset=latin1", String::new())).await.assert_error(
        415,
        "unsupported_media_type",
        "content-type",
        &[],
    );
    server.send(post("text/csv", "id;text\n".to_owned())).await.assert_error(422, "invalid_request", "", &["id;text"]);
    server.send(post(NDJSON, " ".repeat(1_001))).await.assert_error(413, "body_too_large", "", &["1000 bytes"]);
    let odd = Request::post(format!("{IMPORT}?wait=stored")).header("content-type", NDJSON).body(Body::empty());
    server.send(odd.expect("a request")).await.assert_error(422, "invalid_request", "wait", &["unknown"]);
    assert_eq!(server.get("/v1/jobs").await.body, json!({"jobs": []}));
    let empty = server.import(NDJSON, "").await;
    assert_eq!((&empty["status"], &empty["details"]["lines"]), (&json!("succeeded"), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_is_refused_when_disk_space_is_low() {
    let server = Server::with_limits(Limits { disk_reserve_bytes: u64::MAX / 2, ..Limits::default() });
    server.post("/v1/collections", &json!({"name": "news"})).await;
    let refused = server.send(request(NDJSON, "identity", "{}")).await;
    refused.assert_error(503, "storage_unavailable", "", &["reserve", "free"]);
    assert!(refused.header("retry-after").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_beyond_the_limit_are_refused() {
    let server =
        Server::with_limits(Limits { jobs_running_max: 1, jobs_queued_max: 0, import_backlog_max: 0, ..Limits::default() });
    server.post("/v1/collections", &json!({"name": "news"})).await;
    let many: String = (0..5_000).map(|n| format!("{{\"text\":\"line {n} of many\"}}\n")).collect();
    let first = server.send(request(NDJSON, "identity", many)).await;
    let second = server.send(request(NDJSON, "identity", "{}")).await;
    second.assert_error(503, "overloaded", "", &["1 jobs", "nothing was accepted"]);
    assert_eq!(server.finished(&first).await["details"]["created"], 5_000);
    assert_eq!(server.import(NDJSON, "{\"text\":\"x\"}").await["status"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_can_be_imported_again() {
    let server = Server::with_news().await;
    let body: String = (0..777)
        .map(|n| match n % 3 {
            0 => format!("{}\n", json!({"id": format!("d{n}"), "text": format!("Zug {n} fährt\nspät"), "language": "de"})),
            1 => format!(
                "{}\n",
                json!({"id": format!("ж{n}"), "text": format!("Поезд {n}"), "metadata": {"n": n, "a": [null, {"b": 1.5}]}})
            ),
            _ => format!("{}\n", json!({"id": format!("{n}/水"), "text": format!("電車 {n} が遅れている。").repeat(9)})),
        })
        .collect();
    assert_eq!(server.import(NDJSON, body).await["details"]["created"], 777);
    let plain = server.get(EXPORT).await;
    assert_eq!((plain.status, plain.header("content-encoding")), (200, None));
    let exported = lines(&plain.text);
    assert!(exported.len() == 777 && exported.is_sorted_by_key(|line| line["id"].as_str().map(str::to_owned)));

    let other = Server::with_news().await;
    let job = other.import(NDJSON, plain.text.clone()).await;
    assert_eq!(job["details"], json!({"lines": 777, "created": 777, "updated": 0, "failed": 0}));
    assert_eq!(lines(&other.get(EXPORT).await.text), exported);
    for query in ["Поезд 7", "電車 5 が遅れている。"] {
        let hits = async |server: &Server| {
            server.post("/v1/collections/news/search", &json!({"query": query, "limit": 3})).await.body["hits"][0]["id"].clone()
        };
        assert_eq!(hits(&server).await, hits(&other).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_has_a_compression_that_the_client_accepts() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Bonjour"}])).await;
    for (accepted, expected) in [
        ("", None),
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("GZIP", Some("gzip")),
        ("zstd;q=0, gzip;q=0.5", Some("gzip")),
        ("zstd;q=0.2, gzip;q=0.5", Some("gzip")),
        ("br", None),
    ] {
        let request = Request::get(EXPORT).header("accept-encoding", accepted).body(Body::empty()).expect("a request");
        assert_eq!(server.send(request).await.header("content-encoding"), expected, "{accepted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_are_compressed_and_include_vectors_on_request() {
    let server =
        Server::with_documents(json!([{"id": "a", "text": "Bonjour"}, {"id": "b", "text": "many words ".repeat(40)}])).await;
    let plain = server.get(EXPORT).await.text;
    for encoding in ["gzip", "zstd"] {
        let request = Request::get(EXPORT).header("accept-encoding", encoding).body(Body::empty()).expect("a request");
        let packed = server.send(request).await;
        assert_eq!(packed.header("content-encoding"), Some(encoding));
        let mut unpacked = String::new();
        match encoding {
            "gzip" => flate2::read::GzDecoder::new(&packed.bytes[..]).read_to_string(&mut unpacked).expect("gzip"),
            _ => zstd::stream::read::Decoder::new(&packed.bytes[..]).expect("zstd").read_to_string(&mut unpacked).expect("zstd"),
        };
        assert_eq!(unpacked, plain);
    }
    let vectors = lines(&server.get(&format!("{EXPORT}?include=vector")).await.text);
    assert_eq!(vectors[0]["vector"].as_array().map(Vec::len), Some(crate::server::DIMENSION));
    assert!(vectors[1].get("vector").is_none(), "a document with several passages has no single vector");
    server.get(&format!("{EXPORT}?include=passages")).await.assert_error(422, "invalid_request", "include", &["vector"]);
    server.get("/v1/collections/none/export").await.assert_error(404, "collection_not_found", "", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_with_a_model_imports_its_export_only_without_vectors() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Bonjour"}])).await;
    for (query, failed) in [("", 0), ("?include=vector", 1)] {
        let exported = server.get(&format!("{EXPORT}{query}")).await.text;
        let job = server.import(NDJSON, exported).await;
        assert_eq!(job["details"], json!({"lines": 1, "created": 0, "updated": 1 - failed, "failed": failed}), "{query}");
        let refused = results(&server, &job, "?status=failed").await;
        assert!(refused.iter().all(|line| line["error"]["pointer"] == "/vector"), "{refused:?}");
        assert!(refused.iter().all(|line| line["error"]["detail"].as_str().unwrap().contains("must be left out")), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_results_of_an_import_are_an_error() {
    let server = Server::with_news().await;
    let job = server.import(NDJSON, "{\"text\":\"Bonjour\"}\n{\"text\":\" \"}\n").await;
    let id = job["id"].as_str().expect("an id");
    let file = server._folder.path().join(format!("jobs/{id}/results.ndjson"));
    let whole = std::fs::read(&file).expect("results");
    for end in [whole.len() - 1, whole.len() / 2, 0] {
        std::fs::write(&file, &whole[..end]).expect("truncated");
        for query in ["", "?status=created"] {
            let refused = server.get(&format!("/v1/jobs/{id}/results{query}")).await;
            refused.assert_error(500, "internal", "", &["request id"]);
        }
    }
    std::fs::remove_file(&file).expect("removed");
    let refused = server.get(&format!("/v1/jobs/{id}/results")).await;
    // In a store that several servers share, another one may have them.
    match refused.status {
        409 => refused.assert_error(409, "no_results", "", &["not on this server"]),
        _ => refused.assert_error(500, "internal", "", &["request id"]),
    }
    std::fs::write(&file, whole).expect("put back");
    assert_eq!(results(&server, &job, "").await.len(), 2);
}
