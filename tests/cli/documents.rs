//! `dragoman documents` against a server.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use serde_json::json;

use super::program::Program;
use super::{dragoman, run, run_with};

const LINES: &str = r#"{"id": "fr", "text": "Le pain est encore chaud.", "language": "fr"}

{"id": "blank", "text": " "}
{"id": "cut
{"id": "ja", "text": "新しい図書館は駅の隣にあります。", "metadata": {"floor": 2}}
"#;

/// A filter for the topic `sea`.
const SEA: &str = r#"{"field": "topic", "eq": "sea"}"#;

fn server() -> (tempfile::TempDir, Program) {
    let (folder, server) = Program::fresh("fake:8");
    assert_eq!(server.client().post("/v1/collections", &json!({ "name": "news" })).0, 201);
    (folder, server)
}

#[test]
fn valid_lines_are_stored_and_invalid_ones_reported() {
    let (_folder, server) = server();
    let client = server.client();
    let run_upsert = |arguments: &[&str], input: &str| run_with(dragoman(client.url(), arguments), input.as_bytes());
    let first = run_upsert(&["documents", "upsert", "news"], LINES);
    first.expect(3);
    let lines: Vec<&str> = first.err.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines.contains(&"line 3 (blank): /text: must not be blank"), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("line 4: is not valid JSON: ")), "{lines:?}");
    assert_eq!(lines[2], "created 2, updated 0, failed 2");

    let again = run_upsert(&["documents", "upsert", "news", "-", "--json"], LINES);
    let last = again.expect(3).lines().last().unwrap();
    assert_eq!(last, r#"{"created":0,"updated":2,"failed":2}"#);
    let all_bad = run_upsert(&["documents", "upsert", "news"], "{\"id\": \"a\", \"text\": \"\"}\n{\"text\": \"\"}\n");
    assert_eq!(all_bad.code, 1, "{all_bad:?}");
    assert!(all_bad.err.contains("line 1 (a): ") && all_bad.err.contains("line 2: "), "{}", all_bad.err);
    assert!(all_bad.err.ends_with("error: no document was stored\n"), "{}", all_bad.err);
    let misspelled = run_upsert(&["documents", "upsert", "news"], "{\"id\": \"a\", \"txt\": \"x\"}\n");
    assert_eq!(misspelled.code, 1, "{misspelled:?}");
    assert!(misspelled.err.contains("unknown field `txt`"), "{}", misspelled.err);
    let twice = run_upsert(&["documents", "upsert", "news"], "{\"id\": \"a\", \"text\": \" \", \"language\": \"french\"}\n");
    assert!(twice.err.contains("created 0, updated 0, failed 1"), "{}", twice.err);
    assert!(twice.err.contains("line 1 (a): /text: must not be blank") && twice.err.contains("; /language: "), "{}", twice.err);
}

