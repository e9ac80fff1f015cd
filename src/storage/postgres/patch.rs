//! The statements of patches.

use super::batch::Batch;
use super::escape::{escape, filter_json, stored_json};
use super::fault::Fault;
use super::reading;
use super::session::Parameter;
use super::upsert::{add_passages, remove_passages};
use super::writing::Writing;
use crate::domain::{Document, DocumentId, Language};
use crate::store::{FoundDocument, PatchTransaction, PendingPassage, ResplitText};

impl PatchTransaction for Writing<'_> {
    type Fault = Fault;

    fn find(&mut self, id: &DocumentId) -> Result<Option<FoundDocument>, Fault> {
        reading::find_document(self.session, self.names, &self.live, id)
    }

    fn write_patched(&mut self, key: i64, document: &Document) -> Result<(), Fault> {
        // A clock that jumps back must not make a document older than it was.
        let updated_at_ms = self.now_ms.max(document.updated_at_ms);
        let sequence = self.next_sequence();
        let sql = format!(
            "update {} set language = $2, language_confidence = $3, updated_at_ms = $4, sequence = $5, metadata = $6, fields = $7::jsonb,
             title = $8, expires_at_ms = $9 where document = $1",
            self.names.documents
        );
        let values: [Parameter<'_>; 9] = [
            &key,
            &document.language.map(|language| language.code()),
            &document.language_confidence,
            &updated_at_ms,
            &sequence,
            &stored_json(&document.metadata),
            &filter_json(&document.metadata),
            &document.title.as_deref().map(|title| escape(title).into_owned()),
            &document.expires_at_ms,
        ];
        self.session.execute(&sql, &values)?;
        self.record_expiry(document.expires_at_ms);
        Ok(())
    }

    fn renew_terms(&mut self, key: i64, language: Option<Language>) -> Result<(), Fault> {
        let mut batch = Batch::default();
        self.add_renewed_terms(&mut batch, key, language)?;
        batch.store(self)
    }

    fn replace_passages(&mut self, key: i64, document: &Document, resplit: &ResplitText) -> Result<Vec<PendingPassage>, Fault> {
        let embedding = match resplit.keeps_embedding {
            true => reading::embeddings_of_documents(self.session, self.names, &[key])?.remove(&key),
            false => None,
        };
        let embedding = embedding.and_then(|embeddings| embeddings.into_iter().next());
        let old: Vec<_> = reading::passages_of(self.session, self.names, key)?.iter().map(|old| old.id).collect();
        let mut batch = Batch::default();
        remove_passages(self, &mut batch, key, &old);
        let pending = add_passages(self, &mut batch, key, &resplit.prepare(document, embedding))?;
        batch.store(self)?;
        Ok(pending)
    }
}

impl Writing<'_> {
    /// Adds the terms of a document's passages, in its language, to the rows to store.
    pub(super) fn add_renewed_terms(&mut self, batch: &mut Batch<'_>, key: i64, language: Option<Language>) -> Result<(), Fault> {
        for passage in reading::passages_of(self.session, self.names, key)? {
            let terms = self.terms_of.compute(&passage.context.prepend_to(&passage.text), language);
            batch.renew_terms(key, passage.id.0 as i64, &terms);
        }
        Ok(())
    }
}
