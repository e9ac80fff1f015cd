//! Stores checked documents and makes them searchable.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::OwnedRwLockReadGuard;

use super::idempotency;
use super::input::{InvalidDocument, UpsertOutcome};
use crate::domain::{
    Code, Collection, DocumentId, Embedding, NewDocument, PassageBounds, Precondition, RequestKey, UpsertedDocument, Wait,
};
use crate::embed::{PreparedText, Tokens};
use crate::new_id::new_uuid;
use crate::service::embedding::{embed_passages, embed_tokens, priority};
use crate::service::error::Error;
use crate::service::handle::CollectionHandle;
use crate::service::open_collection::OpenCollection;
use crate::service::open_collection::reservation::Reservation;
use crate::service::open_collection::worker::store_embeddings;
use crate::service::open_collection::write_slots::WriteSlot;
use crate::service::state::{Service, State};
use crate::store::{Idempotent, PendingPassage, PreparedDocument, StoreError, Upserted};

/// Maximum number of a request's passages in the encoder's queue at once, so that a large request leaves room for others.
const PASSAGES_PER_SUBMISSION: usize = 128;

/// How long a repeated request waits for the embeddings of the first one.
const REPEAT_WAIT_MAX: Duration = Duration::from_secs(30);
/// Pause between two of its checks.
const REPEAT_PAUSE: Duration = Duration::from_millis(20);

impl CollectionHandle {
    /// Stores documents and makes them searchable. Returns one outcome per document, in order. `documents` includes those that
    /// validation already refused. With a key, a repeated request stores nothing and returns the outcomes of the first
    /// one; a request that stored nothing leaves no record.
    ///
    /// Rows commit before the index changes, because the index can be rebuilt from rows, but rows never from the index. A crash
    /// in between leaves documents that exist but cannot be found until the next start has embedded them. With `Wait::Indexed`
    /// the request is refused before anything is stored if the encoder's queue is full or the collection is still recovering. A
    /// later failure is `Error::NotIndexed`: everything is stored, and the background worker makes it searchable. Sending the
    /// same ids again replaces the documents, so a caller may always repeat a request.
    pub async fn upsert(
        &self,
        documents: Vec<Result<NewDocument, InvalidDocument>>,
        wait: Wait,
        key: Option<RequestKey>,
    ) -> Result<Vec<UpsertOutcome>, Error> {
        let condition = key.map_or(WriteCondition::Precondition(Precondition::None), WriteCondition::Once);
        self.upsert_if(documents, wait, condition).await
    }

    /// Stores one document if the precondition holds for the stored document with its id.
    pub async fn put(&self, document: NewDocument, wait: Wait, precondition: Precondition) -> Result<UpsertOutcome, Error> {
        let outcomes = self.upsert_if(vec![Ok(document)], wait, WriteCondition::Precondition(precondition)).await?;
        outcomes.into_iter().next().ok_or(Error::EncoderAnswers { expected: 1, got: 0 })
    }

    /// Like `upsert`, but stores nothing unless the conditions hold for every document.
    async fn upsert_if(
        &self,
        documents: Vec<Result<NewDocument, InvalidDocument>>,
        wait: Wait,
        condition: WriteCondition,
    ) -> Result<Vec<UpsertOutcome>, Error> {
        self.service.check_running()?;
        if let Some(outcomes) = self.outcomes_without_write(&documents, wait, &condition).await? {
            return Ok(outcomes);
        }
        let caller = Arc::new(());
        let mut request = Request { documents, wait, condition, caller: Arc::downgrade(&caller) };
        let (collection, stored) = loop {
            self.check_can_embed(wait)?;
            let (collection, guards) = self.begin_write().await?;
            let state = Arc::clone(&self.service.state);
            let again = collection.is_shared().then(|| request.clone());
            let storing = collection.run_on(Some(&self.service.state.write_pool), move |collection| {
                let _guards = guards;
                store(&state, collection, request)
            });
            match (storing.await, again) {
                (Err(Error::Store(StoreError::Replaced)), Some(again)) => {
                    self.service.state.find_replacement(&collection).await?;
                    request = again;
                }
                (stored, _) => break (collection, stored?),
            }
        };
        drop(caller);
        if wait == Wait::Indexed {
            self.service.wait_until_embedded(&collection, stored.awaited).await?;
            self.wait_until_indexed(&collection, stored.pending.as_ref()).await?;
        }
        Ok(stored.outcomes)
    }

