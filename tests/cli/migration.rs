//! `dragoman import --from`: exports of other databases, in the files that they write, and CSV with column types.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::program::Program;
use super::{Run, dragoman, run, run_with};

const BREAD: &str = "Le pain est encore chaud.";
const TRAIN: &str = "Der Zug fährt um acht.";

fn server() -> (tempfile::TempDir, Program) {
    let folder = tempfile::tempdir().unwrap();
    let server = Program::start(&folder.path().join("data"), "fake:8");
    (folder, server)
}

/// Imports a file with this content into a new collection.
fn import(server: &Program, folder: &Path, (name, content): (&str, &[u8]), options: &[&str]) -> Run {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    let collection = name.split('.').next().unwrap();
    let arguments = [&["import", collection, path.to_str().unwrap(), "--create"], options].concat();
    run(server.client().url(), &arguments)
}

fn exported(server: &Program, collection: &str) -> Vec<Value> {
    run(server.client().url(), &["export", collection, "--quiet"]).json()
}

fn document(id: &str, text: &str, metadata: Value) -> Value {
    let mut document = json!({ "id": id, "text": text, "language": if text == BREAD { "fr" } else { "de" } });
    if metadata != json!({}) {
        document["metadata"] = metadata;
    }
    document
}

#[test]
fn qdrant_pages_and_lines_are_imported() {
    let (folder, server) = server();
    let uuid = "f47ac10b-58cc-4372-a567-0e02b2c3d479";
    let bread = json!({ "id": 1, "payload": { "text": BREAD, "lang": "fr", "year": 2025 }, "vector": [0.1, 0.2] });
    let train = json!({ "id": uuid, "payload": { "text": TRAIN, "lang": "de" }, "vector": { "dense": [0.1] } });
    let page = |point: &Value, next: Value| {
        json!({ "result": { "points": [point], "next_page_offset": next }, "status": "ok", "time": 0.001 }).to_string()
    };
    let pages = page(&bread, json!(uuid)) + "\n" + &page(&train, Value::Null);
    let lines = format!("{bread}\n{train}\n");
    let expect = [document("1", BREAD, json!({ "year": 2025 })), document(uuid, TRAIN, json!({}))];
    let packed = zstd::encode_all(lines.as_bytes(), 1).unwrap();
    for (name, content) in [("pages.json", pages.as_bytes()), ("lines.jsonl", lines.as_bytes()), ("packed.jsonl.zst", &packed)] {
        let done = import(&server, folder.path(), (name, content), &["--from", "qdrant", "--language-field", "lang"]);
        done.expect(0);
        assert!(done.err.contains("the file's vectors are left out"), "{}", done.err);
        assert_eq!(exported(&server, name.split('.').next().unwrap()), expect, "{name}");
    }
}

#[test]
fn vectors_are_imported_into_a_collection_of_vectors() {
    let (_folder, server) = server();
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "points", "dimension": 2, "metric": "l2" })).0, 201);
    let lines = "{\"id\": 1, \"payload\": {\"n\": 1}, \"vector\": [3, 4]}\n{\"id\": 2, \"payload\": null, \"vector\": [1]}\n";
    let done = run_with(dragoman(client.url(), &["import", "points", "--from", "qdrant"]), lines.as_bytes());
    done.expect(3);
    assert!(done.err.contains("record 2 (2): invalid_request: /vector: must have 2 values, got 1"), "{}", done.err);
    assert!(!done.err.contains("vectors are left out"), "{}", done.err);
    let stored = run(client.url(), &["export", "points", "--vectors", "--quiet"]).json();
    assert_eq!(stored, [json!({ "id": "1", "metadata": { "n": 1 }, "vector": [3.0, 4.0] })]);
}

