//! Traces: the spans that a collector receives for a search, with the caller's trace as parent. Needs the feature `otel`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/program.rs"]
mod program;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use program::Program;
use serde_json::json;

const TRACE: [u8; 16] = [0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36];

/// A request's first line and its body.
type Received = (String, Vec<u8>);

/// A collector that records requests.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Received>>>);

impl Collector {
    /// Starts it and returns its address.
    fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let received = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                received.take(stream);
            }
        });
        address
    }

    fn take(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        let (mut first, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap() <= 2 {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if first.is_empty() {
                first = line;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        self.0.lock().unwrap().push((first, body));
        let response =
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        reader.into_inner().write_all(response.as_bytes()).unwrap();
    }
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_collector_receives_the_spans_of_a_search() {
    let collector = Collector::default();
    let folder = tempfile::tempdir().unwrap();
    let mut command = program::command(folder.path(), "fake:8");
    command.args(["--otel-endpoint", &format!("http://{}", collector.start())]);
    let server = Program::run(command);
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "news" })).0, 201);
    let documents = json!({ "documents": [{ "id": "a", "text": "Vanillesauce mit Rhabarber" }] });
    assert_eq!(client.post("/v1/collections/news/documents", &documents).0, 200);
    let trace: String = TRACE.iter().map(|byte| format!("{byte:02x}")).collect();
    let body = json!({ "query": "Rhabarber" }).to_string();
    let mut stream = TcpStream::connect(client.address()).unwrap();
    let head = format!(
        "POST /v1/collections/news/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n\
         traceparent: 00-{trace}-00f067aa0ba902b7-01\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(server.terminate().success());

    let received = collector.0.lock().unwrap();
    assert!(!received.is_empty() && received.iter().all(|(line, _)| line.starts_with("POST /v1/traces ")), "{received:?}");
    let anywhere = |part: &[u8]| received.iter().any(|(_, body)| contains(body, part));
    for name in ["dragoman", "request", "search_documents", "embed", "store_read", "store_write", "index_search"] {
        assert!(anywhere(name.as_bytes()), "no span has {name}");
    }
    assert!(anywhere(&TRACE), "the caller's trace is not continued");
    assert!(!anywhere(b"Rhabarber"), "the text of a query or document was exported");
}
