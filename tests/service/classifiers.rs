//! Classifiers across restarts, crashes, deletions and model changes.

mod encoder;
mod evaluations;
mod retraining;

use dragoman::domain::{
    Activation, ClassifierDefinition, ClassifierKind, ClassifierName, ClassifierState, Code, Filter, Job, JobId, JobStatus,
    KnnSettings, LabeledDocuments, LabeledText, MetadataPath, MlpSettings, NeighborWeight, NewClassifier, NewDocument,
    PredictItems, PredictOptions, Wait,
};
use dragoman::embed::FakeOptions;
use serde_json::json;

use crate::{Running, Setting, document, eventually, fresh, id, name, news, open, open_with};

const WORDS: [(&str, &str); 2] = [("weather", "rain"), ("sports", "goal")];

fn definition(kind: ClassifierKind) -> ClassifierDefinition {
    ClassifierDefinition {
        kind,
        description: None,
        multi_label: false,
        threshold: None,
        source: None,
        knn: KnnSettings { neighbors: 3, weight: NeighborWeight::Softmax, temperature: None, score_min: -1.0 },
        mlp: MlpSettings {
            hidden: Some(8),
            activation: Activation::Tanh,
            dropout: 0.0,
            learning_rate: 0.02,
            batch: 8,
            epochs_max: 20,
            patience: 5,
            runs: 1,
            seed: 7,
            validation_share: 0.2,
        },
    }
}

fn topics() -> ClassifierName {
    ClassifierName::parse("topics").unwrap()
}

fn examples(count: usize) -> Vec<LabeledText> {
    let example = |number: usize| {
        let (label, word) = WORDS[number % 2];
        LabeledText { text: format!("{word} number {number}"), labels: vec![label.to_owned()], language: None }
    };
    (0..count).map(example).collect()
}

fn of_texts(kind: ClassifierKind, count: usize) -> NewClassifier {
    NewClassifier { name: topics(), definition: definition(kind), examples: examples(count), labels: Vec::new() }
}

fn field(text: &str) -> MetadataPath {
    MetadataPath::parse(text).unwrap()
}

impl Running {
    async fn job_now(&self, id: &JobId) -> Job {
        self.service.get_job(id).await.unwrap()
    }

    async fn state(&self) -> ClassifierState {
        self.service.get_classifier(&topics()).await.unwrap().state
    }

    /// Trains a classifier to completion.
    async fn train(&self, new: NewClassifier) {
        let made = self.service.create_classifier(new, None).await.unwrap();
        let job = self.ended(&made.record.job).await;
        assert_eq!((job.status, job.error), (JobStatus::Succeeded, None));
        assert_eq!(self.state().await, ClassifierState::Ready);
    }

    async fn predicted(&self, text: &str) -> Result<Vec<String>, dragoman::service::Error> {
        let options = PredictOptions { threshold: None, scores: 2, explain: 0 };
        let responses = self.service.predict(&topics(), PredictItems::Texts(vec![text.to_owned()]), options).await?;
        Ok(responses.into_iter().next().unwrap().labels)
    }

    /// Stores documents without labels.
    async fn fill_unlabeled(&self, count: usize) {
        self.create("news").await;
        for from in (0..count).step_by(500) {
            let documents =
                (from..count.min(from + 500)).map(|n| document(&format!("d{n:05}"), &format!("{} {n}", WORDS[n % 2].1)));
            self.upsert("news", documents.collect(), Wait::Indexed).await.unwrap();
        }
    }

    /// Waits until a job has read a document without an embedding: its text waits at the encoder, which holds another batch.
    async fn wait_until_at_encoder(&self, job: &Job) {
        eventually("the job waits for the encoder", async || {
            let job = self.job_now(&job.id).await;
            assert!(!job.status.is_finished(), "{job:?}");
            self.embedder.queue_depth() >= 1
        })
        .await;
    }

    async fn apply(&self) -> Job {
        let documents = LabeledDocuments { collection: name("news"), field: field("topic"), filter: Filter::default() };
        self.service.apply_classifier(&topics(), documents, None, None).await.unwrap()
    }

