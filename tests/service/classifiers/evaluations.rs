//! Evaluations as jobs, and classifier jobs whose collection is deleted.

use dragoman::domain::{
    ClassifierDefinition, ClassifierKind, Code, EvaluationSet, Filter, Job, JobStatus, LabeledDocuments, NewClassifier,
    NewDocument, PredictItems, PredictOptions, RestoreRequest, Wait,
};
use serde_json::json;

use super::{WORDS, definition, field, of_texts, topics};
use crate::jobs::{REPLACE, snapshot};
use crate::{Running, document, eventually, fresh, fresh_with, id, name, one_job_at_a_time, open};

fn documents() -> LabeledDocuments {
    LabeledDocuments { collection: name("news"), field: field("topic"), filter: Filter::default() }
}

impl Running {
    /// Stores labeled documents; every tenth label is wrong.
    async fn fill_judged(&self, count: usize, wait: Wait) {
        self.create("news").await;
        let labeled = |n: usize| {
            let label = WORDS[if n.is_multiple_of(10) { (n + 1) % 2 } else { n % 2 }].0;
            let metadata = json!({"topic": label}).as_object().unwrap().clone();
            NewDocument { metadata, ..document(&format!("d{n:05}"), &format!("{} {n}", WORDS[n % 2].1)) }
        };
        for from in (0..count).step_by(500) {
            self.upsert("news", (from..count.min(from + 500)).map(labeled).collect(), wait).await.unwrap();
        }
    }

