//! Writes to one document that demand a version of it, and changes that leave its text alone.

use rusqlite::{OptionalExtension, params};

use super::checksum::DocumentRow;
use super::documents::DocumentStore;
use super::error::Fault;
use super::writer::WriteTransaction;
use super::{Deleted, PreparedDocument, StoreError, Upserted, mutations, queries};
use crate::domain::{Document, DocumentId, DocumentPatch, Precondition, Sequence, metadata};

impl DocumentStore {
    /// As `upsert`, if the precondition holds for what is stored under the id of each; else `StoreError::PreconditionFailed`,
    /// and nothing is stored.
    pub fn upsert_if(&self, documents: Vec<PreparedDocument>, precondition: Precondition) -> Result<Vec<Upserted>, StoreError> {
        let terms_of = self.terms_of;
        self.write("storing documents", move |transaction| {
            if precondition != Precondition::None {
                documents.iter().try_for_each(|document| check(transaction, &document.id, &precondition))?;
            }
            mutations::upsert(transaction, &documents, terms_of)
        })
    }

    /// Removes a document if the precondition holds; `None` when there is no such document.
    pub fn delete_if(&self, id: &DocumentId, precondition: Precondition) -> Result<Option<Deleted>, StoreError> {
        let id = id.clone();
        self.write("deleting a document", move |transaction| {
            if version(transaction, &id)?.is_none() {
                return Ok(None);
            }
            check(transaction, &id, &precondition)?;
            mutations::delete(transaction, &id)
        })
    }

    /// Changes metadata and language if the precondition holds, and gives the document as it is then; `None` when there is
    /// none. Its passages and their embeddings stay. A patch that changes nothing leaves the version as it is.
    pub fn patch(
        &self,
        id: &DocumentId,
        patch: DocumentPatch,
        precondition: Precondition,
    ) -> Result<Option<Document>, StoreError> {
        let id = id.clone();
        self.write("changing a document", move |transaction| {
            let Some(document) = queries::get(transaction.connection, &id)? else { return Ok(None) };
            check(transaction, &id, &precondition)?;
            change(transaction, document, &patch)?;
            queries::get(transaction.connection, &id)
        })
    }
}

fn version(transaction: &WriteTransaction<'_>, id: &DocumentId) -> Result<Option<Sequence>, Fault> {
    let mut statement = transaction.connection.prepare_cached("select sequence from documents where id = ?1")?;
    let sequence: Option<i64> = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
    Ok(sequence.map(|sequence| Sequence(u64::try_from(sequence).unwrap_or_default())))
}

fn check(transaction: &WriteTransaction<'_>, id: &DocumentId, precondition: &Precondition) -> Result<(), Fault> {
    let current = version(transaction, id)?;
    if precondition.holds(current) {
        return Ok(());
    }
    Err(StoreError::PreconditionFailed { id: id.clone(), current }.into())
}

/// Applies a patch to a document as it was read in this transaction.
pub(super) fn change(transaction: &mut WriteTransaction<'_>, document: Document, patch: &DocumentPatch) -> Result<(), Fault> {
    let mut merged = document.metadata.clone();
    metadata::merge(&mut merged, &patch.metadata);
    let bounds = [
        ("bytes as JSON", patch.metadata_bytes_max, metadata::bytes(&merged)),
        ("levels", patch.metadata_depth_max, metadata::depth(&merged)),
    ];
    if let Some(&(unit, max, got)) = bounds.iter().find(|(_, max, got)| got > max) {
        return Err(StoreError::MetadataTooLarge { unit, max, got }.into());
    }
    // A language that the caller gives is no longer a guess, also when it is the one that was guessed.
    let (language, confidence) = match patch.language {
        Some(language) => (Some(language), None),
        None => (document.language, document.language_confidence),
    };
    if merged == document.metadata && language == document.language && confidence == document.language_confidence {
        return Ok(());
    }
    let failed = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    let row = DocumentRow {
        id: document.id.as_str(),
        language: language.map(|language| language.code()),
        language_confidence: confidence,
        created_at_ms: document.created_at_ms,
        // A clock that jumps back must not make a document older than it was.
        updated_at_ms: transaction.now_ms.max(document.updated_at_ms),
        sequence: transaction.next_sequence(),
        metadata: &serde_json::to_string(&merged).map_err(failed)?,
        text: &document.text,
    };
    let sql = "update documents set language = ?2, language_confidence = ?3, updated_at_ms = ?4, sequence = ?5, metadata = ?6,
               checksum = ?7 where id = ?1";
    transaction.connection.prepare_cached(sql)?.execute(params![
        row.id,
        row.language,
        row.language_confidence,
        row.updated_at_ms,
        row.sequence,
        row.metadata,
        row.checksum(),
    ])?;
    Ok(())
}
