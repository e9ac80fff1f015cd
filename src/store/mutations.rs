//! The changes that the writer makes to documents and passages, inside its transaction, and the terms that they need.
//!
//! Each change gets its own sequence number: one for each passage that is removed or gets its embedding, then one for the
//! document itself. So changes are totally ordered, and a page of them can end anywhere.

use rusqlite::{Connection, params};

use super::checksum::{DocumentRow, passage_checksum, seal_embedding};
use super::error::Fault;
use super::rows::{json, passage_id, query_all, to_sql};
use super::write_transaction::WriteTransaction;
use super::{Deleted, PendingPassage, PreparedDocument, StoreError, TermsOf, term_rows};
use crate::domain::{Document, Embedding, PassageEmbedding, PassageId, PassageSpan, PassageTerms, Sequence};

/// Computes the terms of a document's passages.
pub(super) fn passage_terms(document: &PreparedDocument, terms_of: &TermsOf) -> Result<Vec<PassageTerms>, StoreError> {
    let of_passage = |span| Ok(terms_of.compute(&document.indexed_text(span)?, document.language));
    document.passages.iter().map(of_passage).collect()
}

impl<'r> DocumentRow<'r> {
    /// Returns the row of a document whose metadata is `metadata` as JSON.
    pub(super) fn of(document: &'r Document, metadata: &'r str) -> Self {
        Self {
            id: document.id.as_str(),
            language: document.language.map(|language| language.code()),
            language_confidence: document.language_confidence,
            created_at_ms: document.created_at_ms,
            updated_at_ms: document.updated_at_ms,
            sequence: to_sql(document.sequence.0),
            metadata,
            text: &document.text,
            title: document.title.as_deref(),
            expires_at_ms: document.expires_at_ms,
        }
    }
}

/// Inserts a document's row, whose values `write_row` binds.
pub(super) const INSERT: &str = "insert into documents
    (key, id, language, language_confidence, created_at_ms, updated_at_ms, sequence, metadata, text, title, expires_at_ms, checksum)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";

/// Writes a document's row. The parameters of `sql` have the numbers of `INSERT`. It may leave out some, but not the last one,
/// the checksum, because SQLite counts parameters by the highest number.
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
    transaction.record_expiry(row.expires_at_ms);
    Ok(())
}

/// Writes a document's row with the next sequence number, and returns the number.
pub(super) fn write_change(
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

/// Adds the passages of the document with this key, which have these terms. Returns those that wait for their embedding.
pub(super) fn insert_passages(
    transaction: &mut WriteTransaction<'_>,
    key: i64,
    document: &PreparedDocument,
    terms: Vec<PassageTerms>,
) -> Result<Vec<PendingPassage>, Fault> {
    let connection = transaction.connection;
    // The checksum includes the key, so the key is allocated here. SQLite's autoincrement counter follows the largest key.
    let mut id: i64 = connection
        .prepare_cached("select coalesce((select seq from sqlite_sequence where name = 'passages'), 0)")?
        .query_row([], |row| row.get(0))?;
    debug_assert_eq!(document.passages.len(), terms.len(), "each passage has its terms");
    let mut pending = Vec::new();
    for (ordinal, (span, terms)) in document.passages.iter().zip(terms).enumerate() {
        id += 1;
        let key_of = passage_id(id)?;
        // Inserts the row with its embedding, because in two steps it would move in and out of two indexes.
        let embedded = document.embedding.as_ref().map(|embedding| (embedding, transaction.next_sequence()));
        insert_passage(connection, (key, key_of, ordinal), span, embedded)?;
        transaction.add_terms(id, terms);
        if document.embedding.is_none() {
            pending.push(document.pending_passage(key_of, span)?);
        }
    }
    Ok(pending)
}

/// Inserts the row of a passage, given by its document, its key and its position in the document.
pub(super) fn insert_passage(
    connection: &Connection,
    (document, id, ordinal): (i64, PassageId, usize),
    span: &PassageSpan,
    embedded: Option<(&Embedding, i64)>,
) -> Result<(), Fault> {
    let sql = "insert into passages (id, document, ordinal, start, end, headings, checksum, embedding, embedded_sequence)
               values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let row = [to_sql(id.0), document, ordinal as i64, span.range.start as i64, span.range.end as i64];
    let checksum = passage_checksum(row, span.headings.as_deref());
    let (embedding, sequence) = embedded.map(|(embedding, sequence)| (seal_embedding(id, embedding), sequence)).unzip();
    let values = params![row[0], row[1], row[2], row[3], row[4], span.headings, checksum, embedding, sequence];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

pub(super) fn replace_terms(transaction: &mut WriteTransaction<'_>, passage: i64, terms: PassageTerms) -> Result<(), Fault> {
    term_rows::remove(transaction.connection, passage)?;
    transaction.add_terms(passage, terms);
    Ok(())
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
    transaction.drop_terms(&ids);
    ids.into_iter().map(passage_id).collect()
}

/// Removes a document.
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
            term_rows::insert_tokens(connection, id, &tokens)?;
            stored.push((id, embedding));
        }
    }
    Ok(stored)
}
