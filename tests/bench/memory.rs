//! Memory and disk space per document for each quantization: the real program with one collection of clustered vectors of the
//! shipped dimension, each with a short text and metadata. The usage of an empty server is subtracted.
//!
//! Measures three servers: one that wrote or indexed the documents, one that was restarted and searches the memory-mapped
//! index, and the latter after one change, which loads the index into memory.
//!
//! `DOCUMENTS=100000,1000000` sets the numbers of documents (100,000), `QUANTIZATIONS=f16,i8` the quantizations,
//! `DRAGOMAN_BENCH_PROGRAM` names another build of the program. Up to `OVER_HTTP_MAX` documents are written over HTTP. More are
//! written directly into one database, which each server in turn gets and indexes; `DIRECT=1` does so with fewer, too.
//! `FILLED=FOLDER` keeps that database there, and reuses one from an earlier run with as many documents. `EXPANSION_ADD=16`
//! builds a worse graph of the same size in a fraction of the time.

#![expect(clippy::unwrap_used, reason = "a measurement fails by panicking")]

mod clusters;
mod process;
#[path = "../support/program.rs"]
mod program;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clusters::Clusters;
use dragoman::domain::{DocumentId, Embedding, Language, Metadata, Precondition};
use dragoman::embed::passage_terms;
use dragoman::store::{DocumentStore, PreparedDocument, StoreOptions, TermsOf};
use process::{Memory, memory};
use program::{Client, Program};
use serde_json::{Value, json};

const DOCUMENTS: &str = "100000";
/// The dimension of the shipped bundle.
const DIMENSION: usize = 256;
const OVER_HTTP_MAX: usize = 200_000;
/// Documents per request.
const BATCH: usize = 500;
/// Documents per direct write into the database.
const DIRECT_BATCH: usize = 2_000;
const QUERIES: usize = 1_000;
/// Queries whose first ten hits are compared with the exact ones.
const JUDGED: usize = 50;
const LIMIT: usize = 10;
/// How long building a graph of millions may take.
const PATIENCE: Duration = Duration::from_secs(3_600);
const QUANTIZATIONS: [&str; 5] = ["i8", "f16", "bf16", "f32", "b1"];
const DATABASE: &str = "documents.sqlite";

/// The measurements for one quantization. Memory is in bytes, without that of an empty server.
struct Measured {
    written: Memory,
    /// The time to write or index, and to stop, which saves the index.
    took: [Duration; 2],
    database: u64,
    index: u64,
    answers: Duration,
    started: Memory,
    searched: Memory,
    changed: Memory,
    recall: f64,
}

fn main() {
    let counts = std::env::var("DOCUMENTS").unwrap_or_else(|_| DOCUMENTS.to_owned());
    let wanted = std::env::var("QUANTIZATIONS").unwrap_or_default();
    let shipped = tempfile::tempdir().unwrap();
    let server = Program::run(command(shipped.path(), "models/ems-small"));
    show_empty("an empty server with the shipped model", memory(server.id()));
    assert!(server.terminate_within(PATIENCE).success());
    for count in counts.split(',') {
        let count: usize = count.parse().expect("DOCUMENTS is a list of numbers");
        let direct = count > OVER_HTTP_MAX || std::env::var_os("DIRECT").is_some();
        let data = Clusters::new(count, QUERIES, DIMENSION, 7);
        let exact = data.exact(JUDGED, LIMIT, |_| true);
        let folder = tempfile::tempdir().unwrap();
        let mut filled = None;
        if direct {
            let since = Instant::now();
            let kept = std::env::var_os("FILLED").map_or_else(|| folder.path().join("filled"), PathBuf::from);
            if !kept.join(DATABASE).exists() {
                fill_database(&kept, &data);
                println!("{count} documents stored without an index in {:.1?}", since.elapsed());
            }
            filled = Some(kept.join(DATABASE));
        }
        let how = if direct { "indexed" } else { "written over HTTP" };
        print_head(count, how);
        for name in QUANTIZATIONS {
            if wanted.is_empty() || wanted.split(',').any(|wanted| wanted == name) {
                let place = folder.path().join(name);
                let measured = measure(&place, name, &data, &exact, filled.as_deref());
                print_row(name, count as f64, &measured);
                if let Some(filled) = &filled {
                    std::fs::rename(database_of(&place), filled).unwrap();
                }
                std::fs::remove_dir_all(&place).unwrap();
            }
        }
    }
}

