//! Runs queries, and converts SQLite rows to values of the domain. A row with something that the store never writes gives
//! `StoreError::CorruptRow`.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, Params, Row};
use serde::Serialize;

use super::StoreError;
use super::checksum::{DocumentRow, passage_checksum, unseal_embedding};
use super::error::Fault;
use super::records::{Excerpt, PassageParts, PassageRow};
use crate::domain::{
    Document, DocumentHead, DocumentId, Embedding, Language, Metadata, Passage, PassageId, Sequence, check_title,
};

pub(super) fn query_all<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    connection.prepare_cached(sql)?.query_and_then(values, read)?.collect()
}

/// Reads the first row of a query, if there is one.
pub(super) fn query_one<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    connection.prepare_cached(sql)?.query_row(values, |row| Ok(read(row))).optional()?.transpose()
}

/// Runs a query that returns one number. A negative one counts as 0.
pub(super) fn query_number(connection: &Connection, sql: &str, values: impl Params) -> Result<u64, Fault> {
    Ok(from_sql(connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?))
}

/// Runs a query for each of `values`, and reads the first row of each, if there is one.
pub(super) fn query_each<T>(
    connection: &Connection,
    sql: &str,
    values: impl IntoIterator<Item = impl Params>,
    read: impl Fn(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<Option<T>>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = values.into_iter().map(|values| statement.query_row(values, |row| Ok(read(row))).optional()?.transpose());
    rows.collect()
}

/// Runs a query, whose only parameter is a passage's key, for each of `ids`. Leaves out those without a row.
pub(super) fn query_passages<T>(
    connection: &Connection,
    sql: &str,
    ids: &[PassageId],
    read: impl Fn(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let rows = query_each(connection, sql, ids.iter().map(|id| [to_sql(id.0)]), read)?;
    Ok(rows.into_iter().flatten().collect())
}

/// The columns that `document` reads, from `documents d`.
pub(super) const DOCUMENT_COLUMNS: &str =
    "d.key, d.id, d.language, d.language_confidence, d.created_at_ms, d.updated_at_ms, d.sequence,
    d.metadata, d.text, (select count(*) from passages p where p.document = d.key),
    not exists (select 1 from passages p where p.document = d.key and p.embedding is null),
    d.checksum, d.title, d.expires_at_ms";

const DOCUMENT_COLUMNS_COUNT: usize = 14;

/// Reads `DOCUMENT_COLUMNS`, which must come first in the row.
pub(super) fn document(row: &Row<'_>) -> Result<Document, Fault> {
    checked(row, |key, stored| {
        let head = head(key, &stored)?;
        let sequence = u64::try_from(stored.sequence).map_err(|_| corrupt_document(key, "its sequence is negative"))?;
        Ok(Document {
            id: head.id,
            title: stored.title.map(str::to_owned),
            text: stored.text.to_owned(),
            language: head.language,
            language_confidence: stored.language_confidence,
            metadata: head.metadata,
            passages: passages_of_document(row, key)?,
            indexed: row.get(10)?,
            created_at_ms: head.created_at_ms,
            updated_at_ms: head.updated_at_ms,
            expires_at_ms: stored.expires_at_ms,
            sequence: Sequence(sequence),
        })
    })
}

/// Reads the requested parts of `DOCUMENT_COLUMNS` and `PASSAGE_COLUMNS`. Copies nothing else of the text, but checks the whole
/// row, because its checksum is over all of it.
pub(super) fn passage_row(row: &Row<'_>, passage: Passage, parts: PassageParts) -> Result<PassageRow, Fault> {
    checked(row, |key, stored| {
        let range = passage.start..passage.end;
        Ok(PassageRow {
            document: head(key, &stored)?,
            passages: passages_of_document(row, key)?,
            title: stored.title.filter(|_| parts.title).map(str::to_owned),
            text: parts.text.then(|| stored.text.to_owned()),
            excerpt: parts.excerpt.then(|| Excerpt::of(stored.text, range)),
            passage,
        })
    })
}

fn head(key: i64, stored: &DocumentRow<'_>) -> Result<DocumentHead, StoreError> {
    Ok(DocumentHead {
        id: document_id(key, stored.id)?,
        language: language(key, stored.language)?,
        metadata: metadata(key, stored.metadata)?,
        created_at_ms: stored.created_at_ms,
        updated_at_ms: stored.updated_at_ms,
    })
}

fn passages_of_document(row: &Row<'_>, key: i64) -> Result<usize, Fault> {
    let passages: i64 = row.get(9)?;
    Ok(usize::try_from(passages).map_err(|_| corrupt_document(key, "it has a negative number of passages"))?)
}

/// Passes a document's key and its stored row to `read`, unless it does not match its checksum.
fn checked<T>(row: &Row<'_>, read: impl FnOnce(i64, DocumentRow<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
    let key = row.get(0)?;
    let read = stored_row(row, key).and_then(|stored| read(key, stored));
    read.map_err(|fault| match fault {
        // A text that is not UTF-8, or a value whose type is not that of its column.
        Fault::Sqlite(error) if error.sqlite_error_code().is_none() => {
            corrupt_document(key, "one of its columns cannot be read").into()
        }
        other => other,
    })
}

fn stored_row<'r>(row: &'r Row<'_>, key: i64) -> Result<DocumentRow<'r>, Fault> {
    let corrupt = |problem| corrupt_document(key, problem);
    let text_of = |column| -> Result<&str, rusqlite::Error> { Ok(row.get_ref(column)?.as_str()?) };
    let optional = |column| -> Result<Option<&str>, rusqlite::Error> { Ok(row.get_ref(column)?.as_str_or_null()?) };
    let stored = DocumentRow {
        id: text_of(1)?,
        language: optional(2)?,
        language_confidence: row.get(3)?,
        created_at_ms: row.get(4)?,
        updated_at_ms: row.get(5)?,
        sequence: row.get(6)?,
        metadata: text_of(7)?,
        text: text_of(8)?,
        title: optional(12)?,
        expires_at_ms: row.get(13)?,
    };
    if row.get::<_, Option<i64>>(11)?.is_some_and(|checksum| checksum != i64::from(stored.checksum())) {
        return Err(corrupt("it does not match its checksum").into());
    }
    if stored.title.is_some_and(|title| check_title(title).is_err()) {
        return Err(corrupt("its title is not valid").into());
    }
    Ok(stored)
}

pub(crate) fn document_id(key: i64, text: &str) -> Result<DocumentId, StoreError> {
    DocumentId::parse(text).map_err(|_| corrupt_document(key, "its id is not valid"))
}

pub(crate) fn language(key: i64, code: Option<&str>) -> Result<Option<Language>, StoreError> {
    code.map(|code| Language::parse(code).ok_or_else(|| corrupt_document(key, "its language is unknown"))).transpose()
}

pub(super) fn metadata(key: i64, json: &str) -> Result<Metadata, StoreError> {
    serde_json::from_str(json).map_err(|_| corrupt_document(key, "its metadata is not a JSON object"))
}

pub(crate) fn corrupt_document(row: i64, problem: &'static str) -> StoreError {
    StoreError::CorruptRow { table: "documents", row, problem }
}

/// Returns the sizes of title, metadata and text in `DOCUMENT_COLUMNS`, in bytes.
pub(super) fn sizes(row: &Row<'_>) -> Result<[u64; 3], Fault> {
    let bytes = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_bytes_or_null().ok().flatten().map_or(0, <[u8]>::len));
    Ok([bytes(12)? as u64, bytes(7)? as u64, bytes(8)? as u64])
}

/// The columns that `passage` reads, from `passages wanted`, after `DOCUMENT_COLUMNS`.
pub(super) const PASSAGE_COLUMNS: &str =
    "wanted.id, wanted.document, wanted.ordinal, wanted.start, wanted.end, wanted.checksum, wanted.headings";

/// Reads `PASSAGE_COLUMNS`, which follow `DOCUMENT_COLUMNS`.
pub(super) fn passage(row: &Row<'_>) -> Result<Passage, Fault> {
    let text = row.get_ref(8)?.as_str()?;
    let (id, range, _) = passage_at(row, DOCUMENT_COLUMNS_COUNT, text)?;
    Ok(Passage { id, start: range.start, end: range.end })
}

/// Reads and checks `PASSAGE_COLUMNS` from `column` on: the key, the range in the document's text, and the headings.
pub(super) fn passage_at<'r>(
    row: &'r Row<'_>,
    column: usize,
    text: &str,
) -> Result<(PassageId, Range<usize>, Option<&'r str>), Fault> {
    let integer = |index: usize| row.get::<_, i64>(column + index);
    let stored = [integer(0)?, integer(1)?, integer(2)?, integer(3)?, integer(4)?];
    let [id, _, _, start, end] = stored;
    let checksum: Option<i64> = row.get(column + 5)?;
    let headings = row.get_ref(column + 6)?.as_str_or_null()?;
    if checksum.is_some_and(|checksum| checksum != i64::from(passage_checksum(stored, headings))) {
        return Err(corrupt_passage(id, "it does not match its checksum").into());
    }
    Ok((passage_id(id)?, passage_range(id, start, end, text)?, headings))
}

