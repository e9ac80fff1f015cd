//! Expired documents are removed in the background, also after a restart and a crash.

use std::path::Path;

use dragoman::domain::{Filter, NewDocument, Wait};
use rusqlite::{Connection, OpenFlags};

use crate::{Running, collection_folder, document, eventually, news, open};

fn expired(id: &str) -> NewDocument {
    NewDocument { expires_at_ms: Some(1), ..document(id, "what has expired") }
}

/// The documents that the only collection's database still contains.
fn rows(data_dir: &Path) -> i64 {
    let path = collection_folder(data_dir).join("documents.sqlite");
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    database.query_row("select count(*) from documents", [], |row| row.get(0)).unwrap()
}

async fn check_removed(running: &Running, data_dir: &Path) {
    eventually("what has expired is removed", async || rows(data_dir) == 1).await;
    assert_eq!(running.found("news", "what has expired").await, ["stays"]);
    assert_eq!(running.on("news").count(Filter::default()).await.unwrap(), 1);
}

#[tokio::test]
async fn expired_documents_are_never_found_and_soon_removed() {
    let (folder, running) = news().await;
    running.write("news", "stays", "what stays").await;
    running.upsert("news", (0..600).map(|n| expired(&n.to_string())).collect(), Wait::Indexed).await.unwrap();
    assert_eq!(running.found("news", "what has expired").await, ["stays"]);
    assert_eq!(running.text("news", "0").await, None);
    check_removed(&running, folder.path()).await;
    running.shutdown().await;
}

#[tokio::test]
async fn expired_documents_left_by_a_crash_are_removed_after_a_restart() {
    let (folder, running) = news().await;
    running.write("news", "stays", "what stays").await;
    running.upsert("news", vec![expired("a"), expired("b")], Wait::Stored).await.unwrap();
    running.crash();
    let running = open(folder.path()).await;
    assert_eq!(running.text("news", "a").await, None);
    check_removed(&running, folder.path()).await;
    running.shutdown().await;
}
