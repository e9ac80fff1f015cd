//! The changes that the writer makes to documents and passages, inside its transaction.
//!
//! Each change gets its own sequence number: one for each passage that is removed or gets its embedding, then one for the
//! document itself. So changes are totally ordered, and a page of them can end anywhere.

use std::collections::HashMap;

use rusqlite::params;

use super::checksum::{DocumentRow, passage_checksum, seal_embedding, unseal_embedding};
use super::error::Fault;
use super::expiry::LIVE;
use super::rows::{json, passage_id, query_all, query_one, to_sql};
use super::writer::WriteTransaction;
use super::{Deleted, PendingPassage, PreparedDocument, TermsOf, Upserted, term_rows, token_rows};
use crate::domain::{DocumentId, Embedding, PassageEmbedding, PassageId, PassageSpan, Sequence};

/// Stores documents. If an id occurs twice, the document is stored twice and the last one stays. Only the last one reports
/// passages to embed.
pub(super) fn upsert(
    transaction: &mut WriteTransaction<'_>,
    documents: &[PreparedDocument],
    terms_of: &TermsOf,
) -> Result<Vec<Upserted>, Fault> {
    let mut outcomes: Vec<Upserted> = Vec::with_capacity(documents.len());
    let mut last: HashMap<&DocumentId, usize> = HashMap::with_capacity(documents.len());
    for (index, document) in documents.iter().enumerate() {
        outcomes.push(upsert_one(transaction, document, terms_of)?);
        if let Some(earlier) = last.insert(&document.id, index) {
            outcomes[earlier].pending.clear();
        }
    }
    Ok(outcomes)
}

/// A document's row before it is replaced.
struct Stored {
    key: i64,
    /// Whether text and title are unchanged.
    same_text: bool,
    created_at_ms: i64,
    updated_at_ms: i64,
    language: Option<String>,
    expires_at_ms: Option<i64>,
}

fn upsert_one(
    transaction: &mut WriteTransaction<'_>,
    document: &PreparedDocument,
    terms_of: &TermsOf,
) -> Result<Upserted, Fault> {
    for span in &document.passages {
        document.passage_text(span)?;
    }
    let sql = "select key, text = ?2 and title is ?3, created_at_ms, updated_at_ms, language, expires_at_ms
               from documents where id = ?1";
    let values = params![document.id.as_str(), document.text, document.title];
    let stored = query_one(transaction.connection, sql, values, |row| {
        let (key, same_text, created_at_ms) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (updated_at_ms, language, expires_at_ms) = (row.get(3)?, row.get(4)?, row.get(5)?);
        Ok(Stored { key, same_text, created_at_ms, updated_at_ms, language, expires_at_ms })
    })?;
    // An expired document counts as gone, so the new one is created.
    let (stored, expired) = match stored {
        Some(stored) if stored.expires_at_ms.is_some_and(|at| at <= transaction.now_ms) => (None, Some(stored.key)),
        stored => (stored, None),
    };
    let Some(stored) = stored else {
        let removed = expired.map(|key| delete_key(transaction, key)).transpose()?;
        let removed = removed.map(|deleted| deleted.removed).unwrap_or_default();
        let (sequence, key) = insert(transaction, document)?;
        let pending = insert_passages(transaction, key, document, terms_of)?;
        return Ok(Upserted { created: true, sequence, pending, removed });
    };
    let kept = if stored.same_text { reusable_passages(transaction, stored.key, document)? } else { None };
    let (pending, removed) = match kept {
        Some(pending) => (pending, Vec::new()),
        None => {
            let removed = remove_passages(transaction, stored.key)?;
            (insert_passages(transaction, stored.key, document, terms_of)?, removed)
        }
    };
    if removed.is_empty() && stored.language.as_deref() != document.language.map(|language| language.code()) {
        term_rows::renew(transaction.connection, stored.key, document.language, terms_of)?;
    }
    let sequence = update(transaction, &stored, document)?;
    Ok(Upserted { created: false, sequence, pending, removed })
}

fn insert(transaction: &mut WriteTransaction<'_>, document: &PreparedDocument) -> Result<(Sequence, i64), Fault> {
    let now_ms = transaction.now_ms;
    let sequence = write_change(transaction, INSERT, None, document, (now_ms, now_ms))?;
    Ok((sequence, transaction.connection.last_insert_rowid()))
}

fn update(transaction: &mut WriteTransaction<'_>, stored: &Stored, document: &PreparedDocument) -> Result<Sequence, Fault> {
    let sql = "update documents set language = ?3, language_confidence = ?4, updated_at_ms = ?6, sequence = ?7, metadata = ?8,
               text = ?9, title = ?10, expires_at_ms = ?11, checksum = ?12 where key = ?1";
    // A clock that jumps back must not make a document older than it was.
    let updated_at_ms = transaction.now_ms.max(stored.updated_at_ms);
    write_change(transaction, sql, Some(stored.key), document, (stored.created_at_ms, updated_at_ms))
}

