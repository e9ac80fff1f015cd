//! Restarts: the databases are authoritative, whatever happened to the index files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dragoman::domain::{Code, IndexState, Wait};
use dragoman::embed::FakeOptions;

use crate::{
    Running, Setting, collection_folder, document, eventually, fresh, id, name, news, news_with, open, request, try_open,
};

/// A search limit at which all passages are compared, so that the search is exact.
const EXACT: usize = 1_000;

/// Opens a service with documents 0 to 99 in the collection `news`.
async fn with_documents(folder: &Path) -> Running {
    let running = open(folder).await;
    running.create("news").await;
    let documents = (0..100).map(|n| document(&format!("d{n}"), &text(n))).collect();
    running.upsert("news", documents, Wait::Indexed).await.unwrap();
    running
}

fn text(n: usize) -> String {
    format!("number {n} speaks of w{n} and x{n}")
}

/// Checks that documents 0 to 99 are found by their texts.
async fn check_all_found(running: &Running) {
    for n in 0..100 {
        assert_eq!(running.found("news", &text(n)).await[0], format!("d{n}"));
    }
}

#[tokio::test]
async fn a_restart_keeps_everything_and_embeds_nothing_again() {
    let folder = tempfile::tempdir().unwrap();
    with_documents(folder.path()).await.shutdown().await;
    let running = open(folder.path()).await;
    assert_eq!(running.control.batches().len(), 0);
    check_all_found(&running).await;
}

#[tokio::test]
async fn changes_since_the_last_index_save_survive_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    with_documents(folder.path()).await.shutdown().await;
    let running = open(folder.path()).await;
    running.write("news", "d5", "an entirely new text").await;
    running.write("news", "later", "a later document").await;
    running.delete("news", &id("d7")).await.unwrap();
    running.crash();
    let running = open(folder.path()).await;
    assert_eq!(running.found("news", "an entirely new text").await[0], "d5");
    assert_eq!(running.found("news", "a later document").await[0], "later");
    assert!(!running.found("news", &text(7)).await.contains(&"d7".to_owned()));
    assert_eq!(running.found("news", &text(8)).await[0], "d8");
}

