//! `dragoman import`, `export`, `jobs` and `snapshot` against a server.

use std::fs;

use serde_json::{Value, json};

use super::program::Program;
use super::{dragoman, run, run_with};

const LINES: &str = r#"{"id": "a", "text": "Le pain est encore chaud.", "language": "fr", "metadata": {"topic": "food"}}
{"id": "b", "text": " "}
no json
{"id": "c", "text": "新しい図書館は駅の隣にあります。", "language": "ja"}
"#;

fn server() -> (tempfile::TempDir, Program) {
    let folder = tempfile::tempdir().unwrap();
    let server = Program::start(&folder.path().join("data"), "fake:8");
    (folder, server)
}

/// What the program exports, sorted by id like the server's lists.
fn exported(url: &str, collection: &str) -> Vec<Value> {
    run(url, &["export", collection, "--quiet"]).json()
}

#[test]
fn imported_documents_survive_export_and_reimport() {
    let (folder, server) = server();
    let client = server.client();
    let url = client.url();
    let failures = folder.path().join("failures");
    let arguments = ["import", "news", "-", "--create", "--failures", failures.to_str().unwrap()];
    let first = run_with(dragoman(url, &arguments), LINES.as_bytes());
    first.expect(3);
    assert!(first.err.starts_with("created collection news\njob "), "{}", first.err);
    assert!(first.err.contains("\nline 2 (b): invalid_request: /text: must not be blank"), "{}", first.err);
    assert!(first.err.contains("\nline 3: "), "{}", first.err);
    assert!(first.err.contains(" created 2, updated 0, failed 2\n"), "{}", first.err);
    assert_eq!(fs::read_to_string(&failures).unwrap().lines().count(), 2);

    let documents = exported(url, "news");
    assert_eq!(documents[0], serde_json::from_str::<Value>(LINES.lines().next().unwrap()).unwrap());
    assert_eq!(documents.len(), 2);
    for name in ["copy.ndjson", "copy.ndjson.gz", "copy.ndjson.zst"] {
        let path = folder.path().join(name);
        let path = path.to_str().unwrap();
        run(url, &["export", "news", "-o", path]).expect(0);
        let collection = name.replace("copy.ndjson", "copy");
        run(url, &["import", &collection, path, "--create"]).expect(0);
        assert_eq!(exported(url, &collection), documents, "{name}");
    }
    let csv = "id,text,topic\nd,\"one, two\",numbers\n";
    run_with(dragoman(url, &["import", "news", "--format", "csv"]), csv.as_bytes()).expect(0);
    let document = client.get("/v1/collections/news/documents/d").1;
    assert_eq!((&document["text"], &document["metadata"]), (&json!("one, two"), &json!({ "topic": "numbers" })));
}

#[test]
fn an_export_overwrites_the_partial_file_of_an_interrupted_one() {
    let (folder, server) = server();
    let url = server.client().url().to_owned();
    run_with(dragoman(&url, &["import", "news", "--create"]), LINES.as_bytes()).expect(3);
    let (path, partial) = (folder.path().join("news.ndjson"), folder.path().join("news.ndjson.partial"));
    fs::write(&partial, "{\"id\": \"cut").unwrap();
    run(&url, &["export", "news", "-o", path.to_str().unwrap()]).expect(0);
    assert_eq!((fs::read_to_string(&path).unwrap().lines().count(), partial.exists()), (2, false));
}

#[test]
fn a_file_with_the_wrong_compression_is_refused_and_stores_nothing() {
    let (_folder, server) = server();
    let client = server.client();
    let wrong = run_with(dragoman(client.url(), &["import", "news", "--create", "--compression", "zstd"]), b"not packed");
    assert_eq!(wrong.code, 1, "{wrong:?}");
    assert!(wrong.err.contains("error: malformed_file: "), "{}", wrong.err);
    let nowhere = run_with(dragoman(client.url(), &["import", "nowhere"]), LINES.as_bytes());
    assert!(nowhere.code == 1 && nowhere.err.starts_with("error: collection_not_found: "), "{nowhere:?}");
    assert!(nowhere.err.contains("; --create creates it"), "{nowhere:?}");
    assert_eq!(client.get("/v1/collections/news").1["documents"], 0);
}

