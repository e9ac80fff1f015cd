//! One collection's documents, passages and embeddings: one writer with group commit, many readers.

use std::path::{Path, PathBuf};

use super::connection::open_writer;
use super::migrate::COLLECTION;
use super::readers::Readers;
use super::writer::Writer;
use super::{StoreError, mutations, queries};
use crate::domain::{
    CollectionCounts, Document, DocumentId, DocumentPage, Embedding, Equals, Language, Metadata, Page, Passage, PassageId,
    Sequence,
};

/// How a collection's database is opened.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Whether an acknowledged write survives power loss (synchronous = full) or only a crash of the process.
    pub power_safe: bool,
    /// Write requests that may wait; more get `StoreError::WriteQueueFull`.
    pub write_queue_max: usize,
    /// Connections kept open for reading.
    pub readers_max: usize,
}

/// A document ready to be stored: checked, its language known, cut into passages.
#[derive(Debug, Clone)]
pub struct PreparedDocument {
    /// The id, given or made.
    pub id: DocumentId,
    /// The text.
    pub text: String,
    /// The language, given or detected.
    pub language: Option<Language>,
    /// `None` when the caller gave the language.
    pub language_confidence: Option<f32>,
    /// The metadata.
    pub metadata: Metadata,
    /// Byte ranges in `text`, in order; never empty.
    pub passages: Vec<std::ops::Range<usize>>,
}

/// What the store did with one document.
#[derive(Debug, Clone, PartialEq)]
pub struct Upserted {
    /// Whether the id was new.
    pub created: bool,
    /// The change's place in the sequence.
    pub sequence: Sequence,
    /// Passages that have no embedding yet. When the text did not change, the old embeddings stay, and these are the passages
    /// that still waited. Empty when a later document of the same call has the same id.
    pub pending: Vec<PendingPassage>,
    /// Passages of the old version that are gone.
    pub removed: Vec<PassageId>,
}

/// What the store removed.
#[derive(Debug, Clone, PartialEq)]
pub struct Deleted {
    /// The change's place in the sequence.
    pub sequence: Sequence,
    /// Passages that are gone.
    pub removed: Vec<PassageId>,
}

/// A passage that waits for its embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingPassage {
    /// Its key.
    pub id: PassageId,
    /// Its text.
    pub text: String,
}

/// One change of the index's content, read back after a restart.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// This passage has this embedding.
    Embedded(PassageId, Embedding),
    /// This passage is gone.
    Removed(PassageId),
}

/// What a search demands of a document beside nearness.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchFilter {
    /// Empty means all.
    pub languages: Vec<Language>,
    /// All must hold.
    pub equals: Vec<Equals>,
}

/// A passage with its document, as a hit needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct PassageRow {
    /// The passage.
    pub passage: Passage,
    /// Its document.
    pub document: Document,
}

/// One collection's database. Cheap to share behind an `Arc`; calls block until done (writes: until durable). After `close`,
/// every call gets `StoreError::Closed`. Dropping it closes it.
pub struct DocumentStore {
    database: PathBuf,
    readers: Readers,
    writer: Writer,
}

impl DocumentStore {
    /// Opens or creates `documents.sqlite` in `folder`, migrates it and starts its writer thread.
    pub fn open(folder: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        let database = folder.join("documents.sqlite");
        let connection = open_writer(&database, &COLLECTION, options.power_safe)?;
        let writer = Writer::start(connection, options.write_queue_max)?;
        Ok(Self { readers: Readers::new(database.clone(), options.readers_max), database, writer })
    }

    /// Stores documents, all or none, in one transaction that may hold other callers' writes too. A document with the same
    /// text as before, cut into the same passages, keeps them with their embeddings. Gives one outcome per document, in order;
    /// an id that comes twice is created, then updated.
    pub fn upsert(&self, documents: Vec<PreparedDocument>) -> Result<Vec<Upserted>, StoreError> {
        self.writer.write("storing documents", move |transaction| mutations::upsert(transaction, &documents))
    }

    /// Removes a document; `None` when there is none.
    pub fn delete(&self, id: &DocumentId) -> Result<Option<Deleted>, StoreError> {
        let id = id.clone();
        self.writer.write("deleting a document", move |transaction| mutations::delete(transaction, &id))
    }

