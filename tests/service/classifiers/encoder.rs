//! Classifiers and a busy encoder: jobs wait for space in its queue, and long texts are bulk work.

use dragoman::domain::{
    ClassifierKind, Filter, JobId, JobStatus, LabeledDocuments, Limits, NewDocument, PredictItems, PredictOptions, Wait,
};
use dragoman::embed::FakeOptions;
use serde_json::json;
use tokio::task::JoinHandle;

use super::{WORDS, field, of_texts, topics};
use crate::{Running, Setting, document, eventually, fresh, name, open_with};

/// The queue's capacity in texts: fewer than a job embeds at a time.
const QUEUE_TEXTS: usize = 8;

/// A service whose encoder has a small queue.
async fn open_narrow(folder: &std::path::Path) -> Running {
    let fake = FakeOptions { queue_texts_max: QUEUE_TEXTS, ..FakeOptions::of(64) };
    let limits = Limits { embed_queue_texts_max: QUEUE_TEXTS, ..Limits::default() };
    open_with(folder, Setting { fake, limits, ..Setting::default() }).await
}

impl Running {
    fn embed_words(&self, count: usize) -> JoinHandle<()> {
        let service = self.service.clone();
        tokio::spawn(async move { drop(service.embed(vec!["words".to_owned(); count]).await.unwrap()) })
    }

    /// Blocks the encoder with one text, and fills its queue.
    async fn fill_queue(&self) -> [JoinHandle<()>; 2] {
        self.control.pause();
        let at_work = self.embed_words(1);
        self.control.wait_until_blocked();
        let waiting = self.embed_words(QUEUE_TEXTS);
        eventually("the queue is full", async || self.embedder.queue_depth() == QUEUE_TEXTS).await;
        [at_work, waiting]
    }

    /// Watches a job long enough that it has, very likely, called the encoder.
    async fn stays_unfinished(&self, id: &JobId) {
        eventually("the job is begun", async || self.job_now(id).await.status != JobStatus::Queued).await;
        for _ in 0..200 {
            let job = self.job_now(id).await;
            assert!(!job.status.is_finished(), "{job:?}");
        }
    }

    /// Resumes the encoder, and waits for the blocked texts and for the jobs.
    async fn finish_all(&self, held: [JoinHandle<()>; 2], jobs: &[JobId]) {
        self.control.resume();
        for one in held {
            one.await.unwrap();
        }
        for id in jobs {
            let job = self.ended(id).await;
            assert_eq!((job.status, job.error), (JobStatus::Succeeded, None));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_training_waits_for_space_in_the_encoder_queue() {
    let folder = tempfile::tempdir().unwrap();
    let running = open_narrow(folder.path()).await;
    let held = running.fill_queue().await;
    let made = running.service.create_classifier(of_texts(ClassifierKind::Knn, 40), None).await.unwrap();
    running.stays_unfinished(&made.record.job).await;
    running.finish_all(held, &[made.record.job]).await;
    assert_eq!(running.predicted("rain").await.unwrap(), ["weather"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_training_waiting_for_the_encoder_queue_can_be_canceled() {
    let folder = tempfile::tempdir().unwrap();
    let running = open_narrow(folder.path()).await;
    let held = running.fill_queue().await;
    let made = running.service.create_classifier(of_texts(ClassifierKind::Knn, 40), None).await.unwrap();
    running.stays_unfinished(&made.record.job).await;
    running.service.cancel_job(&made.record.job).await.unwrap();
    assert_eq!(running.ended(&made.record.job).await.status, JobStatus::Canceled);
    running.finish_all(held, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_and_evaluation_jobs_wait_for_space_in_the_encoder_queue() {
    let folder = tempfile::tempdir().unwrap();
    let running = open_narrow(folder.path()).await;
    running.train(of_texts(ClassifierKind::Knn, 40)).await;
    running.create("news").await;
    let held = running.fill_queue().await;
    let labeled = |n: usize| {
        let metadata = json!({"known": WORDS[n % 2].0}).as_object().unwrap().clone();
        NewDocument { metadata, ..document(&format!("d{n}"), &format!("{} {n}", WORDS[n % 2].1)) }
    };
    running.upsert("news", (0..20).map(labeled).collect(), Wait::Stored).await.unwrap();
    let applied = running.apply().await;
    let documents = LabeledDocuments { collection: name("news"), field: field("known"), filter: Filter::default() };
    let judged = running.service.start_evaluation(&topics(), documents, None).await.unwrap();
    running.stays_unfinished(&applied.id).await;
    running.stays_unfinished(&judged.id).await;
    running.finish_all(held, &[applied.id.clone(), judged.id.clone()]).await;
    assert_eq!(running.labeled(&applied.id).await, 20);
    assert_eq!(running.service.evaluation_of_job(&judged.id).await.unwrap().all.examples, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_overtake_the_passages_of_a_long_text_to_classify() {
    let (_folder, running) = fresh().await;
    running.train(of_texts(ClassifierKind::Knn, 40)).await;
    let before = running.control.batches().len();
    running.control.pause();
    let at_work = running.embed_words(1);
    running.control.wait_until_blocked();
    let (service, long) = (running.service.clone(), "rain ".repeat(20 * FakeOptions::of(64).tokens_max));
    let predicted = tokio::spawn(async move {
        let options = PredictOptions { threshold: None, scores: 2, explain: 0 };
        service.predict(&topics(), PredictItems::Texts(vec![long]), options).await.unwrap()
    });
    eventually("the passages wait", async || running.embedder.queue_depth() == 20).await;
    let query = running.embed_words(1);
    eventually("the query waits", async || running.embedder.queue_depth() == 21).await;
    running.control.resume();
    assert_eq!(predicted.await.unwrap()[0].labels, ["weather"]);
    at_work.await.unwrap();
    query.await.unwrap();
    let batches: Vec<usize> = running.control.batches()[before..].iter().map(Vec::len).collect();
    assert_eq!(batches, [1, 1, 20]);
}
