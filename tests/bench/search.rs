//! Search on 100,000 passages of real text: latency per mode on one core, throughput for eight clients compared with Chroma's
//! dense search in the same run, recall under filters, and the storage per passage for tokens and words.
//!
//! `DOCUMENTS` sets the number of texts, `TEXTS` and `QUERIES` the texts (`passages.rs`); `CHROMA` names Chroma's program.
//! Chroma gets ready-made embeddings of the same texts and queries; Dragoman embeds both itself. Chroma stores one embedding
//! per text, Dragoman one per passage, so compare them on texts of one passage each.

mod chroma;
mod clusters;
mod measure;
mod passages;
mod searching;
mod server;
mod wire;

use std::path::Path;
use std::time::{Duration, Instant};

use chroma::Chroma;
use measure::{median, median_rate};
use passages::Passage;
use searching::{BATCH, COLLECTION, LIMIT, fill, ids, question, ready, wait};
use serde_json::{Value, json};
use server::{Cores, Server};
use wire::{Connection, post, rate};

const MODEL: &str = "models/ems-small";
const DOCUMENTS: usize = 100_000;
const QUESTIONS: usize = 1_000;
const CLIENTS: usize = 8;
const ROUNDS: usize = 3;
/// Queries of one round for one server.
const ROUND_S: f64 = 6.0;
/// Queries that are timed one at a time, after a few for warm-up.
const TIMED: usize = 300;
const WARM_UP: usize = 50;
/// Queries whose nearest passages are compared with the exact ones.
const JUDGED: usize = 100;
/// Candidates of a graph search, as many as a collection uses by default.
const GRAPH_EF: usize = 96;
/// Texts embedded per request.
const EMBEDDED: usize = 100;
const MODES: [&str; 4] = ["full", "dense", "lexical", "hybrid"];

