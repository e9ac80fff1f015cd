//! From a checked document to a searchable one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use super::runtime::{OpenCollection, Reservation};
use super::worker::{embed_passages, store_embeddings};
use super::{Error, Service, State, priority};
use crate::domain::{Code, CollectionName, DocumentId, NewDocument, UpsertOutcome, UpsertStatus, Wait};
use crate::store::{PreparedDocument, Upserted};

/// Passages of one request that wait for the encoder at once: a large request leaves room in the queue for others.
const PASSAGES_PER_SUBMISSION: usize = 128;

impl Service {
    /// Stores documents and makes them searchable. Answers one outcome per document, in order.
    ///
    /// Rows commit before the index changes: the index can be rebuilt from rows, rows never from the index. A crash in
    /// between leaves documents that exist but cannot be found until the next start has embedded them. With `Wait::Indexed`
    /// the request is refused before anything is stored when the encoder's queue is full or the collection is still
    /// recovering; a failure after that is `Error::NotIndexed`: everything is stored, and the background worker makes it
    /// searchable. Sending the same ids again replaces them, so a caller may repeat a request in any case.
    pub async fn upsert(
        &self,
        name: &CollectionName,
        documents: Vec<NewDocument>,
        wait: Wait,
    ) -> Result<Vec<UpsertOutcome>, Error> {
        let collection = self.collection(name)?;
        self.check_running()?;
        collection.check_model(self.model())?;
        if wait == Wait::Indexed {
            collection.index()?;
            self.check_encoder()?;
        }
        let bounds = self.enter_write(&collection).await?;
        let state = Arc::clone(&self.state);
        let stored = self.on_collection(&collection, move |collection| {
            let _bounds = bounds;
            store(&state, collection, documents, wait)
        });
        let stored = stored.await?;
        if wait == Wait::Indexed {
            let indexed = self.index_now(&collection, stored.pending.as_ref()).await;
            if collection.is_deleted() {
                return Err(Error::CollectionNotFound { name: name.clone() });
            }
            indexed.map_err(|source| Error::NotIndexed(Box::new(source)))?;
        }
        Ok(stored.outcomes)
    }

    /// Waits for a thread to write on, or refuses when too many wait for this collection already. What it gives must live as
    /// long as the write.
    pub(super) async fn enter_write(&self, collection: &OpenCollection) -> Result<WriteBounds, Error> {
        let limit = self.state.limits.write_queue_max;
        let slot = Arc::clone(&collection.write_slots)
            .try_acquire_owned()
            .map_err(|_| Error::WritesWaiting { collection: collection.row.name.clone(), limit })?;
        let thread = Arc::clone(&self.state.write_threads).acquire_owned().await.map_err(|_| Error::Stopping)?;
        Ok(WriteBounds { _slot: slot, _thread: thread })
    }

    /// Refuses work while the server stops.
    pub(super) fn check_running(&self) -> Result<(), Error> {
        if self.state.stopping.load(Ordering::Acquire) { Err(Error::Stopping) } else { Ok(()) }
    }

    /// Refuses to store what the encoder has no room for anyway.
    fn check_encoder(&self) -> Result<(), Error> {
        let waiting = self.state.embedder.queue_depth();
        let limit = self.state.limits.embed_queue_texts_max;
        if waiting >= limit { Err(Error::EncoderBusy { waiting, limit }) } else { Ok(()) }
    }

    /// Embeds the request's own passages, without waiting for the worker's backlog, and makes them searchable. Without any it
    /// takes over what is embedded already: the worker may be about to.
    async fn index_now(&self, collection: &Arc<OpenCollection>, pending: Option<&Reservation>) -> Result<(), Error> {
        let Some(pending) = pending else {
            return self.on_collection(collection, |collection| collection.apply_changes()).await;
        };
        let priority = priority(pending.passages.len());
        for part in pending.passages.chunks(PASSAGES_PER_SUBMISSION) {
            let embedded = embed_passages(&self.state.embedder, part, priority).await?;
            self.on_collection(collection, move |collection| store_embeddings(collection, embedded)).await?;
        }
        Ok(())
    }
}

/// A write's place among the bounded ones; dropping it makes room for another.
pub(super) struct WriteBounds {
    _slot: OwnedSemaphorePermit,
    _thread: OwnedSemaphorePermit,
}

/// What a request's transaction left to do.
struct Stored {
    outcomes: Vec<UpsertOutcome>,
    /// What the request embeds itself, when it waits for that.
    pending: Option<Reservation>,
}

/// Prepares and stores documents. Blocks until they are durable. From the commit on the passages are reserved or the worker
/// is awake, so that nothing is forgotten when the caller goes away.
fn store(state: &State, collection: &Arc<OpenCollection>, documents: Vec<NewDocument>, wait: Wait) -> Result<Stored, Error> {
    let mut prepared = Vec::with_capacity(documents.len());
    let mut refused = Vec::new();
    let mut places: HashMap<DocumentId, usize> = HashMap::with_capacity(documents.len());
    for (place, document) in documents.into_iter().enumerate() {
        let id = match &document.id {
            Some(id) => id.clone(),
            None => new_id()?,
        };
        if let Some(first) = places.get(&id) {
            let detail = format!("document id {:?} occurs twice in this request, first at position {first}", id.as_str());
            refused.push((place, failed(id, Code::InvalidRequest, detail)));
            continue;
        }
        places.insert(id.clone(), place);
        match prepare(state, id.clone(), document) {
            Ok(document) => prepared.push(document),
            Err(error) => refused.push((place, failed(id, error.code(), error.to_string()))),
        }
    }
    let ids: Vec<DocumentId> = prepared.iter().map(|document| document.id.clone()).collect();
    let upserted = if prepared.is_empty() { Vec::new() } else { collection.store.upsert(prepared)? };
    let mut pending = Vec::new();
    let mut outcomes: Vec<UpsertOutcome> = Vec::with_capacity(ids.len() + refused.len());
    for (id, upserted) in ids.into_iter().zip(upserted) {
        let Upserted { created, pending: unembedded, .. } = upserted;
        pending.extend(unembedded);
        let status = if created { UpsertStatus::Created } else { UpsertStatus::Updated };
        outcomes.push(UpsertOutcome { id: Some(id), status });
    }
    // Ascending places: each insertion finds everything before it already in its place.
    for (place, outcome) in refused {
        outcomes.insert(place, outcome);
    }
    let pending = match wait {
        Wait::Indexed if !pending.is_empty() => Some(collection.reserve(pending)),
        Wait::Indexed | Wait::Stored => {
            collection.wake.notify_one();
            None
        }
    };
    Ok(Stored { outcomes, pending })
}

/// Finds the language when the caller gave none, and the passages.
fn prepare(state: &State, id: DocumentId, document: NewDocument) -> Result<PreparedDocument, Error> {
    let NewDocument { text, language, metadata, .. } = document;
    let detected = if language.is_none() { state.embedder.detect(&text) } else { None };
    let passages = state.embedder.split(&text)?;
    Ok(PreparedDocument {
        id,
        language: language.or(detected.map(|detected| detected.language)),
        language_confidence: detected.map(|detected| detected.confidence),
        text,
        metadata,
        passages,
    })
}

fn failed(id: DocumentId, code: Code, detail: String) -> UpsertOutcome {
    UpsertOutcome { id: Some(id), status: UpsertStatus::Failed { code, detail } }
}

/// Makes an id for a document that came without one; later ones sort after earlier ones.
fn new_id() -> Result<DocumentId, Error> {
    Ok(DocumentId::parse(&Uuid::now_v7().to_string())?)
}
