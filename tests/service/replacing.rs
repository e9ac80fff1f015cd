//! Restores that replace a collection in use: its name never disappears, and work on the old documents either succeeds or
//! says why it cannot.

use std::path::Path;

use dragoman::domain::{
    Code, CollectionChange, Filter, Job, JobStatus, MiningUnit, PassageBounds, SearchFilter, SnapshotId, Wait,
};
use dragoman::service::mining::duplicates::{DuplicatesRequest, DuplicatesSettings, LanguageRule};

use crate::jobs::{REPLACE, file, snapshot};
use crate::{Running, document, eventually, id, ids, name, news, news_with, one_job_at_a_time, request};

impl Running {
    /// Restores a snapshot in place of what exists.
    async fn replace(&self, snapshot: &SnapshotId) {
        let job = self.service.restore_snapshot(snapshot, REPLACE).await.unwrap();
        let job = self.ended(&job.id).await;
        assert_eq!((job.status, job.error), (JobStatus::Succeeded, None));
    }

    /// Checks that a job failed because its collection was replaced.
    async fn check_failed_by_replacement(&self, job: &Job) {
        let ended = self.ended(&job.id).await;
        let error = ended.error.unwrap();
        assert_eq!((ended.status, error.code), (JobStatus::Failed, Code::CollectionNotFound), "{:?}", job.kind);
        assert!(error.detail.contains("collection news has been replaced"), "{:?}: {}", job.kind, error.detail);
    }

    /// Waits for a snapshot, and returns the number of documents in its only collection.
    async fn documents_in(&self, job: &Job) -> u64 {
        let ended = self.ended(&job.id).await;
        assert_eq!((ended.status, ended.error), (JobStatus::Succeeded, None));
        let id = SnapshotId::parse(ended.details["snapshot"].as_str().unwrap()).unwrap();
        let [only] = &self.service.get_snapshot(&id).await.unwrap().collections[..] else { panic!("one collection") };
        only.documents
    }
}

