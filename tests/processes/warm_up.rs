//! What a start prepares for the searches after it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::program::Program;

const MODEL: &str = "models/ems-small";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the marks of the collections that were searched.
fn marks(data: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(data.join("collections")).unwrap();
    folders.map(|folder| folder.unwrap().path().join("searched")).filter(|mark| mark.exists()).collect()
}

fn has_thread(process: u32, name: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok()).any(|own| own.trim() == name)
}

/// Restarts the server, searches these collections, and returns the log of what the start prepared.
fn restart(data: &Path, searched: &[&str]) -> Vec<String> {
    let server = Program::start(data, MODEL);
    let (client, process) = (server.client(), server.id());
    for name in searched {
        assert_eq!(client.hits(name, &json!({ "query": "soup" })).len(), 1);
    }
    client.wait_until("the end of the preparation", |_| !has_thread(process, "warm-up"));
    server.stop_and_read_log().into_iter().filter(|line| line.contains("prepared the first search")).collect()
}

#[test]
fn a_start_prepares_the_collections_that_were_searched_lately() {
    let (folder, server) = Program::fresh(MODEL);
    let client = server.client();
    for name in ["menus", "notes"] {
        assert_eq!(client.post("/v1/collections", &json!({ "name": name })).0, 201);
        let documents = json!({ "documents": [{ "id": "a", "text": "Die Suppe ist heiß." }] });
        assert_eq!(client.post(&format!("/v1/collections/{name}/documents?wait=indexed"), &documents).0, 200);
    }
    assert!(server.terminate().success());
    assert_eq!(restart(folder.path(), &["menus"]).len(), 0, "none was searched before");
    for searched in [&[][..], &["menus"]] {
        let prepared = restart(folder.path(), searched);
        assert!(prepared.len() == 1 && prepared[0].contains("menus"), "{prepared:#?}");
    }
    let marks = marks(folder.path());
    assert_eq!(marks.len(), 1);
    File::options().write(true).open(&marks[0]).unwrap().set_modified(SystemTime::now() - 8 * DAY).unwrap();
    assert_eq!(restart(folder.path(), &["menus", "notes"]).len(), 0, "the search was too long ago");
    assert_eq!(restart(folder.path(), &[]).len(), 2, "both were searched again");
}