fn main() {
    let documents = std::env::var("DOCUMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(DOCUMENTS);
    let (passages, questions) = (passages::passages(documents), passages::questions(QUESTIONS));
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("dragoman");
    let stored = {
        let server = Server::start(Path::new(MODEL), &data, Cores::All);
        let took = fill(&[server.address()], &passages);
        let stored = stored_passages(server.address());
        println!("{} texts of {stored} passages, {} questions", passages.len(), questions.len());
        println!("stored and searchable: {:.0} passages/s, {} MB resident\n", rate_of(stored, took), server.resident_mb());
        stored
    };
    sizes(&data, stored);
    memory(&data, stored);
    {
        let server = Server::start(Path::new(MODEL), &data, Cores::One);
        wait(server.address());
        server.rest();
        times(&server, &questions);
        recalls(server.address(), &passages, &questions);
    }
    let server = Server::start(Path::new(MODEL), &data, Cores::All);
    wait(server.address());
    server.rest();
    beside_chroma(&server, &folder.path().join("chroma"), &passages, &questions);
}

fn rate_of(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Each query runs once per mode, because a repeated query is faster than a new one.
fn times(server: &Server, questions: &[String]) {
    let mut connection = Connection::open(server.address());
    println!("| mode, one core | median ms | 95th percentile ms | mean CPU ms |\n|---|---:|---:|---:|");
    for mode in MODES {
        let (mut times, mut computed) = (Vec::new(), Duration::ZERO);
        for (number, text) in questions.iter().cycle().take(WARM_UP + TIMED).enumerate() {
            let request = post(&format!("{COLLECTION}/search"), &question(text, mode));
            let (before, started) = (server.computed(), Instant::now());
            connection.exchange(&request);
            if number >= WARM_UP {
                times.push(started.elapsed());
                computed += server.computed().saturating_sub(before);
            }
        }
        times.sort_unstable();
        let (slow, computed) = (times[times.len() * 95 / 100], computed / TIMED as u32);
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!("| {mode} | {:.2} | {:.2} | {:.2} |", ms(median(times)), ms(slow), ms(computed));
    }
    println!();
}

/// The recall@10 of a dense search, by default and through the graph, compared with an exhaustive one.
fn recalls(address: &str, passages: &[Passage], questions: &[String]) {
    let language = &passages[0].language;
    let filters = [
        ("no filter", Value::Null),
        ("1/2", json!({"field": "half", "eq": 0})),
        ("1/10", json!({"field": "tenth", "eq": 0})),
        ("1/100", json!({"field": "hundredth", "eq": 0})),
        ("1/1000", json!({"field": "thousandth", "eq": 0})),
        ("one language", json!({"field": "language", "eq": language})),
        ("all but one language", json!({"not": {"field": "language", "eq": language}})),
    ];
    let mut connection = Connection::open(address);
    let mut search = |body: &Value| ids(&connection.call(&format!("{COLLECTION}/search"), body));
    println!("| dense search with a filter, one core | recall@10 | median ms | through the graph: recall@10 | median ms |");
    println!("|---|---:|---:|---:|---:|");
    for (name, filter) in filters {
        let body = |text: &String| {
            let mut body = question(text, "dense");
            if !filter.is_null() {
                body["filter"] = filter.clone();
            }
            body
        };
        let with = |text: &String, member: &str, value: Value| {
            let mut body = body(text);
            body[member] = value;
            body
        };
        let asked: Vec<&String> = questions.iter().take(JUDGED).collect();
        let exact: Vec<Vec<String>> = asked.iter().map(|text| search(&with(text, "exact", true.into()))).collect();
        let mut measured = |bodies: Vec<Value>| {
            let (mut hits, mut all, mut took) = (0, 0, Vec::new());
            for (body, exact) in bodies.iter().zip(&exact) {
                let started = Instant::now();
                let found = search(body);
                took.push(started.elapsed());
                hits += exact.iter().filter(|id| found.contains(id)).count();
                all += exact.len();
            }
            format!("{:.4} | {:.2}", hits as f64 / all.max(1) as f64, median(took).as_secs_f64() * 1e3)
        };
        let scanned = measured(asked.iter().map(|text| body(text)).collect());
        let walked = measured(asked.iter().map(|text| with(text, "ef_search", GRAPH_EF.into())).collect());
        println!("| {name} | {scanned} | {walked} |");
    }
    println!();
}

/// Number of passages that the texts were split into.
fn stored_passages(address: &str) -> usize {
    let collection = Connection::open(address).get(COLLECTION);
    collection["passages"].as_u64().expect("a number of passages") as usize
}

/// Bytes per passage in the database tables.
fn sizes(data: &Path, passages: usize) {
    let database = find(data).expect("the collection's database");
    let connection = rusqlite::Connection::open(database).expect("a database");
    let sum = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a sum") as f64 / passages as f64;
    println!("| bytes per passage | |\n|---|---:|");
    println!("| text | {:.0} |", sum("select sum(length(cast(text as blob))) from documents"));
    println!("| embedding | {:.0} |", sum("select sum(length(embedding)) from passages"));
    println!("| tokens | {:.0} |", sum("select sum(length(tokens)) from passage_tokens"));
    println!("| words, for translations | {:.0} |", sum("select sum(length(words)) from passage_words"));
    println!("| word index | {:.0} |\n", sum("select sum(length(block)) from lexical_data"));
}

/// Memory that the first default search allocates and keeps: the token ids and the index of words.
fn memory(data: &Path, passages: usize) {
    let server = Server::start(Path::new(MODEL), data, Cores::All);
    let mut connection = Connection::open(server.address());
    ready(&mut connection);
    let path = format!("{COLLECTION}/search");
    (0..WARM_UP).for_each(|_| drop(connection.call(&path, &question("warm", "dense"))));
    let before = server.resident_mb();
    connection.call(&path, &question("warm", "full"));
    let more = server.resident_mb().saturating_sub(before);
    println!("| memory of the first default search | MB | bytes per passage |\n|---|---:|---:|");
    println!("| token ids and word index | {more} | {} |\n", (more << 20) / passages.max(1) as u64);
}

fn find(folder: &Path) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut folders = Vec::new();
    for path in entries {
        if path.is_dir() {
            folders.push(path);
        } else if path.file_name().is_some_and(|name| name == "documents.sqlite") {
            return Some(path);
        }
    }
    folders.iter().find_map(|folder| find(folder))
}

/// Queries per second of eight clients, alternating.
fn beside_chroma(server: &Server, data: &Path, passages: &[Passage], questions: &[String]) {
    let requests = |mode: &str| -> Vec<Vec<u8>> {
        questions.iter().map(|text| post(&format!("{COLLECTION}/search"), &question(text, mode))).collect()
    };
    let mut peers = vec![
        ("Dragoman, full", server.address().to_owned(), requests("full"), Vec::new()),
        ("Dragoman, dense", server.address().to_owned(), requests("dense"), Vec::new()),
    ];
    let chroma = chroma::program().map(|program| {
        let chroma = Chroma::start(&program, data);
        let path = chroma.create();
        fill_chroma(&chroma, &path, server.address(), passages);
        let vectors = embeddings(server.address(), questions);
        let body = |vector: &Value| {
            json!({"query_embeddings": [vector], "n_results": LIMIT, "include": ["documents", "metadatas", "distances"]})
        };
        let requests = vectors.iter().map(|vector| post(&format!("{path}/query"), &body(vector))).collect();
        peers.push(("Chroma, dense", chroma.address().to_owned(), requests, Vec::new()));
        chroma
    });
    for _ in 0..ROUNDS {
        for (_, address, requests, rates) in &mut peers {
            let guess = rate(address, requests, 10 * CLIENTS, CLIENTS);
            rates.push(rate(address, requests, ((guess * ROUND_S) as usize).clamp(20 * CLIENTS, 100_000), CLIENTS));
        }
    }
    drop(chroma);
    let rates: Vec<(&str, f64)> = peers.into_iter().map(|(name, _, _, rates)| (name, median_rate(rates))).collect();
    let last = rates.last().map_or(1.0, |(_, rate)| *rate);
    println!("| {CLIENTS} clients, top {LIMIT} | questions/s | ratio |\n|---|---:|---:|");
    rates.iter().for_each(|(name, rate)| println!("| {name} | {rate:.0} | {:.2} |", rate / last));
}

fn fill_chroma(chroma: &Chroma, path: &str, embedder: &str, passages: &[Passage]) {
    let mut connection = Connection::open(chroma.address());
    for (number, batch) in passages.chunks(BATCH).enumerate() {
        let texts: Vec<String> = batch.iter().map(|passage| passage.text.clone()).collect();
        let first = number * BATCH;
        let metadata = |number: usize| json!({"half": number % 2, "tenth": number % 10});
        let body = json!({
            "ids": (first..first + batch.len()).map(|number| number.to_string()).collect::<Vec<_>>(),
            "embeddings": embeddings(embedder, &texts),
            "metadatas": (first..first + batch.len()).map(metadata).collect::<Vec<_>>(),
            "documents": texts,
        });
        connection.call(&format!("{path}/add"), &body);
    }
}

fn embeddings(address: &str, texts: &[String]) -> Vec<Value> {
    let mut connection = Connection::open(address);
    let mut all = Vec::with_capacity(texts.len());
    for batch in texts.chunks(EMBEDDED) {
        let response = connection.call("/v1/embeddings", &json!({ "input": batch }));
        all.extend(response["data"].as_array().expect("embeddings").iter().map(|one| one["embedding"].clone()));
    }
    all
}
