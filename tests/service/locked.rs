//! Databases that another process has locked, such as a backup: requests to other collections do not wait for them.

use std::future::Future;
use std::time::Duration;

use dragoman::domain::{
    Alias, CollectionChange, JobFilter, JobId, JobStatus, MetadataPath, NewCollection, Page, PassageBounds, Wait,
};
use dragoman::service::Service;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::jobs::{REPLACE, snapshot};
use crate::{Running, document, eventually, fresh, name, news, request};

/// How long a request to another collection may take. Less than a write waits for a lock.
const PROMPTLY: Duration = Duration::from_secs(4);

/// Locks the database of a collection until the result is dropped.
async fn lock(folder: &TempDir, running: &Running, collection: &str) -> Connection {
    let id = running.service.get_collection(&name(collection)).await.unwrap().collection.id;
    let holder = Connection::open(folder.path().join("collections").join(id.0).join("documents.sqlite")).unwrap();
    holder.execute_batch("begin immediate").unwrap();
    holder
}

/// Begins work and lets it run until it waits for the lock.
async fn begin<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    // Otherwise, the runtime would end the first poll early when a test begins much work.
    let mut work = Box::pin(tokio::task::unconstrained(work));
    assert!(futures::poll!(&mut work).is_pending());
    tokio::spawn(work)
}

impl Running {
    async fn create_promptly(&self, collection: &str) {
        let created = self.service.create_collection(NewCollection::new(name(collection)), None);
        tokio::time::timeout(PROMPTLY, created).await.expect("it does not wait").unwrap();
    }

    /// Checks that collections can be created while a job waits at its end.
    async fn check_names_are_free(&self, job: &JobId) {
        let at_its_end = async || {
            let progress = self.service.get_job(job).await.unwrap().progress;
            progress.total > 0 && progress.done == progress.total
        };
        eventually("the job is at its end", at_its_end).await;
        for number in 0..20 {
            self.create_promptly(&format!("c{number}")).await;
        }
        assert_eq!(self.service.get_job(job).await.unwrap().status, JobStatus::Running);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_wait_do_not_stop_those_of_another_collection() {
    let (folder, running) = fresh().await;
    let (mut locks, mut waiting) = (Vec::new(), Vec::new());
    for sick in ["a", "b", "c"] {
        running.create(sick).await;
        locks.push(lock(&folder, &running, sick).await);
        for n in 0..300 {
            let collection = running.on(sick);
            let documents = vec![Ok(document(&format!("d{n}"), "words"))];
            waiting.push(tokio::spawn(async move { collection.upsert(documents, Wait::Stored, None).await }));
        }
    }
    running.create("well").await;
    for n in 0..20 {
        let write = running.upsert("well", vec![document(&format!("d{n}"), "words")], Wait::Stored);
        tokio::time::timeout(PROMPTLY, write).await.expect("it does not wait").unwrap();
    }
    drop(locks);
    for write in waiting {
        write.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_that_wait_for_the_catalog_do_not_stop_searches() {
    let (folder, running) = news().await;
    running.write("news", "a", "some words").await;
    let lock = Connection::open(folder.path().join("catalog.sqlite")).unwrap();
    lock.execute_batch("begin immediate").unwrap();
    let (service, alias) = (running.service.clone(), Alias { name: name("latest"), collection: name("news") });
    let change = begin(async move { service.set_alias(alias).await }).await;
    let list = |service: Service| async move { service.list_jobs(JobFilter::default(), Page { limit: 1, after: None }).await };
    let is_locked = async || tokio::time::timeout(Duration::from_millis(100), list(running.service.clone())).await.is_err();
    eventually("the catalog is waited for", is_locked).await;
    // More than the runtime has threads.
    let mut waiting = Vec::new();
    for _ in 0..600 {
        waiting.push(begin(list(running.service.clone())).await);
    }
    let search = running.search("news", request("some words", 1));
    assert_eq!(tokio::time::timeout(PROMPTLY, search).await.expect("it does not wait").unwrap().len(), 1);
    drop(lock);
    change.await.unwrap().unwrap();
    for list in waiting {
        list.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_does_not_stop_the_creation_of_another_collection() {
    let (folder, running) = news().await;
    let lock = lock(&folder, &running, "news").await;
    let service = running.service.clone();
    let deleting = begin(async move { service.delete_collection(&name("news")).await }).await;
    eventually("the name is free", async || running.service.collection(&name("news")).is_err()).await;
    running.create_promptly("news").await;
    drop(lock);
    deleting.await.unwrap().unwrap();
    assert_eq!(std::fs::read_dir(folder.path().join("collections")).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_settings_does_not_stop_the_creation_of_another_collection() {
    let (folder, running) = news().await;
    let (lock, news) = (lock(&folder, &running, "news").await, running.on("news"));
    let (description, indexes) = ("new".to_owned(), vec![MetadataPath::parse("year").unwrap()]);
    let change = CollectionChange {
        description: Some(description.clone()),
        metadata_indexes: Some(indexes.clone()),
        ..CollectionChange::default()
    };
    let changing = begin(async move { news.change(change).await }).await;
    running.create_promptly("other").await;
    drop(lock);
    let changed = changing.await.unwrap().unwrap();
    assert_eq!((changed.collection.description, changed.metadata_indexes), (Some(description), indexes));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_does_not_stop_the_creation_of_another_collection() {
    let (folder, running) = news().await;
    running.write("news", "kept", "some words").await;
    let kept = snapshot(&running).await;
    let lock = lock(&folder, &running, "news").await;
    let write = running.begin_write(vec![document("late", "other words")], Wait::Stored);
    let job = running.service.restore_snapshot(&kept, REPLACE).await.unwrap();
    running.check_names_are_free(&job.id).await;
    drop(lock);
    write.await.unwrap().unwrap();
    assert_eq!(running.ended(&job.id).await.error, None);
    assert_eq!(running.found("news", "some words").await, ["kept"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reembedding_does_not_stop_the_creation_of_another_collection() {
    let (folder, running) = news().await;
    running.write("news", "a", "One two three four. Five six seven eight.").await;
    let lock = lock(&folder, &running, "news").await;
    let write = running.begin_write(vec![document("late", "other words")], Wait::Stored);
    let job = running.on("news").reembed(Some(PassageBounds { tokens_max: 4, overlap_tokens: 0 })).await.unwrap();
    running.check_names_are_free(&job.id).await;
    drop(lock);
    write.await.unwrap().unwrap();
    assert_eq!(running.ended(&job.id).await.error, None);
    assert_eq!(running.text("news", "late").await.as_deref(), Some("other words"));
}
