//! `dragoman collections` against a server.

use serde_json::json;

use super::program::Program;
use super::run;

#[test]
fn a_collection_is_created_listed_and_deleted() {
    let (_folder, server) = Program::fresh("fake:8");
    let client = server.client();
    let url = client.url();
    let none = run(url, &["collections", "list"]);
    assert_eq!((none.expect(0), none.err.as_str()), ("", "there are no collections\n"));

    let created = run(url, &["collections", "create", "news", "--description", "what happened", "--json"]).json();
    assert_eq!((&created[0]["name"], &created[0]["description"]), (&json!("news"), &json!("what happened")));
    let body = json!({ "documents": [
        { "id": "a", "text": "some words", "language": "fr" }, { "id": "b", "text": "other words", "language": "fr" },
        { "id": "c", "text": "more words", "language": "de" },
    ] });
    assert_eq!(client.post("/v1/collections/news/documents", &body).0, 200);

    let table = run(url, &["collections", "list"]);
    let lines: Vec<&str> = table.expect(0).lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("NAME  DOCUMENTS  PENDING  LANGUAGES   MODEL"), "{lines:?}");
    assert!(lines[1].starts_with("news          3        0  fr 2, de 1  fake"), "{lines:?}");
    let shown = run(url, &["collections", "show", "news"]);
    assert!(shown.expect(0).contains("\nlanguages          fr 2, de 1\n"), "{}", shown.out);

    let again = run(url, &["collections", "create", "news"]);
    assert_eq!(again.code, 1);
    assert!(again.err.starts_with("error: collection_exists: "), "{}", again.err);
    assert!(again.err.contains("\n  request id: "), "{}", again.err);
    let unasked = run(url, &["collections", "delete", "news"]);
    assert_eq!((unasked.code, client.get("/v1/collections/news").0), (2, 200), "{unasked:?}");
    assert!(unasked.err.contains("to delete collection news with 3 documents, add --yes"), "{}", unasked.err);
    run(url, &["collections", "delete", "news", "--yes"]).expect(0);
    assert_eq!(client.get("/v1/collections/news").0, 404);
    let gone = run(url, &["collections", "show", "news"]);
    assert_eq!(gone.code, 1);
    assert!(gone.err.starts_with("error: collection_not_found: "), "{}", gone.err);
}

#[test]
fn lists_fetch_every_page() {
    let (_folder, server) = Program::fresh("fake:8");
    let client = server.client();
    let names: Vec<String> = (0..103).map(|number| format!("c{number:03}")).collect();
    for name in &names {
        assert_eq!(client.post("/v1/collections", &json!({ "name": name })).0, 201);
    }
    let listed = run(client.url(), &["collections", "list", "--json"]).json();
    assert!(listed.iter().map(|collection| collection["name"].as_str().unwrap()).eq(names.iter().map(String::as_str)));
}

#[test]
fn unknown_settings_are_refused_by_the_server() {
    let (_folder, server) = Program::fresh("fake:8");
    let run = run(server.client().url(), &["collections", "create", "news", "--settings", r#"{"colour": "red"}"#]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("/colour: unknown field"), "{}", run.err);
}

#[test]
fn reembed_changes_the_passage_length() {
    let (_folder, server) = Program::fresh("fake:8");
    let url = server.client().url().to_owned();
    run(&url, &["collections", "create", "news"]).expect(0);
    let body = json!({ "documents": [{ "id": "a", "text": "one two three four five six seven eight nine" }] });
    assert_eq!(server.client().post("/v1/collections/news/documents", &body).0, 200);
    let shorter = ["collections", "reembed", "news", "--tokens-max", "8"];
    let done = run(&url, &shorter);
    assert_eq!(done.expect(0), "");
    assert!(done.err.contains("passages 2"), "{done:?}");
    let again = run(&url, &shorter);
    assert!(again.code == 1 && again.err.starts_with("error: model_current: "), "{again:?}");
}

#[test]
fn reembed_switches_a_collection_to_the_servers_model() {
    let (folder, server) = Program::fresh("fake:8");
    run(server.client().url(), &["collections", "create", "news"]).expect(0);
    let body = json!({ "documents": [{ "id": "a", "text": "one two three four five six seven eight nine" }] });
    assert_eq!(server.client().post("/v1/collections/news/documents", &body).0, 200);
    assert!(server.terminate().success());

    let server = Program::start(folder.path(), "fake:16");
    let client = server.client();
    let (url, query) = (client.url(), ["search", "news", "one two three"]);
    let refused = run(url, &query);
    assert!(refused.code == 1 && refused.err.contains("POST /v1/collections/news/reembed"), "{refused:?}");
    let done = run(url, &["collections", "reembed", "news", "--tokens-max", "8"]);
    assert_eq!(done.expect(0), "");
    assert!(done.err.contains("reembed succeeded: ") && done.err.contains("passages 2"), "{done:?}");
    let shown = run(url, &["collections", "show", "news", "--json"]).json();
    assert_eq!((&shown[0]["dimension"], &shown[0]["passage_bounds"]["tokens_max"]), (&json!(16), &json!(8)));
    run(url, &query).expect(0);
    let again = run(url, &["collections", "reembed", "news", "--detach"]);
    assert!(again.code == 1 && again.err.starts_with("error: model_current: "), "{again:?}");
}
