//! Exports all documents of a collection in the order of their ids, page by page, in constant memory.
//!
//! Each page is read in its own transaction and sees what is committed at that time. So a document that exists throughout is
//! exported exactly once. A document that is stored or deleted during the export may be missing or included, depending on
//! whether the export has passed its id. For the state of a collection at one moment, take a snapshot.

use std::sync::Arc;

use crate::domain::{Document, DocumentId, Embedding, Page};
use crate::service::error::Error;
use crate::service::handle::CollectionHandle;
use crate::service::limits::budget::RequestMemory;
use crate::service::open_collection::OpenCollection;

const DOCUMENTS_PER_PAGE: usize = 200;
/// Maximum bytes of texts and metadata per page. A single document may exceed it.
const BYTES_PER_PAGE: u64 = 2 << 20;
/// Copies of a page in memory: one as read, one as lines.
const PAGE_COPIES: u64 = 2;

pub struct Export {
    collection: Arc<OpenCollection>,
    after: Option<DocumentId>,
    vectors: bool,
    over: bool,
}

impl CollectionHandle {
    /// Begins an export. With `vectors`, documents are exported with their embedding.
    pub fn export(&self, vectors: bool) -> Result<Export, Error> {
        self.service.check_running()?;
        // The request holds this memory until everything is sent.
        RequestMemory::current().add_answer(BYTES_PER_PAGE * PAGE_COPIES)?;
        Ok(Export { collection: self.open(), after: None, vectors, over: false })
    }
}

impl Export {
    /// Returns the next documents, or none at the end. If embeddings were requested, they are included for documents that have
    /// a single, embedded passage.
    pub async fn next(&mut self) -> Result<Vec<(Document, Option<Embedding>)>, Error> {
        if self.over {
            return Ok(Vec::new());
        }
        let (after, vectors) = (self.after.take(), self.vectors);
        let read = self.collection.read(move |collection| {
            let page = Page { limit: DOCUMENTS_PER_PAGE, after };
            if vectors {
                let (page, embeddings) = collection.store.list_embedded(&page, BYTES_PER_PAGE)?;
                return Ok((page.documents.into_iter().zip(embeddings).collect(), page.next));
            }
            let page = collection.store.list(&page, BYTES_PER_PAGE)?;
            Ok((page.documents.into_iter().map(|document| (document, None)).collect(), page.next))
        });
        let (documents, next) = read.await?;
        self.over = next.is_none();
        self.after = next;
        Ok(documents)
    }
}
