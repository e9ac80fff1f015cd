//! Re-embedding: a collection switches to the server's model, and serves the old embeddings until all new ones exist.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dragoman::domain::{
    Alias, Code, CollectionView, Document, DocumentPatch, Job, JobId, JobStatus, Limits, MetadataPath, NewCollection,
    NewDocument, NewSource, PassageBounds, Precondition, SearchMode, SearchRequest, SearchTarget, Wait,
};
use dragoman::embed::FakeOptions;
use dragoman::service::Error;

use crate::{
    Running, Setting, collection_folder, document, eventually, fresh, id, ids, name, news, news_with, one_job_at_a_time, open,
    open_with, request,
};

/// A server with a different model and shorter passages.
fn other() -> Setting {
    Setting { fake: FakeOptions { tokens_max: 6, ..FakeOptions::of(32) }, ..Setting::default() }
}

fn text(n: usize) -> String {
    format!("number {n} speaks of w{n}")
}

/// A data directory with documents d0 and up in the collection `news`, left by a server that has stopped.
async fn made_by_another_model(folder: &Path, documents: usize) {
    let running = open(folder).await;
    running.create("news").await;
    let documents: Vec<NewDocument> = (0..documents).map(|n| document(&format!("d{n}"), &text(n))).collect();
    for part in documents.chunks(1_000) {
        running.upsert("news", part.to_vec(), Wait::Indexed).await.unwrap();
    }
    running.shutdown().await;
}

fn folders(data_dir: &Path) -> usize {
    std::fs::read_dir(data_dir.join("collections")).unwrap().count()
}

fn patch(member: &str, value: usize) -> DocumentPatch {
    Limits::default().metadata_patch([(member.to_owned(), value.into())].into_iter().collect())
}

impl Running {
    async fn reembed(&self) -> Result<Job, Error> {
        self.on("news").reembed(None).await
    }

    async fn reembedded(&self, job: &JobId) -> Job {
        eventually("the job ends", async || self.service.get_job(job).await.unwrap().status.is_finished()).await;
        self.service.get_job(job).await.unwrap()
    }

    async fn check_reembedded(&self, job: &JobId) {
        let job = self.reembedded(job).await;
        assert_eq!((job.status, job.error.as_ref()), (JobStatus::Succeeded, None));
        assert_eq!(job.progress.done, job.progress.total);
        assert_eq!(job.details["not_embedded"], 0);
    }

    async fn news(&self) -> CollectionView {
        self.service.get_collection(&name("news")).await.unwrap()
    }

    async fn by_words(&self, query: &str) -> Vec<String> {
        ids(&self.search("news", SearchRequest { mode: SearchMode::Lexical, ..request(query, 10) }).await.unwrap())
    }

    async fn document(&self, of: &str) -> Document {
        self.on("news").get(&id(of)).await.unwrap()
    }

