//! Reads what projections need of documents: which ones have embeddings, the embeddings, and the values that color the points.

use serde_json::Value;

use super::documents::DocumentStore;
use super::expiry::LIVE;
use super::rows::{document_id, language, metadata, query_all, query_each, query_one, read_embedding, to_sql};
use super::{DocumentKey, StoreError};
use crate::domain::{DocumentId, Embedding, Language, MetadataPath};

/// A document with the embeddings of its passages.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentEmbeddings {
    pub id: DocumentId,
    pub language: Option<Language>,
    /// The embeddings of its passages, in order, without passages that have none.
    pub embeddings: Vec<Embedding>,
}

/// The values that color a document's point.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentAttributes {
    pub language: Option<Language>,
    /// The value at the requested path of its metadata.
    pub value: Option<Value>,
}

impl DocumentStore {
    pub fn embedded_keys(&self, after: Option<DocumentKey>, limit: usize) -> Result<Vec<(DocumentKey, DocumentId)>, StoreError> {
        let sql = format!(
            "select d.key, d.id from documents d where d.key > ?1 and {LIVE}
             and exists (select 1 from passages p where p.document = d.key and p.embedding is not null) order by d.key limit ?2"
        );
        let after = after.map_or(i64::MIN, |key| key.0);
        self.read("reading ids", |connection| {
            query_all(connection, &sql, [after, to_sql(limit as u64)], |row| {
                let key = row.get(0)?;
                Ok((DocumentKey(key), document_id(key, row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?))
            })
        })
    }

    pub fn embeddings_by_document(&self, keys: &[DocumentKey]) -> Result<Vec<DocumentEmbeddings>, StoreError> {
        self.read("reading embeddings", |connection| {
            let documents = format!("select d.id, d.language from documents d where d.key = ?1 and {LIVE}");
            let passages = "select id, embedding from passages where document = ?1 and embedding is not null order by ordinal";
            let mut found = Vec::with_capacity(keys.len());
            for &DocumentKey(key) in keys {
                let document = query_one(connection, &documents, [key], |row| {
                    let (id, code): (String, Option<String>) = (row.get(0)?, row.get(1)?);
                    Ok((document_id(key, &id)?, language(key, code.as_deref())?))
                })?;
                let Some((id, language)) = document else { continue };
                let embeddings = query_all(connection, passages, [key], |row| Ok(read_embedding(row, 0)?.1))?;
                found.push(DocumentEmbeddings { id, language, embeddings });
            }
            Ok(found)
        })
    }

    pub fn attributes_of(
        &self,
        ids: &[DocumentId],
        path: Option<&MetadataPath>,
    ) -> Result<Vec<Option<DocumentAttributes>>, StoreError> {
        self.read("reading languages", |connection| {
            let sql =
                format!("select d.key, d.language, case when ?2 then d.metadata end from documents d where d.id = ?1 and {LIVE}");
            query_each(connection, &sql, ids.iter().map(|id| (id.as_str(), path.is_some())), |row| {
                let key = row.get(0)?;
                let language = language(key, row.get::<_, Option<String>>(1)?.as_deref())?;
                let stored = row.get_ref(2)?.as_str_or_null().map_err(rusqlite::Error::from)?;
                let value = match path.zip(stored) {
                    Some((path, stored)) => path.find(&metadata(key, stored)?).cloned(),
                    None => None,
                };
                Ok(DocumentAttributes { language, value })
            })
        })
    }
}
