//! Collections: names are unique, models are checked, and deleted collections are gone with their files.

use dragoman::domain::{
    Code, CollectionChange, Filter, JobStatus, Language, MetadataPath, NewCollection, NewDocument, NewSource, Precondition,
    ProjectionCenter, ProjectionRequest, RestoreRequest, Wait,
};
use dragoman::service::Error;
use tempfile::TempDir;

use crate::jobs::{REPLACE, snapshot};
use crate::{Running, Setting, document, eventually, fresh, fresh_with, id, name, news, one_job_at_a_time, open, request};

fn new(collection: &str) -> NewCollection {
    NewCollection { description: Some("for a test".to_owned()), ..NewCollection::new(name(collection)) }
}

#[tokio::test]
async fn creating_a_collection_with_a_taken_name_fails() {
    let (folder, running) = news().await;
    let error = running.service.create_collection(new("news"), None).await.unwrap_err();
    assert_eq!(error.code(), Code::CollectionExists);
    assert_eq!(std::fs::read_dir(folder.path().join("collections")).unwrap().count(), 1);
}

#[tokio::test]
async fn a_new_collection_can_request_only_the_loaded_model() {
    let (_folder, running) = fresh().await;
    let asked = |model: &str| NewCollection { source: NewSource::Model(Some(model.to_owned())), ..new(model) };
    running.service.create_collection(asked("fake"), None).await.unwrap();
    let error = running.service.create_collection(asked("other"), None).await.unwrap_err();
    assert!(matches!(&error, Error::UnknownModel { requested, loaded } if requested == "other" && loaded == "fake"), "{error:?}");
}

#[tokio::test]
async fn the_number_of_collections_is_limited() {
    let mut setting = Setting::default();
    setting.limits.collections_max = 2;
    let (_folder, running) = fresh_with(setting).await;
    running.create("a").await;
    running.create("b").await;
    let error = running.service.create_collection(new("c"), None).await.unwrap_err();
    assert_eq!(error.code(), Code::TooManyCollections);
    running.service.delete_collection(&name("a")).await.unwrap();
    running.create("c").await;
}

#[tokio::test]
async fn a_deleted_collection_is_gone_with_its_folder() {
    let (folder, running) = news().await;
    running.write("news", "a", "some words").await;
    running.service.delete_collection(&name("news")).await.unwrap();
    let not_found = |code: Code| assert_eq!(code, Code::CollectionNotFound);
    not_found(running.service.get_collection(&name("news")).await.unwrap_err().code());
    not_found(running.service.delete_collection(&name("news")).await.unwrap_err().code());
    not_found(running.service.collection(&name("news")).err().unwrap().code());
    not_found(running.upsert("news", vec![document("b", "words")], Wait::Stored).await.unwrap_err().code());
    not_found(running.search("news", request("words", 1)).await.unwrap_err().code());
    assert_eq!(std::fs::read_dir(folder.path().join("collections")).unwrap().count(), 0);
}

#[tokio::test]
async fn recreating_a_deleted_collection_yields_an_empty_one() {
    let (_folder, running) = news().await;
    running.write("news", "a", "some words").await;
    running.service.delete_collection(&name("news")).await.unwrap();
    running.create("news").await;
    assert!(running.hits("news", "some words").await.is_empty());
    assert_eq!(running.text("news", "a").await, None);
}

#[tokio::test]
async fn a_handle_of_a_deleted_collection_fails_even_if_its_name_is_reused() {
    let (_folder, running) = news().await;
    running.write("news", "a", "some words").await;
    let found = running.on("news");
    running.service.delete_collection(&name("news")).await.unwrap();
    running.create("news").await;
    let not_found = |error: Error| assert_eq!(error.code(), Code::CollectionNotFound, "{error}");
    not_found(found.get(&id("a")).await.unwrap_err());
    not_found(found.search(request("words", 1)).await.unwrap_err());
    not_found(found.upsert(vec![Ok(document("b", "words"))], Wait::Indexed, None).await.unwrap_err());
    not_found(found.delete(&id("a"), Precondition::None).await.unwrap_err());
    not_found(found.delete_matching(Filter::default(), None).await.unwrap_err());
    not_found(found.change(CollectionChange::default()).await.unwrap_err());
    not_found(found.export(false).unwrap().next().await.unwrap_err());
    assert_eq!(running.on("news").count(Filter::default()).await.unwrap(), 0);
}

#[tokio::test]
async fn deleting_a_collection_fails_a_write_waiting_for_the_encoder() {
    let (_folder, running) = news().await;
    running.control.pause();
    let write = running.begin_write(vec![document("a", "words")], Wait::Indexed);
    running.blocked().await;
    running.service.delete_collection(&name("news")).await.unwrap();
    running.control.resume();
    assert_eq!(write.await.unwrap().unwrap_err().code(), Code::CollectionNotFound);
}

#[tokio::test]
async fn what_the_worker_of_a_deleted_collection_embeds_is_not_in_the_next_one_of_that_name() {
    let (_folder, running) = news().await;
    running.control.pause();
    running.upsert("news", vec![document("a", "words")], Wait::Stored).await.unwrap();
    running.blocked().await;
    running.service.delete_collection(&name("news")).await.unwrap();
    running.create("news").await;
    running.upsert("news", vec![document("b", "words")], Wait::Stored).await.unwrap();
    running.control.resume();
    eventually("the new document is found", async || running.found("news", "words").await == ["b"]).await;
    let counts = running.service.get_collection(&name("news")).await.unwrap().counts;
    assert_eq!((counts.documents, counts.passages, counts.passages_pending), (1, 1, 0));
}

