//! More collections than the process may have open files: databases are opened on use.

use std::path::Path;
use std::process::{Command, Stdio};

use super::program::{self, Client, Program};
use serde_json::json;

const COLLECTIONS: usize = 120;
/// Open files that the process may have.
const FILES: usize = 256;
/// Threads that it may have.
const THREADS: usize = 64;

fn start(folder: &Path) -> Program {
    let arguments: Vec<_> = program::command(folder, "fake:8").get_args().map(ToOwned::to_owned).collect();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {FILES}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_dragoman")]).args(arguments);
    shell.args(["--durability", "relaxed"]);
    shell.env("DRAGOMAN_LISTEN", "127.0.0.1:0").stdout(Stdio::null()).stderr(Stdio::piped());
    Program::run(shell)
}

fn write(client: &Client, n: usize) {
    let documents = json!({ "documents": [{ "id": "a", "text": format!("paper {n}"), "language": "en" }] });
    let (status, body) = client.post(&format!("/v1/collections/c{n}/documents"), &documents);
    assert_eq!(status, 200, "{n}: {body}");
}

/// Checks that every collection finds its document, and that the process stays within its limits on files and threads.
fn check_all(server: &Program) {
    let client = server.client();
    for n in 0..COLLECTIONS {
        let hits = client.hits(&format!("c{n}"), &json!({ "query": format!("paper {n}"), "include": ["text"] }));
        assert_eq!((hits.len(), &hits[0]["text"]), (1, &json!(format!("paper {n}"))), "{n}");
    }
    let count = |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", server.id())).map_or(0, Iterator::count);
    assert!(count("fd") < FILES && count("task") < THREADS, "{} files, {} threads", count("fd"), count("task"));
    assert_eq!(client.get("/metrics").0, 200);
}

#[test]
fn many_collections_are_served_within_the_open_file_limit() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let client = server.client();
    for n in 0..COLLECTIONS {
        assert_eq!(client.post("/v1/collections", &json!({ "name": format!("c{n}") })).0, 201, "{n}");
        write(&client, n);
    }
    check_all(&server);
    assert!(server.terminate().success());

    let mut server = start(folder.path());
    check_all(&server);
    // Several at once, then the process ends without closing anything.
    std::thread::scope(|scope| {
        for first in 0..8 {
            let client = server.client();
            scope.spawn(move || (first..COLLECTIONS).step_by(8).for_each(|n| write(&client, n)));
        }
    });
    server.kill();
    let server = start(folder.path());
    check_all(&server);
}
