//! Conditional writes of documents, and the statements of patches.

use super::checksum::DocumentRow;
use super::documents::DocumentStore;
use super::error::Fault;
use super::expiry::LIVE;
use super::patch::{self, FoundDocument, PatchTransaction};
use super::precondition::check_precondition;
use super::rows::{json, query_one, read_embedding};
use super::upsert::Upsert;
use super::write_transaction::WriteTransaction;
use super::{Deleted, PatchOutcome, PendingPassage, PreparedDocument, ResplitText, StoreError, Upserted, mutations, queries};
use crate::domain::{Document, DocumentId, DocumentPatch, Language, Precondition, Sequence};

impl DocumentStore {
    pub fn upsert_if(&self, documents: Vec<PreparedDocument>, precondition: Precondition) -> Result<Vec<Upserted>, StoreError> {
        let upsert = Upsert::prepare(self, documents)?;
        self.write("storing documents", move |transaction| {
            if precondition != Precondition::None {
                for id in upsert.ids() {
                    let current = version(transaction, id)?.map(|(_, version)| version);
                    check_precondition(id, current, &precondition)?;
                }
            }
            upsert.write(transaction)
        })
    }

    pub fn delete_if(&self, id: &DocumentId, precondition: Precondition) -> Result<Option<Deleted>, StoreError> {
        let id = id.clone();
        self.write("deleting a document", move |transaction| {
            let Some((key, current)) = version(transaction, &id)? else { return Ok(None) };
            check_precondition(&id, Some(current), &precondition)?;
            mutations::delete_key(transaction, key).map(Some)
        })
    }

    pub fn patch(
        &self,
        id: &DocumentId,
        patch: DocumentPatch,
        resplit: Option<ResplitText>,
        precondition: Precondition,
    ) -> Result<PatchOutcome, StoreError> {
        let id = id.clone();
        self.write("changing a document", move |transaction| {
            patch::patch(transaction, &id, &patch, resplit.as_ref(), &precondition)
        })
    }
}

/// Returns the key and the version of a document.
fn version(transaction: &WriteTransaction<'_>, id: &DocumentId) -> Result<Option<(i64, Sequence)>, Fault> {
    let sql = format!("select d.key, d.sequence from documents d where d.id = ?1 and {LIVE}");
    query_one(transaction.connection, &sql, [id.as_str()], |row| {
        Ok((row.get(0)?, Sequence(u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default())))
    })
}

impl PatchTransaction for WriteTransaction<'_> {
    type Fault = Fault;

    fn find(&mut self, id: &DocumentId) -> Result<Option<FoundDocument>, Fault> {
        queries::find(self.connection, id)
    }

    fn write_patched(&mut self, key: i64, document: &Document) -> Result<(), Fault> {
        let metadata = json(&document.metadata)?;
        let row = DocumentRow {
            // A clock that jumps back must not make a document older than it was.
            updated_at_ms: self.now_ms.max(document.updated_at_ms),
            sequence: self.next_sequence(),
            ..DocumentRow::of(document, &metadata)
        };
        let sql =
            "update documents set language = ?3, language_confidence = ?4, updated_at_ms = ?6, sequence = ?7, metadata = ?8,
                   title = ?10, expires_at_ms = ?11, checksum = ?12 where key = ?1";
        mutations::write_row(self, sql, Some(key), &row)
    }

    fn renew_terms(&mut self, key: i64, language: Option<Language>) -> Result<(), Fault> {
        mutations::renew_terms(self, key, language)
    }

    fn replace_passages(&mut self, key: i64, document: &Document, resplit: &ResplitText) -> Result<Vec<PendingPassage>, Fault> {
        let sql = "select id, embedding from passages where document = ?1 and embedding is not null order by ordinal limit 1";
        let embedding = match resplit.keeps_embedding {
            true => query_one(self.connection, sql, [key], |row| Ok(read_embedding(row, 0)?.1))?,
            false => None,
        };
        mutations::remove_passages(self, key)?;
        let prepared = resplit.prepare(document, embedding);
        let terms = mutations::passage_terms(&prepared, self.terms_of)?;
        mutations::insert_passages(self, key, &prepared, terms)
    }
}