    /// Stores embeddings of passages. Gives those that were stored; passages that are gone meanwhile are left out. Waits for a
    /// place in the write queue when that is full.
    pub fn set_embeddings(&self, embeddings: Vec<(PassageId, Embedding)>) -> Result<Vec<(PassageId, Embedding)>, StoreError> {
        self.writer.write_patiently("storing embeddings", move |transaction| mutations::set_embeddings(transaction, embeddings))
    }

    /// Reads a document.
    pub fn get(&self, id: &DocumentId) -> Result<Option<Document>, StoreError> {
        self.readers.read("reading a document", |connection| queries::get(connection, id))
    }

    /// Reads a page of documents in the order of their ids.
    pub fn list(&self, page: &Page<DocumentId>) -> Result<DocumentPage, StoreError> {
        self.readers.read("listing documents", |connection| queries::list(connection, page))
    }

    /// Reads passages with their documents, in the order of `ids`; those that are gone are left out.
    pub fn passages(&self, ids: &[PassageId]) -> Result<Vec<PassageRow>, StoreError> {
        self.readers.read("reading passages", |connection| queries::passages(connection, ids))
    }

    /// Counts the documents that match, stopping at `limit`.
    pub fn count_matching(&self, filter: &SearchFilter, limit: usize) -> Result<usize, StoreError> {
        self.readers.read("counting documents", |connection| queries::count_matching(connection, filter, limit))
    }

    /// Reads the embedded passages of all documents that match, for exact scoring of a selective filter.
    pub fn matching_embeddings(&self, filter: &SearchFilter) -> Result<Vec<(PassageId, Embedding)>, StoreError> {
        self.readers.read("reading embeddings", |connection| queries::matching_embeddings(connection, filter))
    }

    /// Of `ids`, keeps those whose document matches, in order. A passage that is gone has no document.
    pub fn keep_matching(&self, filter: &SearchFilter, ids: &[PassageId]) -> Result<Vec<PassageId>, StoreError> {
        self.readers.read("filtering passages", |connection| queries::keep_matching(connection, filter, ids))
    }

    /// Reads passages without embedding with a key above `after`, in the order of keys, at most `limit`.
    pub fn pending(&self, after: PassageId, limit: usize) -> Result<Vec<PendingPassage>, StoreError> {
        self.readers.read("reading passages without embedding", |connection| queries::pending(connection, after, limit))
    }

    /// The last change's place in the sequence. Some numbers before it belong to no change of the index's content.
    pub fn sequence(&self) -> Result<Sequence, StoreError> {
        self.readers.read("reading the sequence", queries::sequence)
    }

    /// Reads changes of the index's content after `after` in the order of the sequence, at most `limit`, each with its own
    /// place. A passage that was embedded again stands at its last place; one that is gone, only at its removal.
    /// `StoreError::ChangesForgotten` when removals after `after` were forgotten and `after` is not zero.
    pub fn changes(&self, after: Sequence, limit: usize) -> Result<Vec<(Sequence, Change)>, StoreError> {
        self.readers.read("reading changes", |connection| queries::changes(connection, after, limit))
    }

    /// Reads all embedded passages with a key above `after`, in the order of keys, at most `limit`: to rebuild the index.
    pub fn embeddings(&self, after: PassageId, limit: usize) -> Result<Vec<(PassageId, Embedding)>, StoreError> {
        self.readers.read("reading embeddings", |connection| queries::embeddings(connection, after, limit))
    }

    /// Forgets removals up to `sequence`, which the saved index has taken in. Call it only after the save is durable. Waits for
    /// a place in the write queue when that is full.
    pub fn forget_removals(&self, sequence: Sequence) -> Result<(), StoreError> {
        self.writer.write_patiently("forgetting removals", move |transaction| mutations::forget_removals(transaction, sequence))
    }

    /// Counts what the collection holds. `disk_bytes` is the database's part.
    pub fn counts(&self) -> Result<CollectionCounts, StoreError> {
        let counts = self.readers.read("counting", queries::counts)?;
        // The log file comes and goes with checkpoints.
        let bytes = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
        let disk_bytes = bytes(&self.database) + bytes(&self.database.with_extension("sqlite-wal"));
        Ok(CollectionCounts { disk_bytes, ..counts })
    }

    /// Answers the writes that wait, checkpoints and closes.
    pub fn close(&self) -> Result<(), StoreError> {
        // Readers first: the checkpoint cannot pass a read that still runs.
        self.readers.close();
        self.writer.close()
    }
}