#[test]
fn a_table_without_usable_columns_creates_no_collection() {
    let (folder, server) = server();
    let client = server.client();
    let path = folder.path().join("news.csv");
    fs::write(&path, "id;text\n1;one\n").unwrap();
    let import = |arguments: &[&str]| run(client.url(), &[&["import", "news", path.to_str().unwrap()], arguments].concat());
    let refused = import(&["--create"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let expect =
        "error: the header row must contain the column text, got only \"id;text\"; CSV separates cells by commas, TSV by tabs\n";
    assert_eq!(refused.err, expect);
    assert_eq!(client.get("/v1/collections/news").0, 404);
    // The server refuses the same header row.
    assert_eq!(client.post("/v1/collections", &json!({ "name": "news" })).0, 201);
    assert!(import(&[]).err.contains("invalid_request: the header row must contain the column text, got only"));

    fs::write(&path, "id,text\n1,one\n").unwrap();
    import(&["--create"]).expect(0);
    assert_eq!(client.get("/v1/collections/news/documents/1").1["text"], "one");
}

#[test]
fn finished_jobs_can_be_inspected() {
    let (_folder, server) = server();
    let url = server.client().url().to_owned();
    let job = run_with(dragoman(&url, &["import", "news", "--create", "--detach", "--json"]), LINES.as_bytes()).json().remove(0);
    let id = job["id"].as_str().unwrap();
    let ended = run(&url, &["jobs", "watch", id, "--json"]);
    let ended: Value = serde_json::from_str(ended.expect(3)).unwrap();
    assert_eq!((&ended["status"], &ended["details"]["failed"]), (&json!("succeeded"), &json!(2)));
    assert_eq!(
        run(&url, &["jobs", "list", "--type", "import", "--json"]).json(),
        [run(&url, &["jobs", "show", id, "--json"]).json().remove(0)]
    );
    assert_eq!(run(&url, &["jobs", "list", "--status", "failed"]).err, "there are no jobs\n");
    let results = run(&url, &["jobs", "results", id]).json();
    assert!(results.iter().map(|result| result["line"].as_u64().unwrap()).eq(1..=4), "{results:?}");
    let late = run(&url, &["jobs", "cancel", id]);
    assert!(late.code == 1 && late.err.starts_with("error: job_finished: "), "{late:?}");
}

#[test]
fn a_snapshot_can_be_restored_on_another_server() {
    let (folder, server) = server();
    let url = server.client().url().to_owned();
    run_with(dragoman(&url, &["import", "news", "--create"]), LINES.as_bytes()).expect(3);
    let created = run(&url, &["snapshot", "create", "news"]);
    let id = created.expect(0).trim();
    assert!(run(&url, &["snapshot", "list"]).expect(0).lines().nth(1).unwrap().starts_with(id));
    let path = folder.path().join(format!("{id}.tar.zst"));
    run(&url, &["snapshot", "download", id, "-o", path.to_str().unwrap()]).expect(0);
    let taken = run(&url, &["snapshot", "restore", id]);
    assert!(taken.code == 1 && taken.err.starts_with("error: collection_exists: "), "{taken:?}");
    assert!(taken.err.contains("; add --replace, or restore it under another name"), "{taken:?}");

    let other = Program::start(&folder.path().join("other"), "fake:8");
    let there = other.client().url().to_owned();
    let uploaded = run(&there, &["snapshot", "upload", path.to_str().unwrap(), "--json"]).json();
    assert_eq!(uploaded[0]["id"], id);
    run(&there, &["snapshot", "restore", id, "--collection", "news", "--rename-to", "copy"]).expect(0);
    assert_eq!(exported(&there, "copy"), exported(&url, "news"));
    run(&there, &["snapshot", "restore", id, "--collection", "news", "--rename-to", "copy", "--replace", "--yes"]).expect(0);
    run(&there, &["snapshot", "delete", id, "--yes"]).expect(0);
    let gone = run(&there, &["snapshot", "show", id]);
    assert!(gone.code == 1 && gone.err.starts_with("error: snapshot_not_found: "), "{gone:?}");
}

#[test]
fn latest_is_the_newest_snapshot_of_the_server() {
    let (folder, server) = server();
    let url = server.client().url().to_owned();
    let none = run(&url, &["snapshot", "restore", "latest"]);
    assert!(none.code == 1 && none.err.contains("there are no snapshots"), "{none:?}");
    for name in ["first", "second"] {
        run_with(dragoman(&url, &["import", name, "--create"]), LINES.as_bytes()).expect(3);
        run(&url, &["snapshot", "create", name]).expect(0);
    }
    run(&url, &["snapshot", "restore", "latest", "--collection", "second", "--rename-to", "copy"]).expect(0);
    assert_eq!(exported(&url, "copy"), exported(&url, "second"));
    let path = folder.path().join("archive");
    run(&url, &["snapshot", "download", "latest", "-o", path.to_str().unwrap()]).expect(0);
    assert!(fs::metadata(&path).unwrap().len() > 0);
}

#[test]
fn a_line_that_is_no_document_is_refused_with_the_expected_form() {
    let (_folder, server) = server();
    let array = run_with(dragoman(server.client().url(), &["import", "news", "--create"]), br#"[{"id": "a", "text": "one"}]"#);
    assert!(array.err.contains("line 1: invalid_request: the line must be one document as a JSON object"), "{}", array.err);
    assert!(array.err.contains("; `jq -c '.[]'` writes the elements of an array as lines"), "{}", array.err);
    let pretty = run_with(dragoman(server.client().url(), &["import", "news"]), b"{\n  \"text\": \"one\"\n}\n");
    assert!(pretty.err.contains("; a document must be on one line, as `jq -c .` writes it"), "{}", pretty.err);
    let flat = run_with(dragoman(server.client().url(), &["import", "news"]), br#"{"text": "one", "topic": "art"}"#);
    assert!(
        flat.err.contains("unknown field `topic`") && flat.err.contains("; other fields belong in `metadata`"),
        "{}",
        flat.err
    );
    let plain = run_with(dragoman(server.client().url(), &["import", "news"]), b"one\n");
    assert!(plain.err.contains("at column 1; every line must be a document as a JSON object"), "{}", plain.err);
}

#[test]
fn an_import_that_stores_no_document_fails() {
    let (_folder, server) = server();
    let none = run_with(dragoman(server.client().url(), &["import", "news", "--create"]), b"{\"text\": \" \"}\n5\n");
    assert_eq!(none.code, 1, "{none:?}");
    let end = "import failed: lines 2, created 0, updated 0, failed 2\nerror: no document was stored\n";
    assert!(none.err.ends_with(end), "{}", none.err);
    let ended = run(server.client().url(), &["jobs", "list", "--json"]).json();
    let watched = run(server.client().url(), &["jobs", "watch", ended[0]["id"].as_str().unwrap()]);
    assert_eq!((watched.code, watched.err.as_str()), (1, end));
}

#[test]
fn a_file_in_place_of_the_collection_is_recognized() {
    let (folder, server) = server();
    fs::write(folder.path().join("news.csv"), "text\none\n").unwrap();
    for arguments in [&["import", "news.csv"][..], &["import", "news.csv", "news"]] {
        let mut command = dragoman(server.client().url(), arguments);
        command.current_dir(folder.path());
        let run = run_with(command, b"");
        assert_eq!(run.code, 2, "{run:?}");
        assert_eq!(run.err, "error: news.csv is a file; the collection comes first: dragoman import COLLECTION news.csv\n");
    }
}
