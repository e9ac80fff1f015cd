//! From rows of SQLite to values of the domain. A row that holds what the store never writes is `StoreError::CorruptRow`.

use rusqlite::Row;

use super::StoreError;
use super::error::Fault;
use crate::domain::{Document, DocumentId, Embedding, Language, Metadata, Passage, PassageId, Sequence};

/// The columns that `document` reads, from `documents d`.
pub(super) const DOCUMENT_COLUMNS: &str =
    "d.key, d.id, d.language, d.language_confidence, d.created_at_ms, d.updated_at_ms, d.sequence,
    d.metadata, d.text, (select count(*) from passages p where p.document = d.key),
    not exists (select 1 from passages p where p.document = d.key and p.embedding is null)";

/// How many columns `DOCUMENT_COLUMNS` are.
const DOCUMENT_COLUMNS_COUNT: usize = 11;

/// Reads `DOCUMENT_COLUMNS`, which are the row's first.
pub(super) fn document(row: &Row<'_>) -> Result<Document, Fault> {
    let key = row.get(0)?;
    let corrupt = |problem| StoreError::CorruptRow { table: "documents", row: key, problem };
    let id: String = row.get(1)?;
    let language: Option<String> = row.get(2)?;
    let language = language.map(|code| Language::parse(&code).ok_or_else(|| corrupt("its language is unknown"))).transpose()?;
    let metadata: Metadata = serde_json::from_str(row.get_ref(7)?.as_str().map_err(rusqlite::Error::from)?)
        .map_err(|_| corrupt("its metadata is no JSON object"))?;
    Ok(Document {
        id: DocumentId::parse(&id).map_err(|_| corrupt("its id is none"))?,
        text: row.get(8)?,
        language,
        language_confidence: row.get(3)?,
        metadata,
        passages: usize::try_from(row.get::<_, i64>(9)?).map_err(|_| corrupt("it has a negative number of passages"))?,
        indexed: row.get(10)?,
        created_at_ms: row.get(4)?,
        updated_at_ms: row.get(5)?,
        sequence: Sequence(u64::try_from(row.get::<_, i64>(6)?).map_err(|_| corrupt("its sequence is negative"))?),
    })
}

/// Reads a passage's id, start and end, which follow `DOCUMENT_COLUMNS`.
pub(super) fn passage(row: &Row<'_>) -> Result<Passage, Fault> {
    let id: i64 = row.get(DOCUMENT_COLUMNS_COUNT)?;
    let text = row.get_ref(8)?.as_str().map_err(rusqlite::Error::from)?;
    let range = range(id, row.get(DOCUMENT_COLUMNS_COUNT + 1)?, row.get(DOCUMENT_COLUMNS_COUNT + 2)?, text)?;
    Ok(Passage { id: passage_id(id)?, start: range.start, end: range.end })
}

/// A passage's byte range, which lies in the text and cuts no character in two.
pub(super) fn range(passage: i64, start: i64, end: i64, text: &str) -> Result<std::ops::Range<usize>, Fault> {
    let range = usize::try_from(start).unwrap_or(usize::MAX)..usize::try_from(end).unwrap_or(usize::MAX);
    if text.get(range.clone()).is_none() {
        return Err(corrupt_passage(passage, "its range is no part of the document's text").into());
    }
    Ok(range)
}

/// Reads an id and an embedding, which are columns `column` and the next.
pub(super) fn embedded(row: &Row<'_>, column: usize) -> Result<(PassageId, Embedding), Fault> {
    let id: i64 = row.get(column)?;
    let bytes = row.get_ref(column + 1)?.as_blob().map_err(rusqlite::Error::from)?;
    let embedding = Embedding::from_bytes(bytes).ok_or_else(|| corrupt_passage(id, "its embedding has not unit length"))?;
    Ok((passage_id(id)?, embedding))
}

/// A passage's key.
pub(super) fn passage_id(id: i64) -> Result<PassageId, Fault> {
    Ok(PassageId(u64::try_from(id).map_err(|_| corrupt_passage(id, "its key is negative"))?))
}

fn corrupt_passage(row: i64, problem: &'static str) -> StoreError {
    StoreError::CorruptRow { table: "passages", row, problem }
}

/// A number as SQLite keeps it. What is beyond its range is beyond every row.
pub(super) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
