//! Copies the documents of a collection to its replacement, with the same keys, times and sequence numbers but new passages.
//! Refuses writes of a job that another server has taken over.

use std::borrow::Cow;
use std::collections::HashMap;

use super::batch::{Batch, DocumentRow};
use super::changes::{check_owner, delete_keys};
use super::escape::escape;
use super::fault::Fault;
use super::partition::Postgres;
use super::rows::{self, document_columns, limit, sequence};
use super::writing::Writing;
use crate::domain::{Document, JobId, TokenSet};
use crate::store::{CopiedDocument, CopiedPassage, DocumentKey, Revision, StoreError, to_sql};

impl Postgres {
    pub(crate) fn document_count(&self) -> Result<u64, StoreError> {
        self.run("counting documents", |session| {
            session.query_number(&format!("select count(*) from {}", self.names.documents), &[])
        })
    }

    pub(crate) fn revisions(&self, after: Revision, max: usize) -> Result<Vec<Revision>, StoreError> {
        self.run("reading revisions", |session| {
            let sql = format!(
                "select sequence, document from {} where (sequence, document) > ($1, $2) order by sequence, document limit $3",
                self.names.documents
            );
            let read = |row: &tokio_postgres::Row| {
                Ok(Revision { sequence: sequence(row.try_get(0)?), key: DocumentKey(row.try_get(1)?) })
            };
            session.rows(&sql, &[&to_sql(after.sequence.0), &after.key.0, &limit(max)])?.iter().map(read).collect()
        })
    }

    pub(crate) fn documents_by_key(&self, keys: &[DocumentKey], bytes_max: usize) -> Result<Vec<Option<Document>>, StoreError> {
        let keys: Vec<i64> = keys.iter().map(|key| key.0).collect();
        self.run("reading documents", |session| {
            let documents = &self.names.documents;
            // A document is read if the texts before it are within the limit; the first one always is.
            let sql = format!(
                "with page as materialized (
                     select n.document, n.position, coalesce(sum(octet_length(d.text)) over
                         (order by n.position rows between unbounded preceding and 1 preceding), 0) as bytes_before
                     from unnest($1) with ordinality as n (document, position) left join {documents} d on d.document = n.document
                 )
                 select {} from page left join {documents} d on d.document = page.document
                 where page.position = 1 or page.bytes_before < $2::bigint order by page.position",
                document_columns(&self.names)
            );
            let bytes_max = to_sql(bytes_max as u64);
            let found = session.rows(&sql, &[&keys, &bytes_max])?;
            let read = |row: &tokio_postgres::Row| match row.try_get::<_, Option<i64>>(0)? {
                Some(_) => Ok(Some(rows::document(row)?)),
                None => Ok(None),
            };
            found.iter().map(read).collect()
        })
    }

    pub(crate) fn write_copies(&self, job: &JobId, documents: Vec<CopiedDocument>) -> Result<(), StoreError> {
        self.write_patiently("copying documents", |writing| {
            check_owner(writing, job)?;
            let (anew, unchanged): (Vec<_>, Vec<_>) = documents.into_iter().partition(|moved| moved.passages.is_some());
            remove_stale(writing, &anew)?;
            let mut batch = Batch::default();
            let languages = languages_of(writing, &unchanged)?;
            for moved in unchanged {
                // If its text has changed in the meantime, the job copies it again later.
                if let Some(language) = languages.get(&moved.key.0) {
                    keep_passages(writing, &mut batch, moved, language.as_deref())?;
                }
            }
            anew.into_iter().try_for_each(|moved| add(writing, &mut batch, moved))?;
            batch.store(writing)?;
            // Copied numbers may be older than the last one here. A new number invalidates the cached counts.
            writing.next_sequence();
            Ok(())
        })
    }

    pub(crate) fn delete_by_key(&self, job: &JobId, keys: Vec<DocumentKey>) -> Result<(), StoreError> {
        let keys: Vec<i64> = keys.iter().map(|key| key.0).collect();
        self.write_patiently("removing documents", |writing| {
            check_owner(writing, job)?;
            delete_keys(writing, &keys).map(drop)
        })
    }
}

