//! Files of the saved index that are missing or not regular: the index is rebuilt, and a warning says so if one was saved.

use std::path::Path;
use std::process::Command;

use super::program::Program;
use super::{MODEL, check_found, create, fill};

const DOCUMENTS: usize = 40;

/// A server with the collection `news`.
fn filled(folder: &Path) -> Program {
    let server = Program::start(folder, MODEL);
    create(&server.client(), "news");
    fill(&server.client(), "news", DOCUMENTS);
    server
}

/// Starts a server on this folder, checks that it finds every document, and returns its warnings that it rebuilt an index.
fn warnings(folder: &Path) -> Vec<String> {
    let mut server = Program::start(folder, MODEL);
    (0..DOCUMENTS).for_each(|n| check_found(&server.client(), "news", n));
    server.kill().into_iter().filter(|line| line.contains("WARN") && line.contains("rebuilding the index")).collect()
}

/// Stops a server cleanly, changes a file of the saved index, and checks that the next start warns of that.
fn check_warned(file: &str, change: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    assert!(filled(folder.path()).terminate().success());
    let collection = std::fs::read_dir(folder.path().join("collections")).unwrap().next().unwrap().unwrap().path();
    change(&collection.join(file));
    let warnings = warnings(folder.path());
    assert_eq!(warnings.len(), 1, "{file}: {warnings:?}");
}

#[test]
fn a_crash_before_the_first_save_causes_no_warning() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path()).kill();
    assert_eq!(warnings(folder.path()), [""; 0]);
}

#[test]
fn a_lost_file_causes_a_warning() {
    for file in ["index.json", "index.usearch", "index.copies"] {
        check_warned(file, |path| std::fs::remove_file(path).unwrap());
    }
}

#[test]
fn a_server_starts_with_a_fifo_in_place_of_a_file() {
    for file in ["index.json", "index.usearch", "index.copies"] {
        check_warned(file, |path| {
            std::fs::remove_file(path).unwrap();
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        });
    }
}
