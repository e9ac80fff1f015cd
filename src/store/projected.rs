//! Reads what projections need of documents: which ones have embeddings, the embeddings, and the values that color the points.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use super::documents::DocumentStore;
use super::error::Fault;
use super::expiry::LIVE;
use super::rows::{read_embedding, to_sql};
use super::{DocumentKey, StoreError};
use crate::domain::{DocumentId, Embedding, Language, Metadata, MetadataPath};

/// A document with the embeddings of its passages.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentEmbeddings {
    /// Its id.
    pub id: DocumentId,
    /// Its language.
    pub language: Option<Language>,
    /// The embeddings of its passages, in order, without passages that have none.
    pub embeddings: Vec<Embedding>,
}

/// The values that color a document's point.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentAttributes {
    /// Its language.
    pub language: Option<Language>,
    /// The value at the requested path of its metadata.
    pub value: Option<Value>,
}

impl DocumentStore {
    /// Reads the keys and ids of at most `limit` documents with an embedded passage and a key above `after`, in the order of
    /// their keys.
    pub fn embedded_keys(&self, after: Option<DocumentKey>, limit: usize) -> Result<Vec<(DocumentKey, DocumentId)>, StoreError> {
        self.read("reading ids", |connection| embedded_keys(connection, after, limit))
    }

    /// Reads the embeddings of documents, in the order of `keys`. Leaves out documents that are gone. A new document may have
    /// reused the key of a deleted one.
    pub fn embeddings_by_document(&self, keys: &[DocumentKey]) -> Result<Vec<DocumentEmbeddings>, StoreError> {
        self.read("reading embeddings", |connection| embeddings_by_document(connection, keys))
    }

    /// Reads the languages of documents, and their values at `path` if given, in the order of `ids`. Returns `None` for a
    /// document that does not exist.
    pub fn attributes_of(
        &self,
        ids: &[DocumentId],
        path: Option<&MetadataPath>,
    ) -> Result<Vec<Option<DocumentAttributes>>, StoreError> {
        self.read("reading languages", |connection| attributes_of(connection, ids, path))
    }
}

fn embedded_keys(
    connection: &Connection,
    after: Option<DocumentKey>,
    limit: usize,
) -> Result<Vec<(DocumentKey, DocumentId)>, Fault> {
    let sql = format!(
        "select d.key, d.id from documents d where d.key > ?1 and {LIVE}
         and exists (select 1 from passages p where p.document = d.key and p.embedding is not null) order by d.key limit ?2"
    );
    let after = after.map_or(i64::MIN, |key| key.0);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![after, to_sql(limit as u64)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let key = row.get(0)?;
        found.push((DocumentKey(key), id(key, row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?));
    }
    Ok(found)
}

fn embeddings_by_document(connection: &Connection, keys: &[DocumentKey]) -> Result<Vec<DocumentEmbeddings>, Fault> {
    let mut documents =
        connection.prepare_cached(&format!("select d.id, d.language from documents d where d.key = ?1 and {LIVE}"))?;
    let sql = "select id, embedding from passages where document = ?1 and embedding is not null order by ordinal";
    let mut passages = connection.prepare_cached(sql)?;
    let mut found = Vec::with_capacity(keys.len());
    for DocumentKey(key) in keys {
        let named = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?));
        let Some((name, code)) = documents.query_row([key], named).optional()? else { continue };
        let embeddings = passages.query_and_then([key], |row| read_embedding(row, 0).map(|(_, embedding)| embedding))?;
        let embeddings = embeddings.collect::<Result<Vec<Embedding>, Fault>>()?;
        found.push(DocumentEmbeddings { id: id(*key, &name)?, language: language(*key, code)?, embeddings });
    }
    Ok(found)
}

fn attributes_of(
    connection: &Connection,
    ids: &[DocumentId],
    path: Option<&MetadataPath>,
) -> Result<Vec<Option<DocumentAttributes>>, Fault> {
    let sql = format!("select d.key, d.language, case when ?2 then d.metadata end from documents d where d.id = ?1 and {LIVE}");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let read = |row: &rusqlite::Row<'_>| -> Result<DocumentAttributes, Fault> {
            let key = row.get(0)?;
            let language = language(key, row.get(1)?)?;
            let metadata = row.get_ref(2)?.as_str_or_null().map_err(rusqlite::Error::from)?;
            let value = match (path, metadata) {
                (Some(path), Some(metadata)) => {
                    let metadata: Metadata =
                        serde_json::from_str(metadata).map_err(|_| corrupt(key, "its metadata is no JSON object"))?;
                    path.find(&metadata).cloned()
                }
                _ => None,
            };
            Ok(DocumentAttributes { language, value })
        };
        let row = statement.query_row(params![id.as_str(), path.is_some()], |row| Ok(read(row)));
        found.push(row.optional()?.transpose()?);
    }
    Ok(found)
}

fn id(key: i64, text: &str) -> Result<DocumentId, Fault> {
    DocumentId::parse(text).map_err(|_| corrupt(key, "its id is none"))
}

fn language(key: i64, code: Option<String>) -> Result<Option<Language>, Fault> {
    let parse = |code: String| Language::parse(&code).ok_or_else(|| corrupt(key, "its language is unknown"));
    code.map(parse).transpose()
}

fn corrupt(row: i64, problem: &'static str) -> Fault {
    StoreError::CorruptRow { table: "documents", row, problem }.into()
}
