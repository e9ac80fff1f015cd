//! Retraining: which version answers until it ends, and what happens at restarts, failures, deletions and model changes.

use dragoman::domain::{
    Alias, ClassifierDefinition, ClassifierKind, ClassifierName, ClassifierState, Code, Filter, JobStatus, LabeledDocuments,
    Limits, NewClassifier, NewDocument, Wait,
};
use dragoman::embed::FakeOptions;
use serde_json::json;

use super::{WORDS, definition, field, of_texts, topics};
use crate::{Running, Setting, document, eventually, fresh, fresh_with, name, one_job_at_a_time, open, open_with};

/// A service with a different model.
async fn open_other(folder: &std::path::Path) -> Running {
    open_with(folder, Setting { fake: FakeOptions::of(32), ..Setting::default() }).await
}

fn labeled(number: usize, label: &str, word: &str) -> NewDocument {
    let metadata = json!({"topic": label}).as_object().unwrap().clone();
    NewDocument { metadata, ..document(&format!("{label}{number}"), &format!("{word} {number}")) }
}

fn of_documents(kind: ClassifierKind) -> NewClassifier {
    of_collection(kind, "news")
}

/// A classifier that learns from the documents of a collection, named by its own name or by an alias.
fn of_collection(kind: ClassifierKind, collection: &str) -> NewClassifier {
    let source = LabeledDocuments { collection: name(collection), field: field("topic"), filter: Filter::default() };
    let definition = ClassifierDefinition { source: Some(source), ..definition(kind) };
    NewClassifier { name: topics(), definition, examples: Vec::new(), labels: Vec::new() }
}

impl Running {
    async fn retrain(&self) {
        let job = self.service.retrain_classifier(&topics()).await.unwrap();
        let ended = self.ended(&job.id).await;
        assert_eq!((ended.status, ended.error), (JobStatus::Succeeded, None));
    }

    async fn version(&self) -> u64 {
        self.service.get_classifier(&topics()).await.unwrap().record.version
    }

