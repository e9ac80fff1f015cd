//! Reads, lists, counts, changes and deletes documents. Works whatever model is loaded.

pub(super) mod expiry;
pub mod export;
mod idempotency;
mod idempotency_locks;
pub mod import;
pub mod ingest;
pub mod input;

use std::sync::Arc;

use super::error::Error;
use super::handle::CollectionHandle;
use super::state::State;
use crate::domain::{
    Collection, Document, DocumentId, DocumentPage, DocumentPatch, FacetRequest, Facets, Filter, Page, Precondition, RequestKey,
    ScrollPage, ScrollRequest, Sequence, Wait, metadata,
};
use crate::service::limits::budget::AnswerBudget;
use crate::service::open_collection::OpenCollection;
use crate::service::open_collection::reservation::Reservation;
use crate::store::{BatchChange, PatchOutcome, PendingPassage, ResplitText, SearchFilter, StoreError};

pub(super) use idempotency_locks::IdempotencyLocks;

/// Bytes that a page may have per requested document.
const BYTES_PER_DOCUMENT: u64 = 16 << 10;
/// Minimum size limit of a page, in bytes.
const PAGE_BYTES_MIN: u64 = 1 << 20;

impl CollectionHandle {
    pub async fn get(&self, id: &DocumentId) -> Result<Document, Error> {
        let wanted = id.clone();
        let found = self.open().read(move |collection| Ok(collection.store.get(&wanted)?)).await?;
        found.ok_or_else(|| self.no_document(id))
    }

    pub async fn list(&self, page: Page<DocumentId>) -> Result<DocumentPage, Error> {
        let budget = self.answer_budget();
        let list = move |collection: &Arc<OpenCollection>| {
            let reserved = budget.reserve(page_bytes(page.limit));
            let page = collection.store.list(&page, reserved)?;
            budget.settle(reserved, bytes_of(&page.documents))?;
            Ok(page)
        };
        self.open().read(list).await
    }

    /// Lists the documents that match, in any order.
    pub async fn scroll(&self, request: ScrollRequest) -> Result<ScrollPage, Error> {
        let budget = self.answer_budget();
        let scroll = move |collection: &Arc<OpenCollection>| {
            let reserved = budget.reserve(page_bytes(request.limit));
            let page = collection.store.scroll(&request, reserved)?;
            budget.settle(reserved, bytes_of(&page.documents))?;
            Ok(page)
        };
        self.open().read(scroll).await
    }

    pub async fn count(&self, filter: Filter) -> Result<u64, Error> {
        let count = move |collection: &Arc<OpenCollection>| {
            if filter == Filter::default() {
                return Ok(collection.store.counts()?.documents);
            }
            Ok(collection.store.count_matching(&filter.into(), usize::MAX)? as u64)
        };
        self.open().read(count).await
    }

    /// Counts how many of the documents that match have each value of a field.
    pub async fn facets(&self, filter: Filter, requests: Vec<FacetRequest>) -> Result<Facets, Error> {
        let budget = self.answer_budget();
        self.open().read(move |collection| collection.facets(&filter.into(), &requests, &budget)).await
    }

    /// Changes the title, metadata or language of a document if the precondition holds, and returns the document. If the title
    /// changes, its passages are embedded again, and `Wait::Indexed` waits for that as in `upsert`; otherwise its embeddings
    /// stay.
    pub async fn patch(
        &self,
        id: &DocumentId,
        patch: DocumentPatch,
        wait: Wait,
        precondition: Precondition,
    ) -> Result<Document, Error> {
        self.service.check_running()?;
        let waits = wait == Wait::Indexed && patch.title.is_some();
        if patch.title.is_some() {
            self.check_can_embed(wait)?;
        }
        let (state, wanted) = (Arc::clone(&self.service.state), id.clone());
        let patched = self.write(move |collection| {
            state.check_emergency_space()?;
            if patch.title.is_some() {
                // The collection may be a replacement with another model.
                collection.check_model(state.embedder.model())?;
            }
            let announced = waits.then(|| collection.reserved.announce());
            let Some((document, pending)) = patch_prepared(&state, collection, &wanted, &patch, &precondition)? else {
                return Ok(None);
            };
            collection.damage.remove_documents(std::slice::from_ref(&wanted));
            let pending = match waits && !pending.is_empty() {
                true => Some(Reservation::new(collection, pending, None)),
                false => {
                    collection.wake.notify_one();
                    None
                }
            };
            drop(announced);
            Ok(Some((document, pending)))
        });
        let (collection, patched) = patched.await?;
        let (document, pending) = patched.ok_or_else(|| self.no_document(id))?;
        if waits {
            self.wait_until_indexed(&collection, pending.as_ref()).await?;
        }
        Ok(Document { indexed: document.indexed || pending.is_some(), ..document })
    }