/// Inserts a document's row, whose values `write_row` binds.
pub(super) const INSERT: &str = "insert into documents
    (key, id, language, language_confidence, created_at_ms, updated_at_ms, sequence, metadata, text, title, expires_at_ms, checksum)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";

/// Writes a document's row. The parameters of `sql` have the numbers of `INSERT`. It may leave out some, but not the last one, the
/// checksum, because SQLite counts parameters by the highest number.
pub(super) fn write_row(
    transaction: &mut WriteTransaction<'_>,
    sql: &str,
    key: Option<i64>,
    row: &DocumentRow<'_>,
) -> Result<(), Fault> {
    transaction.connection.prepare_cached(sql)?.execute(params![
        key,
        row.id,
        row.language,
        row.language_confidence,
        row.created_at_ms,
        row.updated_at_ms,
        row.sequence,
        row.metadata,
        row.text,
        row.title,
        row.expires_at_ms,
        row.checksum(),
    ])?;
    transaction.note_expiry(row.expires_at_ms);
    Ok(())
}

/// Writes a document's row with the next sequence number, and returns the number.
fn write_change(
    transaction: &mut WriteTransaction<'_>,
    sql: &str,
    key: Option<i64>,
    document: &PreparedDocument,
    (created_at_ms, updated_at_ms): (i64, i64),
) -> Result<Sequence, Fault> {
    let row = DocumentRow {
        id: document.id.as_str(),
        language: document.language.map(|language| language.code()),
        language_confidence: document.language_confidence,
        created_at_ms,
        updated_at_ms,
        sequence: transaction.next_sequence(),
        metadata: &json(&document.metadata)?,
        text: &document.text,
        title: document.title.as_deref(),
        expires_at_ms: document.expires_at_ms,
    };
    write_row(transaction, sql, key, &row)?;
    Ok(transaction.sequence())
}

/// If the passages can be kept, returns those of them without an embedding. They can be kept if the document is split as before
/// and its own vector, if it has one, is the same. Otherwise returns `None`.
fn reusable_passages(
    transaction: &WriteTransaction<'_>,
    key: i64,
    document: &PreparedDocument,
) -> Result<Option<Vec<PendingPassage>>, Fault> {
    // Embeddings are only read if there is one to compare them with.
    let sql = "select id, start, end, embedding is null, iif(?2, embedding, null), headings
               from passages where document = ?1 order by ordinal";
    let own = document.embedding.as_ref();
    let mut statement = transaction.connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![key, own.is_some()])?;
    let mut pending = Vec::new();
    let mut spans = document.passages.iter();
    while let Some(row) = rows.next()? {
        let (id, start, end): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let stored: Option<Vec<u8>> = row.get(4)?;
        // A damaged embedding never counts as the same, so sending it again repairs it.
        let stored = stored.and_then(|sealed| unseal_embedding(id, &sealed).ok());
        let same_embedding = own.is_none_or(|own| stored.as_ref() == Some(own));
        let headings = row.get_ref(5)?.as_str_or_null().map_err(rusqlite::Error::from)?;
        let is_same = |span: &&PassageSpan| {
            let same_range = (span.range.start as i64, span.range.end as i64) == (start, end);
            same_range && span.headings.as_deref() == headings && same_embedding
        };
        let Some(span) = spans.next().filter(is_same) else { return Ok(None) };
        if row.get(3)? {
            pending.push(document.pending_passage(passage_id(id)?, span)?);
        }
    }
    Ok(spans.next().is_none().then_some(pending))
}

/// Adds the passages of the document with this key. Returns those that wait for their embedding.
pub(super) fn insert_passages(
    transaction: &mut WriteTransaction<'_>,
    key: i64,
    document: &PreparedDocument,
    terms_of: &TermsOf,
) -> Result<Vec<PendingPassage>, Fault> {
    let connection = transaction.connection;
    let sql = "insert into passages (id, document, ordinal, start, end, headings, checksum, embedding, embedded_sequence)
               values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let mut statement = connection.prepare_cached(sql)?;
    // The checksum includes the key, so the key is allocated here. SQLite's autoincrement counter follows the largest key.
    let mut id: i64 = connection
        .prepare_cached("select coalesce((select seq from sqlite_sequence where name = 'passages'), 0)")?
        .query_row([], |row| row.get(0))?;
    let mut pending = Vec::new();
    for (ordinal, span) in document.passages.iter().enumerate() {
        let text = document.indexed_text(span)?;
        id += 1;
        let key_of = passage_id(id)?;
        let row = [id, key, ordinal as i64, span.range.start as i64, span.range.end as i64];
        // Inserts the row with its embedding, because in two steps it would move in and out of two indexes.
        let embedding = document.embedding.as_ref().map(|embedding| seal_embedding(key_of, embedding));
        let sequence = embedding.as_ref().map(|_| transaction.next_sequence());
        let checksum = passage_checksum(row, span.headings.as_deref());
        statement.execute(params![row[0], row[1], row[2], row[3], row[4], span.headings, checksum, embedding, sequence])?;
        term_rows::insert(connection, id, &terms_of.compute(&text, document.language))?;
        if document.embedding.is_none() {
            pending.push(document.pending_passage(key_of, span)?);
        }
    }
    Ok(pending)
}

