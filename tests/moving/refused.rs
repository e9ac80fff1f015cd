//! Moves that are refused, and why: nothing changes on either side.

use dragoman::domain::{CollectionName, Job, JobId, JobProgress, JobStatus, JobType, JobUnit, Metadata};
use dragoman::store::Catalog;
use serde_json::json;

use crate::fixture::{FAKE, Places, files, fill, moved, put};

fn filled(documents: usize) -> Places {
    let places = Places::new();
    let server = places.serve_folder(FAKE);
    fill(&server.client(), documents);
    assert!(server.terminate().success());
    places
}

#[test]
fn a_target_with_a_conflicting_name_is_refused() {
    let places = filled(3);
    let server = places.serve_database(FAKE);
    assert_eq!(server.client().post("/v1/collections", &json!({"name": "news"})).0, 201);
    put(&server.client(), "news", &json!({"id": "own", "text": "eigener Text"}));
    assert!(server.terminate().success());
    let before = places.rows();
    moved(places.folder(), places.url(), &[]).fails(&["the target already has a collection news"]);
    moved(places.folder(), places.url(), &["--verify"]).fails(&["collection blog differs between source and target"]);
    assert!(places.rows() == before);
    let other = filled(3);
    let server = other.serve_database(FAKE);
    assert_eq!(server.client().post("/v1/collections", &json!({"name": "own"})).0, 201);
    assert_eq!(server.client().put("/v1/aliases/blog", &json!({"collection": "own"})).0, 200);
    assert!(server.terminate().success());
    moved(other.folder(), other.url(), &[]).fails(&["the target already has an alias blog"]);
}

#[test]
fn a_repeated_move_is_refused() {
    let places = filled(3);
    moved(places.folder(), places.url(), &["--json"]).json();
    let before = places.rows();
    moved(places.folder(), places.url(), &[]).fails(&["the target already has a collection blog"]);
    assert!(places.rows() == before);
}

#[test]
fn unknown_documents_in_the_target_are_refused() {
    let places = filled(3);
    moved(places.folder(), places.url(), &["--json"]).json();
    places.sql().batch_execute("delete from dragoman.catalog").unwrap();
    let before = places.rows();
    moved(places.folder(), places.url(), &[]).fails(&["documents of collection blog", "not from an earlier move"]);
    assert!(places.rows() == before);
}

#[test]
fn a_location_in_use_by_a_server_is_refused() {
    let (places, empty) = (filled(3), Places::new());
    let server = places.serve_folder(FAKE);
    moved(places.folder(), places.url(), &[]).fails(&["a server uses the source: stop it first"]);
    moved(empty.url(), places.folder(), &[]).fails(&["a server uses the target: stop it first"]);
    assert!(server.terminate().success());
    let server = places.serve_database(FAKE);
    moved(places.folder(), places.url(), &[]).fails(&["a server uses the target: stop it first"]);
    moved(places.url(), empty.folder(), &[]).fails(&["a server uses the source: stop it first"]);
    moved(places.folder(), places.url(), &["--verify"]).fails(&["a server uses the target: stop it first"]);
    assert!(server.terminate().success());
}

#[test]
fn unfinished_jobs_are_refused_unless_allowed() {
    let places = filled(3);
    let job = Job {
        id: JobId::parse("0198c0de-0000-7000-8000-000000000007").unwrap(),
        kind: JobType::Import,
        status: JobStatus::Queued,
        collection: CollectionName::parse("news").ok(),
        request: Metadata::new(),
        details: Metadata::new(),
        progress: JobProgress { done: 0, total: 1, unit: JobUnit::Bytes, rate: None, eta_s: None },
        error: None,
        cancel_requested: false,
        created_at_ms: 1_000,
        started_at_ms: None,
        finished_at_ms: None,
    };
    Catalog::open_existing(places.data.path()).unwrap().create_job(&job, None, None).unwrap();
    let before = places.rows();
    moved(places.folder(), places.url(), &[])
        .fails(&["the source has 1 that are not finished, such as import 0198c0de", "--leave-jobs"]);
    assert!(places.rows() == before);
    let report = moved(places.folder(), places.url(), &["--leave-jobs", "--json"]).json();
    assert_eq!(report["jobs_left"], 1);
    assert_eq!(places.number("select count(*) from dragoman.jobs where finished_at_ms is null"), 0);
}

#[test]
fn a_source_of_another_version_is_refused() {
    let (places, empty) = (filled(3), Places::new());
    let version = |number: i64| {
        let catalog = rusqlite::Connection::open(places.data.path().join("catalog.sqlite")).unwrap();
        catalog.pragma_update(None, "user_version", number).unwrap();
        catalog.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    };
    for (number, words) in [(99, "this server knows versions up to"), (2, "it has version 2 of")] {
        version(number);
        let before = files(places.data.path());
        moved(places.folder(), places.url(), &[]).fails(&["cannot open the source", words]);
        assert!(files(places.data.path()) == before);
    }
    let migrations = "select count(*) from dragoman.migrations";
    let known = places.number(migrations);
    places.sql().execute(&format!("insert into dragoman.migrations values ({})", known + 1), &[]).unwrap();
    moved(places.url(), empty.folder(), &[]).fails(&["cannot open the source", "this server knows versions up to"]);
    places.sql().execute(&format!("delete from dragoman.migrations where version >= {known}"), &[]).unwrap();
    moved(places.url(), empty.folder(), &[]).fails(&[
        "cannot open the source",
        "it has version",
        "start a server of this version",
    ]);
    assert_eq!(places.number(migrations), known - 1, "the source must not be migrated");
}

#[test]
fn a_missing_source_is_refused() {
    let (places, nothing) = (Places::new(), tempfile::tempdir().unwrap());
    let missing = nothing.path().join("missing");
    moved(missing.to_str().unwrap(), places.url(), &[]).fails(&["cannot open the source", "catalog.sqlite is missing"]);
    assert!(!missing.exists());
    let secret = "postgres://postgres:geheim@%2Fnowhere/postgres";
    let run = moved(secret, places.folder(), &["--json"]);
    run.fails(&["cannot open the source", "\"error\""]);
    assert!(!run.err.contains("geheim"), "{run:?}");
}

#[test]
fn a_move_between_locations_of_the_same_kind_is_refused() {
    let (one, other) = (Places::new(), Places::new());
    for (from, to) in [(one.folder(), other.folder()), (one.url(), other.url())] {
        let run = moved(from, to, &[]);
        assert!(run.code == 2 && run.err.contains("one for --from and one for --to"), "{run:?}");
    }
}

#[test]
fn verify_reports_the_first_document_that_differs() {
    let places = filled(20);
    moved(places.folder(), places.url(), &["--json"]).json();
    let change = |table: &str, set: &str| {
        let sql = format!("update {} set {set} where document in (5, 9)", places.table(table, 1));
        assert_eq!(places.sql().execute(&sql, &[]).unwrap(), 2);
        let run = moved(places.folder(), places.url(), &["--verify"]);
        run.fails(&["collection news differs between source and target: document n4 has different content"]);
    };
    // A tiny change to every value of an embedding.
    change("passages", "embedding = embedding * array_fill(1.0001::real, array[vector_dims(embedding)])::vector");
    places.sql().batch_execute(&format!("delete from {} where document = 2", places.table("documents", 1))).unwrap();
    moved(places.folder(), places.url(), &["--verify"]).fails(&["document n1 is missing in the target"]);
}