    async fn fill_labeled(&self) {
        self.create("news").await;
        let documents = (0..60).map(|n| labeled(n, WORDS[n % 2].0, WORDS[n % 2].1));
        self.upsert("news", documents.collect(), Wait::Indexed).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retraining_an_mlp_learns_new_labels() {
    let (folder, running) = fresh().await;
    running.fill_labeled().await;
    running.train(of_documents(ClassifierKind::Mlp)).await;
    let before = running.service.get_classifier(&topics()).await.unwrap();
    assert_eq!((before.record.version, &before.record.next_job), (1, &None));
    let new = (0..30).map(|n| labeled(n, "economy", "stocks"));
    running.upsert("news", new.collect(), Wait::Indexed).await.unwrap();
    assert_ne!(running.predicted("stocks 7").await.unwrap(), ["economy"]);
    running.retrain().await;
    assert_eq!(running.predicted("stocks 7").await.unwrap(), ["economy"]);
    assert_eq!(running.predicted("rain 7").await.unwrap(), ["weather"]);
    let after = running.service.get_classifier(&topics()).await.unwrap();
    assert_eq!((after.record.version, after.state, &after.record.next_job), (2, ClassifierState::Ready, &None));
    assert!(
        after.record.trained_at_ms >= before.record.trained_at_ms && after.record.created_at_ms == before.record.created_at_ms
    );
    assert_ne!(after.record.job, before.record.job);
    assert_eq!(after.report.unwrap().labels.len(), 3);
    running.crash();
    let running = open(folder.path()).await;
    assert_eq!((running.version().await, running.predicted("stocks 8").await.unwrap()), (2, vec!["economy".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn retraining_for_another_model_resumes_after_a_crash() {
    let (folder, running) = fresh().await;
    running.train(of_texts(ClassifierKind::Knn, 400)).await;
    running.shutdown().await;
    let running = open_other(folder.path()).await;
    assert_eq!(running.state().await, ClassifierState::Outdated);
    running.control.pause();
    let job = running.service.retrain_classifier(&topics()).await.unwrap();
    running.control.wait_until_blocked();
    let now = running.service.get_classifier(&topics()).await.unwrap();
    assert_eq!((now.state, now.record.version, &now.record.next_job), (ClassifierState::Outdated, 1, &Some(job.id.clone())));
    let again = running.service.retrain_classifier(&topics()).await.unwrap_err();
    assert_eq!(again.code(), Code::ClassifierNotReady);
    assert!(again.to_string().contains(job.id.as_str()), "{again}");
    running.crash();
    let running = open_other(folder.path()).await;
    assert_eq!(running.ended(&job.id).await.status, JobStatus::Succeeded);
    assert_eq!((running.state().await, running.version().await), (ClassifierState::Ready, 2));
    assert_eq!(running.predicted("rain today").await.unwrap(), ["weather"]);
    running.shutdown().await;
    let running = open(folder.path()).await;
    assert_eq!(running.state().await, ClassifierState::Outdated);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_version_answers_after_a_crashed_or_canceled_retraining() {
    let (folder, running) = fresh().await;
    running.train(of_texts(ClassifierKind::Knn, 400)).await;
    running.shutdown().await;
    for canceled in [false, true] {
        let running = open_other(folder.path()).await;
        running.control.pause();
        let job = running.service.retrain_classifier(&topics()).await.unwrap();
        running.control.wait_until_blocked();
        if canceled {
            running.service.cancel_job(&job.id).await.unwrap();
            running.control.resume();
            assert_eq!(running.ended(&job.id).await.status, JobStatus::Canceled);
            let left = running.service.get_classifier(&topics()).await.unwrap();
            assert_eq!((left.state, &left.record.next_job), (ClassifierState::Outdated, &None));
            assert!(left.record.error.is_none(), "canceling is no failure");
        }
        running.crash();
        // Back to the first model: the other model's embeddings replaced none of its own.
        let running = open(folder.path()).await;
        assert_eq!(running.state().await, ClassifierState::Ready);
        assert_eq!(running.predicted("rain today").await.unwrap(), ["weather"]);
        if !canceled {
            assert_eq!(running.ended(&job.id).await.status, JobStatus::Succeeded);
        }
        assert_eq!(running.version().await, 2);
        assert_eq!(running.predicted("one more goal").await.unwrap(), ["sports"]);
        running.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_retraining_keeps_the_old_version() {
    let (_folder, running) = fresh().await;
    running.fill_labeled().await;
    running.train(of_documents(ClassifierKind::Mlp)).await;
    let weather = (0..60).filter(|n| n % 2 == 1).map(|n| labeled(n, "sports", "goal"));
    for document in weather {
        running.delete("news", &document.id.unwrap()).await.unwrap();
    }
    let refused = running.service.retrain_classifier(&topics()).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidTrainingSet);
    assert!(refused.to_string().contains("two labels"), "{refused}");
    running.service.delete_collection(&name("news")).await.unwrap();
    assert_eq!(running.service.retrain_classifier(&topics()).await.unwrap_err().code(), Code::CollectionNotFound);
    assert_eq!((running.state().await, running.version().await), (ClassifierState::Ready, 1));
    assert_eq!(running.predicted("goal 7").await.unwrap(), ["sports"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_classifier_fails_together_with_the_job_that_trains_it() {
    let (folder, running) = fresh_with(one_job_at_a_time()).await;
    running.fill_labeled().await;
    running.create("blog").await;
    running.control.pause();
    running.import_one("blog").await;
    let made = running.service.create_classifier(of_documents(ClassifierKind::Mlp), None).await.unwrap();
    running.service.delete_collection(&name("news")).await.unwrap();
    let catalog = rusqlite::Connection::open(folder.path().join("catalog.sqlite")).unwrap();
    let refuse = "create trigger refused before update of finished_at_ms on jobs when old.type = 'train' begin
                      select raise(abort, 'refused');
                  end;";
    catalog.execute_batch(refuse).unwrap();
    running.control.resume();
    eventually("the job runs", async || running.job_now(&made.record.job).await.status == JobStatus::Running).await;
    // Long enough for an attempt to record its end.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(running.state().await, ClassifierState::Training);
    catalog.execute_batch("drop trigger refused").unwrap();
    let ended = running.ended(&made.record.job).await;
    assert_eq!((ended.status, ended.error.unwrap().code), (JobStatus::Failed, Code::CollectionNotFound));
    let failed = running.service.get_classifier(&topics()).await.unwrap();
    assert_eq!((failed.state, failed.record.error.unwrap().code), (ClassifierState::Failed, Code::CollectionNotFound));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_classifier_can_be_retrained() {
    let (_folder, running) = fresh().await;
    running.control.pause();
    let made = running.service.create_classifier(of_texts(ClassifierKind::Mlp, 300), None).await.unwrap();
    running.control.wait_until_blocked();
    let early = running.service.retrain_classifier(&topics()).await.unwrap_err();
    assert_eq!(early.code(), Code::ClassifierNotReady);
    running.service.cancel_job(&made.record.job).await.unwrap();
    running.control.resume();
    assert_eq!(running.ended(&made.record.job).await.status, JobStatus::Canceled);
    assert_eq!((running.state().await, running.version().await), (ClassifierState::Failed, 0));
    running.retrain().await;
    assert_eq!((running.state().await, running.version().await), (ClassifierState::Ready, 1));
    assert_eq!(running.service.get_classifier(&topics()).await.unwrap().record.error, None);
    assert_eq!(running.predicted("rain today").await.unwrap(), ["weather"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_classifier_cancels_its_retraining() {
    let (folder, running) = fresh().await;
    running.train(of_texts(ClassifierKind::Knn, 40)).await;
    running.shutdown().await;
    let running = open_other(folder.path()).await;
    running.control.pause();
    let job = running.service.retrain_classifier(&topics()).await.unwrap();
    running.control.wait_until_blocked();
    running.service.delete_classifier(&topics()).await.unwrap();
    running.control.resume();
    assert_eq!(running.ended(&job.id).await.status, JobStatus::Canceled);
    let gone = running.service.retrain_classifier(&topics()).await.unwrap_err();
    assert_eq!(gone.code(), Code::ClassifierNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_training_keeps_the_alias_target_it_was_accepted_with() {
    let limits = Limits { jobs_running_max: 1, ..Limits::default() };
    let (_folder, running) = fresh_with(Setting { limits, ..Setting::default() }).await;
    running.fill_labeled().await;
    running.create("other").await;
    let alias_of = |collection: &str| Alias { name: name("latest"), collection: name(collection) };
    running.service.set_alias(alias_of("news")).await.unwrap();
    running.control.pause();
    let first = ClassifierName::parse("first").unwrap();
    let first = NewClassifier { name: first, ..of_texts(ClassifierKind::Knn, 10) };
    running.service.create_classifier(first, None).await.unwrap();
    running.control.wait_until_blocked();
    let made = running.service.create_classifier(of_collection(ClassifierKind::Mlp, "latest"), None).await.unwrap();
    running.service.set_alias(alias_of("other")).await.unwrap();
    running.control.resume();
    let job = running.ended(&made.record.job).await;
    assert_eq!((job.status, job.error, job.collection), (JobStatus::Succeeded, None, Some(name("news"))));
    assert_eq!(running.service.get_classifier(&topics()).await.unwrap().report.unwrap().examples, 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn retraining_learns_from_the_new_target_of_an_alias() {
    let (_folder, running) = fresh().await;
    running.fill_labeled().await;
    running.create("other").await;
    let words = [("weather", "rain"), ("economy", "stocks")];
    let documents = (0..60).map(|n| labeled(n, words[n % 2].0, words[n % 2].1));
    running.upsert("other", documents.collect(), Wait::Indexed).await.unwrap();
    let alias_of = |collection: &str| Alias { name: name("latest"), collection: name(collection) };
    running.service.set_alias(alias_of("news")).await.unwrap();
    running.train(of_collection(ClassifierKind::Mlp, "latest")).await;
    assert_eq!(running.predicted("goal 7").await.unwrap(), ["sports"]);
    running.service.set_alias(alias_of("other")).await.unwrap();
    let job = running.service.retrain_classifier(&topics()).await.unwrap();
    let ended = running.ended(&job.id).await;
    assert_eq!((ended.status, ended.error, ended.collection), (JobStatus::Succeeded, None, Some(name("other"))));
    assert_eq!((running.version().await, running.predicted("stocks 7").await.unwrap()), (2, vec!["economy".to_owned()]));
}
