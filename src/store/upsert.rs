//! Stores documents, and decides what a document that is already stored keeps and what is written again.

use rusqlite::{Connection, params};

use super::checksum::unseal_embedding;
use super::documents::DocumentStore;
use super::error::Fault;
use super::mutations::{self, INSERT, passage_terms, write_change};
use super::rows::{passage_id, query_all, query_one, to_sql};
use super::write_rules::{StoredDocument, StoredPassage, clear_earlier_pending};
use super::write_transaction::WriteTransaction;
use super::{PendingPassage, PreparedDocument, StoreError, TermsOf, Upserted};
use crate::domain::{DocumentId, PassageTerms, Sequence};

/// Documents to store. One whose title, text and passages are the same as before keeps its passages and their embeddings.
pub(super) struct Upsert {
    documents: Vec<NewDocument>,
}

struct NewDocument {
    document: PreparedDocument,
    /// The terms of its passages. `None` if they probably are not needed.
    terms: Option<Vec<PassageTerms>>,
}

impl Upsert {
    /// Computes the terms of documents that are not stored unchanged, so that the writer, which all callers share, need not
    /// do it. Fails with `StoreError::InvalidPassage` if a passage is no part of its text.
    pub(super) fn prepare(store: &DocumentStore, documents: Vec<PreparedDocument>) -> Result<Self, StoreError> {
        let are_stored = |connection: &Connection| {
            let now_ms = connection.prepare_cached("select now_ms()")?.query_row([], |row| row.get(0))?;
            documents.iter().map(|document| is_stored(connection, document, now_ms)).collect()
        };
        let stored: Vec<bool> = store.try_read("comparing documents", are_stored).unwrap_or_default();
        let (mut stored, terms_of) = (stored.into_iter(), &store.connections.options.terms_of);
        let prepare = |document: PreparedDocument| {
            let terms = if stored.next() == Some(true) { None } else { Some(passage_terms(&document, terms_of)?) };
            Ok(NewDocument { document, terms })
        };
        let documents = documents.into_iter().map(prepare).collect::<Result<_, StoreError>>()?;
        Ok(Self { documents })
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &DocumentId> {
        self.documents.iter().map(|new| &new.document.id)
    }

    /// Stores the documents. If an id occurs twice, the document is stored twice and the last one stays. Only the last one
    /// reports passages to embed.
    pub(super) fn write(self, transaction: &mut WriteTransaction<'_>) -> Result<Vec<Upserted>, Fault> {
        let ids: Vec<DocumentId> = self.ids().cloned().collect();
        let mut outcomes = self.documents.into_iter().map(|new| new.write(transaction)).collect::<Result<Vec<_>, _>>()?;
        clear_earlier_pending(ids.iter(), &mut outcomes);
        Ok(outcomes)
    }
}

/// Whether a stored document could keep its passages and their terms.
fn is_stored(connection: &Connection, document: &PreparedDocument, now_ms: i64) -> Result<bool, Fault> {
    let stored = find(connection, document)?.filter(|stored| !stored.has_expired(now_ms) && stored.has_language_of(document));
    Ok(stored.map(|stored| stored.reusable_passages(document)).transpose()?.flatten().is_some())
}

fn find(connection: &Connection, document: &PreparedDocument) -> Result<Option<StoredDocument>, Fault> {
    let sql = "select key, text = ?2 and title is ?3, created_at_ms, updated_at_ms, language, expires_at_ms
               from documents where id = ?1";
    query_one(connection, sql, params![document.id.as_str(), document.text, document.title], |row| {
        let (key, same_text) = (row.get(0)?, row.get(1)?);
        let with_embeddings = document.embedding.is_some();
        Ok(StoredDocument {
            key,
            same_text,
            created_at_ms: row.get(2)?,
            updated_at_ms: row.get(3)?,
            language: row.get(4)?,
            expires_at_ms: row.get(5)?,
            passages: if same_text { passages(connection, key, with_embeddings)? } else { Vec::new() },
        })
    })
}

/// Returns the passages of a document, or none of them if one is damaged: then they are not kept, and sending the document again
/// repairs them.
fn passages(connection: &Connection, document: i64, with_embeddings: bool) -> Result<Vec<StoredPassage>, Fault> {
    let sql = "select id, start, end, embedding is null, iif(?2, embedding, null), headings
               from passages where document = ?1 order by ordinal";
    let found = query_all(connection, sql, params![document, with_embeddings], |row| {
        let (number, headings) = (row.get(0)?, row.get_ref(5)?.as_str_or_null());
        let sealed = row.get_ref(4)?.as_blob_or_null()?;
        let (Ok(id), Ok(headings)) = (passage_id(number), headings) else { return Ok(None) };
        Ok(Some(StoredPassage {
            id,
            start: row.get(1)?,
            end: row.get(2)?,
            headings: headings.map(ToOwned::to_owned),
            is_pending: row.get(3)?,
            embedding: sealed.and_then(|sealed| unseal_embedding(number, sealed).ok()),
        }))
    })?;
    Ok(found.into_iter().collect::<Option<_>>().unwrap_or_default())
}

impl NewDocument {
    fn write(mut self, transaction: &mut WriteTransaction<'_>) -> Result<Upserted, Fault> {
        // An expired document counts as gone, so the new one is created.
        let (stored, expired) = match find(transaction.connection, &self.document)? {
            Some(stored) if stored.has_expired(transaction.now_ms) => (None, Some(stored.key)),
            stored => (stored, None),
        };
        let Some(stored) = stored else {
            let removed = expired.map(|key| mutations::delete_key(transaction, key)).transpose()?;
            let removed = removed.map(|deleted| deleted.removed).unwrap_or_default();
            let (sequence, key) = insert(transaction, &self.document)?;
            let pending = self.insert_passages(transaction, key)?;
            return Ok(Upserted { created: true, sequence, pending, removed });
        };
        self.replace(transaction, &stored)
    }

