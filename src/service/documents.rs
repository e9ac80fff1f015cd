//! Reading, listing, counting, changing and deleting documents. All of it works with any model loaded.

use std::sync::Arc;

use super::budget::AnswerBudget;
use super::error::Error;
use super::ingest;
use super::reservation::Reservation;
use super::runtime::OpenCollection;
use super::state::{Service, State};
use crate::domain::{
    Collection, CollectionName, Document, DocumentId, DocumentPage, DocumentPatch, FacetRequest, Facets, Filter, Page,
    Precondition, RequestKey, ScrollPage, ScrollRequest, TitleChange, Wait, metadata,
};
use crate::store::{PatchOutcome, PendingPassage, Recut, SearchFilter};

/// Bytes of a page for each document that is asked for.
const BYTES_PER_DOCUMENT: u64 = 16 << 10;
/// Bytes that every page may have.
const PAGE_BYTES_MIN: u64 = 1 << 20;

impl Service {
    /// Reads a document.
    pub async fn get_document(&self, name: &CollectionName, id: &DocumentId) -> Result<Document, Error> {
        let collection = self.collection(name)?;
        let wanted = id.clone();
        let found = self.on_collection(&collection, move |collection| Ok(collection.store.get(&wanted)?)).await?;
        found.ok_or_else(|| Error::DocumentNotFound { collection: name.clone(), id: id.clone() })
    }

    /// Lists documents by id.
    pub async fn list_documents(&self, name: &CollectionName, page: Page<DocumentId>) -> Result<DocumentPage, Error> {
        let collection = self.collection(name)?;
        let budget = AnswerBudget::new(self.limits().answer_bytes_max);
        let list = move |collection: &Arc<OpenCollection>| {
            let reserved = budget.reserve(page_bytes(page.limit));
            let page = collection.store.list(&page, reserved)?;
            budget.settle(reserved, bytes_of(&page.documents))?;
            Ok(page)
        };
        self.on_collection(&collection, list).await
    }

    /// Lists the documents that match, in any order.
    pub async fn scroll_documents(&self, name: &CollectionName, request: ScrollRequest) -> Result<ScrollPage, Error> {
        let collection = self.collection(name)?;
        let budget = AnswerBudget::new(self.limits().answer_bytes_max);
        let scroll = move |collection: &Arc<OpenCollection>| {
            let reserved = budget.reserve(page_bytes(request.limit));
            let page = collection.store.scroll(&request, reserved)?;
            budget.settle(reserved, bytes_of(&page.documents))?;
            Ok(page)
        };
        self.on_collection(&collection, scroll).await
    }

    /// Counts the documents that match.
    pub async fn count_documents(&self, name: &CollectionName, filter: Filter) -> Result<u64, Error> {
        let collection = self.collection(name)?;
        let count = move |collection: &Arc<OpenCollection>| {
            if filter == Filter::default() {
                return Ok(collection.store.counts()?.documents);
            }
            Ok(collection.store.count_matching(&only(filter), usize::MAX)? as u64)
        };
        self.on_collection(&collection, count).await
    }

    /// Counts how many of the documents that match have each value of a field.
    pub async fn count_facets(
        &self,
        name: &CollectionName,
        filter: Filter,
        requests: Vec<FacetRequest>,
    ) -> Result<Facets, Error> {
        let collection = self.collection(name)?;
        let budget = AnswerBudget::new(self.limits().answer_bytes_max);
        self.on_collection(&collection, move |collection| collection.facets(&only(filter), &requests, &budget)).await
    }

