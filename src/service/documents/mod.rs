//! Reading, listing, counting, changing and deleting documents. All of it works with any model loaded.

pub mod export;
mod idempotency;
pub mod import;
pub mod ingest;
pub mod input;

use std::sync::Arc;

use super::error::Error;
use super::handle::CollectionHandle;
use super::state::State;
use crate::domain::{
    Collection, Document, DocumentId, DocumentPage, DocumentPatch, FacetRequest, Facets, Filter, Page, Precondition, RequestKey,
    ScrollPage, ScrollRequest, TitleChange, Wait, metadata,
};
use crate::service::limits::budget::AnswerBudget;
use crate::service::open_collection::OpenCollection;
use crate::service::open_collection::reservation::Reservation;
use crate::store::{PatchOutcome, PendingPassage, Recut, SearchFilter};

/// Bytes of a page for each document that is asked for.
const BYTES_PER_DOCUMENT: u64 = 16 << 10;
/// Bytes that every page may have.
const PAGE_BYTES_MIN: u64 = 1 << 20;

impl CollectionHandle {
    /// Reads a document.
    pub async fn get(&self, id: &DocumentId) -> Result<Document, Error> {
        let wanted = id.clone();
        let found = self.open().run(move |collection| Ok(collection.store.get(&wanted)?)).await?;
        found.ok_or_else(|| self.no_document(id))
    }

    /// Lists documents by id.
    pub async fn list(&self, page: Page<DocumentId>) -> Result<DocumentPage, Error> {
        let budget = self.answer_budget();
        let list = move |collection: &Arc<OpenCollection>| {
            let reserved = budget.reserve(page_bytes(page.limit));
            let page = collection.store.list(&page, reserved)?;
            budget.settle(reserved, bytes_of(&page.documents))?;
            Ok(page)
        };
        self.open().run(list).await
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
        self.open().run(scroll).await
    }

    /// Counts the documents that match.
    pub async fn count(&self, filter: Filter) -> Result<u64, Error> {
        let count = move |collection: &Arc<OpenCollection>| {
            if filter == Filter::default() {
                return Ok(collection.store.counts()?.documents);
            }
            Ok(collection.store.count_matching(&only(filter), usize::MAX)? as u64)
        };
        self.open().run(count).await
    }

    /// Counts how many of the documents that match have each value of a field.
    pub async fn facets(&self, filter: Filter, requests: Vec<FacetRequest>) -> Result<Facets, Error> {
        let budget = self.answer_budget();
        self.open().run(move |collection| collection.facets(&only(filter), &requests, &budget)).await
    }

    /// Changes title, metadata or language of a document if the precondition holds, and gives the document as it is then. Its
    /// embeddings stay, unless the title changes: then its passages are embedded anew, for which `Wait::Indexed` waits as
    /// `upsert` does.
    pub async fn patch(
        &self,
        id: &DocumentId,
        patch: DocumentPatch,
        wait: Wait,
        precondition: Precondition,
    ) -> Result<Document, Error> {
        self.service.check_running()?;
        let waits = wait == Wait::Indexed && patch.title != TitleChange::Keep;
        if patch.title != TitleChange::Keep {
            self.check_embeds(wait)?;
        }
        let (collection, bounds) = self.enter_write().await?;
        let (state, wanted) = (Arc::clone(&self.service.state), id.clone());
        let patched = collection.run(move |collection| {
            let _bounds = bounds;
            let announced = waits.then(|| collection.reserved.announce());
            let Some((document, pending)) = patch_prepared(&state, collection, &wanted, &patch, &precondition)? else {
                return Ok(None);
            };
            collection.damage.forget(std::slice::from_ref(&wanted));
            let pending = match waits && !pending.is_empty() {
                true => Some(Reservation::of(collection, pending, None)),
                false => {
                    collection.wake.notify_one();
                    None
                }
            };
            drop(announced);
            Ok(Some((document, pending)))
        });
        let (document, pending) = patched.await?.ok_or_else(|| self.no_document(id))?;
        if waits {
            let indexed = self.service.index_now(&collection, pending.as_ref()).await;
            indexed.map_err(|source| Error::NotIndexed(Box::new(source)))?;
        }
        Ok(Document { indexed: document.indexed || pending.is_some(), ..document })
    }

    /// Deletes a document if the precondition holds. No search that begins after the answer finds it.
    pub async fn delete(&self, id: &DocumentId, precondition: Precondition) -> Result<(), Error> {
        self.service.check_running()?;
        let (collection, bounds) = self.enter_write().await?;
        let wanted = id.clone();
        let deleted = collection.run(move |collection| {
            let _bounds = bounds;
            let deleted = collection.store.delete_if(&wanted, precondition)?;
            if deleted.is_some() {
                collection.damage.forget(std::slice::from_ref(&wanted));
                take_out(collection);
            }
            Ok(deleted)
        });
        deleted.await?.map(drop).ok_or_else(|| self.no_document(id))
    }

