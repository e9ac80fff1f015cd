//! Folders, links and FIFOs in place of files of the data directory: a start neither waits for a FIFO nor refuses to serve the
//! collections that are intact.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::program::{Program, command};
use super::{MODEL, check_found, create, failure, fill};

const DOCUMENTS: usize = 20;

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Replaces a file in the folder of one collection, and checks that the other one is served, and that the damaged one can be
/// deleted.
fn check_damaged(file: &str, replace: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let collections = folder.path().join("collections");
    let server = Program::start(folder.path(), MODEL);
    create(&server.client(), "news");
    let news = std::fs::read_dir(&collections).unwrap().next().unwrap().unwrap().path();
    create(&server.client(), "other");
    ["news", "other"].iter().for_each(|name| fill(&server.client(), name, DOCUMENTS));
    assert!(server.terminate().success());
    let path = news.join(file);
    if path.exists() {
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
    }
    replace(&path);

    let server = Program::start(folder.path(), MODEL);
    let client = server.client();
    let (status, readiness) = client.get("/readyz");
    assert_eq!((status, &readiness["damaged_collections"]), (200, &json!(["news"])), "{file}");
    let problem = client.get("/v1/collections/news").1["damage"][0]["problem"].as_str().unwrap().to_owned();
    assert!(problem.ends_with(&format!("{file} is not a regular file")), "{problem}");
    (0..DOCUMENTS).for_each(|n| check_found(&client, "other", n));
    assert_eq!(client.try_delete("/v1/collections/news").unwrap().0, 204);
    assert_eq!(std::fs::read_dir(&collections).unwrap().count(), 1, "the folder of the deleted collection is left over");
}

#[test]
fn a_folder_or_a_loop_of_links_in_place_of_a_database_damages_only_its_collection() {
    check_damaged("documents.sqlite", |path| std::fs::create_dir(path).unwrap());
    check_damaged("documents.sqlite", |path| symlink(path, path).unwrap());
}

#[test]
fn a_folder_or_a_fifo_beside_a_database_damages_only_its_collection() {
    check_damaged("documents.sqlite-wal", |path| std::fs::create_dir(path).unwrap());
    for file in ["documents.sqlite-wal", "documents.sqlite-shm", "documents.sqlite-journal"] {
        check_damaged(file, fifo);
    }
}

#[test]
fn a_server_does_not_start_with_a_fifo_in_place_of_its_lock_or_catalog_or_beside_it() {
    for file in ["lock", "catalog.sqlite", "catalog.sqlite-wal"] {
        let folder = tempfile::tempdir().unwrap();
        assert!(Program::start(folder.path(), MODEL).terminate().success());
        let path = folder.path().join(file);
        let _ = std::fs::remove_file(&path);
        fifo(&path);
        let error = failure(command(folder.path(), MODEL));
        assert!(error.contains(&format!("{file} is not a regular file")), "{error}");
    }
}

#[test]
fn a_file_among_the_folders_of_jobs_stays() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Program::start(folder.path(), MODEL).terminate().success());
    let file = folder.path().join("jobs/0198c0de-7a11-7000-8000-2f1de5c0ffee");
    std::fs::write(&file, "not ours").unwrap();
    let mut server = Program::start(folder.path(), MODEL);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "not ours");
    assert!(server.kill().iter().any(|line| line.contains("not the folder of a job")));
}
