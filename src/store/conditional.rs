//! Conditional writes of documents, and changes that do not affect the text of a document.

use super::checksum::DocumentRow;
use super::documents::DocumentStore;
use super::error::Fault;
use super::expiry::LIVE;
use super::patch::{ResplitText, compute_patched_fields};
use super::rows::{json, query_one, read_embedding};
use super::upsert::Upsert;
use super::write_transaction::WriteTransaction;
use super::{Deleted, PendingPassage, PreparedDocument, StoreError, TermsOf, Upserted, mutations, queries};
use crate::domain::{Document, DocumentId, DocumentPatch, Precondition, Sequence};

#[derive(Debug, Clone, PartialEq)]
pub enum PatchOutcome {
    Absent,
    /// The document's text or title is no longer the one that the patch was prepared for. Nothing was changed.
    Conflict,
    /// The document as it is now, and its passages that the patch left without embedding.
    Done(Box<Document>, Vec<PendingPassage>),
}

impl DocumentStore {
    pub fn upsert_if(&self, documents: Vec<PreparedDocument>, precondition: Precondition) -> Result<Vec<Upserted>, StoreError> {
        let upsert = Upsert::prepare(self, documents)?;
        self.write("storing documents", move |transaction| {
            if precondition != Precondition::None {
                for id in upsert.ids() {
                    let current = find(transaction, id)?.map(|(_, version)| version);
                    check_precondition(id, current, &precondition)?;
                }
            }
            upsert.write(transaction)
        })
    }

    pub fn delete_if(&self, id: &DocumentId, precondition: Precondition) -> Result<Option<Deleted>, StoreError> {
        let id = id.clone();
        self.write("deleting a document", move |transaction| {
            let Some((key, current)) = find(transaction, &id)? else { return Ok(None) };
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
        let (id, terms_of) = (id.clone(), self.terms_of.clone());
        self.write("changing a document", move |transaction| {
            let Some(document) = queries::get(transaction.connection, &id)? else { return Ok(PatchOutcome::Absent) };
            check_precondition(&id, Some(document.sequence), &precondition)?;
            let replacing = ResplitText::for_patch(resplit.as_ref(), &document, &patch);
            let Some(replacing) = replacing else { return Ok(PatchOutcome::Conflict) };
            change(transaction, &document, &patch, &terms_of)?;
            let pending = match replacing {
                Some(resplit) => {
                    let language = patch.language.or(document.language);
                    replace_passages(transaction, &Document { language, ..document }, resplit, &terms_of)?
                }
                None => Vec::new(),
            };
            let changed = queries::get(transaction.connection, &id)?;
            Ok(changed.map_or(PatchOutcome::Absent, |document| PatchOutcome::Done(Box::new(document), pending)))
        })
    }
}

/// Returns the key and the version of a document.
fn find(transaction: &WriteTransaction<'_>, id: &DocumentId) -> Result<Option<(i64, Sequence)>, Fault> {
    let sql = format!("select d.key, d.sequence from documents d where d.id = ?1 and {LIVE}");
    query_one(transaction.connection, &sql, [id.as_str()], |row| {
        Ok((row.get(0)?, Sequence(u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default())))
    })
}

/// Fails with `StoreError::PreconditionFailed` unless the precondition holds for a document whose version is `current`.
pub(crate) fn check_precondition(
    id: &DocumentId,
    current: Option<Sequence>,
    precondition: &Precondition,
) -> Result<(), StoreError> {
    if precondition.holds(current) {
        return Ok(());
    }
    let names_none = matches!(precondition, Precondition::Version(versions) if versions.is_empty());
    Err(StoreError::PreconditionFailed { id: id.clone(), current, names_none })
}

/// Replaces the passages of a document. Returns those that wait for their embedding.
fn replace_passages(
    transaction: &mut WriteTransaction<'_>,
    document: &Document,
    resplit: &ResplitText,
    terms_of: &TermsOf,
) -> Result<Vec<PendingPassage>, Fault> {
    let connection = transaction.connection;
    let mut statement = connection.prepare_cached("select key from documents where id = ?1")?;
    let key: i64 = statement.query_row([document.id.as_str()], |row| row.get(0))?;
    let sql = "select id, embedding from passages where document = ?1 and embedding is not null order by ordinal limit 1";
    let embedding = match resplit.keeps_embedding {
        true => query_one(connection, sql, [key], |row| Ok(read_embedding(row, 0)?.1))?,
        false => None,
    };
    mutations::remove_passages(transaction, key)?;
    let prepared = resplit.prepare(document, embedding);
    let terms = mutations::passage_terms(&prepared, terms_of)?;
    mutations::insert_passages(transaction, key, &prepared, terms)
}

/// Applies a patch to the row of a document that was read in this transaction. Returns whether that changed anything.
pub(super) fn change(
    transaction: &mut WriteTransaction<'_>,
    document: &Document,
    patch: &DocumentPatch,
    terms_of: &TermsOf,
) -> Result<bool, Fault> {
    let Some(changed) = compute_patched_fields(document, patch)? else { return Ok(false) };
    let row = DocumentRow {
        id: document.id.as_str(),
        language: changed.language.map(|language| language.code()),
        language_confidence: changed.language_confidence,
        created_at_ms: document.created_at_ms,
        // A clock that jumps back must not make a document older than it was.
        updated_at_ms: transaction.now_ms.max(document.updated_at_ms),
        sequence: transaction.next_sequence(),
        metadata: &json(&changed.metadata)?,
        text: &document.text,
        title: changed.title.as_deref(),
        expires_at_ms: changed.expires_at_ms,
    };
    let sql = "update documents set language = ?3, language_confidence = ?4, updated_at_ms = ?6, sequence = ?7, metadata = ?8,
               title = ?10, expires_at_ms = ?11, checksum = ?12 where id = ?2";
    mutations::write_row(transaction, sql, None, &row)?;
    if changed.renews_terms {
        let sql = "select key from documents where id = ?1";
        let key = transaction.connection.prepare_cached(sql)?.query_row([row.id], |row| row.get(0))?;
        mutations::renew_terms(transaction, key, changed.language, terms_of)?;
    }
    Ok(true)
}