    pub(super) async fn wait_until_indexed(
        &self,
        collection: &Arc<OpenCollection>,
        pending: Option<&Reservation>,
    ) -> Result<(), Error> {
        let indexed = self.service.index_now(collection, pending).await;
        if collection.is_deleted() {
            return Err(Error::CollectionNotFound { name: self.name.clone() });
        }
        indexed.map_err(|source| Error::NotIndexed(Box::new(source)))
    }

    /// Returns the outcomes of a request that needs no write: its documents are all refused already, or it was executed before
    /// and the collection belongs to another model now. Other refusals are temporary, and a retry also waits for its embeddings.
    async fn outcomes_without_write(
        &self,
        documents: &[Result<NewDocument, InvalidDocument>],
        wait: Wait,
        condition: &WriteCondition,
    ) -> Result<Option<Vec<UpsertOutcome>>, Error> {
        let refusals: Option<Vec<UpsertOutcome>> =
            documents.iter().map(|document| document.as_ref().err().cloned().map(Err)).collect();
        let is_of_other_model = || self.check_can_embed(wait).is_err_and(|error| error.code() == Code::ModelMismatch);
        if !matches!(condition, WriteCondition::Once(_)) || refusals.is_none() && !is_of_other_model() {
            return Ok(refusals);
        }
        let (condition, count) = (condition.clone(), documents.len());
        let before = self.open().run(move |collection| replay(collection, &condition, wait, count)).await?;
        Ok(before.map(|stored| stored.outcomes).or(refusals))
    }

    /// Refuses a write with texts if the collection belongs to another model. If the write waits for embeddings, also refuses
    /// it while the encoder's queue is full or the index is recovering.
    pub(crate) fn check_can_embed(&self, wait: Wait) -> Result<(), Error> {
        let collection = self.open();
        collection.check_model(self.service.model())?;
        if wait == Wait::Indexed {
            collection.check_ready()?;
            if collection.row.model.is_some() {
                self.service.check_encoder()?;
            }
        }
        Ok(())
    }

    /// Runs a write on the collection, or on its replacement. If another server replaces the collection in the meantime,
    /// nothing is written, and the write runs again on the replacement. Also returns the collection that was written to.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        write: impl Fn(&Arc<OpenCollection>) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<(Arc<OpenCollection>, T), Error> {
        let write = Arc::new(write);
        loop {
            let (collection, guards) = self.begin_write().await?;
            let (state, writing) = (Arc::clone(&self.service.state), Arc::clone(&write));
            let written = collection.run_on(Some(&self.service.state.write_pool), move |collection| {
                let _guards = guards;
                state.check_directory()?;
                writing(collection)
            });
            match written.await {
                Err(Error::Store(StoreError::Replaced)) => self.service.state.find_replacement(&collection).await?,
                written => return Ok((collection, written?)),
            }
        }
    }

    /// Waits until a write may block a thread, or fails if too many writes of the collection are waiting. Returns the collection,
    /// or the one that has replaced it, and guards to hold during the write.
    async fn begin_write(&self) -> Result<(Arc<OpenCollection>, WriteGuards), Error> {
        let state = &self.service.state;
        let (collection, writes) = loop {
            let collection = state.current_collection(&self.found)?;
            let writes = Arc::clone(&collection.writes).read_owned().await;
            if collection.replacement.get().is_none() && !collection.is_restored_over() {
                break (collection, writes);
            }
        };
        let slot = collection.write_slots.acquire(&collection.row.name, &state.write_threads).await?;
        Ok((collection, WriteGuards { _slot: slot, _writes: writes }))
    }
}

impl Service {
    pub(crate) fn check_running(&self) -> Result<(), Error> {
        self.state.check_running()
    }

