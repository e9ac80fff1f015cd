//! Converts rows of the database server to values of the domain.

use tokio_postgres::Row;

use super::escape::{parse_stored_json, unescape};
use super::fault::Fault;
use super::names::PartitionNames;
use crate::domain::{Document, DocumentId, Metadata, PassageContext, PassageId, Sequence};
use crate::store::{PendingPassage, corrupt_document, document_id, from_sql, language, passage_range, to_sql};

/// The columns that `document` reads, from `documents d`.
pub(super) fn document_columns(names: &PartitionNames) -> String {
    let passages = &names.passages;
    format!(
        "d.document, d.id, d.title, d.text, d.language, d.language_confidence, d.metadata, d.created_at_ms, d.updated_at_ms, d.sequence,
         d.expires_at_ms,
         (select count(*) from {passages} own where own.document = d.document),
         not exists (select 1 from {passages} own where own.document = d.document and own.embedded_sequence is null)"
    )
}

/// Number of columns in `document_columns`.
pub(super) const DOCUMENT_COLUMNS: usize = 13;

/// Expression of how many bytes a page shows of `documents d`. Escaped texts count a few bytes more than what was sent.
pub(super) const BYTES: &str = "octet_length(d.text) + octet_length(d.metadata) + coalesce(octet_length(d.title), 0)";

/// Reads `document_columns`, which must come first in the row.
pub(super) fn document(row: &Row) -> Result<Document, Fault> {
    let key: i64 = row.try_get(0)?;
    let passages: i64 = row.try_get(11)?;
    Ok(Document {
        id: document_id(key, row.try_get(1)?)?,
        title: row.try_get::<_, Option<&str>>(2)?.map(unescape),
        text: unescape(row.try_get(3)?),
        language: language(key, row.try_get(4)?)?,
        language_confidence: row.try_get(5)?,
        metadata: metadata(key, row.try_get(6)?)?,
        passages: usize::try_from(passages).unwrap_or_default(),
        indexed: row.try_get(12)?,
        created_at_ms: row.try_get(7)?,
        updated_at_ms: row.try_get(8)?,
        expires_at_ms: row.try_get(10)?,
        sequence: sequence(row.try_get(9)?),
    })
}

pub(super) fn metadata(key: i64, json: &str) -> Result<Metadata, Fault> {
    parse_stored_json(json).map_err(|_| corrupt_document(key, "its metadata is not a JSON object").into())
}

pub(super) fn sequence(number: i64) -> Sequence {
    Sequence(from_sql(number))
}

pub(super) fn passage_id(key: i64) -> PassageId {
    PassageId(from_sql(key))
}

/// Converts keys of passages to values of a statement. No passage has a key beyond the range of the type.
pub(super) fn keys(ids: &[PassageId]) -> Vec<i64> {
    ids.iter().map(|id| to_sql(id.0)).collect()
}

/// Converts ids of documents to values of a statement.
pub(super) fn texts(ids: &[DocumentId]) -> Vec<&str> {
    ids.iter().map(DocumentId::as_str).collect()
}

/// Converts a limit of a statement, leaving room to add one.
pub(super) fn limit(limit: usize) -> i64 {
    to_sql(limit as u64).min(i64::MAX - 1)
}

/// Reads the columns passage, document, begins, ends and headings. The first of consecutive passages of one document also has
/// the document's text and title, so that a long text is sent only once.
pub(super) fn pending(rows: &[Row]) -> Result<Vec<PendingPassage>, Fault> {
    let mut passages = Vec::with_capacity(rows.len());
    let (mut document, mut text, mut title) = (0, String::new(), None);
    for row in rows {
        let passage: i64 = row.try_get(0)?;
        if document != row.try_get::<_, i64>(1)? || passages.is_empty() {
            document = row.try_get(1)?;
            text = unescape(row.try_get::<_, Option<&str>>(5)?.unwrap_or_default());
            title = row.try_get::<_, Option<&str>>(6)?.map(unescape);
        }
        let range = passage_range(passage, row.try_get(2)?, row.try_get(3)?, &text)?;
        let context = PassageContext { title: title.clone(), headings: row.try_get::<_, Option<&str>>(4)?.map(unescape) };
        passages.push(PendingPassage { id: passage_id(passage), context, text: text[range].to_owned() });
    }
    Ok(passages)
}
