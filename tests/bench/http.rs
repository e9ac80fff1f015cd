//! How fast the shipped bundle embeds over HTTP: the real program on loopback, one request at a time and 32 in flight, compared
//! with the bare ONNX session in batches in the same run.
//!
//! The client writes prepared requests to a raw socket, so that the server gets as much of the two cores as possible. If
//! `taskset` exists, the server of the latency measurement runs on one core.
//!
//! `DRAGOMAN_MODEL` names another bundle.

mod measure;
mod server;
mod session;
mod texts;
mod wire;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dragoman::bundle::{Bundle, TOKENIZER};
use dragoman::text::{Tokenizer, Tokens};
use measure::{median, median_rate};
use server::{Cores, Server};

const QUERY_TOKENS: usize = 20;
const QUERIES: usize = 256;
const IN_FLIGHT: usize = 32;
const ROUNDS: usize = 7;
const REQUESTS: usize = 2_000;

fn main() {
    let folder = std::env::var_os("DRAGOMAN_MODEL").map_or_else(|| PathBuf::from("models/ems-small"), PathBuf::from);
    let bundle = Bundle::open(&folder).expect("the bundle opens");
    let tokenizer = Tokenizer::load(&bundle.path(TOKENIZER)).expect("the tokenizer loads");
    let texts = texts::texts(&tokenizer, QUERY_TOKENS, QUERIES);
    let tokens: Vec<Tokens> = texts.iter().map(|text| tokenizer.encode(text, QUERY_TOKENS).expect("a text has tokens")).collect();
    let requests: Vec<Vec<u8>> = texts.iter().map(|text| request(text)).collect();

    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder, &data.path().join("one"), Cores::One);
    println!("idle server: {} MB resident", server.resident_mb());
    let latency = latency(&server, &requests);
    println!("one 20-token query over HTTP on one core: median {latency:.2?}");
    drop(server);

    let server = Server::start(&folder, &data.path().join("all"), Cores::All);
    let mut session = session::bare(&bundle, 0);
    let (mut bare, mut served) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for batch in tokens.chunks(IN_FLIGHT).cycle().take(REQUESTS.div_ceil(IN_FLIGHT)) {
            session::run(&mut session, batch);
        }
        bare.push(REQUESTS as f64 / started.elapsed().as_secs_f64());
        served.push(wire::rate(server.address(), &requests, REQUESTS, IN_FLIGHT));
    }
    let (bare, served) = (median_rate(bare), median_rate(served));
    println!("bare session in batches of {IN_FLIGHT}: {bare:.0} texts/s");
    println!("{IN_FLIGHT} HTTP requests in flight: {served:.0} texts/s, {:.0}% of the bare session", 100.0 * served / bare);
}

fn request(text: &str) -> Vec<u8> {
    wire::post("/v1/embeddings", &serde_json::json!({ "input": text, "encoding_format": "base64" }))
}

fn latency(server: &Server, requests: &[Vec<u8>]) -> Duration {
    let mut connection = wire::Connection::open(server.address());
    let times = requests.iter().cycle().take(4 * requests.len()).map(|request| {
        let started = Instant::now();
        connection.exchange(request);
        started.elapsed()
    });
    median(times.collect())
}