    /// Refuses a request before anything is stored if the encoder's queue is full.
    fn check_encoder(&self) -> Result<(), Error> {
        let waiting = self.state.embedder.passages_waiting();
        let limit = self.state.limits.embed_queue_texts_max;
        if waiting >= limit { Err(Error::EncoderBusy { waiting, limit }) } else { Ok(()) }
    }

    /// Waits until documents that an earlier request with the same idempotency key stored are embedded.
    async fn wait_until_embedded(&self, collection: &Arc<OpenCollection>, ids: Vec<DocumentId>) -> Result<(), Error> {
        let (mut ids, deadline) = (ids, Instant::now() + REPEAT_WAIT_MAX);
        while !ids.is_empty() {
            let find = move |collection: &Arc<OpenCollection>| {
                let mut rest = Vec::new();
                for id in ids {
                    if collection.store.get(&id)?.is_some_and(|document| !document.indexed) {
                        rest.push(id);
                    }
                }
                Ok(rest)
            };
            ids = self.state.current_collection(collection)?.run(find).await?;
            if !ids.is_empty() && Instant::now() >= deadline {
                return Err(Error::StillIndexing);
            }
            self.check_running()?;
            tokio::time::sleep(if ids.is_empty() { Duration::ZERO } else { REPEAT_PAUSE }).await;
        }
        Ok(())
    }

    /// Embeds the request's own passages, ahead of the worker's backlog, and makes them searchable. If the request has none,
    /// only applies what the worker has embedded but not yet applied to the index.
    pub(crate) async fn index_now(&self, collection: &Arc<OpenCollection>, pending: Option<&Reservation>) -> Result<(), Error> {
        let Some(pending) = pending else {
            return self.index_on_thread(collection, |collection| collection.apply_changes()).await;
        };
        let priority = priority(pending.passages.len());
        let mut tokens = pending.tokens.as_deref().map(|tokens| tokens.chunks(PASSAGES_PER_SUBMISSION));
        for part in pending.passages.chunks(PASSAGES_PER_SUBMISSION) {
            let embedder = &self.state.embedder;
            let embedded = match tokens.as_mut().and_then(Iterator::next) {
                Some(tokens) => embed_tokens(embedder, part, tokens, priority).await?,
                None => embed_passages(embedder, part, priority).await?,
            };
            self.index_on_thread(collection, move |collection| store_embeddings(collection, embedded)).await?;
        }
        Ok(())
    }

    /// Runs a part of a write that makes it searchable, which blocks.
    async fn index_on_thread(
        &self,
        collection: &Arc<OpenCollection>,
        work: impl FnOnce(&OpenCollection) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let thread = collection.write_slots.thread(&self.state.write_threads).await;
        let indexing = move |collection: &Arc<OpenCollection>| {
            let _thread = thread;
            work(collection)
        };
        collection.run_on(Some(&self.state.write_pool), indexing).await
    }
}

impl State {
    pub(crate) fn check_running(&self) -> Result<(), Error> {
        if self.stopping.load(Ordering::Acquire) { Err(Error::Stopping) } else { Ok(()) }
    }
}

struct WriteGuards {
    _slot: WriteSlot,
    _writes: OwnedRwLockReadGuard<()>,
}

#[derive(Clone)]
enum WriteCondition {
    /// It must hold for the stored document of each id.
    Precondition(Precondition),
    /// The request must not have been executed before.
    Once(RequestKey),
}

#[derive(Clone)]
struct Request {
    documents: Vec<Result<NewDocument, InvalidDocument>>,
    wait: Wait,
    condition: WriteCondition,
    /// Can no longer be upgraded once no request waits for the response.
    caller: Weak<()>,
}

/// The result of a request's transaction, and what is left to do after it.
struct Stored {
    outcomes: Vec<UpsertOutcome>,
    /// The passages that the request itself embeds, if it waits for that.
    pending: Option<Reservation>,
    /// Documents of the first request with the same key, whose embeddings this one waits for.
    awaited: Vec<DocumentId>,
}

