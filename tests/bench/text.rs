//! What Dragoman adds to the encoder: documents stored and searchable per second against texts embedded per second, and the
//! time of a text query, `dense` and by default, against the time of its embedding, in one run.
//!
//! The encoder alone is the same queue and session in this process, with the same texts in the same batches. `DRAGOMAN_MODEL`
//! names another bundle, `DOCUMENTS` sets the number of documents.

mod measure;
mod server;
mod texts;
mod wire;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dragoman::bundle::{Bundle, TOKENIZER};
use dragoman::domain::DeviceChoice;
use dragoman::embed::{EmbedOptions, Embedder, Priority};
use dragoman::text::Tokenizer;
use measure::median;
use serde_json::json;
use server::{Cores, Server};
use wire::{Connection, post};

const DOCUMENTS: usize = 12_000;
/// Documents of one request.
const BATCH: usize = 250;
/// Concurrent requests.
const WRITERS: usize = 4;
/// Lengths of the texts.
const TOKENS: std::ops::Range<usize> = 8..56;
const QUERIES: usize = 400;
const ROUNDS: usize = 3;
const MODES: [&str; 2] = ["dense", "full"];

fn main() {
    let folder = std::env::var_os("DRAGOMAN_MODEL").map_or_else(|| PathBuf::from("models/ems-small"), PathBuf::from);
    let documents = std::env::var("DOCUMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(DOCUMENTS);
    let bundle = Bundle::open(&folder).expect("the bundle opens");
    let tokenizer = Tokenizer::load(&bundle.path(TOKENIZER)).expect("the tokenizer loads");
    let lengths = TOKENS.len();
    let by_length: Vec<Vec<String>> =
        TOKENS.map(|tokens| texts::texts(&tokenizer, tokens, documents.div_ceil(lengths))).collect();
    let texts: Vec<String> = (0..documents).map(|number| by_length[number % lengths][number / lengths].clone()).collect();

    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder, data.path(), Cores::All);
    let (mut alone, mut stored) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        alone.push(embedded_per_second(&bundle, &texts));
        stored.push(stored_per_second(&server, &format!("round{round}"), &texts));
    }
    let (alone, stored) = (measure::median_rate(alone), measure::median_rate(stored));
    println!("embedder alone: {alone:.0} texts/s");
    println!(
        "documents stored and searchable over HTTP: {stored:.0} documents/s, {:.0}% of the embedder alone",
        100.0 * stored / alone
    );

    let queries = texts::texts(&tokenizer, 20, QUERIES);
    let embedding: Vec<_> = queries.iter().map(|text| post("/v1/embeddings", &json!({"input": text}))).collect();
    let searches = |mode: &str| -> Vec<_> {
        let body = |text| json!({"query": text, "mode": mode, "limit": 10});
        queries.iter().map(|text| post("/v1/collections/round0/search", &body(text))).collect()
    };
    let [dense, full] = MODES.map(searches);
    // The first search in mode `full` starts to precompute in the background.
    Connection::open(server.address()).exchange(&full[0]);
    server.rest();
    let mut connection = Connection::open(server.address());
    // Interleaved, so that all see the same machine conditions.
    let mut times = [const { Vec::new() }; 3];
    for number in (0..QUERIES).cycle().take(3 * QUERIES) {
        for (request, times) in [&embedding, &dense, &full].into_iter().zip(&mut times) {
            times.push(time(&mut connection, &request[number]));
        }
    }
    let [embedding, searches @ ..] = times.map(median);
    println!("a 20-token text embedded over HTTP: median {embedding:.2?}");
    for (mode, search) in MODES.into_iter().zip(searches) {
        let more = search.saturating_sub(embedding);
        println!("a search for it among {documents} documents in mode `{mode}`: median {search:.2?}, {more:.2?} more");
    }
}

fn time(connection: &mut Connection, request: &[u8]) -> Duration {
    let started = Instant::now();
    connection.exchange(request);
    started.elapsed()
}

fn embedded_per_second(bundle: &Bundle, texts: &[String]) -> f64 {
    let options = EmbedOptions { device: DeviceChoice::Cpu, threads: 0, batch_tokens_max: 4_096, queue_texts_max: 20_000 };
    let embedder = Embedder::start(bundle, &options).expect("the encoder starts");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let next = std::sync::atomic::AtomicUsize::new(0);
    let batches: Vec<&[String]> = texts.chunks(BATCH).collect();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                while let Some(batch) = batches.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    runtime.block_on(embedder.embed(batch.to_vec(), Priority::Ingest)).expect("the texts are embedded");
                }
            });
        }
    });
    let rate = texts.len() as f64 / started.elapsed().as_secs_f64();
    embedder.stop();
    rate
}

fn stored_per_second(server: &Server, collection: &str, texts: &[String]) -> f64 {
    Connection::open(server.address())
        .call("/v1/collections", &json!({"name": collection, "quantization": server::quantization()}));
    let body = |(number, batch): (usize, &[String])| {
        let document = |(place, text): (usize, &String)| json!({"id": format!("{number}-{place}"), "text": text});
        let documents: Vec<_> = batch.iter().enumerate().map(document).collect();
        post(&format!("/v1/collections/{collection}/documents"), &json!({"documents": documents}))
    };
    let requests: Vec<Vec<u8>> = texts.chunks(BATCH).enumerate().map(body).collect();
    wire::rate(server.address(), &requests, requests.len(), WRITERS) * BATCH as f64
}
