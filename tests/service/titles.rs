//! Titles and headings through the service: which texts are embedded, and how a collection split by older rules is upgraded.

use std::path::Path;

use dragoman::domain::{
    Code, CollectionView, DocumentPatch, JobStatus, Limits, Metadata, NewDocument, Precondition, SearchMode, SearchRequest, Wait,
};
use dragoman::embed::FakeOptions;
use rusqlite::Connection;

use crate::{Running, Setting, document, eventually, id, ids, name, news, open, open_with, request};

const HARBOR: &str = "The boats leave at dawn.";

fn titled(of: &str, title: &str, text: &str) -> NewDocument {
    NewDocument { title: Some(title.to_owned()), ..document(of, text) }
}

fn titles(title: Option<Option<String>>) -> DocumentPatch {
    DocumentPatch { title, ..Limits::default().metadata_patch(Metadata::new()) }
}

impl Running {
    async fn by_title(&self, word: &str) -> Vec<String> {
        ids(&self.search("news", SearchRequest { mode: SearchMode::Lexical, ..request(word, 10) }).await.unwrap())
    }

    async fn retitle(&self, title: Option<Option<String>>, wait: Wait) {
        self.on("news").patch(&id("harbor"), titles(title), wait, Precondition::None).await.unwrap();
    }

    async fn view(&self) -> CollectionView {
        self.service.get_collection(&name("news")).await.unwrap()
    }

    /// The score of the document `harbor` for a query.
    async fn score(&self, query: &str) -> f32 {
        self.hits("news", query).await.iter().find(|hit| hit.id == id("harbor")).map(|hit| hit.score).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_embeds_a_passage_like_a_waiting_request() {
    let (_folder, running) = news().await;
    let harbor = || titled("harbor", "Fishing in Lervik", HARBOR);
    running.upsert("news", vec![harbor()], Wait::Indexed).await.unwrap();
    let query = "Fishing in Lervik The boats leave at dawn";
    let waited = running.score(query).await;
    assert!(waited > 0.999, "title and text are embedded together: {waited}");
    running.delete("news", &id("harbor")).await.unwrap();
    running.upsert("news", vec![harbor()], Wait::Stored).await.unwrap();
    eventually("the worker has embedded it", async || running.view().await.counts.passages_pending == 0).await;
    assert!((running.score(query).await - waited).abs() < 1e-6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_uses_at_most_a_quarter_of_the_model_input() {
    let (_folder, running) = news().await;
    let text = "One two three four five six seven eight nine ten eleven twelve.";
    running.upsert("news", vec![titled("harbor", "a b c d e f g h", text)], Wait::Indexed).await.unwrap();
    assert_eq!(running.view().await.counts.passages, 1, "4 tokens of the title and 12 of the text are 16");
    assert!(running.score(&format!("a b c d {text}")).await > 0.999);
    assert_eq!(running.by_title("h").await, ["harbor"], "all words of a title count in a search by words");
    let longer = "One two three four five six seven. Eight nine ten eleven twelve thirteen.";
    running.upsert("news", vec![titled("harbor", "a b c d e f g h", longer)], Wait::Indexed).await.unwrap();
    assert_eq!(running.view().await.counts.passages, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_changed_title_is_embedded_again() {
    let (_folder, running) = news().await;
    running.upsert("news", vec![document("harbor", HARBOR)], Wait::Indexed).await.unwrap();
    let batches = || running.control.batches().len();
    let before = batches();
    running.retitle(Some(Some("Lervik".to_owned())), Wait::Indexed).await;
    assert_eq!(batches(), before + 1);
    running.retitle(Some(Some("Lervik".to_owned())), Wait::Indexed).await;
    running.upsert("news", vec![titled("harbor", "Lervik", HARBOR)], Wait::Indexed).await.unwrap();
    assert_eq!(batches(), before + 1);
    running.retitle(Some(None), Wait::Stored).await;
    eventually("the worker has embedded it", async || running.view().await.counts.passages_pending == 0).await;
    assert_eq!(batches(), before + 2);
    assert!(running.by_title("lervik").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_cannot_be_changed_in_a_collection_of_another_model() {
    let (folder, running) = news().await;
    running.upsert("news", vec![titled("harbor", "Lervik", HARBOR)], Wait::Indexed).await.unwrap();
    running.shutdown().await;
    let running = open_with(folder.path(), Setting { fake: FakeOptions::of(32), ..Setting::default() }).await;
    let patch = async |title| {
        let (news, harbor) = (name("news"), id("harbor"));
        running.service.collection(&news).unwrap().patch(&harbor, titles(title), Wait::Indexed, Precondition::None).await
    };
    assert_eq!(patch(Some(None)).await.unwrap_err().code(), Code::ModelMismatch);
    assert_eq!(patch(None).await.unwrap().title.as_deref(), Some("Lervik"));
    let job = running.on("news").reembed(None).await.unwrap();
    let over = async || running.service.get_job(&job.id).await.unwrap().status == JobStatus::Succeeded;
    eventually("the collection has the other model", over).await;
    assert_eq!(running.by_title("lervik").await, ["harbor"]);
    assert!(running.score("Lervik The boats leave at dawn").await > 0.999);
}

const SECTIONS: &str = "# Lervik\n\nThe boats leave at dawn every day.\n\n## Ferries\n\nTwo boats carry cars to the islands.";

/// Marks a collection as split by an older version's rules.
pub fn cut_by_older_rules(folder: &Path) {
    for entry in std::fs::read_dir(folder.join("collections")).unwrap() {
        let connection = Connection::open(entry.unwrap().path().join("documents.sqlite")).unwrap();
        connection.execute_batch("update state set cutting_rules = 1").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_split_by_older_rules_keeps_working_and_can_be_reembedded() {
    let (folder, running) = news().await;
    running.upsert("news", vec![document("harbor", HARBOR), document("sections", SECTIONS)], Wait::Indexed).await.unwrap();
    let current = running.on("news").reembed(None).await.unwrap_err();
    assert_eq!(current.code(), Code::ModelCurrent);
    running.shutdown().await;
    cut_by_older_rules(folder.path());

    let running = open(folder.path()).await;
    assert!(running.view().await.counts.cut_by_older_rules);
    assert_eq!(running.found("news", HARBOR).await[0], "harbor");
    assert_eq!(running.control.batches().len(), 1, "one query, and no text anew");
    let job = running.on("news").reembed(None).await.unwrap();
    running.upsert("news", vec![titled("late", "Ferries", "Two boats a day.")], Wait::Indexed).await.unwrap();
    let over = async || running.service.get_job(&job.id).await.unwrap().status == JobStatus::Succeeded;
    eventually("the collection has come over", over).await;
    let view = running.view().await;
    assert_eq!((view.counts.documents, view.counts.cut_by_older_rules), (3, false));
    assert_eq!(running.by_title("ferries").await.len(), 2);
    assert_eq!(running.found("news", HARBOR).await[0], "harbor");
    let again = running.on("news").reembed(None).await.unwrap_err();
    assert_eq!(again.code(), Code::ModelCurrent);
}