#[test]
fn chroma_columns_are_imported() {
    let (folder, server) = server();
    let got = json!({
        "ids": ["a", "b", "c"], "embeddings": [[0.1], [0.2], [0.3]], "documents": [BREAD, TRAIN, null], "uris": null,
        "included": ["documents"], "data": null, "metadatas": [{ "topic": "food", "lang": "fr" }, { "lang": "de" }, null],
    });
    let options = ["--from", "chroma", "--language-field", "lang"];
    let done = import(&server, folder.path(), ("columns.json", got.to_string().as_bytes()), &options);
    done.expect(3);
    assert!(done.err.contains("record 3 (c): invalid_request: /text: must be given"), "{}", done.err);
    assert!(done.err.contains("the file's vectors are left out"), "{}", done.err);
    let expect = [document("a", BREAD, json!({ "topic": "food" })), document("b", TRAIN, json!({}))];
    assert_eq!(exported(&server, "columns"), expect);

    let uneven = json!({ "ids": ["a", "b"], "documents": [BREAD] }).to_string();
    let refused = import(&server, folder.path(), ("uneven.json", uneven.as_bytes()), &options);
    assert!(refused.code == 1 && refused.err.contains("differ in length"), "{refused:?}");
    assert_eq!(exported(&server, "uneven"), Vec::<Value>::new());
    let piped = run_with(dragoman(server.client().url(), &["import", "columns", "--from", "chroma"]), b"{}");
    assert!(piped.code == 2 && piped.err.contains("must be a file"), "{piped:?}");
}

/// The relevant part of Chroma 1.5's database schema for one collection.
fn chroma_database(folder: &Path, waiting: bool) {
    fs::create_dir_all(folder).unwrap();
    let database = Connection::open(folder.join("chroma.sqlite3")).unwrap();
    let values = "string_value text, int_value integer, float_value real, bool_value integer";
    let tables = format!(
        "create table collections (id text primary key, name text not null);
         create table segments (id text primary key, type text, scope text not null, collection text not null);
         create table embeddings (id integer primary key, segment_id text, embedding_id text, seq_id blob);
         create table embedding_metadata (id integer, key text not null, {values}, primary key (id, key));
         create table embedding_metadata_array (id integer not null, key text not null, {values});
         create table max_seq_id (segment_id text primary key, seq_id integer);
         create table embeddings_queue (seq_id integer primary key, topic text not null, id text not null);
         insert into collections values ('c1', 'news'), ('c2', 'other');
         insert into segments values ('v1', 'vector', 'VECTOR', 'c1'), ('m1', 'metadata', 'METADATA', 'c1'),
             ('m2', 'metadata', 'METADATA', 'c2');
         insert into embeddings values (1, 'm1', 'a', 1), (2, 'm2', 'elsewhere', 2), (3, 'm1', 'b', 3);
         insert into embedding_metadata (id, key, string_value) values (1, 'chroma:document', '{BREAD}'),
             (1, 'lang', 'fr'), (3, 'chroma:document', '{TRAIN}'), (3, 'lang', 'de');
         insert into embedding_metadata (id, key, int_value) values (1, 'year', 2025);
         insert into embedding_metadata (id, key, float_value) values (1, 'share', 0.5);
         insert into embedding_metadata (id, key, bool_value) values (1, 'hot', 1);
         insert into embedding_metadata_array (id, key, string_value) values (3, 'tags', 'x'), (3, 'tags', 'y');
         insert into max_seq_id values ('m1', 3);
         insert into embeddings_queue values ({}, 'persistent://default/default/c1', 'b');",
        if waiting { 4 } else { 3 }
    );
    database.execute_batch(&tables).unwrap();
}

#[test]
fn a_chroma_database_is_imported() {
    let (folder, server) = server();
    let url = server.client().url().to_owned();
    let chroma = folder.path().join("chroma");
    chroma_database(&chroma, false);
    let path = chroma.to_str().unwrap();
    let base = ["import", "news", path, "--create", "--from", "chroma", "--language-field", "lang"];
    let unnamed = run(&url, &base);
    assert!(unnamed.code == 1 && unnamed.err.contains("the collections news, other; name one"), "{unnamed:?}");
    assert_eq!(server.client().get("/v1/collections/news").0, 404, "nothing is created if the export cannot be read");
    run(&url, &[&base[..], &["--source-collection", "news"]].concat()).expect(0);
    let bread = document("a", BREAD, json!({ "hot": true, "share": 0.5, "year": 2025 }));
    assert_eq!(exported(&server, "news"), [bread, document("b", TRAIN, json!({ "tags": ["x", "y"] }))]);

    let waiting = folder.path().join("waiting");
    chroma_database(&waiting, true);
    let file = waiting.join("chroma.sqlite3");
    let refused = run(&url, &["import", "news", file.to_str().unwrap(), "--from", "chroma", "--source-collection", "news"]);
    assert!(refused.code == 1 && refused.err.contains("the collection's tables still lack 1 change;"), "{refused:?}");
}

