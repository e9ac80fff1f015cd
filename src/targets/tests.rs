//! Tests of uploading, finding, downloading and pruning snapshots, in a folder and in an in-memory bucket.

use object_store::memory::InMemory;

use super::*;

fn in_memory() -> (Arc<InMemory>, Target) {
    let store = Arc::new(InMemory::new());
    let prefix = Path::parse("backups/one").unwrap();
    (Arc::clone(&store), Target { store, prefix, name: "s3://bucket/backups/one".to_owned(), is_local: false })
}

fn folder() -> (tempfile::TempDir, Target) {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::open(folder.path().join("new/backups").to_str().unwrap(), None).unwrap();
    (folder, target)
}

fn snapshot(number: u8, content: &[u8]) -> StoredSnapshot {
    StoredSnapshot {
        format: FORMAT,
        snapshot: SnapshotId::parse(&format!("0199d1a0-0000-7000-8000-0000000000{number:02}")).unwrap(),
        created_at_ms: i64::from(number),
        server_version: "1".to_owned(),
        collections: vec!["news".to_owned()],
        archive_bytes: content.len() as u64,
        archive_sha256: hex(&Sha256::digest(content)),
        fingerprint: "f".to_owned(),
    }
}

fn file(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    io::Seek::rewind(&mut file).unwrap();
    file
}

async fn ids(target: &Target) -> Vec<i64> {
    target.list().await.unwrap().iter().map(|stored| stored.created_at_ms).collect()
}

async fn check(target: &Target) {
    target.check_writable().await.unwrap();
    assert_eq!(ids(target).await, [0; 0]);
    // Large enough for more than one part.
    let content: Vec<u8> = (0..20_000_000_u32).map(|n| (n % 251) as u8).collect();
    let first = snapshot(1, &content);
    target.put(&first, file(&content)).await.unwrap();
    for number in 2..=4 {
        target.put(&snapshot(number, b"small"), file(b"small")).await.unwrap();
    }
    assert_eq!(target.find("latest").await.unwrap(), snapshot(4, b"small"));
    assert_eq!(target.find(first.snapshot.as_str()).await.unwrap(), first);
    let (mut fetched, mut last) = (Vec::new(), 0);
    target.fetch(&first, &mut fetched, |bytes| last = bytes).await.unwrap();
    assert!(fetched == content && last == content.len() as u64);
    target.prune(2).await.unwrap();
    assert_eq!(ids(target).await, [3, 4]);
    for (number, there) in [(1, false), (2, false), (3, true)] {
        assert_eq!(target.store.head(&target.archive(&snapshot(number, b"").snapshot)).await.is_ok(), there, "{number}");
    }
    target.prune(0).await.unwrap();
    assert_eq!(ids(target).await, [4], "the newest snapshot is always kept");
    assert!(matches!(target.find(first.snapshot.as_str()).await, Err(TargetError::NotFound { .. })));
}

#[tokio::test]
async fn snapshots_are_put_found_fetched_and_pruned_in_a_folder_and_a_bucket() {
    check(&folder().1).await;
    check(&in_memory().1).await;
}

#[tokio::test]
async fn the_snapshot_stored_last_is_the_newest_even_if_the_clock_was_set_back() {
    let (_folder, target) = folder();
    for number in [8, 9, 1, 2] {
        let newest = target.list().await.unwrap().pop();
        let new = snapshot(number, b"content").dated_after(newest.as_ref());
        target.put(&new, file(b"content")).await.unwrap();
        target.prune(2).await.unwrap();
        assert_eq!(target.find("latest").await.unwrap().snapshot, new.snapshot);
    }
    assert_eq!(ids(&target).await, [10, 11]);
    let newest = target.list().await.unwrap().pop();
    let again = snapshot(2, b"content").dated_after(newest.as_ref());
    target.put(&again, file(b"content")).await.unwrap();
    assert_eq!(ids(&target).await, [10, 11], "storing the same one again does not change its time");
}

#[tokio::test]
async fn an_archive_that_does_not_match_its_description_is_refused() {
    let (_folder, target) = folder();
    let error = target.put(&snapshot(1, b"expected"), file(b"but this")).await.unwrap_err();
    assert!(matches!(error, TargetError::Damaged { .. }), "{error}");
    assert_eq!(ids(&target).await, [0; 0]);
    assert_eq!(std::fs::read_dir(target.name()).unwrap().count(), 0, "a refused archive leaves no files");
}