/// Checks a passage's byte range: it must lie in the text and split no character.
pub(crate) fn passage_range(passage: i64, start: i64, end: i64, text: &str) -> Result<Range<usize>, StoreError> {
    let range = usize::try_from(start).unwrap_or(usize::MAX)..usize::try_from(end).unwrap_or(usize::MAX);
    if text.get(range.clone()).is_none() {
        return Err(corrupt_passage(passage, "its range is not a part of the document's text"));
    }
    Ok(range)
}

/// Reads an id and an embedding from columns `column` and `column + 1`.
pub(super) fn read_embedding(row: &Row<'_>, column: usize) -> Result<(PassageId, Embedding), Fault> {
    let id: i64 = row.get(column)?;
    let bytes = row.get_ref(column + 1)?.as_blob()?;
    let embedding = unseal_embedding(id, bytes)?;
    Ok((passage_id(id)?, embedding))
}

pub(super) fn passage_id(id: i64) -> Result<PassageId, Fault> {
    Ok(PassageId(u64::try_from(id).map_err(|_| corrupt_passage(id, "its key is negative"))?))
}

pub(crate) fn corrupt_passage(row: i64, problem: &'static str) -> StoreError {
    StoreError::CorruptRow { table: "passages", row, problem }
}

/// Converts a number to the type of the database. A number beyond its range is beyond every row.
pub(crate) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number of the database, in which a negative one counts as 0.
pub(crate) fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

pub(super) fn json(value: &impl Serialize) -> Result<String, Fault> {
    let failed = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    Ok(serde_json::to_string(value).map_err(failed)?)
}
