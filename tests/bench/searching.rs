//! A collection of passages with distinct metadata, and the queries to run on it.

#![allow(dead_code, reason = "each benchmark uses its part")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::passages::Passage;
use super::wire::{Connection, post, rate_over};

/// Documents of one request.
pub const BATCH: usize = 500;
/// Concurrent connections that write.
const WRITERS: usize = 4;
/// Hits per answer.
pub const LIMIT: usize = 10;
/// The path of the collection.
pub const COLLECTION: &str = "/v1/collections/bench";

/// Creates the collection and stores all passages through these servers; returns the time until all are searchable.
pub fn fill(addresses: &[&str], passages: &[Passage]) -> Duration {
    let description = json!({"name": "bench", "metadata_indexes": ["half", "thousandth"]});
    Connection::open(addresses[0]).call("/v1/collections", &description);
    let document = |(number, passage): (usize, &Passage)| {
        let metadata = json!({"half": number % 2, "tenth": number % 10, "hundredth": number % 100, "thousandth": number % 1_000});
        json!({"id": number.to_string(), "text": passage.text, "language": passage.language, "metadata": metadata})
    };
    let documents: Vec<Value> = passages.iter().enumerate().map(document).collect();
    let path = format!("{COLLECTION}/documents");
    let requests: Vec<Vec<u8>> = documents.chunks(BATCH).map(|batch| post(&path, &json!({ "documents": batch }))).collect();
    let started = Instant::now();
    rate_over(addresses, &requests, requests.len(), WRITERS);
    addresses.iter().for_each(|address| wait(address));
    started.elapsed()
}

/// Waits until everything is embedded and every search mode answers.
pub fn wait(address: &str) {
    let mut connection = Connection::open(address);
    ready(&mut connection);
    connection.call(&format!("{COLLECTION}/search"), &json!({"query": "warm"}));
}

/// Waits until everything is embedded and indexed.
pub fn ready(connection: &mut Connection) {
    loop {
        let collection = connection.get(COLLECTION);
        if collection["passages_pending"] == 0 && collection["index_state"] == "ready" {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A query in a mode.
pub fn question(text: &str, mode: &str) -> Value {
    json!({"query": text, "mode": mode, "limit": LIMIT})
}

/// The documents in a response.
pub fn ids(response: &Value) -> Vec<String> {
    response["hits"].as_array().expect("hits").iter().map(|hit| hit["id"].as_str().expect("an id").to_owned()).collect()
}