#[test]
fn weaviate_listings_and_lines_are_imported() {
    let (folder, server) = server();
    let id = "0ae0cd5f-0b0a-4b0e-9d4f-5d0b0f6f0f01";
    let object = |key: &str| {
        let mut object = json!({
            "class": "Article", "properties": { "body": BREAD, "lang": "fr", "headline": "Pain", "year": 2025 },
            "vectors": { "default": [0.1] }, "vector": [], "creationTimeUnix": 1, "tenant": "",
        });
        object[key] = json!(id);
        object
    };
    let listing = json!({ "deprecations": null, "objects": [object("id")], "totalResults": 1 }).to_string();
    let lines = object("uuid").to_string();
    let options = ["--from", "weaviate", "--text-field", "body", "--title-field", "headline", "--language-field", "lang"];
    for (name, content) in [("listing.json", listing), ("lines.jsonl", lines)] {
        import(&server, folder.path(), (name, content.as_bytes()), &options).expect(0);
        let mut expect = document(id, BREAD, json!({ "year": 2025 }));
        expect["title"] = json!("Pain");
        assert_eq!(exported(&server, name.split('.').next().unwrap()), [expect], "{name}");
    }
}

#[test]
fn meilisearch_responses_lists_and_dumps_are_imported() {
    let (folder, server) = server();
    let documents = json!([
        { "isbn": 7, "text": BREAD, "lang": "fr", "results": ["kept"], "_vectors": { "default": { "embeddings": [[0.1]] } } },
        { "isbn": "b", "text": TRAIN, "lang": "de" },
    ]);
    let response = json!({ "results": documents, "offset": 0, "limit": 20, "total": 2 }).to_string();
    let dump = documents.as_array().unwrap().iter().map(|one| format!("{one}\n")).collect::<String>();
    let options = ["--from", "meilisearch", "--id-field", "isbn", "--language-field", "lang"];
    for (name, content) in [("answer.json", response), ("list.json", documents.to_string()), ("documents.jsonl", dump)] {
        import(&server, folder.path(), (name, content.as_bytes()), &options).expect(0);
        let expect = [document("7", BREAD, json!({ "results": ["kept"] })), document("b", TRAIN, json!({}))];
        assert_eq!(exported(&server, name.split('.').next().unwrap()), expect, "{name}");
    }
}

#[test]
fn an_array_or_lines_of_any_json_objects_are_imported() {
    let (folder, server) = server();
    let posts = json!([{ "slug": 7, "title": "Pain", "body": BREAD, "results": 1 }, { "slug": "b", "body": TRAIN }]);
    let lines = posts.as_array().unwrap().iter().map(|post| format!("{post}\n")).collect::<String>();
    let options = ["--from", "json", "--id-field", "slug", "--text-field", "body", "--title-field", "title"];
    for (name, content) in [("list.json", posts.to_string()), ("lines.jsonl", lines)] {
        import(&server, folder.path(), (name, content.as_bytes()), &options).expect(0);
        let mut bread = document("7", BREAD, json!({ "results": 1 }));
        bread["title"] = json!("Pain");
        assert_eq!(exported(&server, name.split('.').next().unwrap()), [bread, document("b", TRAIN, json!({}))], "{name}");
    }
}

