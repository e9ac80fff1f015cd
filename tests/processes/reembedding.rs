//! Re-embedding through the real program: kill -9 during the embedding, and around the swap of old and new.

use std::path::Path;
use std::time::Duration;

use super::program::{Client, Program};
use serde_json::{Value, json};

const OLD: &str = "fake:64";
const NEW: &str = "fake:32";
const NEWS: &str = "/v1/collections/news";

fn text(n: usize) -> String {
    format!("number {n} speaks of w{n}")
}

/// Fills a data directory with a server that has the old model.
fn fill(data: &Path, documents: usize) {
    let server = Program::start(data, OLD);
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "news" })).0, 201);
    let all: Vec<Value> = (0..documents).map(|n| json!({ "id": format!("d{n}"), "text": text(n) })).collect();
    for part in all.chunks(500) {
        assert_eq!(client.post(&format!("{NEWS}/documents"), &json!({ "documents": part })).0, 200);
    }
    assert!(server.terminate().success());
}

/// Starts re-embedding and returns the path of its job.
fn reembed(client: &Client) -> String {
    let (status, job) = client.post(&format!("{NEWS}/reembed"), &json!({}));
    assert_eq!(status, 202, "{job}");
    format!("/v1/jobs/{}", job["id"].as_str().unwrap())
}

fn status(client: &Client, job: &str) -> String {
    client.get(job).1["status"].as_str().unwrap_or_default().to_owned()
}

/// Checks that the collection uses a single model in everything that it reports and does: `loaded`, the server's, or the old
/// one.
fn check_whole(client: &Client, documents: usize, loaded: &str) {
    let search = format!("{NEWS}/search");
    // Retries until nothing changed between the requests.
    let (collection, by_text) = loop {
        let before = client.get(NEWS).1;
        let by_text = client.post(&search, &json!({ "query": text(17), "limit": 1 }));
        if client.get(NEWS).1["model_fingerprint"] == before["model_fingerprint"] {
            break (before, by_text);
        }
    };
    let counts = (&collection["documents"], &collection["passages"], &collection["passages_pending"]);
    assert_eq!(counts, (&json!(documents), &json!(documents), &json!(0)));
    let (status, response) = by_text;
    if collection["model_fingerprint"] == loaded.replace(':', "-") {
        assert_eq!((status, &response["hits"][0]["id"]), (200, &json!("d17")), "{response}");
    } else {
        assert_eq!((status, &response["code"]), (409, &json!("model_mismatch")), "{response}");
    }
    let dimension = &collection["model_fingerprint"].as_str().unwrap()["fake-".len()..];
    assert_eq!(collection["dimension"].to_string(), dimension);
    let (status, response) = client.post(&search, &json!({ "like": "d9", "limit": 3 }));
    assert_eq!((status, response["hits"].as_array().unwrap().len()), (200, 3), "{response}");
    assert_eq!(client.hits("news", &json!({ "query": "w21", "mode": "lexical" }))[0]["id"], "d21");
}

fn folders(data: &Path) -> usize {
    std::fs::read_dir(data.join("collections")).unwrap().count()
}

#[test]
fn reembedding_resumes_from_its_progress_after_kill_9() {
    const DOCUMENTS: u32 = 6_000;
    /// Embedded before the last restart.
    const BEFORE: u32 = 4_000;
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), DOCUMENTS as usize);
    let mut server = Program::start(folder.path(), NEW);
    let job = reembed(&server.client());
    for part in 1..=4 {
        let done = |client: &Client| client.get(&job).1["progress"]["done"].as_u64().unwrap_or(0);
        server.client().wait_until("some documents are embedded", |client| done(client) >= u64::from(part * BEFORE / 4));
        server.kill();
        server = Program::start(folder.path(), NEW);
        let client = server.client();
        assert!(["queued", "running"].contains(&status(&client, &job).as_str()));
        check_whole(&client, DOCUMENTS as usize, NEW);
    }
    let client = server.client();
    client.wait_until("the job ends", |client| status(client, &job) == "succeeded");
    let embedded = client.sample("dragoman_embed_texts_total").unwrap();
    // The queries of `check_whole` are embedded, too.
    assert!(embedded < f64::from(DOCUMENTS - BEFORE + 100), "{embedded} texts after the last restart");
    assert_eq!(client.get(NEWS).1["dimension"], 32);
    check_whole(&client, DOCUMENTS as usize, NEW);
    client.wait_until("the old folder is gone", |_| folders(folder.path()) == 1);
}

#[test]
fn kill_9_around_the_swap_leaves_a_collection_with_a_single_model() {
    const DOCUMENTS: usize = 400;
    const ROUNDS: u64 = 12;
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), DOCUMENTS);
    let (mut model, mut changed) = (NEW, 0);
    for round in 0..ROUNDS {
        let mut server = Program::start(folder.path(), model);
        let client = server.client();
        let current = client.get(NEWS).1["model_fingerprint"].clone();
        let job = reembed(&client);
        client.wait_until("all is embedded", |client| {
            let job = client.get(&job).1;
            job["progress"]["done"] == DOCUMENTS || job["status"] == "succeeded"
        });
        std::thread::sleep(Duration::from_millis(round * 2));
        server.kill();

        let server = Program::start(folder.path(), model);
        let client = server.client();
        changed += u32::from(client.get(NEWS).1["model_fingerprint"] != current);
        check_whole(&client, DOCUMENTS, model);
        client.wait_until("the job ends", |client| status(client, &job) == "succeeded");
        assert_ne!(client.get(NEWS).1["model_fingerprint"], current);
        check_whole(&client, DOCUMENTS, model);
        client.wait_until("one folder is left", |_| folders(folder.path()) == 1);
        assert!(server.terminate().success());
        model = if model == NEW { OLD } else { NEW };
    }
    println!("of {ROUNDS} kills {changed} came after the change");
}