/// Damages the saved index and checks that it is rebuilt.
async fn check_rebuilt(damage: impl Fn(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    with_documents(folder.path()).await.shutdown().await;
    damage(&collection_folder(folder.path()));
    let running = open(folder.path()).await;
    assert_eq!(running.control.batches().len(), 0);
    check_all_found(&running).await;
}

#[tokio::test]
async fn a_lost_index_is_rebuilt() {
    check_rebuilt(|folder| {
        std::fs::remove_file(folder.join("index.usearch")).unwrap();
        std::fs::remove_file(folder.join("index.json")).unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_index_missing_one_file_is_rebuilt() {
    check_rebuilt(|folder| std::fs::remove_file(folder.join("index.usearch")).unwrap()).await;
    check_rebuilt(|folder| std::fs::remove_file(folder.join("index.json")).unwrap()).await;
}

#[tokio::test]
async fn a_truncated_index_is_rebuilt() {
    check_rebuilt(|folder| {
        let path = folder.join("index.usearch");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_corrupted_index_is_rebuilt() {
    check_rebuilt(|folder| {
        let path = folder.join("index.usearch");
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        std::fs::write(&path, &bytes).unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_index_with_an_invalid_description_is_rebuilt() {
    check_rebuilt(|folder| std::fs::write(folder.join("index.json"), "{").unwrap()).await;
}

#[tokio::test]
async fn an_old_index_that_cannot_catch_up_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    with_documents(folder.path()).await.shutdown().await;
    let collection = collection_folder(folder.path());
    let files = ["index.usearch", "index.copies", "index.json"].map(|file| collection.join(file));
    let old = files.each_ref().map(|file| std::fs::read(file).unwrap());
    let running = open(folder.path()).await;
    running.delete("news", &id("d7")).await.unwrap();
    running.write("news", "d5", "an entirely new text").await;
    running.shutdown().await;
    // The new save has purged the tombstones, so the old index cannot learn which passages are gone.
    let database = rusqlite::Connection::open(collection.join("documents.sqlite")).unwrap();
    let tombstones: i64 = database.query_row("select count(*) from tombstones", [], |row| row.get(0)).unwrap();
    assert_eq!(tombstones, 0);
    drop(database);
    for (file, bytes) in files.iter().zip(old) {
        std::fs::write(file, bytes).unwrap();
    }
    let running = open(folder.path()).await;
    assert!(!running.found("news", &text(7)).await.contains(&"d7".to_owned()));
    assert_eq!(running.found("news", "an entirely new text").await[0], "d5");
    assert_eq!(running.found("news", &text(8)).await[0], "d8");
    running.shutdown().await;
    // Only a rebuilt index is without the passages of d7 and of d5's old text.
    let saved: serde_json::Value = serde_json::from_slice(&std::fs::read(&files[2]).unwrap()).unwrap();
    assert_eq!(saved["count"], 99);
}

/// Stops a service whose collection `news` has documents 0 to 99 and a saved index, applies a change to the collection's
/// folder, and starts the service again.
async fn started_after(folder: &Path, change: impl FnOnce(&Path)) -> Running {
    with_documents(folder).await.shutdown().await;
    change(&collection_folder(folder));
    open(folder).await
}

/// The files in a folder, with their content.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Checks that `news` is closed as damaged for a reason with these words, and that a restart changes nothing in its folder.
async fn check_closed(running: Running, folder: &Path, words: &str) {
    let before = contents(&collection_folder(folder));
    running.shutdown().await;
    let running = open(folder).await;
    assert_eq!(running.service.readiness().damaged, [name("news")]);
    let view = running.service.get_collection(&name("news")).await.unwrap();
    assert_eq!(view.index_state, IndexState::Damaged);
    assert!(view.damage[0].problem.contains(words), "{:?}", view.damage);
    let error = running.upsert("news", vec![document("a", "words")], Wait::Indexed).await.unwrap_err();
    assert_eq!(error.code(), Code::CollectionDamaged);
    running.shutdown().await;
    assert!(contents(&collection_folder(folder)) == before, "the folder changed");
}

#[tokio::test]
async fn a_missing_database_counts_as_damage_and_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let running = started_after(folder.path(), |news| std::fs::remove_file(news.join("documents.sqlite")).unwrap()).await;
    check_closed(running, folder.path(), "documents.sqlite is missing").await;
}

#[tokio::test]
async fn an_empty_database_counts_as_damage_and_its_wal_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cut = |news: &Path| {
        std::fs::write(news.join("documents.sqlite"), "").unwrap();
        std::fs::write(news.join("documents.sqlite-wal"), "the last changes").unwrap();
    };
    let running = started_after(folder.path(), cut).await;
    check_closed(running, folder.path(), "documents.sqlite is empty").await;
}

#[tokio::test]
async fn a_database_without_tables_counts_as_damage() {
    let folder = tempfile::tempdir().unwrap();
    let blank = |news: &Path| {
        std::fs::remove_file(news.join("documents.sqlite")).unwrap();
        let database = rusqlite::Connection::open(news.join("documents.sqlite")).unwrap();
        database.execute_batch("create table t (a); drop table t; vacuum").unwrap();
    };
    let running = started_after(folder.path(), blank).await;
    check_closed(running, folder.path(), "documents.sqlite is empty").await;
}

#[tokio::test]
async fn a_database_replaced_by_a_new_one_counts_as_damage() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("elsewhere");
    let running = open(&elsewhere).await;
    running.create("news").await;
    running.shutdown().await;
    let new = collection_folder(&elsewhere).join("documents.sqlite");
    let own = folder.path().join("own");
    let new = std::fs::read(new).unwrap();
    let exchange = |news: &Path| std::fs::write(news.join("documents.sqlite"), new).unwrap();
    let running = started_after(&own, exchange).await;
    check_closed(running, &own, "ends at change 0, but its saved index reaches change").await;
}

#[tokio::test]
async fn a_database_behind_its_index_is_damaged_until_the_index_is_removed() {
    let (folder, running) = news().await;
    running.write("news", "a", "fresh bread from the oven").await;
    running.shutdown().await;
    let collection = collection_folder(folder.path());
    let old = std::fs::read(collection.join("documents.sqlite")).unwrap();
    let running = open(folder.path()).await;
    running.write("news", "b", "waves roll over the grey sea").await;
    running.shutdown().await;
    std::fs::write(collection.join("documents.sqlite"), old).unwrap();
    check_closed(open(folder.path()).await, folder.path(), "the database lost changes, or is an older copy").await;

    // As documented: to accept the database as it is, move the saved index out of the folder.
    for file in contents(&collection).into_keys().filter(|path| path.file_name().unwrap() != "documents.sqlite") {
        std::fs::remove_file(file).unwrap();
    }
    let running = open(folder.path()).await;
    assert!(running.service.readiness().damaged.is_empty());
    let text = "fresh bread from the old oven";
    running.write("news", "c", text).await;
    assert_eq!(running.found("news", text).await, ["c", "a"]);
    running.crash();
    let running = open(folder.path()).await;
    let hits = running.search("news", request(text, 1)).await.unwrap();
    assert!(hits[0].id == id("c") && hits[0].score > 0.99, "{hits:?}");
}

#[tokio::test]
async fn the_index_of_another_collection_is_not_used() {
    let (folder, running) = fresh().await;
    for (collection, word) in [("news", "sea"), ("other", "bread")] {
        running.create(collection).await;
        let documents = (0..20).map(|n| document(&format!("d{n}"), &format!("{word} number {n}"))).collect();
        running.upsert(collection, documents, Wait::Indexed).await.unwrap();
    }
    running.shutdown().await;
    let mut folders: Vec<_> =
        std::fs::read_dir(folder.path().join("collections")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    for file in ["index.usearch", "index.json"] {
        std::fs::copy(folders[1].join(file), folders[0].join(file)).unwrap();
    }
    let running = open(folder.path()).await;
    for n in 0..20 {
        assert_eq!(running.found("news", &format!("sea number {n}")).await[0], format!("d{n}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_serves_searches_and_reports_progress_while_catching_up() {
    let folder = tempfile::tempdir().unwrap();
    with_documents(folder.path()).await.shutdown().await;
    let running = open(folder.path()).await;
    for part in 0..8 {
        let documents = (0..1_000).map(|n| document(&format!("late-{part}-{n}"), &format!("late {part} {n}"))).collect();
        running.upsert("news", documents, Wait::Indexed).await.unwrap();
    }
    running.crash();
    let running = loop {
        match try_open(folder.path(), &Setting::default()) {
            Ok(running) => break running,
            Err(error) => assert_eq!(error.code(), Code::Unavailable, "{error}"),
        }
    };
    let (mut progress, mut answered) = (Vec::new(), 0);
    loop {
        let readiness = running.service.readiness();
        let [(_, done, total)] = readiness.recovering[..] else { break };
        progress.push((done, total));
        match running.on("news").search(request(&text(5), EXACT)).await {
            Ok(response) => {
                assert_eq!(response.hits[0].id, id("d5"));
                answered += u32::from(!response.complete);
            }
            Err(error) => assert_eq!(error.code(), Code::Unavailable, "{error}"),
        }
    }
    assert!(answered > 0, "no search was answered while the index caught up: {progress:?}");
    assert!(progress.is_sorted(), "{progress:?}");
    assert!(progress.iter().any(|&(done, total)| done > 0 && done < total), "{progress:?}");
    let response = running.on("news").search(request("late 7 999", EXACT)).await.unwrap();
    assert!(response.complete && response.hits[0].id == id("late-7-999"), "{response:?}");
}

#[tokio::test]
async fn pending_documents_are_embedded_after_a_restart() {
    let full = FakeOptions { queue_texts_max: 0, ..FakeOptions::of(64) };
    let (folder, running) = news_with(Setting { fake: full, ..Setting::default() }).await;
    running.upsert("news", vec![document("a", "some words")], Wait::Stored).await.unwrap();
    assert!(!running.on("news").get(&id("a")).await.unwrap().indexed);
    running.shutdown().await;
    let running = open(folder.path()).await;
    eventually("it is found", async || running.found("news", "some words").await == ["a"]).await;
}

#[tokio::test]
async fn a_second_service_cannot_open_the_same_data_directory() {
    let folder = tempfile::tempdir().unwrap();
    let _running = open(folder.path()).await;
    let error = try_open(folder.path(), &Setting::default()).err().unwrap();
    assert_eq!(error.code(), Code::Unavailable);
}

#[tokio::test]
async fn orphaned_collection_folders_are_removed_and_foreign_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    with_documents(folder.path()).await.shutdown().await;
    let collections = folder.path().join("collections");
    let orphan = collections.join("0197a1b2-0000-7000-8000-000000000000");
    let foreign = collections.join("my notes");
    for path in [&orphan, &foreign] {
        std::fs::create_dir(path).unwrap();
    }
    let running = open(folder.path()).await;
    assert!(!orphan.exists() && foreign.exists());
    check_all_found(&running).await;
}

/// A data directory whose catalog knows the collection `other`, but not the folder of `news` next to it, as after restoring an
/// older catalog. Returns the folder of `news`.
async fn with_unnamed_folder(folder: &Path) -> PathBuf {
    let (own, elsewhere) = (folder.join("own"), folder.join("elsewhere"));
    with_documents(&elsewhere).await.shutdown().await;
    let running = open(&own).await;
    running.create("other").await;
    running.shutdown().await;
    let from = collection_folder(&elsewhere);
    let to = own.join("collections").join(from.file_name().unwrap());
    std::fs::rename(from, &to).unwrap();
    to
}

#[tokio::test]
async fn a_folder_with_documents_unknown_to_the_catalog_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let unnamed = with_unnamed_folder(folder.path()).await;
    for _ in 0..2 {
        open(&folder.path().join("own")).await.shutdown().await;
        assert!(unnamed.join("documents.sqlite").exists());
    }
}

#[tokio::test]
async fn leftovers_of_a_deleted_collection_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let unnamed = with_unnamed_folder(folder.path()).await;
    std::fs::write(unnamed.join("deleting"), "").unwrap();
    open(&folder.path().join("own")).await.shutdown().await;
    assert!(!unnamed.exists());
}

#[tokio::test]
async fn a_deletion_that_crashed_before_its_catalog_write_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    with_documents(folder.path()).await.shutdown().await;
    let mark = collection_folder(folder.path()).join("deleting");
    std::fs::write(&mark, "").unwrap();
    let running = open(folder.path()).await;
    assert!(!mark.exists());
    check_all_found(&running).await;
}

/// Checks that a service refuses to start in a folder whose catalog was lost, and changes nothing in it.
fn check_refused(folder: &Path, words: &str) {
    let catalog = || std::fs::read(folder.join("catalog.sqlite")).ok();
    let before = catalog();
    for _ in 0..2 {
        let error = try_open(folder, &Setting::default()).err().unwrap().to_string();
        assert!(error.contains(words) && error.contains("put a copy of catalog.sqlite back"), "{error}");
        assert_eq!(catalog(), before);
    }
}

#[tokio::test]
async fn startup_fails_if_collections_exist_without_a_catalog() {
    let folder = tempfile::tempdir().unwrap();
    with_documents(folder.path()).await.shutdown().await;
    let catalog = folder.path().join("catalog.sqlite");
    let copy = std::fs::read(&catalog).unwrap();
    std::fs::remove_file(&catalog).unwrap();
    check_refused(folder.path(), "holds collections, but its catalog.sqlite is gone");
    std::fs::write(&catalog, "").unwrap();
    check_refused(folder.path(), "holds collections, but its catalog.sqlite is empty");
    std::fs::write(&catalog, copy).unwrap();
    check_all_found(&open(folder.path()).await).await;
}

#[tokio::test]
async fn startup_fails_if_snapshots_exist_without_a_catalog() {
    let folder = tempfile::tempdir().unwrap();
    let running = with_documents(folder.path()).await;
    let job = running.service.create_snapshot(Vec::new()).await.unwrap();
    eventually("the snapshot is made", async || running.service.get_job(&job.id).await.unwrap().finished_at_ms.is_some()).await;
    running.service.delete_collection(&name("news")).await.unwrap();
    running.shutdown().await;
    std::fs::remove_file(folder.path().join("catalog.sqlite")).unwrap();
    check_refused(folder.path(), "holds snapshots, but its catalog.sqlite is gone");
    std::fs::rename(folder.path().join("snapshots"), folder.path().join("elsewhere")).unwrap();
    open(folder.path()).await.create("news").await;
}

#[tokio::test]
async fn a_collection_with_a_lost_folder_is_reported_as_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let running = with_documents(folder.path()).await;
    running.create("other").await;
    running.shutdown().await;
    let running = open(folder.path()).await;
    let lost = running.service.get_collection(&name("news")).await.unwrap().collection.id;
    running.shutdown().await;
    let data = folder.path().join("collections").join(&lost.0);
    std::fs::remove_dir_all(&data).unwrap();
    let running = open(folder.path()).await;
    running.write("other", "a", "clear water").await;
    let view = running.service.get_collection(&name("news")).await.unwrap();
    assert_eq!(view.index_state, IndexState::Damaged);
    assert!(view.damage[0].problem.contains(&data.display().to_string()), "{:?}", view.damage);
    let error = running.upsert("news", vec![document("a", "words")], Wait::Indexed).await.unwrap_err();
    assert_eq!(error.code(), Code::CollectionDamaged);
    assert!(!data.exists(), "the lost folder is not created again");
    running.service.delete_collection(&name("news")).await.unwrap();
    running.create("news").await;
}