    fn replace(mut self, transaction: &mut WriteTransaction<'_>, stored: &StoredDocument) -> Result<Upserted, Fault> {
        let (pending, removed) = match stored.reusable_passages(&self.document)? {
            Some(pending) => {
                if !stored.has_language_of(&self.document) {
                    for (passage, terms) in stored.passages.iter().zip(self.take_terms(transaction.terms_of)?) {
                        mutations::replace_terms(transaction, to_sql(passage.id.0), terms)?;
                    }
                }
                (pending, Vec::new())
            }
            None => {
                let removed = mutations::remove_passages(transaction, stored.key)?;
                (self.insert_passages(transaction, stored.key)?, removed)
            }
        };
        let sequence = update(transaction, stored, &self.document)?;
        Ok(Upserted { created: false, sequence, pending, removed })
    }

    fn insert_passages(&mut self, transaction: &mut WriteTransaction<'_>, key: i64) -> Result<Vec<PendingPassage>, Fault> {
        let terms = self.take_terms(transaction.terms_of)?;
        mutations::insert_passages(transaction, key, &self.document, terms)
    }

    fn take_terms(&mut self, terms_of: &TermsOf) -> Result<Vec<PassageTerms>, StoreError> {
        self.terms.take().map_or_else(|| passage_terms(&self.document, terms_of), Ok)
    }
}

fn insert(transaction: &mut WriteTransaction<'_>, document: &PreparedDocument) -> Result<(Sequence, i64), Fault> {
    let now_ms = transaction.now_ms;
    let sequence = write_change(transaction, INSERT, None, document, (now_ms, now_ms))?;
    Ok((sequence, transaction.connection.last_insert_rowid()))
}

fn update(
    transaction: &mut WriteTransaction<'_>,
    stored: &StoredDocument,
    document: &PreparedDocument,
) -> Result<Sequence, Fault> {
    let sql = "update documents set language = ?3, language_confidence = ?4, updated_at_ms = ?6, sequence = ?7, metadata = ?8,
               text = ?9, title = ?10, expires_at_ms = ?11, checksum = ?12 where key = ?1";
    // A clock that jumps back must not make a document older than it was.
    let updated_at_ms = transaction.now_ms.max(stored.updated_at_ms);
    write_change(transaction, sql, Some(stored.key), document, (stored.created_at_ms, updated_at_ms))
}
