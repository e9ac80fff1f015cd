//! A disk that takes writes but cannot sync them: `strace` makes the syncs of a database's log fail.

use std::path::Path;

use serde_json::json;

use super::power::start_traced;
use super::program::{Program, command};
use super::{MODEL, create, put};

/// Starts a server that cannot sync the log of a database, or returns `None` where that is not possible. The header of an empty
/// log is synced first, which succeeds.
fn start_failing(data: &Path, log: &Path) -> Option<Program> {
    let fail = ["-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO:when=2+", "-P", log.to_str().unwrap()];
    start_traced(command(data, MODEL), &fail, Path::new("/dev/null"))
}

#[test]
fn a_document_that_could_not_be_synced_is_not_there_after_kill_9() {
    let (data, server) = Program::fresh(MODEL);
    create(&server.client(), "news");
    assert_eq!(put(&server.client(), "news", "before", "a text before the failure").0, 200);
    assert!(server.terminate().success());
    let collection = std::fs::read_dir(data.path().join("collections")).unwrap().next().unwrap().unwrap().path();
    let Some(mut server) = start_failing(data.path(), &collection.join("documents.sqlite-wal")) else { return };
    let (status, body) = put(&server.client(), "news", "lost", "a text that cannot be stored");
    assert_eq!((status, body["code"].as_str()), (503, Some("storage_unavailable")), "{body}");
    server.kill();
    let server = Program::start(data.path(), MODEL);
    let status = |id: &str| server.client().get(&format!("/v1/collections/news/documents/{id}")).0;
    assert_eq!((status("before"), status("lost")), (200, 404));
}

#[test]
fn a_collection_that_could_not_be_created_is_not_there_after_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let Some(mut server) = start_failing(data.path(), &data.path().join("catalog.sqlite-wal")) else { return };
    let (status, body) = server.client().post("/v1/collections", &json!({ "name": "news" }));
    assert_eq!((status, body["code"].as_str()), (503, Some("storage_unavailable")), "{body}");
    server.kill();
    let server = Program::start(data.path(), MODEL);
    assert_eq!(server.client().get("/v1/collections/news").0, 404);
    create(&server.client(), "news");
}
