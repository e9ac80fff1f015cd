//! Documents with the mean of their passages' embeddings, for classifying whole documents, and metadata changes by jobs.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::documents::DocumentStore;
use super::error::Fault;
use super::rows::{self, DOCUMENT_COLUMNS, document_id, query_all, read_embedding, to_sql};
use super::{Patched, StoreError, TextPatch, checkpoints, patch, queries};
use crate::domain::{Document, DocumentId, Embedding, JobId, Metadata, SearchFilter};

#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedDocument {
    pub document: Document,
    /// The mean of its passages' embeddings, scaled to unit length. `None` while a passage waits for its embedding, or if the
    /// embeddings cancel each other out.
    pub embedding: Option<Embedding>,
}

impl DocumentStore {
    pub fn embedded_documents(
        &self,
        filter: &SearchFilter,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<EmbeddedDocument>, StoreError> {
        let condition = self.compile(filter);
        let sql =
            format!("select {DOCUMENT_COLUMNS} from documents d where {} and d.id > ? order by d.id limit ?", condition.sql);
        let own = [Value::Text(after.map_or("", DocumentId::as_str).to_owned()), Value::Integer(to_sql(limit as u64))];
        let values = params_from_iter(condition.values.into_iter().chain(own));
        self.read("reading documents with embeddings", |connection| {
            let documents = query_all(connection, &sql, values, rows::document)?;
            documents.into_iter().map(|document| with_mean(connection, document)).collect()
        })
    }

    pub fn matching_metadata(&self, filter: &SearchFilter, limit: usize) -> Result<Vec<(DocumentId, Metadata)>, StoreError> {
        let condition = self.compile(filter);
        let sql = format!("select d.key, d.id, d.metadata from documents d where {} order by d.id limit ?", condition.sql);
        let values = params_from_iter(condition.values.into_iter().chain([Value::Integer(to_sql(limit as u64))]));
        self.read("reading metadata", |connection| {
            query_all(connection, &sql, values, |row| {
                let key = row.get(0)?;
                let id = document_id(key, &row.get::<_, String>(1)?)?;
                Ok((id, rows::metadata(key, row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?)?))
            })
        })
    }

    pub fn embedded_by_id(&self, ids: &[DocumentId]) -> Result<Vec<Option<EmbeddedDocument>>, StoreError> {
        self.read("reading documents with embeddings", |connection| {
            ids.iter()
                .map(|id| queries::get(connection, id)?.map(|document| with_mean(connection, document)).transpose())
                .collect()
        })
    }

    /// Waits for a place in the write queue if the queue is full.
    pub fn patch_for_job(
        &self,
        job: &JobId,
        patches: Vec<TextPatch>,
        checkpoint: impl FnOnce(&[Patched]) -> String + Send + 'static,
    ) -> Result<Vec<Patched>, StoreError> {
        let job = job.clone();
        self.write_patiently("changing documents of a job", move |transaction| {
            let outcomes = patch::patch_texts(transaction, &patches)?;
            checkpoints::store_checkpoint(transaction, &job, &checkpoint(&outcomes))?;
            Ok(outcomes)
        })
    }
}

fn with_mean(connection: &Connection, document: Document) -> Result<EmbeddedDocument, Fault> {
    let sql = "select p.id, p.embedding from documents d join passages p on p.document = d.key
               where d.id = ?1 and p.embedding is not null order by p.ordinal";
    if !document.indexed {
        return Ok(EmbeddedDocument { document, embedding: None });
    }
    let embeddings = query_all(connection, sql, [document.id.as_str()], |row| Ok(read_embedding(row, 0)?.1))?;
    Ok(EmbeddedDocument { document, embedding: Embedding::mean(&embeddings) })
}