pub(super) fn remove_passages(transaction: &mut WriteTransaction<'_>, key: i64) -> Result<Vec<PassageId>, Fault> {
    let connection = transaction.connection;
    let sql = "select id from passages where document = ?1 order by ordinal";
    let ids: Vec<i64> = query_all(connection, sql, [key], |row| Ok(row.get(0)?))?;
    let mut remember = connection.prepare_cached("insert into tombstones (sequence, passage) values (?1, ?2)")?;
    for id in &ids {
        remember.execute([transaction.next_sequence(), *id])?;
    }
    connection.prepare_cached("delete from passages where document = ?1")?.execute([key])?;
    ids.into_iter().map(passage_id).collect()
}

/// Removes a document. Returns `None` if there is none.
pub(super) fn delete(transaction: &mut WriteTransaction<'_>, id: &DocumentId) -> Result<Option<Deleted>, Fault> {
    let sql = format!("select d.key from documents d where d.id = ?1 and {LIVE}");
    let key = query_one(transaction.connection, &sql, [id.as_str()], |row| Ok(row.get(0)?))?;
    key.map(|key| delete_key(transaction, key)).transpose()
}

pub(super) fn delete_key(transaction: &mut WriteTransaction<'_>, key: i64) -> Result<Deleted, Fault> {
    let removed = remove_passages(transaction, key)?;
    transaction.connection.prepare_cached("delete from documents where key = ?1")?.execute([key])?;
    transaction.next_sequence();
    Ok(Deleted { sequence: transaction.sequence(), removed })
}

/// Stores embeddings. Returns those whose passage still exists.
pub(super) fn set_embeddings(
    transaction: &mut WriteTransaction<'_>,
    embeddings: Vec<(PassageId, PassageEmbedding)>,
) -> Result<Vec<(PassageId, Embedding)>, Fault> {
    let sql = "update passages set embedding = ?2, embedded_sequence = ?3 where id = ?1";
    let connection = transaction.connection;
    let mut statement = connection.prepare_cached(sql)?;
    let mut stored = Vec::with_capacity(embeddings.len());
    for (id, PassageEmbedding { embedding, tokens }) in embeddings {
        if statement.execute(params![to_sql(id.0), seal_embedding(id, &embedding), transaction.next_sequence()])? == 1 {
            token_rows::insert(connection, id, &tokens)?;
            stored.push((id, embedding));
        }
    }
    Ok(stored)
}

/// Discards a damaged embedding, so that its passage waits for another one.
pub(super) fn discard_embedding(transaction: &mut WriteTransaction<'_>, id: PassageId) -> Result<bool, Fault> {
    let sql = "update passages set embedding = null, embedded_sequence = null where id = ?1 and embedding is not null";
    Ok(transaction.connection.prepare_cached(sql)?.execute([to_sql(id.0)])? == 1)
}

/// Deletes the tombstones up to `sequence`, and records that they are gone.
pub(super) fn purge_tombstones(transaction: &mut WriteTransaction<'_>, sequence: Sequence) -> Result<(), Fault> {
    let reached = to_sql(sequence.min(transaction.sequence()).0);
    let connection = transaction.connection;
    connection.prepare_cached("delete from tombstones where sequence <= ?1")?.execute([reached])?;
    connection.prepare_cached("update state set tombstones_purged = max(tombstones_purged, ?1)")?.execute([reached])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::clock::system_clock;
    use super::super::connection::{open_reader, open_writer};
    use super::super::expiry::NextExpiry;
    use super::super::migrate::COLLECTION;
    use super::super::queries;
    use super::super::writer::Writer;
    use super::*;

    fn document(text: &str) -> PreparedDocument {
        PreparedDocument {
            id: DocumentId::parse("a").unwrap(),
            title: None,
            text: text.to_owned(),
            language: None,
            language_confidence: None,
            metadata: Default::default(),
            expires_at_ms: None,
            passages: vec![(0..text.len()).into()],
            embedding: None,
        }
    }

    #[test]
    fn updated_at_never_moves_back_with_the_clock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("documents.sqlite");
        let writer =
            Writer::start(open_writer(&path, &COLLECTION, false).unwrap(), 1, system_clock, NextExpiry::default()).unwrap();
        let at = |now_ms: i64, text: &str| {
            let document = document(text);
            let work = move |transaction: &mut WriteTransaction<'_>| {
                transaction.now_ms = now_ms;
                upsert(transaction, &[document], &TermsOf::new(|_, _| Default::default()))
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