fn measure(place: &Path, quantization: &str, data: &Clusters, exact: &[Vec<usize>], filled: Option<&Path>) -> Measured {
    let server = Program::run(command(place, &format!("fake:{DIMENSION}")));
    let mut body = json!({"name": "bench", "dimension": DIMENSION, "quantization": quantization});
    if let Some(ef_construction) = std::env::var("EXPANSION_ADD").ok().and_then(|text| text.parse::<u64>().ok()) {
        body["hnsw"] = json!({"ef_construction": ef_construction});
    }
    assert_eq!(server.client().post("/v1/collections", &body).0, 201);
    let empty = memory(server.id());

    let since = Instant::now();
    let server = match filled {
        None => {
            write(&server.client(), data);
            server
        }
        Some(filled) => {
            assert!(server.terminate_within(PATIENCE).success());
            std::fs::rename(filled, database_of(place)).unwrap();
            let server = start(place);
            let deadline = Instant::now() + PATIENCE;
            while server.client().get("/readyz").0 != 200 {
                assert!(Instant::now() < deadline, "the index is not built");
                std::thread::sleep(Duration::from_millis(100));
            }
            server
        }
    };
    let worked = since.elapsed();
    let written = less(memory(server.id()), empty);
    let since = Instant::now();
    assert!(server.terminate_within(PATIENCE).success());
    let took = [worked, since.elapsed()];
    let index = process::folder_bytes(place, &|name| name.starts_with("index."));
    let database = process::folder_bytes(&place.join("collections"), &|name| name.starts_with(DATABASE));

    let since = Instant::now();
    let server = start(place);
    let client = server.client();
    while !client.try_post("/v1/collections/bench/search", &query(&data.queries[0])).is_ok_and(|(status, _)| status == 200) {
        assert!(since.elapsed() < PATIENCE, "no response");
        std::thread::sleep(Duration::from_millis(5));
    }
    let answers = since.elapsed();
    client.wait_until("the server is ready", |client| client.get("/readyz").0 == 200);
    let started = less(memory(server.id()), empty);
    let found: Vec<Vec<usize>> = data.queries.iter().map(|values| numbers(&client, values)).collect();
    let searched = less(memory(server.id()), empty);
    write_batch(&client, &[document(0, &data.stored[1])]);
    let changed = less(memory(server.id()), empty);
    assert!(server.terminate_within(PATIENCE).success());
    let recall = clusters::recall(exact, &found[..JUDGED]);
    Measured { written, took, database, index, answers, started, searched, changed, recall }
}

fn command(data: &Path, model: &str) -> std::process::Command {
    match std::env::var_os("DRAGOMAN_BENCH_PROGRAM") {
        Some(other) => program::command_of(Path::new(&other), data, model),
        None => program::command(data, model),
    }
}

/// Starts the server and waits until it listens.
fn start(data: &Path) -> Program {
    Program::spawn(command(data, &format!("fake:{DIMENSION}")))
}

fn less(memory: Memory, empty: Memory) -> Memory {
    let Memory { anonymous, file } = empty;
    Memory { anonymous: memory.anonymous.saturating_sub(anonymous), file: memory.file.saturating_sub(file) }
}

fn show_empty(what: &str, memory: Memory) {
    println!(
        "{what}: {:.0} MB of private memory, {:.0} MB of mapped files",
        memory.anonymous as f64 / 1e6,
        memory.file as f64 / 1e6
    );
}

