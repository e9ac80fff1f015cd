//! Malicious archives: each is refused with a reason, and leaves nothing behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tar::EntryType;

use crate::archives::{Part, Parts, parts, sqlite};
use crate::server::{Response, Server};

const ID: &str = "0198c0de-7a11-7000-8000-2f1de5c0ffee";
const CATALOG: &str = "catalog.sqlite";

/// A server and the unpacked archive of its own snapshot.
async fn attacked() -> (Server, Parts) {
    let documents = json!([{"id": "fr", "text": "Le train est en retard."}, {"id": "ja", "text": "電車が遅れている。"}]);
    let server = Server::with_documents(documents).await;
    let labels = json!([{"name": "late"}, {"name": "early"}]);
    let made = server.post("/v1/classifiers", &json!({"name": "words", "kind": "prototype", "labels": labels})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    for _ in 0..10_000 {
        if server.get("/v1/classifiers/words").await.body["state"] == "ready" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    }
    let job = server.finished(&server.post("/v1/snapshots", &json!({})).await).await;
    let id = job["details"]["snapshot"].as_str().expect("an id").to_owned();
    let archive = server.get(&format!("/v1/snapshots/{id}/archive")).await.bytes;
    assert_eq!(server.delete(&format!("/v1/snapshots/{id}")).await.status, 204);
    (server, parts(&archive))
}

async fn upload(server: &Server, archive: Vec<u8>) -> Response {
    let request = Request::put(format!("/v1/snapshots/{ID}/archive")).header("content-type", "application/zstd");
    server.send(request.body(Body::from(archive)).expect("a request")).await
}

/// All files and folders below, except SQLite's log files.
fn below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(below(&path));
        }
        if !path.to_string_lossy().ends_with("-wal") && !path.to_string_lossy().ends_with("-shm") {
            found.insert(path);
        }
    }
    found
}

/// Uploads an archive that must be refused.
async fn refuse(server: &Server, archive: Vec<u8>, code: &str, words: &[&str]) {
    let before = below(server._folder.path());
    let response = upload(server, archive).await;
    let status = if code == "body_too_large" { 413 } else { 422 };
    response.assert_error(status, code, "", words);
    assert_eq!(below(server._folder.path()), before, "{words:?} left something");
}

