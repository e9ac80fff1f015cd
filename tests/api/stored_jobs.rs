//! Job requests in the catalog: rows that earlier versions wrote stay readable and determine who may see and cancel the job.
//! The JSON here is what such rows contain; it must not change.

use dragoman::domain::{CollectionName, Job, JobId, JobProgress, JobStatus, JobType, JobUnit, KeyId, Metadata, Scope};
use dragoman::http;
use dragoman::http::middleware::access::Access;
use dragoman::service::Service;
use dragoman::service::jobs::{JobAccess, JobVisibility};
use serde_json::{Value, json};

const ID: &str = "0198c0de-7a11-7000-8000-2f1de5c0ffee";
const KEY: &str = "0198c0de7a117000800000000000000a";

fn news() -> CollectionName {
    CollectionName::parse("news").expect("a name")
}

fn job(kind: JobType, collection: Option<CollectionName>, request: &Value) -> Job {
    Job {
        id: JobId::parse(ID).expect("an id"),
        kind,
        status: JobStatus::Queued,
        collection,
        request: request.as_object().expect("members").clone(),
        details: Metadata::new(),
        progress: JobProgress { done: 0, total: 0, unit: JobUnit::Steps, rate: None, eta_s: None },
        error: None,
        cancel_requested: false,
        created_at_ms: 0,
        started_at_ms: None,
        finished_at_ms: None,
    }
}

fn visibility(kind: JobType, collection: Option<CollectionName>, request: &Value) -> JobVisibility {
    Service::job_access(&job(kind, collection, request)).visibility
}

/// Every job type, with the operation that starts it and the request of a job about the collection news.
fn stored() -> Vec<(JobType, &'static str, Value)> {
    let side = json!({"collection": {"name": "news", "id": ID, "whole": true}});
    let filter = json!(["and", [["field", "language", "eq", {"text": "fr"}], ["not", ["field", ["a", "b"], "exists", true]]]]);
    vec![
        (JobType::Import, "import_documents", json!({"format": "csv", "collection_id": ID})),
        (JobType::Snapshot, "create_snapshot", json!({"snapshot": ID, "collections": ["news"]})),
        (JobType::Snapshot, "create_snapshot", json!({"snapshot": ID, "collections": ["news"], "collection_ids": [ID]})),
        (
            JobType::Restore,
            "restore_snapshot",
            json!({"snapshot": ID, "aliases": [["current", "news"]], "classifiers": [{"name": "topics", "id": ID}],
                "targets": [{"from": "old", "name": "news", "id": ID}], "replace": true}),
        ),
        (
            JobType::Restore,
            "restore_snapshot",
            json!({"snapshot": ID, "targets": [{"from": "old", "name": "news", "id": ID}], "replace": false}),
        ),
        (JobType::Train, "train_classifier", json!({"classifier": ID, "name": "topics"})),
        (
            JobType::Classify,
            "apply_classifier",
            json!({"classifier": ID, "name": "topics", "collection_id": ID, "filter": filter, "field": ["topic"],
                "probability_field": null, "threshold": 0.5}),
        ),
        (
            JobType::Evaluate,
            "start_evaluation",
            json!({"classifier": ID, "name": "topics", "collection_id": ID, "filter": filter, "field": ["topic"], "threshold": null,
                "collections": []}),
        ),
        (
            JobType::Mine,
            "mine_pairs",
            json!({"first": side, "second": side, "neighbors": 4, "margin": "ratio", "strategy": "max_score", "one_to_one": true,
                "deduplicate": true, "threshold": 1.06, "known": [[1, 2]], "collections": ["news"], "key": null}),
        ),
        (
            JobType::Duplicates,
            "find_duplicates",
            json!({"side": side, "score_min": 0.9, "neighbors": 8, "size_max": 100, "pairs": "any"}),
        ),
        (
            JobType::Reembed,
            "reembed_collection",
            json!({"collection_id": ID, "successor": ID, "model": "small", "model_fingerprint": "ab", "dimension": 8,
                "tokens_max": 128, "overlap_tokens": 0}),
        ),
        (JobType::Project, "create_projection", json!({"center": "language", "documents_max": 50_000, "neighbors": 15})),
        (
            JobType::Project,
            "create_projection",
            json!({"collection_id": ID, "center": "language", "documents_max": 50_000, "neighbors": 15}),
        ),
    ]
}

#[test]
fn a_stored_job_needs_the_scope_of_the_operation_that_starts_it() {
    for (kind, starter, request) in stored() {
        let Access::Key(scope, _) = http::description().operations.get(starter).expect("an operation").access else {
            panic!("{starter} needs no key");
        };
        // The details of a restore name what it restores besides the collection.
        let names_more = kind == JobType::Restore && request.get("aliases").is_some();
        let visibility = if names_more { JobVisibility::Everything } else { JobVisibility::Collections(vec![news()]) };
        let expect = JobAccess { scope, visibility };
        assert_eq!(Service::job_access(&job(kind, Some(news()), &request)), expect, "{kind:?}");
    }
    assert!(JobType::ALL.iter().all(|kind| stored().iter().any(|(stored, ..)| stored == kind)), "a job type is missing here");
}

#[test]
fn access_to_a_job_without_a_collection_depends_on_its_request() {
    for (kind, _, request) in stored() {
        let expect = match kind {
            // This request has texts only, so every key may see it.
            JobType::Train => JobVisibility::Server,
            // This request names its collections.
            JobType::Mine => JobVisibility::Collections(vec![news()]),
            _ => JobVisibility::Everything,
        };
        assert_eq!(visibility(kind, None, &request), expect, "{kind:?}");
    }
}

#[test]
fn a_jobs_visibility_follows_what_its_request_names() {
    let with = |mut request: Value, member: &str, value: Value| {
        request[member] = value;
        request
    };
    let request = |kind| stored().into_iter().find(|(stored, ..)| *stored == kind).expect("a row").2;
    let blog = CollectionName::parse("blog").expect("a name");
    let both = JobVisibility::Collections(vec![blog, news()]);
    let evaluate = request(JobType::Evaluate);
    assert_eq!(visibility(JobType::Evaluate, Some(news()), &with(evaluate.clone(), "collections", json!(["blog"]))), both);
    let mut older = evaluate;
    older.as_object_mut().expect("members").remove("collections");
    assert_eq!(
        visibility(JobType::Evaluate, Some(news()), &older),
        JobVisibility::Everything,
        "the collections whose labels it shows are unknown"
    );

    let lists = with(request(JobType::Mine), "second", json!({"collection": null}));
    let caller = KeyId::parse(KEY).expect("an id");
    let texts = |caller| JobVisibility::Texts { collections: vec![news()], caller };
    assert_eq!(visibility(JobType::Mine, None, &with(lists.clone(), "key", json!(KEY))), texts(Some(caller)));
    assert_eq!(visibility(JobType::Mine, None, &lists), texts(None));
}

#[test]
fn a_job_with_a_damaged_request_needs_admin_scope() {
    let closed = JobAccess { scope: Scope::Admin, visibility: JobVisibility::Everything };
    for kind in JobType::ALL {
        assert_eq!(Service::job_access(&job(kind, Some(news()), &json!({"name": 3}))), closed, "{kind:?}");
    }
}