/// Removes what is stored under the keys and ids of documents that come with passages.
fn remove_stale(writing: &mut Writing<'_>, documents: &[CopiedDocument]) -> Result<(), Fault> {
    let keys: Vec<i64> = documents.iter().map(|moved| moved.key.0).collect();
    let ids: Vec<&str> = documents.iter().map(|moved| moved.document.id.as_str()).collect();
    let sql = format!(
        "select document from {0} where document = any($1) union select document from {0} where id = any($2)",
        writing.names.documents
    );
    let stale: Vec<i64> = writing.session.column(&sql, &[&keys, &ids])?;
    if stale.is_empty() { Ok(()) } else { delete_keys(writing, &stale).map(drop) }
}

/// Returns the languages of the documents that are stored with the same text under the same key.
fn languages_of(writing: &mut Writing<'_>, documents: &[CopiedDocument]) -> Result<HashMap<i64, Option<String>>, Fault> {
    if documents.is_empty() {
        return Ok(HashMap::new());
    }
    let keys: Vec<i64> = documents.iter().map(|moved| moved.key.0).collect();
    let ids: Vec<&str> = documents.iter().map(|moved| moved.document.id.as_str()).collect();
    let texts: Vec<_> = documents.iter().map(|moved| escape(&moved.document.text)).collect();
    let titles: Vec<_> = documents.iter().map(|moved| moved.document.title.as_deref().map(escape)).collect();
    let sql = format!(
        "select d.document, d.language from unnest($1, $2, $3, $4) as n (document, id, text, title)
         join {} d on d.document = n.document
         where d.id = n.id and d.text = n.text and d.title is not distinct from n.title",
        writing.names.documents
    );
    let read = |row: &tokio_postgres::Row| Ok((row.try_get(0)?, row.try_get(1)?));
    writing.session.rows(&sql, &[&keys, &ids, &texts, &titles])?.iter().map(read).collect()
}

/// Writes the row of a document whose passages stay, and renews their terms if its language changed.
fn keep_passages(
    writing: &mut Writing<'_>,
    batch: &mut Batch<'_>,
    moved: CopiedDocument,
    language: Option<&str>,
) -> Result<(), Fault> {
    let key = moved.key.0;
    let renews_terms = language != moved.document.language.map(|language| language.code());
    let row = take_row(writing, key, moved.document);
    if renews_terms {
        writing.add_renewed_terms(batch, key, row.document.language)?;
    }
    batch.add_document(row);
    Ok(())
}

fn add(writing: &mut Writing<'_>, batch: &mut Batch<'_>, moved: CopiedDocument) -> Result<(), Fault> {
    let CopiedDocument { key: DocumentKey(key), document, passages } = moved;
    let row = take_row(writing, key, document);
    for (ordinal, CopiedPassage { span, embedding }) in passages.into_iter().flatten().enumerate() {
        let passage = writing.next_passage();
        let embedded = embedding.as_ref().map(|of| (&of.embedding, writing.next_sequence()));
        let terms = writing.terms_of.compute(&row.document.indexed_text(&span)?, row.document.language);
        let none = TokenSet::default();
        let tokens = embedding.as_ref().map_or(&none, |of| &of.tokens);
        batch.add_passage((key, passage, ordinal), &span, embedded, &terms, tokens);
    }
    batch.add_document(row);
    Ok(())
}

/// Returns the row of a document with its own key, version and times, and marks its numbers as used.
pub(super) fn take_row(writing: &mut Writing<'_>, key: i64, document: Document) -> DocumentRow<'static> {
    let Document { created_at_ms, updated_at_ms, .. } = document;
    let sequence = to_sql(document.sequence.0);
    writing.raise_sequence(sequence);
    writing.raise_document_key(key);
    DocumentRow { key, document: Cow::Owned(document.into()), sequence, created_at_ms, updated_at_ms }
}