fn print_head(count: usize, how: &str) {
    println!("\n{count} documents of {DIMENSION} values, {how}; bytes per document beyond an empty server");
    println!(
        "| quantization | private memory, {how} | after a restart: private | mapped | after {QUERIES} searches: private | mapped | after a change: private | database | index | {how} in | saved in | answers after | recall@{LIMIT} |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
}

fn print_row(name: &str, count: f64, measured: &Measured) {
    let Measured { written, took: [worked, saved], database, index, answers, started, searched, changed, recall } = measured;
    let each = |bytes: u64| format!("{:.0}", bytes as f64 / count);
    let bytes = [
        written.anonymous,
        started.anonymous,
        started.file,
        searched.anonymous,
        searched.file,
        changed.anonymous,
        *database,
        *index,
    ];
    let bytes: Vec<String> = bytes.into_iter().map(each).collect();
    println!("| {name} | {} | {worked:.1?} | {saved:.1?} | {answers:.2?} | {recall:.4} |", bytes.join(" | "));
}

fn write(client: &Client, data: &Clusters) {
    let numbers: Vec<usize> = (0..data.stored.len()).collect();
    for batch in numbers.chunks(BATCH) {
        let documents: Vec<Value> = batch.iter().map(|number| document(*number, &data.stored[*number])).collect();
        write_batch(client, &documents);
    }
}

fn write_batch(client: &Client, documents: &[Value]) {
    let (status, body) = client.post("/v1/collections/bench/documents", &json!({ "documents": documents }));
    assert_eq!(status, 200, "{body}");
}

fn text(number: usize) -> String {
    format!("Shelf {} of the archive holds letter {number}.", number % 977)
}

fn metadata(number: usize) -> Value {
    json!({"bucket": number % 10, "year": 1990 + number % 35})
}

fn document(number: usize, vector: &[f32]) -> Value {
    json!({"id": number.to_string(), "text": text(number), "language": "en", "metadata": metadata(number), "vector": vector})
}

fn query(vector: &[f32]) -> Value {
    json!({"vector": vector, "limit": LIMIT})
}

fn numbers(client: &Client, vector: &[f32]) -> Vec<usize> {
    let hits = client.hits("bench", &query(vector));
    hits.iter().map(|hit| hit["id"].as_str().unwrap().parse().unwrap()).collect()
}

/// Creates a database of all documents with their embeddings that no server has indexed.
fn fill_database(place: &Path, data: &Clusters) {
    let options = StoreOptions {
        power_safe: false,
        write_queue_max: 8,
        readers_max: 1,
        terms_of: TermsOf::new(|text, language| passage_terms(text, language, |_| true)),
        slots: None,
    };
    let store = DocumentStore::open(place, &options).expect("the store opens");
    let numbers: Vec<usize> = (0..data.stored.len()).collect();
    for batch in numbers.chunks(DIRECT_BATCH) {
        let documents = batch.iter().map(|number| prepared(*number, &data.stored[*number])).collect();
        store.upsert_if(documents, Precondition::None).expect("documents are stored");
    }
    store.close().expect("the store closes");
}

fn prepared(number: usize, vector: &[f32]) -> PreparedDocument {
    let text = text(number);
    let metadata: Metadata = metadata(number).as_object().cloned().unwrap_or_default();
    let passages = vec![(0..text.len()).into()];
    PreparedDocument {
        id: DocumentId::parse(&number.to_string()).expect("an id"),
        title: None,
        language: Language::parse("en"),
        language_confidence: None,
        metadata,
        expires_at_ms: None,
        passages,
        text,
        embedding: Some(Embedding::normalized(vector.to_vec()).expect("a direction")),
    }
}

/// The database of the only collection in a data directory.
fn database_of(place: &Path) -> PathBuf {
    let mut collections = std::fs::read_dir(place.join("collections")).unwrap();
    collections.next().unwrap().unwrap().path().join(DATABASE)
}
