//! Imports through the real program: kill -9 in the middle of one, and the memory that a large one takes.

use std::collections::BTreeSet;
use std::io::{Cursor, Read};

use super::program::{Client, Program};
use serde_json::{Value, json};

const MODEL: &str = "fake:64";
const IMPORT: &str = "/v1/collections/news/import";

/// Lines generated as they are read.
pub struct Lines<F> {
    next: usize,
    end: usize,
    line: F,
    buffer: Cursor<Vec<u8>>,
}

pub fn lines<F: Fn(usize) -> String>(end: usize, line: F) -> Lines<F> {
    Lines { next: 0, end, line, buffer: Cursor::default() }
}

impl<F: Fn(usize) -> String> Read for Lines<F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.buffer.position() == self.buffer.get_ref().len() as u64 && self.next < self.end {
            let line = (self.line)(self.next) + "\n";
            self.buffer = Cursor::new(line.into_bytes());
            self.next += 1;
        }
        self.buffer.read(buffer)
    }
}

pub fn create(server: &Program) -> Client {
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "news" })).0, 201);
    client
}

/// The job of a response, by its path.
pub fn accepted(response: (u16, Value)) -> String {
    assert_eq!(response.0, 202, "{}", response.1);
    format!("/v1/jobs/{}", response.1["id"].as_str().unwrap())
}

#[test]
fn an_import_resumes_after_kill_9_without_losing_or_repeating_lines() {
    const LINES: usize = 20_000;
    let (folder, mut server) = Program::fresh(MODEL);
    let line = |n: usize| match n % 5 {
        4 => json!({ "id": format!("d{n}"), "text": " " }).to_string(),
        _ => json!({ "id": format!("d{n}"), "text": format!("number {n} speaks of w{n}") }).to_string(),
    };
    let job = accepted(create(&server).post_lines(IMPORT, lines(LINES, line)));
    for part in 1..=3 {
        let reached = |client: &Client| client.get(&job).1["details"]["lines"].as_u64().unwrap_or(0) >= part * 4_000;
        server.client().wait_until("some lines are stored", reached);
        server.kill();
        server = Program::start(folder.path(), MODEL);
        assert!(!["failed", "canceled"].contains(&server.client().get(&job).1["status"].as_str().unwrap()));
    }
    let client = server.client();
    client.wait_until("the import ends", |client| client.get(&job).1["status"] == "succeeded");
    let expect = json!({ "lines": LINES, "created": LINES / 5 * 4, "updated": 0, "failed": LINES / 5 });
    assert_eq!(client.get(&job).1["details"], expect);
    let results = client.get_text(&format!("{job}/results"));
    let numbers: Vec<u64> =
        results.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["line"].as_u64().unwrap()).collect();
    assert!(numbers.into_iter().eq(1..=LINES as u64), "each line has one result");
    let exported = client.get_text("/v1/collections/news/export");
    let ids: BTreeSet<String> =
        exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((ids.len(), exported.lines().count()), (LINES / 5 * 4, LINES / 5 * 4));
    let hits = client.hits("news", &json!({ "query": "number 17 speaks of w17", "limit": 1 }));
    assert_eq!(hits[0]["id"], "d17");
}

#[test]
fn import_memory_does_not_grow_with_the_file_size() {
    const LINES: usize = 100_000;
    /// Far less than the file, and than anything that grows with it.
    const GROWTH_MAX: u64 = 48 << 20;
    let (_folder, server) = Program::fresh(MODEL);
    // A thousand documents, over and over: the index stays small, so any growth comes from the import.
    let padding = "x".repeat(950);
    let line = move |n: usize| {
        let (id, text) = (format!("d{}", n % 1_000), format!("text {}", n % 1_000));
        json!({ "id": id, "text": text, "language": "en", "metadata": { "n": n, "padding": padding } }).to_string()
    };
    let client = create(&server);
    let warm = accepted(client.post_lines(IMPORT, lines(2_000, line.clone())));
    client.wait_until("the first import ends", |client| client.get(&warm).1["status"] == "succeeded");
    let (before, _) = server.memory();
    let job = accepted(client.post_lines(IMPORT, lines(LINES, line)));
    client.wait_until("the import ends", |client| client.get(&job).1["status"] == "succeeded");
    let job = client.get(&job).1;
    assert_eq!(job["details"], json!({ "lines": LINES, "created": 0, "updated": LINES, "failed": 0 }));
    assert!(job["progress"]["total"].as_u64().unwrap() > 2 * GROWTH_MAX, "{job}");
    let (after, most) = server.memory();
    println!("{before} bytes before, {after} after, at most {most}");
    assert!(most < before + GROWTH_MAX, "{before} bytes before, {after} after, at most {most}");
}
