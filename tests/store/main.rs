//! The contract of `DocumentStore`, through its public methods: what a method answers, what a restart leaves, what damage does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bits;
mod changes;
mod clock;
mod damage;
mod documents;
mod expiry;
mod filters;
mod lexical;
mod open_databases;
mod restart;
mod stems;
#[path = "../support/stored.rs"]
mod stored;
mod titles;
mod torn_log;

use std::sync::LazyLock;

use dragoman::domain::{Document, DocumentPatch, Embedding, PassageId, Precondition};
use dragoman::embed::passage_terms;
use dragoman::store::{
    Deleted, DocumentStore, PatchOutcome, PendingPassage, PreparedDocument, ResplitText, StoreOptions, TermsOf, Upserted,
};
use tempfile::TempDir;

use stored::{cut, document, embedding, id, keys, language};

static OPTIONS: LazyLock<StoreOptions> = LazyLock::new(|| StoreOptions {
    power_safe: false,
    write_queue_max: 1_024,
    readers_max: 4,
    terms_of: terms_of(),
    slots: None,
});

/// Computes terms without a model's vocabulary.
fn terms_of() -> TermsOf {
    TermsOf::new(|text, language| passage_terms(text, language, |_| true))
}

/// An empty store in its own folder.
fn store() -> (TempDir, DocumentStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
    (folder, store)
}

/// Stores one document.
fn put(store: &DocumentStore, document: PreparedDocument) -> Upserted {
    store.upsert_if(vec![document], Precondition::None).unwrap().remove(0)
}

fn delete(store: &DocumentStore, name: &str) -> Deleted {
    store.delete_if(&id(name), Precondition::None).unwrap().unwrap()
}

/// Embeds every waiting passage, each with a different embedding.
fn embed(store: &DocumentStore, pending: &[PendingPassage]) -> Vec<(PassageId, Embedding)> {
    let embeddings = pending.iter().map(|passage| (passage.id, embedding(passage.id.0 as f32))).collect();
    store.set_embeddings(embeddings).unwrap()
}

/// Patches an existing document; if its title changes, the text is split again.
fn patched(store: &DocumentStore, name: &str, patch: DocumentPatch, resplit: Option<ResplitText>) -> Document {
    match store.patch(&id(name), patch, resplit, Precondition::None).unwrap() {
        PatchOutcome::Done(document, _) => *document,
        other => unreachable!("{name} is patched, not {other:?}"),
    }
}