#[test]
fn a_json_object_without_an_id_gets_one() {
    let (folder, server) = server();
    import(&server, folder.path(), ("plain.json", br#"[{"text": "eins"}, {"text": "zwei"}]"#), &["--from", "json"]).expect(0);
    let ids: Vec<Value> = exported(&server, "plain").into_iter().map(|document| document["id"].clone()).collect();
    assert!(ids.len() == 2 && ids.iter().all(|id| id.as_str().is_some_and(|id| id.len() == 36)), "{ids:?}");
}

#[test]
fn elasticsearch_responses_and_lines_are_imported() {
    let (folder, server) = server();
    let hit = |id: &str, source: Value| json!({ "_index": "news", "_id": id, "_score": 1.0, "_source": source, "sort": [0] });
    let bread = hit("1", json!({ "body": BREAD, "lang": "fr", "hits": ["kept"] }));
    let train = hit("b", json!({ "body": TRAIN, "lang": "de", "year": 2025 }));
    let page =
        |hit: &Value| json!({ "took": 1, "hits": { "total": { "value": 2 }, "max_score": null, "hits": [hit] } }).to_string();
    let (pages, lines) = (page(&bread) + "\n" + &page(&train), format!("{bread}\n{train}\n"));
    let expect = [document("1", BREAD, json!({ "hits": ["kept"] })), document("b", TRAIN, json!({ "year": 2025 }))];
    for (name, source, content) in [("pages.json", "elasticsearch", pages), ("lines.ndjson", "opensearch", lines)] {
        let options = ["--from", source, "--text-field", "body", "--language-field", "lang"];
        import(&server, folder.path(), (name, content.as_bytes()), &options).expect(0);
        assert_eq!(exported(&server, name.split('.').next().unwrap()), expect, "{name}");
    }
}

#[test]
fn the_named_field_of_elasticsearch_is_the_vector() {
    let (folder, server) = server();
    let url = server.client().url().to_owned();
    run(&url, &["collections", "create", "points", "--settings", r#"{"dimension": 2}"#]).expect(0);
    let file = folder.path().join("points.ndjson");
    fs::write(&file, json!({ "_id": "a", "_source": { "title_vector": [0.0, 1.0], "year": 2025 } }).to_string()).unwrap();
    let file = file.to_str().unwrap();
    let unnamed = run(&url, &["import", "points", file, "--from", "elasticsearch"]);
    assert!(unnamed.code == 2 && unnamed.err.contains("name their field with --vector-name"), "{unnamed:?}");
    run(&url, &["import", "points", file, "--from", "elasticsearch", "--vector-name", "title_vector"]).expect(0);
    let stored = run(&url, &["export", "points", "--vectors", "--quiet"]).json();
    assert_eq!(stored, [json!({ "id": "a", "vector": [0.0, 1.0], "metadata": { "year": 2025 } })]);
}

#[test]
fn invalid_records_are_reported_and_the_others_stored() {
    let (folder, server) = server();
    let long = "x".repeat(600);
    let lines =
        format!("{{\"id\": \"{long}\", \"text\": \"{BREAD}\"}}\n[5, {{\"id\": \"a\", \"text\": \"{BREAD}\"}}]{{\"id\": \"b\"}}");
    let failures = folder.path().join("failures");
    let options = ["--from", "meilisearch", "--failures", failures.to_str().unwrap()];
    let done = import(&server, folder.path(), ("some.json", lines.as_bytes()), &options);
    done.expect(3);
    let id = "x".repeat(80);
    for expect in [
        format!("record 1 ({id}): invalid_request: /id: document id must have 1 to 512 bytes, got 600"),
        "record 2: invalid_request: the record must be an object, got a number".to_owned(),
        "record 4 (b): invalid_request: /text: must be given".to_owned(),
    ] {
        assert!(done.err.contains(&expect), "{expect}: {}", done.err);
    }
    assert_eq!(fs::read_to_string(&failures).unwrap().lines().count(), 3);
    assert_eq!(exported(&server, "some").len(), 1);
}

#[test]
fn a_truncated_export_stores_nothing() {
    let (folder, server) = server();
    let cut = format!("[{{\"id\": \"a\", \"text\": \"{BREAD}\"}}, {{\"id\": \"b\", ");
    let refused = import(&server, folder.path(), ("cut.json", cut.as_bytes()), &["--from", "meilisearch"]);
    assert!(refused.code == 1 && refused.err.contains("the JSON is cut off, after 1 record\n"), "{refused:?}");
    assert_eq!(exported(&server, "cut"), Vec::<Value>::new());
    let usage = run(server.client().url(), &["import", "other", "--text-field", "x"]);
    assert!(usage.code == 2 && usage.err.contains("--from"), "{usage:?}");
}

#[test]
fn a_record_without_a_text_is_refused_and_the_others_are_stored() {
    let (folder, server) = server();
    let lines = format!("{{\"id\": \"a\", \"year\": 1}}\n{{\"id\": \"b\", \"text\": \"{BREAD}\"}}\n");
    let failures = folder.path().join("failures");
    let options = ["--from", "meilisearch", "--failures", failures.to_str().unwrap()];
    let done = import(&server, folder.path(), ("some.jsonl", lines.as_bytes()), &options);
    done.expect(3);
    assert!(done.err.contains("record 1 (a): invalid_request: /text: must be given"), "{}", done.err);
    assert!(fs::read_to_string(&failures).unwrap().contains("\"id\":\"a\""));
    let stored = exported(&server, "some");
    assert_eq!((stored.len(), &stored[0]["id"]), (1, &json!("b")));
}

#[test]
fn the_import_aborts_if_the_first_records_lack_the_text_field() {
    let (folder, server) = server();
    let point =
        |id: usize, field: &str| format!("{{\"id\": {id}, \"payload\": {{\"{field}\": \"{BREAD}\", \"source\": \"a.txt\"}}}}\n");
    let one = point(1, "page_content");
    let many: String = (0..100).map(|id| point(id, "page_content")).chain([point(100, "text")]).collect();
    let cases: [(&str, &String, &[&str], &str); 3] = [
        ("one.jsonl", &one, &[], "the first record has no field \"text\"; its fields are \"page_content\", \"source\";"),
        (
            "many.jsonl",
            &many,
            &[],
            "the first 100 records have no field \"text\"; their fields are \"page_content\", \"source\";",
        ),
        ("named.jsonl", &one, &["--text-field", "content"], "no field \"content\"; its fields are"),
    ];
    for (name, content, options, words) in cases {
        let refused = import(&server, folder.path(), (name, content.as_bytes()), &[&["--from", "qdrant"], options].concat());
        assert!(refused.code == 1 && refused.err.contains(words), "{refused:?}");
        assert!(refused.err.contains("name the one with the text with --text-field"), "{}", refused.err);
        let collection = format!("/v1/collections/{}", name.split('.').next().unwrap());
        assert_eq!(server.client().get(&collection).0, 404, "{name} leaves an empty collection behind");
    }
}

#[test]
fn the_final_counts_include_records_that_were_not_sent() {
    let (folder, server) = server();
    let lines = format!("[5, {{\"id\": \"a\", \"text\": \"{BREAD}\"}}, {{\"text\": \"no id\"}}, {{\"id\": \"b\"}}]");
    let done = import(&server, folder.path(), ("some.json", lines.as_bytes()), &["--from", "meilisearch"]);
    done.expect(3);
    assert!(done.err.ends_with("import succeeded: lines 4, created 1, updated 0, failed 3\n"), "{}", done.err);
    let output = import(&server, folder.path(), ("some.json", lines.as_bytes()), &["--from", "meilisearch", "--json"]);
    let job: Value = serde_json::from_str(output.expect(3)).unwrap();
    assert_eq!(job["details"], json!({ "lines": 4, "created": 0, "updated": 1, "failed": 3 }));
}

#[test]
fn a_named_field_that_no_record_has_is_reported() {
    let (folder, server) = server();
    let line = format!("{{\"id\": 1, \"payload\": {{\"text\": \"{BREAD}\", \"metadata\": {{\"year\": 2025}}}}}}");
    let options = ["--from", "qdrant", "--quiet", "--metadata-field"];
    let lost = import(&server, folder.path(), ("lost.jsonl", line.as_bytes()), &[&options[..], &["meta"]].concat());
    lost.expect(0);
    assert_eq!(lost.err, "no record has the field \"meta\" that --metadata-field names\n");
    let kept = import(&server, folder.path(), ("kept.jsonl", line.as_bytes()), &[&options[..], &["metadata"]].concat());
    kept.expect(0);
    assert_eq!((kept.err.as_str(), &exported(&server, "kept")[0]["metadata"]), ("", &json!({ "year": 2025 })));
}

#[test]
fn records_with_several_vectors_need_a_vector_name() {
    let (folder, server) = server();
    let client = server.client();
    let create = |name: &str| client.post("/v1/collections", &json!({ "name": name, "dimension": 2, "metric": "l2" })).0;
    let points =
        "{\"id\": 1, \"vector\": {\"words\": [1, 2], \"image\": [3, 4]}}\n{\"id\": 2, \"vector\": {\"words\": [5, 6]}}\n";
    let run = |options: &[&str]| {
        import(&server, folder.path(), ("points.jsonl", points.as_bytes()), &[&["--from", "qdrant"], options].concat())
    };
    assert_eq!(create("points"), 201);
    let stored = || run_with(dragoman(client.url(), &["export", "points", "--vectors", "--quiet"]), b"").json();
    let words = "the first record has the vectors \"words\", \"image\"; name the one to import with --vector-name";
    let unnamed = run(&[]);
    assert!(unnamed.code == 1 && unnamed.err.contains(words), "{unnamed:?}");
    let wrong = run(&["--vector-name", "sound"]);
    let words = "the first 2 records have no vector \"sound\"; their vectors are \"words\", \"image\"";
    assert!(wrong.code == 1 && wrong.err.contains(words), "{wrong:?}");
    assert_eq!(stored(), Vec::<Value>::new());
    run(&["--vector-name", "image"]).expect(3);
    assert_eq!(stored(), [json!({ "id": "1", "vector": [3.0, 4.0] })]);
}

#[test]
fn the_vector_of_a_meilisearch_document_is_imported() {
    let (folder, server) = server();
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "points", "dimension": 2, "metric": "l2" })).0, 201);
    let line = json!({ "id": 7, "_vectors": { "default": { "embeddings": [[3, 4]], "regenerate": false } } }).to_string();
    import(&server, folder.path(), ("points.jsonl", line.as_bytes()), &["--from", "meilisearch"]).expect(0);
    let stored = run(client.url(), &["export", "points", "--vectors", "--quiet"]).json();
    assert_eq!(stored, [json!({ "id": "7", "vector": [3.0, 4.0] })]);
}