fn folders(data_dir: &Path) -> usize {
    std::fs::read_dir(data_dir.join("collections")).unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_has_found_a_collection_works_after_a_restore_has_replaced_it() {
    let (folder, running) = news().await;
    running.write("news", "a", "the first words").await;
    let kept = snapshot(&running).await;
    running.write("news", "b", "other words").await;
    let found = running.on("news");
    running.replace(&kept).await;
    assert_eq!(found.count(Filter::default()).await.unwrap(), 1);
    assert_eq!(found.get(&id("a")).await.unwrap().text, "the first words");
    assert_eq!(ids(&found.search(request("the first words", 5)).await.unwrap().hits), ["a"]);
    found.upsert(vec![Ok(document("c", "new words"))], Wait::Indexed, None).await.unwrap();
    let change = CollectionChange { description: Some("restored".to_owned()), ..CollectionChange::default() };
    assert_eq!(found.change(change).await.unwrap().counts.documents, 2);
    let view = running.service.get_collection(&name("news")).await.unwrap();
    assert_eq!(view.collection.description.as_deref(), Some("restored"));
    assert_eq!(found.delete_matching(Filter::default(), None).await.unwrap(), 2);
    assert_eq!(running.text("news", "c").await, None);
    drop(found);
    eventually("the replaced collection is removed", async || folders(folder.path()) == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_version_of_a_document_occurs_again_after_a_restore() {
    let (_folder, running) = news().await;
    running.write("news", "a", "the first words").await;
    let kept = snapshot(&running).await;
    for words in ["the second words", "the third words"] {
        running.write("news", "a", words).await;
    }
    let last = running.on("news").get(&id("a")).await.unwrap().sequence;
    running.replace(&kept).await;
    running.write("news", "a", "other words").await;
    assert!(running.on("news").get(&id("a")).await.unwrap().sequence > last);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_by_filter_spares_what_a_restore_stores_meanwhile() {
    let (_folder, running) = news().await;
    running.write("news", "a", "the first words").await;
    let kept = snapshot(&running).await;
    let found = running.on("news");
    let mut deletion = Box::pin(found.delete_matching(Filter::default(), None));
    // Begins the deletion. It goes on when the collection has been replaced.
    assert!(futures::poll!(&mut deletion).is_pending());
    running.replace(&kept).await;
    deletion.await.unwrap();
    assert_eq!(running.text("news", "a").await.as_deref(), Some("the first words"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_has_begun_is_completed_although_a_restore_replaces_its_collection() {
    const DOCUMENTS: usize = 450;
    let (_folder, running) = news().await;
    let kept = snapshot(&running).await;
    let documents = (0..DOCUMENTS).map(|n| document(&format!("d{n:03}"), "some words")).collect();
    running.upsert("news", documents, Wait::Stored).await.unwrap();
    let mut export = running.on("news").export(false).unwrap();
    let mut exported = export.next().await.unwrap().len();
    assert!(exported < DOCUMENTS, "the rest is read later");
    running.replace(&kept).await;
    loop {
        match export.next().await.unwrap().len() {
            0 => break,
            more => exported += more,
        }
    }
    assert_eq!(exported, DOCUMENTS);
    assert_eq!(running.on("news").count(Filter::default()).await.unwrap(), 0);
    let replaced = async || running.service.gauges().await.unwrap().unwrap().collections_replaced;
    assert_eq!(replaced().await, 1, "the export still holds it");
    drop(export);
    eventually("the replaced collection is removed", async || replaced().await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_jobs_that_need_the_documents_of_a_replaced_collection_say_that_it_was_replaced() {
    let (_folder, running) = news_with(one_job_at_a_time()).await;
    for one in ["a", "b", "c"] {
        running.write("news", one, &format!("{one} few words")).await;
    }
    let kept = snapshot(&running).await;
    running.create("other").await;
    running.control.pause();
    let first = running.import_one("other").await;
    let restore = running.service.restore_snapshot(&kept, REPLACE).await.unwrap();
    let pairs = DuplicatesRequest {
        only: SearchFilter::default(),
        unit: MiningUnit::Passage,
        settings: DuplicatesSettings { score_min: 0.9, neighbors: 1, size_max: 10, pairs: LanguageRule::Any },
    };
    let duplicates = running.service.find_duplicates(&name("news"), pairs, None).await.unwrap();
    let import = running.import(file(10)).await.unwrap();
    running.control.resume();
    for job in [first, restore] {
        assert_eq!(running.ended(&job.id).await.error, None);
    }
    running.check_failed_by_replacement(&duplicates).await;
    running.check_failed_by_replacement(&import).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_ends_when_a_restore_replaces_its_collection() {
    let (_folder, running) = news().await;
    running.write("news", "a", "the first words").await;
    let kept = snapshot(&running).await;
    running.control.pause();
    let import = running.import(file(10)).await.unwrap();
    let count = async || running.on("news").count(Filter::default()).await.unwrap();
    eventually("the lines are stored", async || count().await == 10).await;
    running.replace(&kept).await;
    running.check_failed_by_replacement(&import).await;
    assert_eq!(count().await, 1);
    running.control.resume();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_snapshot_is_of_what_a_restore_has_put_in_place_of_its_collection() {
    let (_folder, running) = news_with(one_job_at_a_time()).await;
    running.write("news", "a", "the first words").await;
    let kept = snapshot(&running).await;
    running.write("news", "b", "other words").await;
    running.create("other").await;
    running.control.pause();
    running.import_one("other").await;
    running.service.restore_snapshot(&kept, REPLACE).await.unwrap();
    let waiting = running.service.create_snapshot(vec![name("news")]).await.unwrap();
    running.control.resume();
    assert_eq!(running.documents_in(&waiting).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_snapshot_is_of_what_a_reembedding_has_put_in_place_of_its_collection() {
    let (_folder, running) = news_with(one_job_at_a_time()).await;
    running.write("news", "a", "One two three four. Five six seven eight.").await;
    running.control.pause();
    let bounds = PassageBounds { tokens_max: 4, overlap_tokens: 0 };
    running.on("news").reembed(Some(bounds)).await.unwrap();
    let waiting = running.service.create_snapshot(vec![name("news")]).await.unwrap();
    running.control.resume();
    assert_eq!(running.documents_in(&waiting).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_snapshot_of_a_collection_fails_if_that_is_deleted_and_created_anew() {
    let (_folder, running) = news_with(one_job_at_a_time()).await;
    running.create("other").await;
    running.control.pause();
    running.import_one("other").await;
    let waiting = running.service.create_snapshot(vec![name("news")]).await.unwrap();
    running.service.delete_collection(&name("news")).await.unwrap();
    running.create("news").await;
    running.control.resume();
    running.check_failed_by_replacement(&waiting).await;
}
