//! Tests the server encoder against a minimal listener with prepared responses.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use super::*;

/// Answers one request per connection with the prepared responses in turn, then stops listening.
struct Listener {
    address: String,
    /// The bodies of the requests.
    requests: JoinHandle<Vec<Value>>,
}

impl Listener {
    fn answering(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answer_all = move || {
            let answer = |text: String| {
                let (stream, _) = listener.accept().unwrap();
                let body = read_request(&stream);
                (&stream).write_all(text.as_bytes()).unwrap();
                body
            };
            answers.into_iter().map(answer).collect()
        };
        Self { address, requests: std::thread::spawn(answer_all) }
    }

    fn encoder(&self) -> ServerEncoder {
        ServerEncoder::new(&self.address, None).unwrap()
    }
}

fn read_request(stream: &TcpStream) -> Value {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
}

/// A successful response with its embeddings in reverse order.
fn embeddings(rows: &[&[f32]]) -> String {
    let item = |(index, row): (usize, &&[f32])| json!({ "object": "embedding", "index": index, "embedding": row });
    let data: Vec<Value> = rows.iter().enumerate().map(item).rev().collect();
    answer("200 OK", "", &json!({ "object": "list", "data": data, "model": "tiny" }).to_string())
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

const FULL: &str = r#"{"error":{"message":"the queue is full","type":"overloaded_error","param":null,"code":"overloaded"}}"#;

fn full() -> String {
    answer("429 Too Many Requests", "retry-after: 0\r\n", FULL)
}

#[test]
fn server_embeddings_are_normalized_and_in_input_order() {
    let listener = Listener::answering(vec![embeddings(&[&[3.0, 4.0], &[0.0, 2.0]])]);
    let got = listener.encoder().encode(&texts(&["Haus", "बिल्ली"])).unwrap();
    assert_eq!(got.values(), [0.6, 0.8, 0.0, 1.0]);
    let requests = listener.requests.join().unwrap();
    assert_eq!(requests, [json!({ "input": ["Haus", "बिल्ली"], "encoding_format": "float" })]);
}

#[test]
fn the_request_includes_the_model_name() {
    let listener = Listener::answering(vec![embeddings(&[&[1.0]])]);
    let mut encoder = ServerEncoder::new(&format!("{}/", listener.address), Some("tiny".to_owned())).unwrap();
    encoder.encode(&texts(&["Haus"])).unwrap();
    assert_eq!(listener.requests.join().unwrap()[0]["model"], "tiny");
}

#[test]
fn many_texts_are_sent_in_several_requests() {
    let full_batch: Vec<&[f32]> = vec![&[1.0, 0.0]; BATCH_TEXTS_MAX];
    let listener = Listener::answering(vec![embeddings(&full_batch), embeddings(&[&[0.0, 1.0]])]);
    let got = listener.encoder().encode(&vec!["da".to_owned(); BATCH_TEXTS_MAX + 1]).unwrap();
    assert_eq!((got.len(), got.part(BATCH_TEXTS_MAX, 1).values()), (BATCH_TEXTS_MAX + 1, [0.0, 1.0].as_slice()));
    let sizes: Vec<usize> =
        listener.requests.join().unwrap().iter().map(|body| body["input"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [BATCH_TEXTS_MAX, 1]);
}

#[test]
fn long_texts_are_sent_in_smaller_batches() {
    let half = "x".repeat(BATCH_BYTES_MAX / 2);
    let whole = "x".repeat(BATCH_BYTES_MAX + 1);
    assert_eq!(batches(&[half.clone(), half.clone(), half, whole.clone(), whole]), [0..2, 2..3, 3..4, 4..5]);
}

#[test]
fn an_overloaded_server_is_retried() {
    let listener = Listener::answering(vec![full(), full(), embeddings(&[&[1.0]])]);
    assert_eq!(listener.encoder().encode(&texts(&["Haus"])).unwrap().len(), 1);
    assert_eq!(listener.requests.join().unwrap().len(), 3);
}

#[test]
fn retries_stop_when_the_server_stays_overloaded() {
    let listener = Listener::answering(vec![full(); ATTEMPTS]);
    let error = listener.encoder().encode(&texts(&["Haus"])).unwrap_err().to_string();
    assert!(error.ends_with("/v1/embeddings: expected 200, got 429 6 times: overloaded: the queue is full"), "{error}");
    assert_eq!(listener.requests.join().unwrap().len(), ATTEMPTS);
}

#[test]
fn an_error_response_is_reported_and_not_retried() {
    let refused = r#"{"error":{"message":"/input/0: must not be blank","code":"invalid_request"}}"#;
    let problem = r#"{"title":"Not here","detail":"no route for /v1/embeddings","code":"route_not_found"}"#;
    for (status, body, expect) in [
        ("422 Unprocessable Entity", refused, "got 422: invalid_request: /input/0: must not be blank"),
        ("404 Not Found", problem, "got 404: route_not_found: no route for /v1/embeddings"),
        ("500 Internal Server Error", "on fire", "got 500: on fire"),
    ] {
        let listener = Listener::answering(vec![answer(status, "", body)]);
        let error = listener.encoder().encode(&texts(&["Haus"])).unwrap_err().to_string();
        assert!(error.ends_with(expect), "{error}");
        assert_eq!(listener.requests.join().unwrap().len(), 1);
    }
}

#[test]
fn responses_without_valid_embeddings_are_refused() {
    for (answer, expect) in [
        (answer("200 OK", "", "hello"), "expected embeddings as JSON"),
        (embeddings(&[&[1.0]]), "expected one embedding for each of 2 texts, got 1"),
        (embeddings(&[&[1.0], &[1.0, 2.0]]), "expected embeddings of 1 values, got one of 2"),
    ] {
        let error = Listener::answering(vec![answer]).encoder().encode(&texts(&["Haus", "Maus"])).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
}

#[test]
fn an_unreachable_server_is_named_in_the_error() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = ServerEncoder::new(&format!("http://{nobody}"), None).unwrap().encode(&texts(&["Haus"])).unwrap_err().to_string();
    assert!(error.contains(&format!("http://{nobody}")) && error.contains("is it running?"), "{error}");
}

#[test]
fn an_https_address_is_refused() {
    let error = ServerEncoder::new("https://example.org", None).err().unwrap().to_string();
    assert!(error.contains("begins with http://, got https://example.org"), "{error}");
}