#[test]
fn a_vector_name_is_refused_for_a_collection_with_a_model() {
    let (folder, server) = server();
    let line = format!("{{\"id\": 1, \"payload\": {{\"text\": \"{BREAD}\"}}, \"vector\": {{\"a\": [1], \"b\": [2]}}}}");
    let refused = import(&server, folder.path(), ("news.jsonl", line.as_bytes()), &["--from", "qdrant", "--vector-name", "a"]);
    assert!(refused.code == 2 && refused.err.contains("--vector-name needs a collection of your own vectors"), "{refused:?}");
    let dropped = import(&server, folder.path(), ("news.jsonl", line.as_bytes()), &["--from", "qdrant"]);
    dropped.expect(0);
    assert!(dropped.err.contains("the file's vectors are left out"), "{}", dropped.err);
}

#[test]
fn csv_columns_are_imported_with_the_given_types() {
    let (_folder, server) = server();
    let url = server.client().url().to_owned();
    let table = "id,text,year,published\na,one,2026,2026-11-23\nb,two,soon,\n";
    let arguments = ["import", "news", "--create", "--format", "csv", "--types", "year:int,published:date"];
    let done = run_with(dragoman(&url, &arguments), table.as_bytes());
    done.expect(3);
    assert!(done.err.contains("column year must be an integer of 64 bits, got \"soon\""), "{}", done.err);
    let stored = server.client().get("/v1/collections/news/documents/a").1;
    assert_eq!(stored["metadata"], json!({ "year": 2026, "published": "2026-11-23" }));
    let wrong = run_with(dragoman(&url, &["import", "news", "--format", "csv", "--types", "year:number"]), table.as_bytes());
    assert!(wrong.code == 1 && wrong.err.contains("types: must be columns with types"), "{wrong:?}");
}