/// Uploads an archive whose restore must fail.
async fn fail(server: &Server, archive: &Parts, words: &[&str]) {
    let before = below(server._folder.path());
    let taken = upload(server, archive.pack(0)).await;
    assert_eq!(taken.status, 201, "{words:?}: {}", taken.text);
    let accepted = server.post(&format!("/v1/snapshots/{ID}/restore"), &json!({"replace": true})).await;
    let job = server.finished(&accepted).await;
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("invalid_snapshot")), "{words:?}: {job}");
    let detail = job["error"]["detail"].as_str().expect("a detail");
    words.iter().for_each(|word| assert!(detail.contains(word), "{word:?} is not in {detail:?}"));
    assert_eq!(server.delete(&format!("/v1/snapshots/{ID}")).await.status, 204);
    assert_eq!(below(server._folder.path()), before, "{words:?} left something");
    let hits = server.post("/v1/collections/news/search", &json!({"query": "Le train est en retard."})).await.body;
    assert_eq!(hits["hits"][0]["id"], "fr", "the collection of this name is untouched");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_regular_files_with_known_names_are_accepted() {
    let (server, good) = attacked().await;
    assert_eq!(upload(&server, good.pack(9 << 10)).await.status, 201, "the server accepts its own archive");
    assert_eq!(server.delete(&format!("/v1/snapshots/{ID}")).await.status, 204);
    let database = good.database();
    for name in
        ["../../evil", "/tmp/evil", "collections/../../x.sqlite", "collections//x.sqlite", "collections/x.sqlite", "", "C:\\x"]
    {
        let evil = good.clone().with_first(Part::file(name, b"evil".to_vec()));
        refuse(&server, evil.pack(0), "invalid_snapshot", &["which does not belong in a snapshot"]).await;
    }
    let kinds = [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::Directory,
        EntryType::GNUSparse,
        EntryType::XGlobalHeader,
        EntryType::XHeader,
        EntryType::GNULongName,
        EntryType::GNULongLink,
    ];
    for kind in kinds {
        let part = Part { kind, ..Part::file(&database, b"30 path=../../../tmp/evil-file\n".to_vec()) };
        refuse(&server, good.clone().with_first(part).pack(0), "invalid_snapshot", &["not a regular file"]).await;
    }
    for name in [&*database, CATALOG, "manifest.json"] {
        let twice = good.clone().with_first(Part::file(name, good.bytes(name).to_vec()));
        refuse(&server, twice.pack(0), "invalid_snapshot", &["twice"]).await;
    }
    let mut missing = good.clone();
    missing.0.retain(|part| part.name != database);
    refuse(&server, missing.pack(0), "invalid_snapshot", &["lacks"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn false_entry_sizes_and_truncated_files_are_refused() {
    let (server, good) = attacked().await;
    let database = good.database();
    for declared in [1 << 62, 1 << 50] {
        let mut huge = good.clone();
        huge.0.iter_mut().filter(|part| part.name == database).for_each(|part| part.declared = Some(declared));
        refuse(&server, huge.pack(0), "body_too_large", &["at most"]).await;
    }
    let mut overflowing = good.clone();
    overflowing.0.iter_mut().filter(|part| part.name == database).for_each(|part| part.declared = Some(u64::MAX));
    refuse(&server, overflowing.pack(0), "invalid_snapshot", &["overflow"]).await;
    // Larger than the archive, but within the limit: the file ends early.
    for (name, declared) in [(&*database, 1 << 30), ("manifest.json", 1 << 20)] {
        let mut long = good.clone();
        long.0.iter_mut().filter(|part| part.name == name).for_each(|part| part.declared = Some(declared));
        refuse(&server, long.pack(0), "invalid_snapshot", &[]).await;
    }
    let mut long = good.clone();
    long.0.iter_mut().filter(|part| part.name == "manifest.json").for_each(|part| part.declared = Some(1 << 35));
    refuse(&server, long.pack(0), "invalid_snapshot", &["manifest of", "bytes"]).await;
    refuse(&server, good.pack(32 << 20), "invalid_snapshot", &["continues after its end"]).await;
    let whole = good.pack(0);
    for end in [0, 10, whole.len() / 2, whole.len() - 1] {
        refuse(&server, whole[..end].to_vec(), "invalid_snapshot", &[]).await;
    }
    let trailing = [whole, b"and more".to_vec()].concat();
    refuse(&server, trailing, "invalid_snapshot", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_with_too_many_files_is_refused_without_reading_the_rest() {
    let (server, good) = attacked().await;
    let head = good.bytes(&good.database())[..100].to_vec();
    let mut many = good.clone();
    many.0.clear();
    for number in 0..10_003_u64 {
        many.0.push(Part::file(&format!("collections/0198c0de-0000-7000-8000-{number:012x}.sqlite"), head.clone()));
    }
    // Entries after it are not read.
    many.0.push(Part::file("nonsense", Vec::new()));
    refuse(&server, many.pack(0), "invalid_snapshot", &["more files than 10000 collections"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_contradicts_the_archive_is_refused() {
    let (server, good) = attacked().await;
    let check = async |change: fn(&mut Value), words: &[&str]| {
        refuse(&server, good.clone().with_manifest(change).pack(0), "invalid_snapshot", words).await;
    };
    check(|manifest| manifest["catalog"]["sha256"] = json!("0".repeat(64)), &["catalog.sqlite should have SHA-256 000"]).await;
    check(|manifest| manifest["collections"][0]["file"]["bytes"] = json!(1), &["should have"]).await;
    check(|manifest| manifest["collections"][0]["id"] = json!("../../evil"), &["expected a UUID"]).await;
    check(|manifest| manifest["collections"][0]["name"] = json!("../evil"), &["invalid name"]).await;
    check(
        |manifest| manifest["collections"] = json!([manifest["collections"][0], manifest["collections"][0]]),
        &["expected a UUID, each only once"],
    )
    .await;
    check(|manifest| manifest["collections"] = json!([]), &["does not name"]).await;
    check(|manifest| manifest["format"] = json!(3), &["has version 3", "up to 2"]).await;
    check(|manifest| manifest["format"] = json!("2"), &["without a version"]).await;
    check(|manifest| manifest["surprise"] = json!(1), &["surprise"]).await;
    check(|manifest| manifest["aliases"] = json!([{"name": "a", "collection": "none"}]), &["alias a of none"]).await;
    check(|manifest| manifest["aliases"] = json!([{"name": "news", "collection": "news"}]), &["alias news of news"]).await;
    check(|manifest| manifest["aliases"] = json!([{"name": "a/b", "collection": "news"}]), &["invalid name"]).await;
    check(
        |manifest| manifest["classifiers"] = json!([manifest["classifiers"][0], manifest["classifiers"][0]]),
        &["two classifiers with the same name"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_or_newer_databases_are_refused_on_upload() {
    let (server, good) = attacked().await;
    let database = good.database();
    for name in [&*database, CATALOG] {
        for bytes in [vec![0x5a; 40_000], b"SQLite format 3\0 and no more".to_vec(), Vec::new()] {
            refuse(&server, good.clone().with(name, bytes).pack(0), "invalid_snapshot", &[name, "not an SQLite database"]).await;
        }
        let newer = good.clone().with_sql(name, "pragma user_version = 9999");
        refuse(&server, newer.pack(0), "invalid_snapshot", &[name, "version 9999"]).await;
        let foreign = good.clone().with_sql(name, "pragma application_id = 77");
        refuse(&server, foreign.pack(0), "invalid_snapshot", &[name, "application id"]).await;
    }
    let swapped = good.clone().with(&database, good.bytes(CATALOG).to_vec());
    refuse(&server, swapped.pack(0), "invalid_snapshot", &["application id"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_with_unknown_or_missing_schema_objects_are_not_restored() {
    let (server, good) = attacked().await;
    let database = good.database();
    let check = async |name: &str, sql: &str, words: &[&str]| fail(&server, &good.clone().with_sql(name, sql), words).await;
    let trigger = "create trigger lies after update on documents begin delete from documents; end";
    check(&database, trigger, &["trigger lies", "unknown to this program"]).await;
    check(&database, "create view lies as select * from documents", &["view lies"]).await;
    check(&database, "create table more (a text)", &["table more"]).await;
    check(&database, "create index more on documents (text)", &["index more"]).await;
    check(&database, "analyze", &["table sqlite_stat1"]).await;
    check(&database, "create virtual table words using fts5 (a)", &["table words"]).await;
    check(&database, "drop trigger documents_deleted", &["documents_deleted", "missing"]).await;
    check(&database, "drop index documents_language", &["documents_language", "missing"]).await;
    check(&database, "drop table lexical_fill; create view lexical_fill as select 1 as id", &["view lexical_fill"]).await;
    check(CATALOG, "create trigger lies after insert on collections begin select 1; end", &["trigger lies"]).await;
    check(CATALOG, "create view lies as select 1", &["view lies"]).await;
    check(CATALOG, "create index lies on collections (description)", &["index lies"]).await;
}

/// Gives the trigger `lies` a name that is reserved for SQLite, which a schema check might skip.
const RESERVED_NAME: &str = "pragma writable_schema = on;
    update sqlite_schema set name = 'sqlite_lies', sql = replace(sql, 'lies', 'sqlite_lies') where name = 'lies'";

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_with_a_reserved_name_is_refused() {
    let (server, good) = attacked().await;
    for (name, table) in [(&*good.database(), "documents"), (CATALOG, "collections")] {
        let sql = format!("create trigger lies after insert on {table} begin delete from {table}; end; {RESERVED_NAME}");
        fail(&server, &good.clone().with_sql(name, &sql), &["trigger sqlite_lies"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_never_ends_is_refused() {
    let (server, good) = attacked().await;
    let endless = "insert into tombstones with recursive n(i) as (select 1 union all select i + 1 from n) select i, i from n";
    let sql = format!("create trigger lies after insert on passages begin {endless}; end; {RESERVED_NAME}");
    fail(&server, &good.clone().with_sql(&good.database(), &sql), &["trigger sqlite_lies"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_on_an_expression_is_refused() {
    let (server, good) = attacked().await;
    let database = good.database();
    // Allocates 2,000 bytes for each byte of text that is written.
    let fat = "on documents (length(hex(zeroblob(length(text) * 1000))))";
    let check = async |sql: &str, words: &[&str]| fail(&server, &good.clone().with_sql(&database, sql), words).await;
    check(&format!("create index fat {fat}"), &["index fat"]).await;
    // Uses a name that this program could have generated, once for a declared path and once for an undeclared one.
    let declared = "insert into metadata_indexes values ('year', 'documents_metadata_1')";
    let words = ["index documents_metadata_1", "defined differently"];
    check(&format!("{declared}; create index documents_metadata_1 {fat}"), &words).await;
    check(&format!("create index documents_metadata_1 {fat}"), &["index documents_metadata_1", "unknown to"]).await;
    check(declared, &["index documents_metadata_1", "missing"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unique_index_that_would_block_writes_is_refused() {
    let (server, good) = attacked().await;
    let sql = "create unique index one_of_each on documents (language)";
    fail(&server, &good.clone().with_sql(&good.database(), sql), &["index one_of_each"]).await;
    let sql = "pragma writable_schema = on;
        update sqlite_schema set sql = replace(sql, 'INDEX documents_language', 'UNIQUE INDEX documents_language')
        where name = 'documents_language'";
    fail(&server, &good.clone().with_sql(&good.database(), sql), &["index documents_language", "defined differently"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_an_extra_check_constraint_is_refused() {
    let (server, good) = attacked().await;
    let sql = "pragma writable_schema = on;
        update sqlite_schema set sql = replace(sql, 'text text not null', 'text text not null check (length(hex(zeroblob(99))) > 0)')
        where name = 'documents'";
    fail(&server, &good.clone().with_sql(&good.database(), sql), &["table documents", "defined differently"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_in_an_index_name_is_not_executed() {
    let (server, good) = attacked().await;
    let evil = std::env::temp_dir().join(format!("dragoman-evil-{}", std::process::id()));
    let name = format!("documents_metadata_1; attach '{}' as evil; create table evil.t (a)", evil.display()).replace('\'', "''");
    let sql = format!("insert into metadata_indexes values ('year', '{name}')");
    fail(&server, &good.clone().with_sql(&good.database(), &sql), &["index documents_metadata_1;"]).await;
    assert!(!evil.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_with_too_many_objects_is_refused() {
    let (server, good) = attacked().await;
    let tables: String = (0..300).map(|number| format!("create table t{number} (a);")).collect();
    fail(&server, &good.clone().with_sql(&good.database(), &tables), &["damaged", "too many schema objects"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_btree_that_shares_pages_is_refused() {
    let (server, good) = attacked().await;
    let mut bytes = good.bytes(&good.database()).to_vec();
    let mut root = 0_u32;
    sqlite(&bytes, |database| {
        let sql = "select rootpage from sqlite_schema where name = 'documents'";
        root = database.query_row(sql, [], |row| row.get(0)).expect("a root");
    });
    let size = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    // The root becomes an interior page whose two children are the same leaf, a copy of the root. Deep trees of this kind are
    // endless.
    let page = (root as usize - 1) * size;
    assert_eq!(bytes[page], 13, "the root is a leaf");
    let leaf = bytes[page..page + size].to_vec();
    bytes.extend(&leaf);
    let number = u32::try_from(bytes.len() / size).expect("few pages");
    bytes[28..32].copy_from_slice(&number.to_be_bytes());
    let mut branch = vec![0; size];
    let cell = size - 5;
    branch[..12].copy_from_slice(&[&[5, 0, 0, 0, 1, (cell >> 8) as u8, cell as u8, 0][..], &number.to_be_bytes()].concat());
    branch[12..14].copy_from_slice(&(cell as u16).to_be_bytes());
    branch[cell..].copy_from_slice(&[&number.to_be_bytes()[..], &[1]].concat());
    bytes[page..page + size].copy_from_slice(&branch);
    fail(&server, &good.clone().with(&good.database(), bytes), &["damaged", "table documents"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exhausted_or_inconsistent_ids_and_sequences_are_refused() {
    let (server, good) = attacked().await;
    let database = good.database();
    let check = async |sql: &str, words: &[&str]| fail(&server, &good.clone().with_sql(&database, sql), words).await;
    check("update state set sequence = 9223372036854775807", &["table state", "sequence"]).await;
    check("update state set sequence = 1", &["table state", "sequence"]).await;
    check("update documents set sequence = 9223372036854775807", &["table documents", "number"]).await;
    check("update passages set id = 9223372036854775807 - id", &["table passages", "number"]).await;
    check("update sqlite_sequence set seq = 9223372036854775807", &["sqlite_sequence", "number"]).await;
    check("update state set identity = x'00'", &["table state", "identity"]).await;
    check("delete from state", &["table state", "missing"]).await;
    check(
        "pragma foreign_keys = off; delete from documents where id = 'ja'",
        &["table passages", "violates the table's constraints"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_rebuilds_counts_and_terms_from_the_rows() {
    let (server, good) = attacked().await;
    let sql = "update language_counts set documents = 1000000; update state set passages = 1000000; delete from lexical;
               insert into lexical (rowid, words, folded) values (1, 'mensonge', 'mensonge')";
    let archive = good.clone().with_sql(&good.database(), sql);
    assert_eq!(upload(&server, archive.pack(0)).await.status, 201);
    let restored = json!({"collection": "news", "rename_to": "true"});
    let job = server.finished(&server.post(&format!("/v1/snapshots/{ID}/restore"), &restored).await).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    let shown = server.get("/v1/collections/true").await.body;
    assert_eq!((&shown["documents"], &shown["passages"]), (&json!(2), &json!(2)), "{shown}");
    let found = async |word: &str| {
        let asked = json!({"query": word, "mode": "lexical"});
        let hits = server.post("/v1/collections/true/search", &asked).await.body["hits"].clone();
        hits.as_array().expect("hits").iter().map(|hit| hit["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((found("train").await, found("mensonge").await), (vec![json!("fr")], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_recomputes_damaged_embeddings() {
    let (server, good) = attacked().await;
    let damaged = good.clone().with_sql(&good.database(), "update passages set embedding = x'00'");
    assert_eq!(upload(&server, damaged.pack(0)).await.status, 201);
    let restored = json!({"collection": "news", "rename_to": "mended"});
    let job = server.finished(&server.post(&format!("/v1/snapshots/{ID}/restore"), &restored).await).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    for _ in 0..10_000 {
        let hits = server.post("/v1/collections/mended/search", &json!({"query": "電車が遅れている。"})).await.body;
        if hits["hits"][0]["id"] == "ja" {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    }
    panic!("the passages are not embedded anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn inconsistent_databases_are_not_restored() {
    let (server, good) = attacked().await;
    let database = good.database();
    let check = async |name: &str, sql: &str, words: &[&str]| fail(&server, &good.clone().with_sql(name, sql), words).await;
    check(CATALOG, "delete from collections", &["no row for news"]).await;
    check(CATALOG, "update collections set m = 1000000000", &["invalid settings for news"]).await;
    check(CATALOG, "update collections set dimension = 32", &["invalid settings for news"]).await;
    check(CATALOG, "update collections set dimension = 32, model = '', model_fingerprint = ''", &["dimension"]).await;
    check(CATALOG, "update collections set metric = 'taxicab'", &["metric"]).await;
    check(CATALOG, "delete from classifiers", &["does not contain the trained classifier words"]).await;
    check(CATALOG, "update classifiers set state = 'training'", &["does not contain the trained classifier words"]).await;
    check(CATALOG, "update classifiers set definition = '{}'", &["classifier words"]).await;
    check(CATALOG, "update classifiers set definition = 'nothing'", &["damaged"]).await;
    check(CATALOG, "update classifiers set dimension = 65", &["different dimensions"]).await;
    check(CATALOG, "update classifier_texts set embedding = null", &["no embedding"]).await;
    check(CATALOG, "update classifier_texts set embedding = x'0000803f'", &["different dimensions"]).await;
    // Pages after the first are not valid database pages.
    let mut torn = good.bytes(&database).to_vec();
    torn[4_096..].iter_mut().for_each(|byte| *byte ^= 0x5a);
    fail(&server, &good.clone().with(&database, torn), &["damaged"]).await;
}
