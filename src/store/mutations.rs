//! What the writer does to documents and passages, inside its transaction.
//!
//! Every number of the change sequence is drawn once: one for each passage that goes or gets its embedding, then one for the
//! document itself. So the order of changes is total, and a page of them can end anywhere.

use std::collections::HashMap;

use rusqlite::{OptionalExtension, params};

use super::error::Fault;
use super::rows::{passage_id, to_sql};
use super::writer::WriteTransaction;
use super::{Deleted, PendingPassage, PreparedDocument, StoreError, Upserted};
use crate::domain::{DocumentId, Embedding, PassageId, Sequence};

/// Stores documents. An id that comes twice is stored twice, the last one stays; passages to embed are named by the last one
/// alone.
pub(super) fn upsert(transaction: &mut WriteTransaction<'_>, documents: &[PreparedDocument]) -> Result<Vec<Upserted>, Fault> {
    let mut outcomes: Vec<Upserted> = Vec::with_capacity(documents.len());
    let mut last: HashMap<&DocumentId, usize> = HashMap::with_capacity(documents.len());
    for (place, document) in documents.iter().enumerate() {
        outcomes.push(upsert_one(transaction, document)?);
        if let Some(earlier) = last.insert(&document.id, place) {
            outcomes[earlier].pending.clear();
        }
    }
    Ok(outcomes)
}

/// A document's row before it is written anew.
struct Stored {
    key: i64,
    same_text: bool,
    updated_at_ms: i64,
}

fn upsert_one(transaction: &mut WriteTransaction<'_>, document: &PreparedDocument) -> Result<Upserted, Fault> {
    for range in &document.passages {
        passage_text(document, range)?;
    }
    let stored = transaction
        .connection
        .prepare_cached("select key, text = ?2, updated_at_ms from documents where id = ?1")?
        .query_row(params![document.id.as_str(), document.text], |row| {
            Ok(Stored { key: row.get(0)?, same_text: row.get(1)?, updated_at_ms: row.get(2)? })
        })
        .optional()?;
    let Some(stored) = stored else {
        let (sequence, key) = insert(transaction, document)?;
        let pending = insert_passages(transaction, key, document)?;
        return Ok(Upserted { created: true, sequence, pending, removed: Vec::new() });
    };
    let kept = if stored.same_text { kept_passages(transaction, stored.key, document)? } else { None };
    let (pending, removed) = match kept {
        Some(pending) => (pending, Vec::new()),
        None => {
            let removed = remove_passages(transaction, stored.key)?;
            (insert_passages(transaction, stored.key, document)?, removed)
        }
    };
    let sequence = update(transaction, &stored, document)?;
    Ok(Upserted { created: false, sequence, pending, removed })
}

fn insert(transaction: &mut WriteTransaction<'_>, document: &PreparedDocument) -> Result<(Sequence, i64), Fault> {
    let sequence = transaction.next_sequence();
    let sql = "insert into documents (id, language, language_confidence, created_at_ms, updated_at_ms, sequence, metadata, text)
               values (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7)";
    transaction.connection.prepare_cached(sql)?.execute(params![
        document.id.as_str(),
        document.language.map(|language| language.code()),
        document.language_confidence,
        transaction.now_ms,
        sequence,
        metadata_json(document)?,
        document.text,
    ])?;
    Ok((transaction.sequence(), transaction.connection.last_insert_rowid()))
}

fn update(transaction: &mut WriteTransaction<'_>, stored: &Stored, document: &PreparedDocument) -> Result<Sequence, Fault> {
    let sequence = transaction.next_sequence();
    let sql = "update documents set language = ?2, language_confidence = ?3, updated_at_ms = ?4, sequence = ?5, metadata = ?6,
               text = ?7 where key = ?1";
    transaction.connection.prepare_cached(sql)?.execute(params![
        stored.key,
        document.language.map(|language| language.code()),
        document.language_confidence,
        // A clock that jumps back must not make a document older than it was.
        transaction.now_ms.max(stored.updated_at_ms),
        sequence,
        metadata_json(document)?,
        document.text,
    ])?;
    Ok(transaction.sequence())
}

/// The passages without embedding, when the document is cut as before; `None` when it is cut differently.
fn kept_passages(
    transaction: &WriteTransaction<'_>,
    key: i64,
    document: &PreparedDocument,
) -> Result<Option<Vec<PendingPassage>>, Fault> {
    let sql = "select id, start, end, embedding is null from passages where document = ?1 order by ordinal";
    let mut statement = transaction.connection.prepare_cached(sql)?;
    let mut rows = statement.query([key])?;
    let mut pending = Vec::new();
    let mut ranges = document.passages.iter();
    while let Some(row) = rows.next()? {
        let (start, end): (i64, i64) = (row.get(1)?, row.get(2)?);
        match ranges.next() {
            Some(range) if (range.start as i64, range.end as i64) == (start, end) => {
                if row.get(3)? {
                    let text = passage_text(document, range)?.to_owned();
                    pending.push(PendingPassage { id: passage_id(row.get(0)?)?, text });
                }
            }
            _ => return Ok(None),
        }
    }
    Ok(ranges.next().is_none().then_some(pending))
}