/// Prepares and stores documents. Blocks until they are durable. After the commit, either the passages are reserved or the
/// worker is awake, so nothing is forgotten if the caller goes away. If the caller goes away before that, nothing is stored,
/// because preparing many long documents can take a minute.
fn store(state: &State, collection: &Arc<OpenCollection>, request: Request) -> Result<Stored, Error> {
    let Request { documents, wait, condition, caller } = request;
    let count = documents.len();
    // The collection may be a replacement with another model.
    collection.check_model(state.embedder.model())?;
    if let Err(refusal) = state.check_emergency_space() {
        return replay(collection, &condition, wait, count)?.ok_or(refusal);
    }
    let Prepared { prepared, tokens, refused } = prepare_all(state, &collection.row, documents, &caller)?;
    let ids: Vec<DocumentId> = prepared.iter().map(|document| document.id.clone()).collect();
    let announced = (wait == Wait::Indexed).then(|| collection.reserved.announce());
    let upserted = match condition {
        _ if prepared.is_empty() => match replay(collection, &condition, wait, count)? {
            Some(before) => return Ok(before),
            None => Vec::new(),
        },
        WriteCondition::Precondition(precondition) => collection.store.upsert_if(prepared, precondition)?,
        WriteCondition::Once(request) => {
            let (ids, refused) = (ids.clone(), refused.clone());
            let record = move |upserted: &[Upserted]| idempotency::write(&outcomes(ids, refused, upserted));
            match collection.store.upsert_once(prepared, request, Box::new(record))? {
                Idempotent::Executed(upserted) => upserted,
                Idempotent::Replayed(record) => return repeated_outcomes(&record, wait, count),
            }
        }
    };
    collection.damage.remove_documents(&ids);
    let outcomes = outcomes(ids, refused, &upserted);
    let pending = match wait {
        Wait::Indexed if upserted.iter().any(|upserted| !upserted.pending.is_empty()) => {
            let (pending, tokens) = with_tokens(upserted, tokens);
            Some(Reservation::new(collection, pending, tokens))
        }
        Wait::Indexed | Wait::Stored => {
            collection.wake.notify_one();
            None
        }
    };
    drop(announced);
    Ok(Stored { outcomes, pending, awaited: Vec::new() })
}

/// The documents of a request, prepared for the store.
struct Prepared {
    prepared: Vec<PreparedDocument>,
    /// The tokens of their passages.
    tokens: Vec<Vec<Tokens>>,
    /// The others, with their positions in the request, which ascend.
    refused: Vec<(usize, InvalidDocument)>,
}

fn prepare_all(
    state: &State,
    row: &Collection,
    documents: Vec<Result<NewDocument, InvalidDocument>>,
    caller: &Weak<()>,
) -> Result<Prepared, Error> {
    let mut all = Prepared { prepared: Vec::with_capacity(documents.len()), tokens: Vec::new(), refused: Vec::new() };
    let mut positions: HashMap<DocumentId, usize> = HashMap::with_capacity(documents.len());
    for (position, document) in documents.into_iter().enumerate() {
        if caller.strong_count() == 0 {
            return Err(Error::CallerGone);
        }
        let document = match document {
            Ok(document) => document,
            Err(refusal) => {
                all.refused.push((position, refusal));
                continue;
            }
        };
        let id = document.id.clone().map_or_else(new_id, Ok)?;
        let mut refuse = |code, detail| all.refused.push((position, InvalidDocument::whole(Some(id.clone()), code, detail)));
        if let Some(first) = positions.get(&id) {
            let detail = format!("document id {:?} occurs twice in this request, first at position {first}", id.as_str());
            refuse(Code::InvalidRequest, detail);
            continue;
        }
        match prepare(state, row, id.clone(), document) {
            Ok((document, tokens)) => {
                all.prepared.push(document);
                all.tokens.push(tokens);
            }
            Err(error) => refuse(error.code(), error.to_string()),
        }
        positions.insert(id, position);
    }
    Ok(all)
}