#[test]
fn documents_are_stored_even_if_the_output_pipe_is_closed() {
    let (_folder, server) = server();
    let url = server.client().url().to_owned();
    let mut command = dragoman(&url, &["documents", "upsert", "news", "-", "--json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(LINES.as_bytes()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "some lines failed");
    assert_eq!(run(&url, &["documents", "get", "news", "ja", "--json"]).json()[0]["id"], "ja");
}

#[test]
fn documents_are_shown_and_deleted() {
    let (_folder, server) = server();
    let client = server.client();
    let body = json!({ "documents": [{ "id": "a/ä", "text": "two\nlines" }, { "id": "b", "text": "one line" }] });
    assert_eq!(client.post("/v1/collections/news/documents", &body).0, 200);
    let url = client.url();

    let got = run(url, &["documents", "get", "news", "a/ä", "--json"]).json();
    assert_eq!((&got[0]["id"], &got[0]["text"]), (&json!("a/ä"), &json!("two\nlines")));
    let shown = run(url, &["documents", "get", "news", "a/ä"]);
    assert!(shown.expect(0).starts_with("id                   a/ä\ntext                 two lines\n"), "{}", shown.out);
    let list = run(url, &["documents", "list", "news", "--limit", "1"]);
    assert_eq!(list.expect(0).lines().count(), 2, "{list:?}");
    assert!(list.err.contains("there are more"), "{list:?}");
    assert_eq!(run(url, &["documents", "list", "news", "--json"]).json().len(), 2);
    let turned = run(url, &["documents", "list", "news", "--json", "--order-by", "created_at", "--descending"]).json();
    assert_eq!((turned.len(), &turned[0]["id"]), (2, &json!("b")), "{turned:?}");

    let some = run(url, &["documents", "delete", "news", "nothing", "b"]);
    some.expect(3);
    assert!(some.err.starts_with("error: document_not_found: "), "{}", some.err);
    assert_eq!(client.get("/v1/collections/news/documents/b").0, 404);
    run(url, &["documents", "delete", "news", "a/ä"]).expect(0);
    let none = run(url, &["documents", "delete", "news", "a/ä"]);
    assert_eq!(none.code, 1, "{none:?}");
}

/// A server with documents `0`, `1`, … up to `count`, on the topics `sea` (even numbers) and `land` (odd ones).
fn server_with_topics(count: usize) -> (tempfile::TempDir, Program) {
    let (folder, server) = server();
    let document = |number: usize| {
        let topic = if number.is_multiple_of(2) { "sea" } else { "land" };
        json!({ "id": number.to_string(), "text": format!("text {number}"), "metadata": { "topic": topic } })
    };
    let body = json!({ "documents": (0..count).map(document).collect::<Vec<_>>() });
    assert_eq!(server.client().post("/v1/collections/news/documents", &body).0, 200);
    (folder, server)
}

#[test]
fn documents_are_listed_by_filter() {
    let (_folder, server) = server_with_topics(60);
    // More than one page of the server's default size.
    let list = run(server.client().url(), &["documents", "list", "news", "--filter", SEA, "--limit", "100", "--json"]).json();
    assert_eq!(list.len(), 30, "{list:?}");
    assert!(list.iter().all(|document| document["metadata"]["topic"] == "sea"), "{list:?}");
}

#[test]
fn documents_are_deleted_by_filter() {
    let (_folder, server) = server_with_topics(5);
    let client = server.client();
    let delete = |arguments: &[&str]| run(client.url(), &[&["documents", "delete", "news", "--yes"], arguments].concat());
    let deleted = delete(&["--filter", SEA]);
    assert_eq!((deleted.expect(0), deleted.err.as_str()), ("", "deleted 3 documents\n"));
    let left = run(client.url(), &["documents", "list", "news", "--json"]).json();
    assert_eq!(left.iter().map(|document| &document["id"]).collect::<Vec<_>>(), ["1", "3"]);
    assert_eq!(delete(&["--filter", r#"{"field": "id", "eq": "1"}"#, "--json"]).json(), [json!({"deleted": 1})]);
}

#[test]
fn deletion_by_filter_requires_confirmation() {
    let (_folder, server) = server_with_topics(5);
    let refused = run(server.client().url(), &["documents", "delete", "news", "--filter", SEA]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("to delete 3 documents from collection news, add --yes"), "{}", refused.err);
    assert_eq!(server.client().get("/v1/collections/news").1["documents"], 5);
}

#[test]
fn deletion_takes_either_ids_or_a_filter() {
    let (_folder, server) = server_with_topics(2);
    for wrong in [&["0", "--filter", SEA, "--yes"][..], &[]] {
        let refused = run(server.client().url(), &[&["documents", "delete", "news"], wrong].concat());
        assert_eq!(refused.code, 2, "{refused:?}");
    }
    assert_eq!(server.client().get("/v1/collections/news").1["documents"], 2);
}

#[test]
fn documents_are_updated() {
    let (_folder, server) = server();
    let client = server.client();
    let body = json!({ "documents": [{ "id": "a", "text": "one" }, { "id": "b", "text": "two" }] });
    assert_eq!(client.post("/v1/collections/news/documents", &body).0, 200);
    let update = |arguments: &[&str]| run(client.url(), &[&["documents", "update", "news"], arguments].concat());
    let all = update(&["--filter", r#"{"and": []}"#, "--metadata", r#"{"topic": "sea"}"#]);
    all.expect(0);
    assert_eq!(all.err, "updated 2 of 2 documents\n");
    assert_eq!(update(&["a", "--ttl-seconds", "3600", "--json"]).json()[0], json!({"matched": 1, "updated": 1}));
    let some = update(&["a", "c", "--ttl-seconds", "3600"]);
    assert_eq!((some.code, some.err.as_str()), (3, "updated 1 of 1 document\n1 of 2 documents not found\n"));
    assert_eq!(update(&["c", "--ttl-seconds", "3600"]).code, 1);
    let a = client.get("/v1/collections/news/documents/a").1;
    assert_eq!((&a["metadata"], a["expires_at"].is_string()), (&json!({"topic": "sea"}), true));
    let one = update(&["a", "--no-expiry"]);
    assert_eq!((one.expect(0), one.err.as_str()), ("", "updated 1 of 1 document\n"));
    assert_eq!(client.get("/v1/collections/news/documents/a").1.get("expires_at"), None);
    for wrong in
        [&["a"][..], &["--metadata", "{}"], &["a", "--filter", "{}", "--no-expiry"], &["a", "--no-expiry", "--ttl-seconds", "1"]]
    {
        assert_eq!(update(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn many_lines_are_sent_in_several_requests() {
    let (_folder, server) = server();
    let lines: String =
        (0..450).map(|number| format!("{{\"id\": \"{number}\", \"text\": \"text number {number}\"}}\n")).collect();
    let run = run_with(dragoman(server.client().url(), &["documents", "upsert", "news", "--wait", "stored"]), lines.as_bytes());
    run.expect(0);
    assert_eq!(run.err, "created 450, updated 0, failed 0\n");
    assert_eq!(server.client().get("/v1/collections/news").1["documents"], 450);
    // At most 200 lines go into one request.
    let requests = "\ndragoman_requests_total{operation=\"upsert_documents\",status=\"200\"} 3\n";
    server.client().wait_until("three requests are counted", |client| client.get_text("/metrics").contains(requests));
}

#[test]
fn the_last_line_with_an_id_is_stored() {
    let (_folder, server) = server();
    let lines = [("a", "first"), ("b", "other"), ("a", "second"), ("a", "third")];
    let lines: String = lines.map(|(id, text)| format!("{}\n", json!({ "id": id, "text": text }))).concat();
    let upserted = run_with(dragoman(server.client().url(), &["documents", "upsert", "news"]), lines.as_bytes());
    upserted.expect(0);
    assert_eq!(upserted.err, "created 2, updated 2, failed 0\n");
    assert_eq!(server.client().get("/v1/collections/news/documents/a").1["text"], "third");
    assert_eq!(server.client().get("/v1/collections/news/documents/b").1["text"], "other");
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let (_folder, server) = server();
    let text = "word ".repeat(2_000);
    let documents: Vec<_> = (0..200).map(|number| json!({ "id": number.to_string(), "text": text })).collect();
    let body = json!({ "documents": documents });
    assert_eq!(server.client().post("/v1/collections/news/documents?wait=stored", &body).0, 200);
    let mut command = dragoman(server.client().url(), &["documents", "list", "news", "--json", "--limit", "1000"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{output:?}");
}