fn insert_passages(
    transaction: &WriteTransaction<'_>,
    key: i64,
    document: &PreparedDocument,
) -> Result<Vec<PendingPassage>, Fault> {
    let sql = "insert into passages (document, ordinal, start, end) values (?1, ?2, ?3, ?4)";
    let mut statement = transaction.connection.prepare_cached(sql)?;
    let insert = |(ordinal, range): (usize, &std::ops::Range<usize>)| {
        let text = passage_text(document, range)?.to_owned();
        let id = statement.insert(params![key, ordinal as i64, range.start as i64, range.end as i64])?;
        Ok(PendingPassage { id: passage_id(id)?, text })
    };
    document.passages.iter().enumerate().map(insert).collect()
}

fn remove_passages(transaction: &mut WriteTransaction<'_>, key: i64) -> Result<Vec<PassageId>, Fault> {
    let connection = transaction.connection;
    let ids: Vec<i64> = connection
        .prepare_cached("select id from passages where document = ?1 order by ordinal")?
        .query_map([key], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut remember = connection.prepare_cached("insert into removals (sequence, passage) values (?1, ?2)")?;
    for id in &ids {
        remember.execute([transaction.next_sequence(), *id])?;
    }
    connection.prepare_cached("delete from passages where document = ?1")?.execute([key])?;
    ids.into_iter().map(passage_id).collect()
}

/// Removes a document; `None` when there is none.
pub(super) fn delete(transaction: &mut WriteTransaction<'_>, id: &DocumentId) -> Result<Option<Deleted>, Fault> {
    let connection = transaction.connection;
    let key: Option<i64> = connection
        .prepare_cached("select key from documents where id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    let Some(key) = key else { return Ok(None) };
    let removed = remove_passages(transaction, key)?;
    connection.prepare_cached("delete from documents where key = ?1")?.execute([key])?;
    transaction.next_sequence();
    Ok(Some(Deleted { sequence: transaction.sequence(), removed }))
}

/// Stores embeddings; gives those whose passage is still there.
pub(super) fn set_embeddings(
    transaction: &mut WriteTransaction<'_>,
    embeddings: Vec<(PassageId, Embedding)>,
) -> Result<Vec<(PassageId, Embedding)>, Fault> {
    let sql = "update passages set embedding = ?2, embedded_sequence = ?3 where id = ?1";
    let mut statement = transaction.connection.prepare_cached(sql)?;
    let mut stored = Vec::with_capacity(embeddings.len());
    for (id, embedding) in embeddings {
        if statement.execute(params![to_sql(id.0), embedding.to_bytes(), transaction.next_sequence()])? == 1 {
            stored.push((id, embedding));
        }
    }
    Ok(stored)
}

/// Deletes the removals up to `sequence` and remembers that they are gone.
pub(super) fn forget_removals(transaction: &mut WriteTransaction<'_>, sequence: Sequence) -> Result<(), Fault> {
    let reached = to_sql(sequence.min(transaction.sequence()).0);
    let connection = transaction.connection;
    connection.prepare_cached("delete from removals where sequence <= ?1")?.execute([reached])?;
    connection.prepare_cached("update state set removals_forgotten = max(removals_forgotten, ?1)")?.execute([reached])?;
    Ok(())
}

fn passage_text<'d>(document: &'d PreparedDocument, range: &std::ops::Range<usize>) -> Result<&'d str, StoreError> {
    let invalid = || StoreError::InvalidPassage { id: document.id.clone(), start: range.start, end: range.end };
    document.text.get(range.clone()).ok_or_else(invalid)
}

fn metadata_json(document: &PreparedDocument) -> Result<String, Fault> {
    let failed = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    Ok(serde_json::to_string(&document.metadata).map_err(failed)?)
}

#[cfg(test)]
mod tests {
    use super::super::connection::{open_reader, open_writer};
    use super::super::migrate::COLLECTION;
    use super::super::queries;
    use super::super::writer::Writer;
    use super::*;

    fn document(text: &str) -> PreparedDocument {
        PreparedDocument {
            id: DocumentId::parse("a").unwrap(),
            text: text.to_owned(),
            language: None,
            language_confidence: None,
            metadata: Default::default(),
            passages: std::iter::once(0..text.len()).collect(),
        }
    }

    #[test]
    fn a_clock_that_jumps_back_makes_no_document_older() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("documents.sqlite");
        let writer = Writer::start(open_writer(&path, &COLLECTION, false).unwrap(), 1).unwrap();
        let at = |now_ms: i64, text: &str| {
            let document = document(text);
            let work = move |transaction: &mut WriteTransaction<'_>| {
                transaction.now_ms = now_ms;
                upsert(transaction, &[document])
            };
            writer.write("testing", work).unwrap();
            let stored = queries::get(&open_reader(&path).unwrap(), &DocumentId::parse("a").unwrap()).unwrap().unwrap();
            (stored.created_at_ms, stored.updated_at_ms)
        };
        assert_eq!(at(5_000, "un"), (5_000, 5_000));
        assert_eq!(at(4_000, "deux"), (5_000, 5_000));
        assert_eq!(at(6_000, "trois"), (5_000, 6_000));
        assert_eq!(at(4_000, "trois"), (5_000, 6_000));
    }
}
