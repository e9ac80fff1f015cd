//! Stores documents: decides what stays of the stored ones, and writes the rows of the new ones, all in a few statements.
//!
//! Sequence numbers are assigned as in the embedded engine: one for each passage that is removed or already has an embedding,
//! and one for the document itself.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use pgvector::Vector;

use super::batch::{Batch, DocumentRow};
use super::escape::{escape, unescape};
use super::fault::Fault;
use super::rows::{self, passage_id};
use super::session::embedding;
use super::writing::Writing;
use crate::domain::{PassageId, TokenSet};
use crate::store::{PendingPassage, PreparedDocument, StoredDocument, StoredPassage, Upserted, clear_earlier_pending, to_sql};

/// Stores documents. If an id occurs twice, the document is stored twice and the last one stays. Only the last one reports
/// passages to embed.
pub(super) fn upsert(writing: &mut Writing<'_>, documents: &[PreparedDocument]) -> Result<Vec<Upserted>, Fault> {
    for document in documents {
        document.passages.iter().try_for_each(|span| document.passage_text(span).map(drop))?;
    }
    let mut outcomes = Vec::with_capacity(documents.len());
    let mut rest = documents;
    while !rest.is_empty() {
        let mut seen = HashSet::new();
        let distinct = rest.iter().take_while(|document| seen.insert(&document.id)).count();
        let (run, others) = rest.split_at(distinct);
        outcomes.extend(upsert_distinct(writing, run)?);
        rest = others;
    }
    clear_earlier_pending(documents.iter().map(|document| &document.id), &mut outcomes);
    Ok(outcomes)
}

fn upsert_distinct(writing: &mut Writing<'_>, documents: &[PreparedDocument]) -> Result<Vec<Upserted>, Fault> {
    let mut stored = read_stored(writing, documents)?;
    let mut batch = Batch::default();
    let mut outcomes = Vec::with_capacity(documents.len());
    for document in documents {
        outcomes.push(match stored.remove(document.id.as_str()) {
            Some(stored) if !stored.has_expired(writing.now_ms) => replace(writing, &mut batch, &stored, document)?,
            expired => {
                let removed = expired.as_ref().map_or_else(Vec::new, passage_ids);
                if let Some(expired) = expired {
                    remove(writing, &mut batch, expired.key, &removed);
                }
                let (sequence, key) = (writing.next_sequence(), writing.next_document());
                let (created_at_ms, updated_at_ms, new) = (writing.now_ms, writing.now_ms, Cow::Borrowed(document));
                batch.add_document(DocumentRow { key, document: new, sequence, created_at_ms, updated_at_ms });
                let pending = add_passages(writing, &mut batch, key, document)?;
                Upserted { created: true, sequence: rows::sequence(sequence), pending, removed }
            }
        });
    }
    batch.store(writing)?;
    Ok(outcomes)
}

fn replace<'d>(
    writing: &mut Writing<'_>,
    batch: &mut Batch<'d>,
    stored: &StoredDocument,
    document: &'d PreparedDocument,
) -> Result<Upserted, Fault> {
    let (pending, removed) = match stored.reusable_passages(document)? {
        Some(pending) => {
            if !stored.has_language_of(document) {
                for (passage, span) in stored.passages.iter().zip(&document.passages) {
                    let terms = writing.terms_of.compute(&document.indexed_text(span)?, document.language);
                    batch.renew_terms(stored.key, to_sql(passage.id.0), &terms);
                }
            }
            (pending, Vec::new())
        }
        None => {
            let removed = passage_ids(stored);
            remove_passages(writing, batch, stored.key, &removed);
            (add_passages(writing, batch, stored.key, document)?, removed)
        }
    };
    let sequence = writing.next_sequence();
    // A clock that jumps back must not make a document older than it was.
    let updated_at_ms = writing.now_ms.max(stored.updated_at_ms);
    let (key, created_at_ms) = (stored.key, stored.created_at_ms);
    batch.add_document(DocumentRow { key, document: Cow::Borrowed(document), sequence, created_at_ms, updated_at_ms });
    Ok(Upserted { created: false, sequence: writing.sequence(), pending, removed })
}

fn passage_ids(stored: &StoredDocument) -> Vec<PassageId> {
    stored.passages.iter().map(|passage| passage.id).collect()
}