    async fn labeled(&self, job: &JobId) -> u64 {
        self.job_now(job).await.details.get("labeled").and_then(|count| count.as_u64()).unwrap_or(0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn training_resumes_after_a_crash_and_its_result_survives_another() {
    let (folder, running) = fresh().await;
    running.control.pause();
    let made = running.service.create_classifier(of_texts(ClassifierKind::Mlp, 400), None).await.unwrap();
    assert_eq!(made.state, ClassifierState::Training);
    running.control.wait_until_blocked();
    let error = running.predicted("rain").await.unwrap_err();
    assert_eq!(error.code(), Code::ClassifierNotReady);
    assert!(error.to_string().contains(made.record.job.as_str()), "{error}");
    running.crash();
    let running = open(folder.path()).await;
    let job = running.ended(&made.record.job).await;
    assert_eq!((job.status, job.error), (JobStatus::Succeeded, None));
    assert_eq!(
        (running.state().await, running.predicted("rain today").await.unwrap()),
        (ClassifierState::Ready, vec!["weather".to_owned()])
    );
    let before = running.service.get_classifier(&topics()).await.unwrap();
    running.crash();
    let running = open(folder.path()).await;
    assert_eq!(running.service.get_classifier(&topics()).await.unwrap(), before);
    assert_eq!(running.predicted("one more goal").await.unwrap(), ["sports"]);
    running.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embeddings_stored_before_a_crash_are_not_recomputed() {
    let (folder, running) = fresh().await;
    let made = running.service.create_classifier(of_texts(ClassifierKind::Knn, 3_000), None).await.unwrap();
    eventually("some texts are embedded", async || running.job_now(&made.record.job).await.progress.done >= 256).await;
    running.control.pause();
    running.crash();
    let running = open(folder.path()).await;
    assert_eq!(running.ended(&made.record.job).await.status, JobStatus::Succeeded);
    let embedded: usize = running.control.batches().iter().map(Vec::len).sum();
    assert!(embedded < 3_000, "{embedded} texts were embedded after the restart");
    assert_eq!(running.predicted("rain").await.unwrap(), ["weather"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_written_exactly_once_despite_crashes() {
    let (folder, mut running) = fresh().await;
    running.fill_unlabeled(3_000).await;
    running.train(of_texts(ClassifierKind::Knn, 40)).await;
    let job = running.apply().await;
    for part in 1..=2 {
        eventually("some documents are labeled", async || running.labeled(&job.id).await >= part * 600).await;
        running.crash();
        running = open(folder.path()).await;
    }
    let ended = running.ended(&job.id).await;
    assert_eq!((ended.status, ended.error), (JobStatus::Succeeded, None));
    let count = |member: &str| ended.details.get(member).and_then(|count| count.as_u64());
    let counts = ["documents", "labeled", "abstained", "changed", "failed"].map(|member| count(member).unwrap());
    assert_eq!(counts, [3_000, 3_000, 0, 0, 0]);
    for number in [0, 1, 1_499, 2_998, 2_999] {
        let found = running.on("news").get(&id(&format!("d{number:05}"))).await.unwrap();
        assert_eq!(found.metadata.get("topic"), Some(&json!(WORDS[number % 2].0)), "{number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_changed_during_labeling_gets_no_label() {
    let (_folder, running) = fresh().await;
    running.train(of_texts(ClassifierKind::Knn, 40)).await;
    running.create("news").await;
    // The first document waits for its embedding, so the job has to call the encoder, which is paused. The job starts when the
    // encoder has taken the document, because it would take the text of the job in the same batch.
    running.control.pause();
    running.upsert("news", vec![document("a", "rain")], Wait::Stored).await.unwrap();
    running.control.wait_until_blocked();
    let job = running.apply().await;
    running.wait_until_at_encoder(&job).await;
    running.upsert("news", vec![document("a", "goal")], Wait::Stored).await.unwrap();
    running.control.resume();
    let ended = running.ended(&job.id).await;
    assert_eq!(ended.status, JobStatus::Succeeded);
    assert_eq!(ended.details.get("changed"), Some(&json!(1)), "{:?}", ended.details);
    let found = running.on("news").get(&id("a")).await.unwrap();
    assert_eq!(found.metadata.get("topic"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_classifier_stops_its_training_and_labeling_jobs() {
    let (_folder, running) = fresh().await;
    running.fill_unlabeled(2_000).await;
    running.control.pause();
    let made = running.service.create_classifier(of_texts(ClassifierKind::Mlp, 40), None).await.unwrap();
    running.control.wait_until_blocked();
    running.service.delete_classifier(&topics()).await.unwrap();
    running.control.resume();
    assert_eq!(running.ended(&made.record.job).await.status, JobStatus::Canceled);
    running.train(of_texts(ClassifierKind::Knn, 40)).await;
    let job = running.apply().await;
    eventually("some documents are labeled", async || running.labeled(&job.id).await >= 200).await;
    running.service.delete_classifier(&topics()).await.unwrap();
    let ended = running.ended(&job.id).await;
    // The job may have ended before the deletion.
    if running.labeled(&job.id).await < 2_000 {
        assert_eq!((ended.status, ended.error.unwrap().code), (JobStatus::Failed, Code::ClassifierNotFound));
    }
    assert_eq!(running.predicted("rain").await.unwrap_err().code(), Code::ClassifierNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_training_leaves_a_failed_classifier() {
    let (_folder, running) = fresh().await;
    running.control.pause();
    let made = running.service.create_classifier(of_texts(ClassifierKind::Mlp, 40), None).await.unwrap();
    running.control.wait_until_blocked();
    running.service.cancel_job(&made.record.job).await.unwrap();
    running.control.resume();
    assert_eq!(running.ended(&made.record.job).await.status, JobStatus::Canceled);
    assert_eq!(running.state().await, ClassifierState::Failed);
    let error = running.predicted("rain").await.unwrap_err();
    assert_eq!(error.code(), Code::ClassifierNotReady);
    assert!(error.to_string().contains("canceled"), "{error}");
    running.service.delete_classifier(&topics()).await.unwrap();
    running.train(of_texts(ClassifierKind::Mlp, 40)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_model_makes_a_classifier_outdated() {
    let (folder, running) = fresh().await;
    running.train(of_texts(ClassifierKind::Mlp, 40)).await;
    running.shutdown().await;
    let running = open_with(folder.path(), Setting { fake: FakeOptions::of(32), ..Setting::default() }).await;
    assert_eq!(running.state().await, ClassifierState::Outdated);
    let error = running.predicted("rain").await.unwrap_err();
    assert_eq!(error.code(), Code::ModelMismatch);
    assert!(error.to_string().contains("fake-64") && error.to_string().contains("fake-32"), "{error}");
    running.shutdown().await;
    let running = open(folder.path()).await;
    assert_eq!(running.predicted("rain").await.unwrap(), ["weather"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_training_resumed_with_another_model_fails() {
    let (folder, running) = fresh().await;
    running.control.pause();
    let made = running.service.create_classifier(of_texts(ClassifierKind::Mlp, 4_000), None).await.unwrap();
    running.control.wait_until_blocked();
    running.crash();
    let running = open_with(folder.path(), Setting { fake: FakeOptions::of(32), ..Setting::default() }).await;
    assert_eq!(running.ended(&made.record.job).await.error.unwrap().code, Code::ModelMismatch);
    assert_eq!(running.service.get_classifier(&topics()).await.unwrap().record.error.unwrap().code, Code::ModelMismatch);
}

#[tokio::test(flavor = "multi_thread")]
async fn knn_predicts_after_a_crash_and_mlp_trains_on_a_large_collection() {
    let (folder, running) = news().await;
    // Too many to compare exhaustively, so the graph is used.
    for from in (0..4_500).step_by(500) {
        let labeled = |n: usize| {
            let (label, word) = WORDS[n % 2];
            let metadata = json!({"topic": label}).as_object().unwrap().clone();
            NewDocument { metadata, ..document(&format!("d{n}"), &format!("{word} {n}")) }
        };
        running.upsert("news", (from..from + 500).map(labeled).collect(), Wait::Indexed).await.unwrap();
    }
    let source = LabeledDocuments { collection: name("news"), field: field("topic"), filter: Filter::default() };
    let of = |kind| NewClassifier {
        name: topics(),
        definition: ClassifierDefinition { source: Some(source.clone()), ..definition(kind) },
        examples: Vec::new(),
        labels: Vec::new(),
    };
    running.train(of(ClassifierKind::Knn)).await;
    running.crash();
    let running = open(folder.path()).await;
    assert_eq!(running.predicted("rain 17").await.unwrap(), ["weather"]);
    running.service.delete_classifier(&topics()).await.unwrap();
    running.train(of(ClassifierKind::Mlp)).await;
    let report = running.service.get_classifier(&topics()).await.unwrap().report.unwrap();
    assert_eq!((report.examples, report.validation_examples), (4_500, 900));
    assert!(report.validation_quality.unwrap() > 0.95, "{report:?}");
    assert_eq!(running.predicted("goal 17").await.unwrap(), ["sports"]);
}