    /// Changes title, metadata or language of a document if the precondition holds, and gives the document as it is then. Its
    /// embeddings stay, unless the title changes: then its passages are embedded anew, for which `Wait::Indexed` waits as
    /// `upsert` does.
    pub async fn patch_document(
        &self,
        name: &CollectionName,
        id: &DocumentId,
        patch: DocumentPatch,
        wait: Wait,
        precondition: Precondition,
    ) -> Result<Document, Error> {
        let collection = self.collection(name)?;
        self.check_running()?;
        if patch.title != TitleChange::Keep {
            collection.check_model(self.model())?;
            if wait == Wait::Indexed {
                collection.index()?;
                if collection.row.model.is_some() {
                    self.check_encoder()?;
                }
            }
        }
        let (collection, bounds) = self.enter_write(collection).await?;
        let (state, wanted, waits) =
            (Arc::clone(&self.state), id.clone(), wait == Wait::Indexed && patch.title != TitleChange::Keep);
        let patched = self.on_collection(&collection, move |collection| {
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
        let not_found = || Error::DocumentNotFound { collection: name.clone(), id: id.clone() };
        let (document, pending) = patched.await?.ok_or_else(not_found)?;
        if waits {
            let indexed = self.index_now(&collection, pending.as_ref()).await;
            indexed.map_err(|source| Error::NotIndexed(Box::new(source)))?;
        }
        Ok(Document { indexed: document.indexed || pending.is_some(), ..document })
    }

    /// Deletes a document. No search that begins after the answer finds it.
    pub async fn delete_document(&self, name: &CollectionName, id: &DocumentId) -> Result<(), Error> {
        self.delete_document_if(name, id, Precondition::None).await
    }

    /// Deletes a document if the precondition holds.
    pub async fn delete_document_if(
        &self,
        name: &CollectionName,
        id: &DocumentId,
        precondition: Precondition,
    ) -> Result<(), Error> {
        let collection = self.collection(name)?;
        self.check_running()?;
        let (collection, bounds) = self.enter_write(collection).await?;
        let wanted = id.clone();
        let deleted = self.on_collection(&collection, move |collection| {
            let _bounds = bounds;
            let deleted = collection.store.delete_if(&wanted, precondition)?;
            if deleted.is_some() {
                collection.damage.forget(std::slice::from_ref(&wanted));
                take_out(collection);
            }
            Ok(deleted)
        });
        match deleted.await? {
            Some(_) => Ok(()),
            None => Err(Error::DocumentNotFound { collection: name.clone(), id: id.clone() }),
        }
    }

    /// As `delete_matching`, unless this request was done before: then it answers the same and deletes nothing. One that did not
    /// come to its end is not remembered, and goes on when it is sent again.
    pub async fn delete_matching_once(&self, name: &CollectionName, filter: Filter, request: RequestKey) -> Result<u64, Error> {
        let collection = self.collection(name)?;
        self.check_running()?;
        let asked = request.clone();
        let kept = self.on_collection(&collection, move |collection| Ok(collection.store.idempotency_record(&asked)?)).await?;
        if let Some(kept) = kept {
            return kept.parse().map_err(|_| Error::CorruptIdempotencyRecord);
        }
        let deleted = self.delete_matching(name, filter).await?;
        // Another one may have its place by now.
        let collection = self.collection(name)?;
        let keep = move |collection: &Arc<OpenCollection>| Ok(collection.store.record_answer(&request, deleted.to_string())?);
        self.on_collection(&collection, keep).await?;
        Ok(deleted)
    }

    /// Deletes the documents that match and did not change since this began; gives their number.
    ///
    /// Each of its transactions is short and final: a failure or a crash in between leaves the rest, and sending the request
    /// again deletes it.
    pub async fn delete_matching(&self, name: &CollectionName, filter: Filter) -> Result<u64, Error> {
        let mut collection = self.collection(name)?;
        self.check_running()?;
        let until = self.on_collection(&collection, |collection| Ok(collection.store.sequence()?)).await?;
        let filter = Arc::new(only(filter));
        let (mut deleted, mut after) = (0, Some(0));
        while let Some(place) = after {
            self.check_running()?;
            let (current, bounds) = self.enter_write(collection).await?;
            collection = current;
            let filter = Arc::clone(&filter);
            let some = self.on_collection(&collection, move |collection| {
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
