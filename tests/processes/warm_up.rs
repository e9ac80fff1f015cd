//! What a start prepares for the searches after it.

use std::path::Path;

use serde_json::json;

use super::program::Program;

const MODEL: &str = "models/ems-small";

/// Returns how many collections have the mark that they were searched.
fn marked(data: &Path) -> usize {
    let folders = std::fs::read_dir(data.join("collections")).unwrap();
    folders.filter(|folder| folder.as_ref().unwrap().path().join("searched").exists()).count()
}

fn has_thread(process: u32, name: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok()).any(|own| own.trim() == name)
}

/// Restarts the server, and returns the log of what it prepared.
fn restart(data: &Path, search: &str) -> Vec<String> {
    let mut server = Program::start(data, MODEL);
    let (client, process) = (server.client(), server.id());
    client.wait_until("the end of the preparation", |_| marked(data) == 0 && !has_thread(process, "warm-up"));
    assert_eq!(client.hits(search, &json!({ "query": "soup" })).len(), 1);
    assert_eq!(marked(data), 1);
    server.kill().into_iter().filter(|line| line.contains("prepared the first search")).collect()
}

#[test]
fn a_start_prepares_the_collections_that_were_searched_since_the_last_start() {
    let folder = tempfile::tempdir().unwrap();
    let server = Program::start(folder.path(), MODEL);
    let client = server.client();
    for name in ["menus", "notes"] {
        assert_eq!(client.post("/v1/collections", &json!({ "name": name })).0, 201);
        let documents = json!({ "documents": [{ "id": "a", "text": "Die Suppe ist heiß." }] });
        assert_eq!(client.post(&format!("/v1/collections/{name}/documents?wait=indexed"), &documents).0, 200);
    }
    assert_eq!(marked(folder.path()), 0);
    client.hits("menus", &json!({ "query": "soup" }));
    assert!(server.terminate().success());
    for (searched, next) in [("menus", "notes"), ("notes", "notes"), ("notes", "menus")] {
        let prepared = restart(folder.path(), next);
        assert!(prepared.len() == 1 && prepared[0].contains(searched), "{prepared:#?}");
    }
    // A search right after the start counts too, even if it comes before the preparation.
    let mut server = Program::start(folder.path(), MODEL);
    server.client().hits("notes", &json!({ "query": "soup" }));
    drop(server.kill());
    let prepared = restart(folder.path(), "menus");
    assert!(prepared.len() == 1 && prepared[0].contains("notes"), "{prepared:#?}");
}
