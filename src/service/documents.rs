//! Reading, listing and deleting documents. All of it works with any model loaded.

use super::{Error, Service};
use crate::domain::{CollectionName, Document, DocumentId, DocumentPage, Page};

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
        self.on_collection(&collection, move |collection| Ok(collection.store.list(&page)?)).await
    }

    /// Deletes a document. No search that begins after the answer finds it.
    pub async fn delete_document(&self, name: &CollectionName, id: &DocumentId) -> Result<(), Error> {
        let collection = self.collection(name)?;
        self.check_running()?;
        let bounds = self.enter_write(&collection).await?;
        let wanted = id.clone();
        let deleted = self.on_collection(&collection, move |collection| {
            let _bounds = bounds;
            let deleted = collection.store.delete(&wanted)?;
            if deleted.is_some() {
                // Searches read rows and so skip what is gone; taking it out of the index only keeps the index small.
                if let Err(error) = collection.apply_changes() {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(collection = %collection.row.name, error, "removing a document from the index failed");
                }
                collection.wake.notify_one();
            }
            Ok(deleted)
        });
        match deleted.await? {
            Some(_) => Ok(()),
            None => Err(Error::DocumentNotFound { collection: name.clone(), id: id.clone() }),
        }
    }
}