/// Returns the passages that wait for their embedding, and their tokens. The tokens are `None` if some but not all passages of
/// a document already have embeddings.
fn with_tokens(upserted: Vec<Upserted>, tokens: Vec<Vec<Tokens>>) -> (Vec<PendingPassage>, Option<Vec<Tokens>>) {
    let mut known = Some(Vec::new());
    let mut pending = Vec::new();
    for (upserted, tokens) in upserted.into_iter().zip(tokens) {
        match &mut known {
            Some(known) if upserted.pending.len() == tokens.len() => known.extend(tokens),
            _ if upserted.pending.is_empty() => (),
            _ => known = None,
        }
        pending.extend(upserted.pending);
    }
    (pending, known)
}

/// Merges outcomes into the order of the request. `refused` has the positions of refused documents.
fn outcomes(ids: Vec<DocumentId>, refused: Vec<(usize, InvalidDocument)>, upserted: &[Upserted]) -> Vec<UpsertOutcome> {
    let stored = ids.into_iter().zip(upserted);
    let stored = stored.map(|(id, upserted)| UpsertedDocument { id, version: upserted.sequence, created: upserted.created });
    let mut outcomes: Vec<UpsertOutcome> = stored.map(Ok).collect();
    // Positions ascend, so everything before each insertion is already in place.
    for (position, refusal) in refused {
        outcomes.insert(position, Err(refusal));
    }
    outcomes
}

/// Returns the outcomes of an earlier request with the same idempotency key and documents, if there was one.
fn replay(
    collection: &OpenCollection,
    condition: &WriteCondition,
    wait: Wait,
    documents: usize,
) -> Result<Option<Stored>, Error> {
    let WriteCondition::Once(request) = condition else { return Ok(None) };
    collection.store.idempotency_record(request)?.map(|record| repeated_outcomes(&record, wait, documents)).transpose()
}

/// Returns the outcomes of a repeated request. Its passages are already embedded or being embedded; a caller that asked to wait
/// for them still waits.
fn repeated_outcomes(record: &str, wait: Wait, documents: usize) -> Result<Stored, Error> {
    let outcomes = idempotency::read(record, documents)?;
    let stored = outcomes.iter().filter(|_| wait == Wait::Indexed).flatten();
    let awaited = stored.map(|document| document.id.clone()).collect();
    Ok(Stored { outcomes, pending: None, awaited })
}

/// Detects the language if the caller gave none, and splits the text into passages with their tokens. A document with a vector
/// gets one passage without tokens: the vector represents the whole text, which may be empty.
pub(crate) fn prepare(
    state: &State,
    row: &Collection,
    id: DocumentId,
    document: NewDocument,
) -> Result<(PreparedDocument, Vec<Tokens>), Error> {
    let NewDocument { title, text, vector, language, metadata, expires_at_ms, .. } = document;
    // The vector may have been checked against another collection.
    row.check_vector_dimension(vector.as_ref().map(Embedding::dimension)).map_err(|problem| Error::InvalidVector { problem })?;
    let detect = language.is_none() && !text.is_empty();
    let PreparedText { passages, tokens, language: detected } = match &vector {
        Some(_) => PreparedText {
            passages: vec![(0..text.len()).into()],
            tokens: Vec::new(),
            language: if detect { state.embedder.detect(&text) } else { None },
        },
        None => state.embedder.prepare(title.as_deref(), &text, bounds(state, row), detect)?,
    };
    let prepared = PreparedDocument {
        id,
        title,
        language: language.or(detected.map(|detected| detected.language)),
        language_confidence: detected.map(|detected| detected.confidence),
        text,
        metadata,
        expires_at_ms,
        passages,
        embedding: vector,
    };
    Ok((prepared, tokens))
}

pub(crate) fn bounds(state: &State, row: &Collection) -> PassageBounds {
    row.passages.unwrap_or(PassageBounds::adjacent(state.embedder.model().tokens_max))
}

/// Generates an id for a document without one. Later ids sort after earlier ones.
pub(crate) fn new_id() -> Result<DocumentId, Error> {
    Ok(DocumentId::parse(&new_uuid().to_string())?)
}