#[tokio::test]
async fn a_damaged_snapshot_is_not_fetched_and_blocks_pruning() {
    let (store, target) = in_memory();
    for number in 1..=2 {
        target.put(&snapshot(number, b"content"), file(b"content")).await.unwrap();
    }
    let newest = snapshot(2, b"content");
    store.put(&target.archive(&newest.snapshot), PutPayload::from_static(b"cut")).await.unwrap();
    assert!(matches!(target.fetch(&newest, &mut Vec::new(), |_| ()).await, Err(TargetError::Damaged { .. })));
    assert!(matches!(target.prune(1).await, Err(TargetError::Damaged { .. })));
    assert_eq!(ids(&target).await, [1, 2], "no snapshot is pruned, so the undamaged one stays");
}

#[tokio::test]
async fn a_damaged_description_keeps_no_other_snapshot_from_being_listed_stored_and_pruned() {
    let (store, target) = in_memory();
    let put = async |number| target.put(&snapshot(number, b"content"), file(b"content")).await.unwrap();
    put(1).await;
    let damaged = target.description(&snapshot(1, b"").snapshot);
    store.put(&damaged, PutPayload::from_static(b"{")).await.unwrap();
    put(2).await;
    assert_eq!(ids(&target).await, [2]);
    put(3).await;
    target.prune(1).await.unwrap();
    assert_eq!(ids(&target).await, [3]);
    assert!(store.head(&damaged).await.is_ok(), "nobody knows whether it may be removed");
}

#[tokio::test]
async fn there_is_no_latest_snapshot_while_a_description_is_damaged_because_that_may_be_it() {
    let (store, target) = in_memory();
    for number in 1..=2 {
        target.put(&snapshot(number, b"content"), file(b"content")).await.unwrap();
    }
    store.put(&target.description(&snapshot(2, b"").snapshot), PutPayload::from_static(b"{")).await.unwrap();
    assert!(matches!(target.find("latest").await, Err(TargetError::Damaged { .. })));
    let older = snapshot(1, b"content");
    assert_eq!(target.find(older.snapshot.as_str()).await.unwrap(), older);
}

#[tokio::test]
async fn archives_without_a_description_and_other_files_are_left_alone() {
    let (store, target) = in_memory();
    let alone = target.archive(&snapshot(1, b"").snapshot);
    let others = [alone, target.path("notes.txt"), target.path("mine.json"), Path::from("backups/other/0.json")];
    for path in &others {
        store.put(path, PutPayload::from_static(b"content")).await.unwrap();
    }
    assert_eq!(ids(&target).await, [0; 0]);
    for number in [2, 3] {
        target.put(&snapshot(number, b"content"), file(b"content")).await.unwrap();
    }
    target.prune(1).await.unwrap();
    assert_eq!(ids(&target).await, [3]);
    for path in &others {
        assert!(store.head(path).await.is_ok(), "{path} is not a snapshot, but was pruned");
    }
}

#[tokio::test]
async fn putting_a_snapshot_again_removes_its_partial_files() {
    let (_folder, target) = folder();
    for kind in ["tar.zst", "json"] {
        let left = std::path::Path::new(target.name()).join(format!("{}.{kind}#1", snapshot(1, b"").snapshot));
        std::fs::write(&left, "half").unwrap();
        target.put(&snapshot(1, b"content"), file(b"content")).await.unwrap();
        assert!(!left.exists(), "{kind}");
    }
    assert_eq!(ids(&target).await, [1]);
}

#[tokio::test]
async fn a_writability_check_removes_leftovers_of_an_interrupted_one() {
    let (_folder, target) = folder();
    let left = std::path::Path::new(target.name()).join("dragoman.probe#1");
    std::fs::write(&left, "pro").unwrap();
    target.check_writable().await.unwrap();
    assert!(!left.exists());
}

#[tokio::test]
async fn invalid_and_unreachable_targets_are_refused() {
    let check = |name: &str, endpoint: Option<&str>, word: &str| {
        let error = crate::domain::chain(&Target::open(name, endpoint).unwrap_err());
        assert!(error.contains(word), "{name}: {error}");
    };
    check("s3://", None, "BUCKET");
    check("s3://bucket/a//b", None, "prefix");
    check("gs://bucket", None, "s3://BUCKET/PREFIX");
    check("backups", Some("http://127.0.0.1:9000"), "endpoint");
    let file = tempfile::NamedTempFile::new().unwrap();
    check(file.path().join("in").to_str().unwrap(), None, "make the folder");
    let closed = Target::open("s3://bucket/a", Some("http://127.0.0.1:1")).unwrap();
    assert!(matches!(closed.check_writable().await, Err(TargetError::Store { operation: "write to", .. })));
}
