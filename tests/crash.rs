//! kill -9 while several clients write: after the restart every acknowledged change is there and is found, nothing deleted
//! or replaced is.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/program.rs"]
mod program;

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use program::{Client, Program};
use serde_json::json;

const ROUNDS: usize = 5;
const WRITERS: usize = 4;
const MODEL: &str = "fake:64";
/// Acknowledged changes before a round's kill: at least and at most.
const CHANGES: (u64, u64) = (20, 150);

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// What a writer knows of one of its documents.
#[derive(Debug, Clone, Default)]
struct Expected {
    /// The text that was acknowledged last; `None` for a deletion.
    text: Option<String>,
    /// Whether that text was acknowledged as searchable.
    searchable: bool,
    /// A change that was sent but not answered before the kill: it may have happened.
    unanswered: Option<Option<String>>,
}

/// One client with documents of its own.
struct Writer {
    number: usize,
    random: Random,
    documents: BTreeMap<String, Expected>,
    created: usize,
}

impl Writer {
    /// Writes until the server is gone; reports each acknowledged change.
    fn write(&mut self, client: &Client, acknowledged: &mpsc::Sender<()>) {
        while self.change(client) {
            // After the kill nobody listens any more.
            let _ = acknowledged.send(());
        }
    }

    /// Creates, replaces or deletes one document. Says whether the server answered.
    fn change(&mut self, client: &Client) -> bool {
        let choice = self.random.below(10);
        let known = self.documents.len() as u64;
        let id = if known == 0 || choice < 6 {
            self.created += 1;
            format!("w{}-{}", self.number, self.created)
        } else {
            let place = self.random.below(known) as usize;
            self.documents.keys().nth(place).unwrap().clone()
        };
        let exists = self.documents.get(&id).is_some_and(|expected| expected.text.is_some());
        if exists && choice == 9 { self.delete(client, id) } else { self.put(client, id) }
    }

    fn put(&mut self, client: &Client, id: String) -> bool {
        // Words of random letters, so that every text is far from every other.
        let letter = |random: &mut Random| char::from(b'a' + random.below(26) as u8);
        let words = (0..6).map(|_| (0..8).map(|_| letter(&mut self.random)).collect::<String>());
        let text = words.collect::<Vec<_>>().join(" ");
        let wait = if self.random.below(4) == 0 { "stored" } else { "indexed" };
        let body = json!({ "documents": [{ "id": id, "text": text, "language": "en" }] });
        let expected = self.documents.entry(id).or_default();
        expected.unanswered = Some(Some(text.clone()));
        let Ok((status, body)) = client.try_post(&format!("/v1/collections/crash/documents?wait={wait}"), &body) else {
            return false;
        };
        assert_eq!(status, 200, "{body}");
        *expected = Expected { text: Some(text), searchable: wait == "indexed", unanswered: None };
        true
    }

    fn delete(&mut self, client: &Client, id: String) -> bool {
        let path = format!("/v1/collections/crash/documents/{id}");
        let expected = self.documents.entry(id).or_default();
        expected.unanswered = Some(None);
        let Ok((status, body)) = client.try_delete(&path) else { return false };
        assert!(status == 200 || status == 204, "{status} {body}");
        *expected = Expected::default();
        true
    }

    /// Compares all documents with what the restarted server has, and takes over what became of unanswered changes.
    fn check(&mut self, client: &Client) {
        for (id, expected) in &mut self.documents {
            let (status, body) = client.get(&format!("/v1/collections/crash/documents/{id}"));
            let stored = body["text"].as_str().map(str::to_owned);
            assert!(status == 200 || status == 404, "{id}: {status} {body}");
            if let Some(unanswered) = expected.unanswered.take()
                && unanswered == stored
                && stored != expected.text
            {
                *expected = Expected { text: stored.clone(), searchable: false, unanswered: None };
            }
            assert_eq!(stored, expected.text, "{id}");
            if let Some(text) = &expected.text {
                if expected.searchable {
                    assert!(is_found(client, id, text), "{id} was acknowledged as searchable");
                } else {
                    client.wait_until(&format!("{id} is found"), |client| is_found(client, id, text));
                    expected.searchable = true;
                }
            }
        }
    }
}

/// Whether a search for `text` has document `id` first, with this text.
fn is_found(client: &Client, id: &str, text: &str) -> bool {
    let hits = client.hits("crash", &json!({ "query": text, "limit": 3 }));
    hits.first().is_some_and(|hit| hit["id"] == id && hit["text"] == text)
}

/// Checks that the server has exactly the documents that the writers know of.
fn check_nothing_else(client: &Client, writers: &[Writer]) {
    let expected: usize =
        writers.iter().map(|writer| writer.documents.values().filter(|document| document.text.is_some()).count()).sum();
    let (_, collection) = client.get("/v1/collections/crash");
    assert_eq!(
        collection["documents"].as_u64().or(collection["counts"]["documents"].as_u64()),
        Some(expected as u64),
        "{collection}"
    );
    let everything = client.hits("crash", &json!({ "query": "anything", "limit": 1_000 }));
    let mut ids: Vec<_> = everything.iter().map(|hit| hit["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), everything.len(), "a document is found twice");
    for id in ids {
        let text = writers.iter().find_map(|writer| writer.documents.get(id)).and_then(|document| document.text.as_ref());
        assert!(text.is_some(), "{id} was deleted but is found");
    }
}

#[test]
fn kill_9_loses_nothing_that_was_acknowledged() {
    let given = std::env::var("DRAGOMAN_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64);
    println!("seed {seed}: set DRAGOMAN_TEST_SEED to repeat its choices");
    let mut random = Random(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut server = Program::start(folder.path(), MODEL);
    let (status, body) = server.client().post("/v1/collections", &json!({ "name": "crash" }));
    assert_eq!(status, 201, "{body}");
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer { number, random: Random(random.next()), documents: BTreeMap::new(), created: 0 })
        .collect();
    for round in 0..ROUNDS {
        let changes = CHANGES.0 + random.below(CHANGES.1 - CHANGES.0);
        let client = server.client();
        let (sender, acknowledged) = mpsc::channel();
        thread::scope(|scope| {
            for writer in &mut writers {
                let (client, sender) = (&client, sender.clone());
                scope.spawn(move || writer.write(client, &sender));
            }
            drop(sender);
            assert_eq!(acknowledged.iter().take(changes as usize).count() as u64, changes, "the writers stopped early");
            server.kill();
        });
        server = Program::start(folder.path(), MODEL);
        let client = server.client();
        writers.iter_mut().for_each(|writer| writer.check(&client));
        check_nothing_else(&client, &writers);
        println!("round {round}: killed after {changes} acknowledged changes");
        if round == 1 {
            // From here on there is a saved index to catch up.
            assert!(server.terminate().success());
            server = Program::start(folder.path(), MODEL);
            writers.iter_mut().for_each(|writer| writer.check(&server.client()));
        }
    }
}
