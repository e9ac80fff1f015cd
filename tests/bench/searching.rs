//! A collection of passages that are told apart by metadata, and what is asked of it.

#![allow(dead_code, reason = "each benchmark uses its part")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::passages::Passage;
use super::wire::{Connection, post, rate_over};

/// Documents of one request.
pub const BATCH: usize = 500;
/// Connections that write at once.
const WRITERS: usize = 4;
/// Hits of an answer.
pub const LIMIT: usize = 10;
/// The path of the collection.
pub const COLLECTION: &str = "/v1/collections/bench";

/// Makes the collection and stores all passages through these servers; returns what that takes until all are searchable.
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
    let begun = Instant::now();
    rate_over(addresses, &requests, requests.len(), WRITERS);
    addresses.iter().for_each(|address| wait(address));
    begun.elapsed()
}

/// Waits until everything is embedded and each way to search answers.
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

/// A question in a mode.
pub fn question(text: &str, mode: &str) -> Value {
    json!({"query": text, "mode": mode, "limit": LIMIT})
}

/// The documents that an answer names.
pub fn ids(answer: &Value) -> Vec<String> {
    answer["hits"].as_array().expect("hits").iter().map(|hit| hit["id"].as_str().expect("an id").to_owned()).collect()
}