/// The parameters of a projection.
const PROJECTION: ProjectionRequest = ProjectionRequest { center: ProjectionCenter::None, documents_max: 2_000, neighbors: 15 };

fn words(count: usize) -> Vec<NewDocument> {
    (0..count).map(|n| document(&format!("d{n}"), &format!("words {n}"))).collect()
}

/// A service that runs one job at a time, with 20 documents in the collection `news` and an empty collection `other`.
async fn news_and_other() -> (TempDir, Running) {
    let (folder, running) = fresh_with(one_job_at_a_time()).await;
    for created in ["news", "other"] {
        running.create(created).await;
    }
    running.upsert("news", words(20), Wait::Indexed).await.unwrap();
    (folder, running)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_projection_of_a_deleted_collection_is_not_computed_for_the_next_one_of_that_name() {
    let (_folder, running) = news().await;
    running.upsert("news", words(2_000), Wait::Indexed).await.unwrap();
    let job = running.service.create_projection(&name("news"), PROJECTION, None).await.unwrap();
    eventually("the documents are read", async || running.service.get_job(&job.id).await.unwrap().progress.done > 0).await;
    running.service.delete_collection(&name("news")).await.unwrap();
    running.create("news").await;
    running.upsert("news", words(20), Wait::Indexed).await.unwrap();
    let ended = running.ended(&job.id).await;
    assert_eq!((ended.status, ended.error.map(|error| error.code)), (JobStatus::Failed, Some(Code::CollectionNotFound)));
    assert!(running.on("news").list_projections().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_projection_fails_if_its_collection_is_deleted_and_created_anew() {
    let (_folder, running) = news_and_other().await;
    running.control.pause();
    running.import_one("other").await;
    let waiting = running.service.create_projection(&name("news"), PROJECTION, None).await.unwrap();
    running.service.delete_collection(&name("news")).await.unwrap();
    running.create("news").await;
    running.upsert("news", vec![document("a", "words")], Wait::Stored).await.unwrap();
    running.control.resume();
    let ended = running.ended(&waiting.id).await;
    assert_eq!((ended.status, ended.error.map(|error| error.code)), (JobStatus::Failed, Some(Code::CollectionNotFound)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_projection_runs_on_what_a_restore_has_put_in_place_of_its_collection() {
    let (_folder, running) = news_and_other().await;
    let id = snapshot(&running).await;
    running.control.pause();
    running.import_one("other").await;
    let request = RestoreRequest { collection: Some(name("news")), ..REPLACE };
    running.service.restore_snapshot(&id, request).await.unwrap();
    let waiting = running.service.create_projection(&name("news"), PROJECTION, None).await.unwrap();
    running.control.resume();
    let ended = running.ended(&waiting.id).await;
    assert_eq!((ended.status, ended.error), (JobStatus::Succeeded, None));
    assert_eq!(running.on("news").list_projections().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_stopped_service_refuses_writes_and_searches() {
    let (_folder, running) = news().await;
    running.service.shutdown().await.unwrap();
    assert!(!running.service.readiness().ready);
    let unavailable = |error: Error| assert_eq!(error.code(), Code::Unavailable);
    unavailable(running.service.create_collection(new("more"), None).await.unwrap_err());
    unavailable(running.upsert("news", vec![document("a", "words")], Wait::Stored).await.unwrap_err());
    unavailable(running.search("news", request("words", 1)).await.unwrap_err());
}

#[tokio::test]
async fn changed_settings_apply_to_searches_and_survive_a_restart() {
    let (folder, running) = news().await;
    let documents = ["fr", "de"].map(|code| NewDocument { language: Language::parse(code), ..document(code, "words") });
    running.upsert("news", documents.into(), Wait::Indexed).await.unwrap();
    let change = CollectionChange {
        description: Some("words".to_owned()),
        ef_search: Some(300),
        default_languages: Some(vec![Language::parse("de").unwrap()]),
        ..CollectionChange::default()
    };
    let changed = running.on("news").change(change).await.unwrap().collection;
    assert_eq!((changed.description.as_deref(), changed.hnsw.ef_search), (Some("words"), 300));
    assert_eq!(running.found("news", "words").await, ["de"]);
    running.shutdown().await;

    let running = open(folder.path()).await;
    assert_eq!(running.service.get_collection(&name("news")).await.unwrap().collection, changed);
    assert_eq!(running.found("news", "words").await, ["de"]);
    let error = running.service.collection(&name("absent")).err().unwrap();
    assert_eq!(error.code(), Code::CollectionNotFound);
}

#[tokio::test]
async fn a_change_that_the_catalog_refuses_changes_no_metadata_indexes() {
    let (folder, running) = news().await;
    let catalog = rusqlite::Connection::open(folder.path().join("catalog.sqlite")).unwrap();
    let refuse = "create trigger refused before update on collections begin select raise(abort, 'refused'); end;";
    catalog.execute_batch(refuse).unwrap();
    let paths = vec![MetadataPath::parse("year").unwrap()];
    let change = CollectionChange {
        description: Some("words".to_owned()),
        metadata_indexes: Some(paths.clone()),
        ..CollectionChange::default()
    };
    running.on("news").change(change.clone()).await.unwrap_err();
    let shown = async |running: &crate::Running| {
        let view = running.service.get_collection(&name("news")).await.unwrap();
        (view.collection.description, view.metadata_indexes)
    };
    assert_eq!(shown(&running).await, (None, Vec::new()));
    catalog.execute_batch("drop trigger refused").unwrap();
    running.shutdown().await;
    let running = open(folder.path()).await;
    assert_eq!(shown(&running).await, (None, Vec::new()));
    running.on("news").change(change).await.unwrap();
    assert_eq!(shown(&running).await, (Some("words".to_owned()), paths));
}