    fn embedded_texts(&self) -> usize {
        self.control.batches().iter().map(Vec::len).sum()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reembedding_switches_the_model_and_keeps_everything_else() {
    let (folder, running) = fresh().await;
    let year = MetadataPath::parse("year").unwrap();
    let new = NewCollection { metadata_indexes: vec![year.clone()], ..NewCollection::new(name("news")) };
    running.service.create_collection(new, None).await.unwrap();
    running.service.set_alias(Alias { name: name("latest"), collection: name("news") }).await.unwrap();
    let long = "The boats leave at dawn. The nets come back full. Gulls follow them over the grey harbor.";
    running.write("news", "long", long).await;
    running.write("news", "fr", "Le marché ouvre à sept heures.").await;
    running.write("news", "ja", "天気がよいので散歩に行く。").await;
    running.on("news").patch(&id("fr"), patch("year", 2024), Wait::Indexed, Precondition::None).await.unwrap();
    let before = [running.document("long").await, running.document("fr").await, running.document("ja").await];
    running.shutdown().await;

    let running = open_with(folder.path(), other()).await;
    let refused = running.search("news", request("grey harbor", 1)).await.unwrap_err();
    assert!(refused.to_string().contains("POST /v1/collections/news/reembed"), "{refused}");
    let found = running.on("latest");
    let job = found.reembed(None).await.unwrap();
    assert_eq!((job.progress.total, job.collection.as_ref()), (3, Some(&name("news"))));
    running.check_reembedded(&job.id).await;
    assert_eq!(found.row().dimension, 32, "an open handle switches to the new model");
    assert_eq!(found.search(request("le marché ouvre", 1)).await.unwrap().hits[0].id, id("fr"));
    drop(found);

    let check = async |running: &Running| {
        let view = running.news().await;
        let model = view.collection.model.unwrap();
        assert_eq!((model.fingerprint.as_str(), view.collection.dimension), ("fake-32", 32));
        assert_eq!(view.collection.passages, Some(PassageBounds::adjacent(6)));
        assert_eq!((view.counts.documents, view.counts.passages_pending), (3, 0));
        assert_eq!(view.metadata_indexes, std::slice::from_ref(&year));
        assert_eq!(running.found("news", "Gulls follow them over the grey").await[0], "long");
        assert_eq!(running.found("latest", "le marché ouvre").await[0], "fr");
        assert_eq!(running.by_words("散歩").await, ["ja"]);
        for before in &before {
            let after = running.document(before.id.as_str()).await;
            assert!(after.indexed && after.passages >= before.passages, "{after:?}");
            assert_eq!(Document { passages: before.passages, ..after }, *before);
        }
        assert!(running.document("long").await.passages > before[0].passages, "texts are cut anew");
    };
    check(&running).await;
    eventually("the old folder is gone", async || folders(folder.path()) == 1).await;
    let mark = collection_folder(folder.path()).join("deleting");
    assert!(!mark.exists(), "the new folder must not be marked for removal");
    running.shutdown().await;

    let running = open_with(folder.path(), other()).await;
    check(&running).await;
    assert_eq!(running.embedded_texts(), 2, "two queries, and no text anew");
    running.write("news", "fr", "Le marché ferme à midi.").await;
    assert!(running.document("fr").await.sequence > before.iter().map(|document| document.sequence).max().unwrap());
    running.write("news", "new", "words of the new model").await;
    assert_eq!(running.found("news", "words of the new model").await[0], "new");
    assert_eq!(running.reembed().await.unwrap_err().code(), Code::ModelCurrent);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_vectors_are_served_during_reembedding_and_changes_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    made_by_another_model(folder.path(), 300).await;
    let running = open_with(folder.path(), other()).await;
    running.control.pause();
    let job = running.reembed().await.unwrap();
    running.blocked().await;

    let like = || SearchRequest::new(SearchTarget::Like(id("d9")), 3);
    let near = ids(&running.search("news", like()).await.unwrap());
    assert_eq!(near.len(), 3);
    assert_eq!(running.by_words("w17").await, ["d17"]);
    assert_eq!(running.search("news", request("number 9", 1)).await.unwrap_err().code(), Code::ModelMismatch);
    assert_eq!(running.upsert("news", vec![document("d9", "new")], Wait::Stored).await.unwrap_err().code(), Code::ModelMismatch);
    assert_eq!(running.news().await.collection.dimension, 64);
    let again = running.reembed().await.unwrap_err();
    assert!(again.code() == Code::JobRunning && again.to_string().contains(job.id.as_str()), "{again}");
    // One from the batch in progress, and one from a later batch.
    for deleted in ["d7", "d250"] {
        running.delete("news", &id(deleted)).await.unwrap();
    }
    for changed in ["d8", "d251"] {
        running.on("news").patch(&id(changed), patch("seen", 1), Wait::Indexed, Precondition::None).await.unwrap();
    }
    running.control.resume();
    running.check_reembedded(&job.id).await;

    assert_eq!(running.news().await.counts.documents, 298);
    for gone in ["d7", "d250"] {
        assert_eq!(running.text("news", gone).await, None);
        assert!(!running.found("news", &text(gone[1..].parse().unwrap())).await.contains(&gone.to_owned()));
    }
    for changed in ["d8", "d251"] {
        assert_eq!(running.document(changed).await.metadata["seen"], 1);
    }
    for n in [0, 8, 150, 251, 299] {
        assert_eq!(running.found("news", &text(n)).await[0], format!("d{n}"));
    }
    assert!(running.embedded_texts() <= 300 + 7, "a change of metadata embeds nothing: {}", running.embedded_texts());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_survive_reembedding() {
    let folder = tempfile::tempdir().unwrap();
    made_by_another_model(folder.path(), 2_000).await;
    let running = Arc::new(open_with(folder.path(), other()).await);
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (running, over) = (Arc::clone(&running), Arc::clone(&over));
            tokio::spawn(async move {
                let (mut seen, mut deleted) = (vec![0; 50], Vec::new());
                let mut round = 0;
                while !over.load(Ordering::Acquire) {
                    round += 1;
                    for (place, seen) in seen.iter_mut().enumerate() {
                        let of = id(&format!("d{}", writer * 500 + place));
                        running
                            .on("news")
                            .patch(&of, patch(&format!("r{round}"), 1), Wait::Indexed, Precondition::None)
                            .await
                            .unwrap();
                        *seen = round;
                    }
                    // From round 5 on, counts no longer change, so only a comparison of the changes can find what is missing.
                    if round < 5 {
                        let of = id(&format!("d{}", writer * 500 + 50 + round));
                        running.delete("news", &of).await.unwrap();
                        deleted.push(of);
                    }
                }
                (writer, seen, deleted)
            })
        })
        .collect();
    let job = running.reembed().await.unwrap();
    running.check_reembedded(&job.id).await;
    over.store(true, Ordering::Release);
    let mut left = 2_000;
    for ended in writers {
        let (writer, seen, deleted) = ended.await.unwrap();
        for (place, seen) in seen.into_iter().enumerate() {
            let document = running.document(&format!("d{}", writer * 500 + place)).await;
            // Each round adds its own metadata field, so that no round can hide another's lost update.
            assert_eq!(document.metadata.len(), seen, "writer {writer}, document {place}: {:?}", document.metadata);
        }
        for deleted in &deleted {
            assert_eq!(running.text("news", deleted.as_str()).await, None);
        }
        left -= deleted.len();
    }
    let view = running.news().await;
    assert_eq!((view.counts.documents, view.counts.passages), (left as u64, left as u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_reembedding_keeps_the_old_state_and_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    made_by_another_model(folder.path(), 400).await;
    let running = open_with(folder.path(), other()).await;
    let before = running.news().await.collection;
    running.control.pause();
    let job = running.reembed().await.unwrap();
    running.blocked().await;
    assert_eq!(folders(folder.path()), 2);
    running.service.cancel_job(&job.id).await.unwrap();
    running.control.resume();
    assert_eq!(running.reembedded(&job.id).await.status, JobStatus::Canceled);
    eventually("the half-made folder is gone", async || folders(folder.path()) == 1).await;
    assert_eq!(running.news().await.collection, before);
    assert_eq!(running.by_words("w17").await, ["d17"]);
    running.shutdown().await;
    // With its own model, the server finds everything unchanged.
    let running = open(folder.path()).await;
    assert_eq!(running.found("news", &text(17)).await[0], "d17");
    running.shutdown().await;
    let running = open_with(folder.path(), other()).await;
    let job = running.reembed().await.unwrap();
    running.check_reembedded(&job.id).await;
    assert_eq!(running.found("news", &text(17)).await[0], "d17");
}

#[tokio::test(flavor = "multi_thread")]
async fn reembedding_repeats_only_a_few_batches_after_a_crash() {
    const DOCUMENTS: usize = 3_000;
    let folder = tempfile::tempdir().unwrap();
    made_by_another_model(folder.path(), DOCUMENTS).await;
    let mut running = open_with(folder.path(), other()).await;
    let job = running.reembed().await.unwrap();
    let mut embedded = 0;
    for part in 1..=3 {
        let far = async || running.service.get_job(&job.id).await.unwrap().progress.done >= part * 700;
        eventually("some documents are embedded", far).await;
        let crashes = part < 3;
        running.control.pause();
        running.blocked().await;
        embedded += running.embedded_texts();
        running.control.resume();
        if crashes {
            running.crash()
        } else {
            running.shutdown().await
        }
        running = open_with(folder.path(), other()).await;
    }
    running.check_reembedded(&job.id).await;
    embedded += running.embedded_texts();
    assert!(embedded <= DOCUMENTS + 3 * 3 * 128, "{embedded} texts were embedded; each stop may repeat at most three batches");
    assert_eq!(running.news().await.counts.documents, DOCUMENTS as u64);
    for n in (0..DOCUMENTS).step_by(250) {
        assert_eq!(running.found("news", &text(n)).await[0], format!("d{n}"));
    }
    running.shutdown().await;
    open_with(folder.path(), other()).await.shutdown().await;
    assert_eq!(folders(folder.path()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn reembedding_is_not_resumed_with_a_third_model() {
    let folder = tempfile::tempdir().unwrap();
    made_by_another_model(folder.path(), 400).await;
    let running = open_with(folder.path(), other()).await;
    running.control.pause();
    let job = running.reembed().await.unwrap();
    running.blocked().await;
    running.control.resume();
    running.crash();
    let running = open_with(folder.path(), Setting { fake: FakeOptions::of(16), ..Setting::default() }).await;
    let ended = running.reembedded(&job.id).await;
    if ended.status == JobStatus::Failed {
        let error = ended.error.unwrap();
        assert!(error.code == Code::ModelMismatch && error.detail.contains("fake-32") && error.detail.contains("fake-16"));
        eventually("the half-made folder is gone", async || folders(folder.path()) == 1).await;
        assert_eq!(running.news().await.collection.dimension, 64);
    } else {
        // The first service finished the job before it ended.
        assert_eq!(ended.status, JobStatus::Succeeded, "{ended:?}");
        assert_eq!(running.news().await.collection.dimension, 32);
    }
    let job = running.reembed().await.unwrap();
    running.check_reembedded(&job.id).await;
    assert_eq!(running.news().await.collection.dimension, 16);
    assert_eq!(running.found("news", &text(17)).await[0], "d17");
}

#[tokio::test(flavor = "multi_thread")]
async fn reembedding_does_not_revive_a_deleted_collection() {
    let folder = tempfile::tempdir().unwrap();
    made_by_another_model(folder.path(), 400).await;
    let running = open_with(folder.path(), other()).await;
    running.control.pause();
    let job = running.reembed().await.unwrap();
    running.blocked().await;
    running.service.delete_collection(&name("news")).await.unwrap();
    running.create("news").await;
    running.control.resume();
    let ended = running.reembedded(&job.id).await;
    assert_eq!((ended.status, ended.error.unwrap().code), (JobStatus::Failed, Code::CollectionNotFound));
    assert_eq!(running.news().await.counts.documents, 0);
    eventually("only the new folder is left", async || folders(folder.path()) == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_text_stays_pending_and_a_broken_model_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    made_by_another_model(folder.path(), 50).await;
    let running = open_with(folder.path(), other()).await;
    running.control.set_broken(true);
    let job = running.reembed().await.unwrap();
    assert_eq!(running.reembedded(&job.id).await.status, JobStatus::Failed);
    running.control.set_broken(false);
    assert_eq!(running.news().await.collection.dimension, 64);
    running.control.fail_on("w17");
    let job = running.reembed().await.unwrap();
    let ended = running.reembedded(&job.id).await;
    assert_eq!((ended.status, &ended.details["not_embedded"]), (JobStatus::Succeeded, &1.into()));
    let view = running.news().await;
    assert_eq!((view.collection.dimension, view.counts.documents, view.counts.passages_pending), (32, 50, 1));
    assert_eq!(running.found("news", &text(18)).await[0], "d18");
}

#[tokio::test(flavor = "multi_thread")]
async fn reembedding_splits_texts_by_the_requested_bounds() {
    let (folder, running) = news().await;
    running.write("news", "a", "One two three four. Five six seven eight. Nine ten eleven twelve.").await;
    running.shutdown().await;
    let running = open_with(folder.path(), Setting { fake: FakeOptions::of(32), ..Setting::default() }).await;
    let bounds = PassageBounds { tokens_max: 4, overlap_tokens: 0 };
    let job = running.on("news").reembed(Some(bounds)).await.unwrap();
    running.check_reembedded(&job.id).await;
    let view = running.news().await;
    assert_eq!((view.collection.passages, view.counts.passages), (Some(bounds), 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_model_reembeds_only_for_different_bounds() {
    let (_folder, running) = news().await;
    running.write("news", "a", "One two three four. Five six seven eight. Nine ten eleven twelve.").await;
    let bounds = PassageBounds { tokens_max: 4, overlap_tokens: 0 };
    let job = running.on("news").reembed(Some(bounds)).await.unwrap();
    running.check_reembedded(&job.id).await;
    let view = running.news().await;
    assert_eq!((view.collection.passages, view.counts.passages), (Some(bounds), 3));
    assert_eq!(running.found("news", "Five six seven eight.").await, ["a"]);
    for same in [None, Some(bounds)] {
        assert_eq!(running.on("news").reembed(same).await.unwrap_err().code(), Code::ModelCurrent);
    }
    let overlapping = PassageBounds { overlap_tokens: 2, ..bounds };
    let job = running.on("news").reembed(Some(overlapping)).await.unwrap();
    running.check_reembedded(&job.id).await;
    assert_eq!(running.news().await.collection.passages, Some(overlapping));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_waits_during_a_reembedding_is_stored() {
    let (folder, running) = news_with(one_job_at_a_time()).await;
    running.write("news", "a", "One two three four. Five six seven eight.").await;
    running.control.pause();
    let bounds = PassageBounds { tokens_max: 4, overlap_tokens: 0 };
    let reembedding = running.on("news").reembed(Some(bounds)).await.unwrap();
    running.control.wait_until_blocked();
    let import = running.import_one("news").await;
    running.control.resume();
    running.check_reembedded(&reembedding.id).await;
    let imported = running.reembedded(&import.id).await;
    assert_eq!((imported.status, imported.error, &imported.details["created"]), (JobStatus::Succeeded, None, &1.into()));
    assert_eq!(running.news().await.counts.documents, 2);
    drop(folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_accepted_at_the_moment_of_a_swap_is_stored() {
    let (_folder, running) = news().await;
    running.write("news", "a", "One two three four. Five six seven eight.").await;
    let mut imports = Vec::new();
    for round in 0..6 {
        let bounds = PassageBounds { tokens_max: 4 + round % 2, overlap_tokens: 0 };
        let reembedding = running.on("news").reembed(Some(bounds)).await.unwrap();
        while !running.service.get_job(&reembedding.id).await.unwrap().status.is_finished() {
            imports.push(running.import_one("news").await);
            // The queue of jobs must not become full.
            let pause = if imports.len() < 40 { 2 } else { 50 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        running.check_reembedded(&reembedding.id).await;
        for import in imports.drain(..) {
            let imported = running.reembedded(&import.id).await;
            assert_eq!((imported.status, imported.error), (JobStatus::Succeeded, None));
        }
    }
}

#[tokio::test]
async fn reembedding_a_collection_without_a_model_is_refused() {
    let (_folder, running) = fresh().await;
    let new = NewCollection { source: NewSource::OwnVectors(3), ..NewCollection::new(name("points")) };
    running.service.create_collection(new, None).await.unwrap();
    let refused = running.on("points").reembed(None).await.unwrap_err();
    assert_eq!(refused.code(), Code::NoModel);
    let absent = running.service.collection(&name("absent")).err().unwrap();
    assert_eq!(absent.code(), Code::CollectionNotFound);
}