    async fn start_evaluation(&self) -> Job {
        self.service.start_evaluation(&topics(), documents(), None).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_restarts_after_a_crash_with_the_same_result() {
    let (folder, running) = fresh().await;
    running.fill_judged(4_000, Wait::Indexed).await;
    running.train(of_texts(ClassifierKind::Knn, 40)).await;
    let job = running.start_evaluation().await;
    let early = running.service.evaluation_of_job(&job.id).await;
    assert!(early.is_ok() || early.unwrap_err().code() == Code::NoResults);
    eventually("some documents are judged", async || running.job_now(&job.id).await.progress.done >= 500).await;
    running.crash();
    let running = open(folder.path()).await;
    let ended = running.ended(&job.id).await;
    assert_eq!((ended.status, ended.error), (JobStatus::Succeeded, None));
    assert_eq!(ended.details.get("examples"), Some(&json!(4_000)), "{:?}", ended.details);
    let found = running.service.evaluation_of_job(&job.id).await.unwrap();
    // A tenth of the labels is wrong.
    assert!((0.85..=0.9).contains(&found.all.accuracy) && found.all.examples == 4_000, "{:?}", found.all);
    let at_once = running.service.evaluate(&topics(), EvaluationSet::Documents(documents()), None).await.unwrap();
    assert_eq!((&found.all.accuracy, &found.confusion), (&at_once.all.accuracy, &at_once.confusion));
    running.crash();
    let running = open(folder.path()).await;
    assert_eq!(running.service.evaluation_of_job(&job.id).await.unwrap(), found);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_fails_if_its_classifier_or_collection_is_deleted() {
    for (deleted, code) in [("classifier", Code::ClassifierNotFound), ("collection", Code::CollectionNotFound)] {
        let folder = tempfile::tempdir().unwrap();
        let running = open(folder.path()).await;
        running.train(of_texts(ClassifierKind::Knn, 40)).await;
        running.control.pause();
        // The documents wait for their embeddings, so the job has to call the encoder, which is paused.
        running.fill_judged(20, Wait::Stored).await;
        let job = running.start_evaluation().await;
        eventually("the job runs", async || running.job_now(&job.id).await.status == JobStatus::Running).await;
        match deleted {
            "classifier" => running.service.delete_classifier(&topics()).await.unwrap(),
            _ => running.service.delete_collection(&name("news")).await.unwrap(),
        }
        running.control.resume();
        let ended = running.ended(&job.id).await;
        assert_eq!((ended.status, ended.error.map(|error| error.code)), (JobStatus::Failed, Some(code)), "{deleted}");
        assert_eq!(running.service.evaluation_of_job(&job.id).await.unwrap_err().code(), Code::NoResults);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_job_fails_if_its_collection_is_deleted() {
    let (_folder, running) = fresh().await;
    running.train(of_texts(ClassifierKind::Knn, 40)).await;
    running.create("news").await;
    running.control.pause();
    running.upsert("news", vec![document("a", "rain")], Wait::Stored).await.unwrap();
    let job = running.apply().await;
    eventually("the job runs", async || running.job_now(&job.id).await.status == JobStatus::Running).await;
    running.service.delete_collection(&name("news")).await.unwrap();
    running.control.resume();
    let ended = running.ended(&job.id).await;
    assert_eq!((ended.status, ended.error.unwrap().code), (JobStatus::Failed, Code::CollectionNotFound));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_fails_if_the_collection_that_its_classifier_reads_is_deleted() {
    let (_folder, running) = fresh().await;
    running.fill_judged(40, Wait::Indexed).await;
    let definition = ClassifierDefinition { source: Some(documents()), ..definition(ClassifierKind::Knn) };
    running.train(NewClassifier { name: topics(), definition, examples: Vec::new(), labels: Vec::new() }).await;
    running.create("judged").await;
    running.control.pause();
    let metadata = json!({"topic": WORDS[0].0}).as_object().unwrap().clone();
    let judged = vec![NewDocument { metadata, ..document("a", WORDS[0].1) }];
    running.upsert("judged", judged, Wait::Stored).await.unwrap();
    running.control.wait_until_blocked();
    let documents = LabeledDocuments { collection: name("judged"), ..documents() };
    let job = running.service.start_evaluation(&topics(), documents, None).await.unwrap();
    // By now the job has found the classifier's collection.
    running.wait_until_at_encoder(&job).await;
    running.service.delete_collection(&name("news")).await.unwrap();
    running.control.resume();
    let error = running.ended(&job.id).await.error.unwrap();
    assert_eq!((error.code, error.detail.as_str()), (Code::CollectionNotFound, "there is no collection news"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_evaluation_fails_if_its_collection_is_deleted_and_created_anew() {
    let (_folder, running) = fresh_with(one_job_at_a_time()).await;
    running.train(of_texts(ClassifierKind::Knn, 40)).await;
    running.fill_judged(20, Wait::Indexed).await;
    running.create("other").await;
    running.control.pause();
    let first = running.import_one("other").await;
    let waiting = running.start_evaluation().await;
    running.service.delete_collection(&name("news")).await.unwrap();
    running.fill_judged(10, Wait::Stored).await;
    running.control.resume();
    running.ended(&first.id).await;
    let ended = running.ended(&waiting.id).await;
    assert_eq!((ended.status, ended.error.map(|error| error.code)), (JobStatus::Failed, Some(Code::CollectionNotFound)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_evaluation_runs_on_what_a_restore_has_put_in_place_of_its_collection() {
    let (_folder, running) = fresh_with(one_job_at_a_time()).await;
    running.train(of_texts(ClassifierKind::Knn, 40)).await;
    running.fill_judged(20, Wait::Indexed).await;
    let id = snapshot(&running).await;
    running.create("other").await;
    running.control.pause();
    let first = running.import_one("other").await;
    // Without the classifier, because the job needs the one that it was accepted for.
    let request = RestoreRequest { collection: Some(name("news")), ..REPLACE };
    let restore = running.service.restore_snapshot(&id, request).await.unwrap();
    let waiting = running.start_evaluation().await;
    running.control.resume();
    for job in [first, restore, waiting.clone()] {
        let ended = running.ended(&job.id).await;
        assert_eq!((ended.status, ended.error), (JobStatus::Succeeded, None), "{:?}", ended.kind);
    }
    assert_eq!(running.service.evaluation_of_job(&waiting.id).await.unwrap().all.examples, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_predictions_agree_with_single_ones() {
    let (_folder, running) = fresh().await;
    // Too many documents to compare one text with each of them, but few enough for a batch of many texts.
    running.fill_judged(4_500, Wait::Indexed).await;
    let definition = ClassifierDefinition { source: Some(documents()), ..definition(ClassifierKind::Knn) };
    running.train(NewClassifier { name: topics(), definition, examples: Vec::new(), labels: Vec::new() }).await;
    let ids: Vec<_> = (100..140).map(|n| id(&format!("d{n:05}"))).collect();
    let ask = async |ids: &[dragoman::domain::DocumentId]| {
        let options = PredictOptions { threshold: None, scores: 2, explain: 3 };
        let items = PredictItems::Documents { collection: name("news"), ids: ids.to_vec() };
        running.service.predict(&topics(), items, options).await.unwrap()
    };
    let together = ask(&ids).await;
    for (place, predicted) in together.iter().enumerate() {
        let alone = &ask(&ids[place..=place]).await[0];
        assert!(predicted.neighbors.iter().all(|near| near.id != predicted.id), "{predicted:?}");
        assert_eq!(predicted.neighbors.len(), 3);
        // The index stores 16-bit values, so neighbors at nearly equal distances may swap.
        let nearest = |one: &dragoman::domain::Prediction| one.neighbors[0].score;
        assert!((nearest(predicted) - nearest(alone)).abs() < 1e-2, "{predicted:?} {alone:?}");
    }
    let right = together.iter().zip(100..).filter(|(predicted, n)| predicted.labels == [WORDS[n % 2].0]);
    assert!(right.count() >= 36, "{together:?}");
}