    /// Deletes a document if the precondition holds. Searches that begin after this returns do not find it.
    pub async fn delete(&self, id: &DocumentId, precondition: Precondition) -> Result<(), Error> {
        self.service.check_running()?;
        let wanted = id.clone();
        let deleted = self.write(move |collection| {
            let deleted = collection.store.delete_if(&wanted, precondition.clone())?;
            if deleted.is_some() {
                collection.damage.remove_documents(std::slice::from_ref(&wanted));
                collection.remove_deleted_passages();
            }
            Ok(deleted)
        });
        deleted.await?.1.map(drop).ok_or_else(|| self.no_document(id))
    }

    /// Deletes the documents that match and did not change after this began. Returns their number.
    ///
    /// Runs several short transactions. A failure or crash between two of them leaves the remaining documents, and sending the
    /// request again deletes those. A repeated request with the same idempotency key deletes nothing and returns the same
    /// number.
    pub async fn delete_matching(&self, filter: Filter, request: Option<RequestKey>) -> Result<u64, Error> {
        let delete = |collection: &OpenCollection, filter: &SearchFilter, until, after| {
            let some = collection.store.change_batch(&BatchChange::Delete, filter, until, after)?;
            if !some.rows.is_empty() {
                collection.damage.remove_rows(&some.rows);
                collection.remove_deleted_passages();
            }
            Ok(([some.rows.len() as u64], some.next))
        };
        let [deleted] = self.run_once(request, async || self.run_in_steps(filter, delete).await).await?;
        Ok(deleted)
    }

    /// Changes the metadata and expiry of the documents that match and did not change after this began, in steps like
    /// `delete_matching`. Returns how many matched, and how many of those it changed.
    pub async fn update_matching(
        &self,
        filter: Filter,
        patch: DocumentPatch,
        request: Option<RequestKey>,
    ) -> Result<[u64; 2], Error> {
        let (state, change) = (Arc::clone(&self.service.state), BatchChange::Update(patch));
        let update = move |collection: &OpenCollection, filter: &SearchFilter, until, after| {
            state.check_emergency_space()?;
            let some = collection.store.change_batch(&change, filter, until, after)?;
            collection.damage.remove_rows(&some.rows);
            Ok(([some.matched as u64, some.rows.len() as u64], some.next))
        };
        self.run_once(request, async || self.run_in_steps(filter, update).await).await
    }

    /// Runs `work` and records its numbers, unless an earlier request with this key finished; then returns the recorded
    /// numbers. Waits for one that is running. A request that did not finish leaves no record.
    async fn run_once<const N: usize>(
        &self,
        request: Option<RequestKey>,
        work: impl AsyncFnOnce() -> Result<[u64; N], Error>,
    ) -> Result<[u64; N], Error> {
        let Some(request) = request else { return work().await };
        self.service.check_running()?;
        let _turn = self.service.state.idempotency_locks.lock(&self.found.row.name, &request).await;
        let key = request.clone();
        let recorded = self.open().run(move |collection| Ok(collection.store.idempotency_record(&key)?)).await?;
        if let Some(recorded) = recorded {
            let numbers: Option<Vec<u64>> = recorded.split(' ').map(|number| number.parse().ok()).collect();
            return numbers.and_then(|numbers| numbers.try_into().ok()).ok_or(Error::CorruptIdempotencyRecord);
        }
        let numbers = work().await?;
        let answer = numbers.map(|number| number.to_string()).join(" ");
        loop {
            // The collection may have been replaced by now.
            let collection = self.open();
            let (request, answer) = (request.clone(), answer.clone());
            match collection.run(move |collection| Ok(collection.store.record_answer(&request, answer)?)).await {
                Err(Error::Store(StoreError::Replaced)) => self.service.state.find_replacement(&collection).await?,
                recorded => return recorded.map(|()| numbers),
            }
        }
    }

