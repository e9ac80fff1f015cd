//! How fast the shipped bundle embeds through HTTP: the real program on loopback, one request at a time and 32 in flight,
//! beside the bare ONNX session called in batches in the same run.
//!
//! The client is a bare socket that writes prepared requests, so that the two cores are the server's as far as possible. Where
//! `taskset` exists, the server of the latency measurement runs on one core.
//!
//! `DRAGOMAN_MODEL` names another bundle.

mod measure;
mod session;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dragoman::bundle::{Bundle, TOKENIZER};
use dragoman::text::{Tokenizer, Tokens};
use measure::{median, median_rate};

const QUERY_TOKENS: usize = 20;
const QUERIES: usize = 256;
const IN_FLIGHT: usize = 32;
const ROUNDS: usize = 7;
const REQUESTS: usize = 2_000;

fn main() {
    let folder = std::env::var_os("DRAGOMAN_MODEL").map_or_else(|| PathBuf::from("models/ems-small"), PathBuf::from);
    let bundle = Bundle::open(&folder).expect("the bundle opens");
    let tokenizer = Tokenizer::load(&bundle.path(TOKENIZER)).expect("the tokenizer loads");
    let texts = measure::texts(&tokenizer, QUERY_TOKENS, QUERIES);
    let tokens: Vec<Tokens> = texts.iter().map(|text| tokenizer.encode(text, QUERY_TOKENS).expect("a text has tokens")).collect();
    let requests: Arc<[Vec<u8>]> = texts.iter().map(|text| request(text)).collect();

    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder, &data.path().join("one"), true);
    println!("idle server: {} MB resident", server.resident_mb());
    let latency = latency(&server, &requests);
    println!("one 20-token query through HTTP on one core: median {latency:.2?}");
    drop(server);

    let server = Server::start(&folder, &data.path().join("all"), false);
    let mut session = session::bare(&bundle, 0);
    let (mut bare, mut served) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for batch in tokens.chunks(IN_FLIGHT).cycle().take(REQUESTS.div_ceil(IN_FLIGHT)) {
            session::run(&mut session, batch);
        }
        bare.push(REQUESTS as f64 / begun.elapsed().as_secs_f64());
        served.push(in_flight(&server, &requests));
    }
    let (bare, served) = (median_rate(bare), median_rate(served));
    println!("bare session in batches of {IN_FLIGHT}: {bare:.0} texts/s");
    println!("{IN_FLIGHT} HTTP requests in flight: {served:.0} texts/s, {:.0}% of the bare session", 100.0 * served / bare);
}

fn request(text: &str) -> Vec<u8> {
    let body = serde_json::json!({ "input": text, "encoding_format": "base64" }).to_string();
    let head = format!(
        "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

fn latency(server: &Server, requests: &[Vec<u8>]) -> Duration {
    let mut connection = server.connect();
    let times = requests.iter().cycle().take(4 * requests.len()).map(|request| {
        let begun = Instant::now();
        exchange(&mut connection, request);
        begun.elapsed()
    });
    median(times.collect())
}

fn in_flight(server: &Server, requests: &Arc<[Vec<u8>]>) -> f64 {
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..IN_FLIGHT {
            scope.spawn(|| {
                let mut connection = server.connect();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= REQUESTS {
                        break;
                    }
                    exchange(&mut connection, &requests[number % requests.len()]);
                }
            });
        }
    });
    REQUESTS as f64 / begun.elapsed().as_secs_f64()
}

/// Sends a request and reads its whole answer.
fn exchange(connection: &mut BufReader<TcpStream>, request: &[u8]) {
    connection.get_mut().write_all(request).expect("the request is sent");
    let mut line = String::new();
    let (mut length, mut ok) = (0, false);
    loop {
        line.clear();
        connection.read_line(&mut line).expect("the answer has a head");
        let text = line.trim_end().to_ascii_lowercase();
        ok |= text.starts_with("http/1.1 200");
        if let Some(value) = text.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if text.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).expect("the answer has a body");
    assert!(ok && length > 0, "{}", String::from_utf8_lossy(&body));
}

/// The program; ended when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(model: &Path, data: &Path, one_core: bool) -> Self {
        let program = env!("CARGO_BIN_EXE_dragoman");
        let pinned = one_core && Command::new("taskset").arg("--version").stdout(Stdio::null()).status().is_ok();
        let mut command = if pinned { Command::new("taskset") } else { Command::new(program) };
        if pinned {
            command.args(["--cpu-list", "0", program]);
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--threads", if one_core { "1" } else { "0" }]);
        command.arg("--model").arg(model).arg("--data").arg(data).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("its log is read")).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line).ok()?;
            let fields = &line;
            (fields["message"] == "listening").then(|| fields["address"].as_str().map(str::to_owned))?
        });
        // The log is read on, so that the program never waits for a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.expect("the program says where it listens") }
    }

    fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(&self.address).expect("the server accepts");
        stream.set_nodelay(true).expect("the socket has options");
        BufReader::new(stream)
    }

    fn resident_mb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or(0) / 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