/// Reads the stored documents with these ids, and their passages.
fn read_stored(writing: &mut Writing<'_>, documents: &[PreparedDocument]) -> Result<HashMap<String, StoredDocument>, Fault> {
    let ids: Vec<&str> = documents.iter().map(|document| document.id.as_str()).collect();
    let texts: Vec<_> = documents.iter().map(|document| escape(&document.text)).collect();
    let titles: Vec<_> = documents.iter().map(|document| document.title.as_deref().map(escape)).collect();
    let sql = format!(
        "select d.id, d.document, d.text = n.text and d.title is not distinct from n.title, d.created_at_ms, d.updated_at_ms, d.language,
             d.expires_at_ms
         from unnest($1, $2, $3) as n (id, text, title) join {} d on d.id = n.id",
        writing.names.documents
    );
    let mut found = HashMap::new();
    for row in writing.session.rows(&sql, &[&ids, &texts, &titles])? {
        let stored = StoredDocument {
            key: row.try_get(1)?,
            same_text: row.try_get(2)?,
            created_at_ms: row.try_get(3)?,
            updated_at_ms: row.try_get(4)?,
            language: row.try_get(5)?,
            expires_at_ms: row.try_get(6)?,
            passages: Vec::new(),
        };
        found.insert(row.try_get::<_, String>(0)?, stored);
    }
    let with_embeddings = documents.iter().any(|document| document.embedding.is_some());
    read_passages(writing, &mut found, with_embeddings)?;
    Ok(found)
}

fn read_passages(
    writing: &mut Writing<'_>,
    stored: &mut HashMap<String, StoredDocument>,
    with_embeddings: bool,
) -> Result<(), Fault> {
    let mut by_key: HashMap<i64, &mut StoredDocument> = stored.values_mut().map(|stored| (stored.key, stored)).collect();
    if by_key.is_empty() {
        return Ok(());
    }
    let keys: Vec<i64> = by_key.keys().copied().collect();
    let sql = format!(
        "select document, passage, begins, ends, headings, embedded_sequence is null, case when $2 then embedding end
         from {} where document = any($1) order by document, ordinal",
        writing.names.passages
    );
    for row in writing.session.rows(&sql, &[&keys, &with_embeddings])? {
        let Some(stored) = by_key.get_mut(&row.try_get::<_, i64>(0)?) else { continue };
        let passage: i64 = row.try_get(1)?;
        stored.passages.push(StoredPassage {
            id: passage_id(passage),
            start: row.try_get(2)?,
            end: row.try_get(3)?,
            headings: row.try_get::<_, Option<&str>>(4)?.map(unescape),
            is_pending: row.try_get(5)?,
            embedding: row.try_get::<_, Option<Vector>>(6)?.map(|vector| embedding(passage, vector)).transpose()?,
        });
    }
    Ok(())
}

/// Adds the passages of a document. Returns those that wait for their embedding.
pub(super) fn add_passages(
    writing: &mut Writing<'_>,
    batch: &mut Batch<'_>,
    key: i64,
    document: &PreparedDocument,
) -> Result<Vec<PendingPassage>, Fault> {
    let mut pending = Vec::new();
    for (ordinal, span) in document.passages.iter().enumerate() {
        let passage = writing.next_passage();
        let embedded = document.embedding.as_ref().map(|embedding| (embedding, writing.next_sequence()));
        let terms = writing.terms_of.compute(&document.indexed_text(span)?, document.language);
        batch.add_passage((key, passage, ordinal), span, embedded, &terms, &TokenSet::default());
        if document.embedding.is_none() {
            pending.push(document.pending_passage(passage_id(passage), span)?);
        }
    }
    Ok(pending)
}

/// Removes the passages of a document, which must be given in order.
pub(super) fn remove_passages(writing: &mut Writing<'_>, batch: &mut Batch<'_>, key: i64, passages: &[PassageId]) {
    for passage in passages {
        let sequence = writing.next_sequence();
        batch.add_tombstone(key, to_sql(passage.0), sequence);
    }
    batch.remove_passages(key);
}

/// Removes a document with its passages, which must be given in order.
pub(super) fn remove(writing: &mut Writing<'_>, batch: &mut Batch<'_>, key: i64, passages: &[PassageId]) {
    remove_passages(writing, batch, key, passages);
    writing.next_sequence();
    batch.remove_document(key);
}