    /// Processes the documents that match and did not change after this began, some at a time. `step` starts after a position
    /// and returns its counts and the position to continue from. Returns the sums of the counts.
    async fn run_in_steps<const N: usize>(
        &self,
        filter: Filter,
        step: impl Fn(&OpenCollection, &SearchFilter, Sequence, i64) -> Result<([u64; N], Option<i64>), Error> + Send + Sync + 'static,
    ) -> Result<[u64; N], Error> {
        self.service.check_running()?;
        let first = self.open();
        let until = first.run(|collection| Ok(collection.store.sequence()?)).await?;
        let work = Arc::new((SearchFilter::from(filter), step));
        let (mut counts, mut after) = ([0; N], Some(0));
        while let Some(position) = after {
            self.service.check_running()?;
            let (work, first) = (Arc::clone(&work), Arc::clone(&first));
            let some = self.write(move |collection| {
                if first.reembedded().is_restored_over() {
                    return Ok(None);
                }
                let (filter, step) = &*work;
                step(collection, filter, until, position).map(Some)
            });
            // A restore has replaced the collection. All of the restored documents were stored after this began.
            let (_, Some((counted, next))) = some.await? else { break };
            counts.iter_mut().zip(counted).for_each(|(sum, counted)| *sum += counted);
            after = next;
        }
        Ok(counts)
    }

    fn answer_budget(&self) -> AnswerBudget {
        AnswerBudget::new(self.service.limits().answer_bytes_max)
    }

    fn no_document(&self, id: &DocumentId) -> Error {
        Error::DocumentNotFound { collection: self.name.clone(), id: id.clone() }
    }
}

/// Patches a document. If that changes its title, splits its text again. Returns `None` if there is no such document. Blocks.
fn patch_prepared(
    state: &State,
    collection: &Arc<OpenCollection>,
    id: &DocumentId,
    patch: &DocumentPatch,
    precondition: &Precondition,
) -> Result<Option<(Document, Vec<PendingPassage>)>, Error> {
    loop {
        let resplit = match &patch.title {
            None => None,
            Some(title) => match collection.store.get(id)? {
                Some(document) => resplit(state, &collection.row, document, title.clone())?,
                None => return Ok(None),
            },
        };
        match collection.store.patch(id, patch.clone(), resplit, precondition.clone())? {
            PatchOutcome::Done(document, pending) => return Ok(Some((*document, pending))),
            PatchOutcome::Absent => return Ok(None),
            // Another write came first. Read the document again and split its current text.
            PatchOutcome::Conflict => state.check_running()?,
        }
    }
}

/// Splits a document's text for a new title. Returns `None` if the title stays the same.
fn resplit(state: &State, row: &Collection, document: Document, title: Option<String>) -> Result<Option<ResplitText>, Error> {
    if title == document.title {
        return Ok(None);
    }
    let keeps_embedding = row.model.is_none();
    let passages = match keeps_embedding {
        true => vec![(0..document.text.len()).into()],
        false => state.embedder.split(title.as_deref(), &document.text, ingest::bounds(state, row))?,
    };
    Ok(Some(ResplitText { title, text: document.text, passages, keeps_embedding }))
}

/// Returns how many bytes a page of this many documents may have. A page ends early when its documents are larger.
fn page_bytes(documents: usize) -> u64 {
    (documents as u64).saturating_mul(BYTES_PER_DOCUMENT).max(PAGE_BYTES_MIN)
}

/// Size of titles, texts and metadata in bytes.
fn bytes_of(documents: &[Document]) -> u64 {
    let bytes = |document: &Document| {
        document.title.as_ref().map_or(0, String::len) + document.text.len() + metadata::bytes(&document.metadata)
    };
    documents.iter().map(|document| bytes(document) as u64).sum()
}