    /// As `delete_matching`, unless this request was done before: then it answers the same and deletes nothing. One that did not
    /// come to its end is not remembered, and goes on when it is sent again.
    pub async fn delete_matching_once(&self, filter: Filter, request: RequestKey) -> Result<u64, Error> {
        self.service.check_running()?;
        let asked = request.clone();
        let kept = self.open().run(move |collection| Ok(collection.store.idempotency_record(&asked)?)).await?;
        if let Some(kept) = kept {
            return kept.parse().map_err(|_| Error::CorruptIdempotencyRecord);
        }
        let deleted = self.delete_matching(filter).await?;
        let keep = move |collection: &Arc<OpenCollection>| Ok(collection.store.record_answer(&request, deleted.to_string())?);
        // Another one may have its place by now.
        self.open().run(keep).await?;
        Ok(deleted)
    }

    /// Deletes the documents that match and did not change since this began; gives their number.
    ///
    /// Each of its transactions is short and final: a failure or a crash in between leaves the rest, and sending the request
    /// again deletes it.
    pub async fn delete_matching(&self, filter: Filter) -> Result<u64, Error> {
        self.service.check_running()?;
        let until = self.open().run(|collection| Ok(collection.store.sequence()?)).await?;
        let filter = Arc::new(only(filter));
        let (mut deleted, mut after) = (0, Some(0));
        while let Some(place) = after {
            self.service.check_running()?;
            let (collection, bounds) = self.enter_write().await?;
            let filter = Arc::clone(&filter);
            let some = collection.run(move |collection| {
                let _bounds = bounds;
                let some = collection.store.delete_some(&filter, until, place)?;
                if !some.rows.is_empty() {
                    collection.damage.forget_rows(&some.rows);
                    take_out(collection);
                }
                Ok(some)
            });
            let some = some.await?;
            deleted += some.rows.len() as u64;
            after = some.next;
        }
        Ok(deleted)
    }

    fn answer_budget(&self) -> AnswerBudget {
        AnswerBudget::new(self.service.limits().answer_bytes_max)
    }

    fn no_document(&self, id: &DocumentId) -> Error {
        Error::DocumentNotFound { collection: self.name.clone(), id: id.clone() }
    }
}

/// Patches a document; when that changes its title, with passages of its text as it is then. `None` when there is no such
/// document. Blocks.
fn patch_prepared(
    state: &State,
    collection: &Arc<OpenCollection>,
    id: &DocumentId,
    patch: &DocumentPatch,
    precondition: &Precondition,
) -> Result<Option<(Document, Vec<PendingPassage>)>, Error> {
    loop {
        let recut = match &patch.title {
            TitleChange::Keep => None,
            change => match collection.store.get(id)? {
                Some(document) => recut(state, &collection.row, document, change.clone())?,
                None => return Ok(None),
            },
        };
        match collection.store.patch(id, patch.clone(), recut, precondition.clone())? {
            PatchOutcome::Done(document, pending) => return Ok(Some((*document, pending))),
            PatchOutcome::Absent => return Ok(None),
            // Another write came between; its text is cut now.
            PatchOutcome::Overtaken => state.check_running()?,
        }
    }
}

/// Cuts a document's text below another title; `None` when the title stays as it is.
fn recut(state: &State, row: &Collection, document: Document, change: TitleChange) -> Result<Option<Recut>, Error> {
    let title = change.applied(document.title.clone());
    if title == document.title {
        return Ok(None);
    }
    let keeps_embedding = row.model.is_none();
    let passages = match keeps_embedding {
        true => vec![(0..document.text.len()).into()],
        false => state.embedder.split(title.as_deref(), &document.text, ingest::bounds(state, row))?,
    };
    Ok(Some(Recut { title, text: document.text, passages, keeps_embedding }))
}

/// Bytes that a page of so many documents may take; it ends early when they are larger.
fn page_bytes(documents: usize) -> u64 {
    (documents as u64).saturating_mul(BYTES_PER_DOCUMENT).max(PAGE_BYTES_MIN)
}

/// Bytes of titles, texts and metadata.
fn bytes_of(documents: &[Document]) -> u64 {
    let bytes = |document: &Document| {
        document.title.as_ref().map_or(0, String::len) + document.text.len() + metadata::bytes(&document.metadata)
    };
    documents.iter().map(|document| bytes(document) as u64).sum()
}

/// A filter of any language.
fn only(filter: Filter) -> SearchFilter {
    SearchFilter { languages: Vec::new(), filter }
}

/// Takes what was deleted out of the index. Searches read rows and so skip what is gone; this only keeps the index small.
fn take_out(collection: &OpenCollection) {
    if let Err(error) = collection.apply_changes() {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(collection = %collection.row.name, error, "cannot remove documents from the index");
    }
    collection.wake.notify_one();
}
