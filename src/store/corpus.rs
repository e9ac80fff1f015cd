//! Reads documents and passages for mining, classifiers and maps.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, params_from_iter};
use serde_json::Value;

use super::documents::DocumentStore;
use super::error::Fault;
use super::expiry::LIVE;
use super::rows::{
    self, DOCUMENT_COLUMNS, document_id, language, metadata, passage_id, query_all, query_each, query_one, query_passages,
    read_embedding, to_sql,
};
use super::{DocumentKey, StoreError, queries};
use crate::domain::{Document, DocumentId, Embedding, Language, MetadataPath, MiningUnit, Page, PassageId, SearchFilter};

#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedDocument {
    pub document: Document,
    /// The mean of its passages' embeddings, scaled to unit length. `None` while a passage waits for its embedding, or if the
    /// embeddings cancel each other out.
    pub embedding: Option<Embedding>,
}

/// An embedded passage, without its embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct PassageText {
    pub id: PassageId,
    /// Identifies the document: equal for passages of the same document only.
    pub document: i64,
    pub language: Option<Language>,
    /// The passage's text, or its document's.
    pub text: String,
}

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
    pub fn embedded_documents(
        &self,
        filter: &SearchFilter,
        page: &Page<DocumentId>,
        mut bytes_max: u64,
    ) -> Result<(Vec<EmbeddedDocument>, Option<DocumentId>), StoreError> {
        let condition = self.compile(filter);
        let sql =
            format!("select {DOCUMENT_COLUMNS} from documents d where {} and d.id > ? order by d.id limit ?", condition.sql);
        let (after, limit) = (page.after.as_ref().map_or("", DocumentId::as_str), to_sql(page.limit as u64).saturating_add(1));
        let parameters = [SqlValue::Text(after.to_owned()), SqlValue::Integer(limit)];
        let values = params_from_iter(condition.values.into_iter().chain(parameters));
        self.read("reading documents with embeddings", |connection| {
            let (mut statement, mut documents) = (connection.prepare_cached(&sql)?, Vec::new());
            let more = queries::add_to_page(&mut documents, &mut statement.query(values)?, page.limit, &mut bytes_max)?;
            let next = documents.last().filter(|_| more).map(|document| document.id.clone());
            let found: Result<_, Fault> = documents.into_iter().map(|document| with_mean(connection, document)).collect();
            Ok((found?, next))
        })
    }

    pub fn matching_values(
        &self,
        filter: &SearchFilter,
        path: &MetadataPath,
        limit: usize,
    ) -> Result<Vec<(DocumentId, Option<Value>)>, StoreError> {
        let condition = self.compile(filter);
        let sql = format!("select d.key, d.id, d.metadata from documents d where {} order by d.id limit ?", condition.sql);
        let values = params_from_iter(condition.values.into_iter().chain([SqlValue::Integer(to_sql(limit as u64))]));
        self.read("reading metadata", |connection| {
            query_all(connection, &sql, values, |row| {
                let key = row.get(0)?;
                let id = document_id(key, &row.get::<_, String>(1)?)?;
                Ok((id, path.find(&metadata(key, row.get_ref(2)?.as_str()?)?).cloned()))
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

    pub fn passage_texts(&self, ids: &[PassageId], unit: MiningUnit) -> Result<Vec<PassageText>, StoreError> {
        let sql = format!(
            "select p.id, p.document, d.language, p.start, p.end, d.text from passages p join documents d on d.key = p.document
             where p.id = ?1 and p.embedding is not null and {LIVE}"
        );
        self.read("reading passages", |connection| {
            query_passages(connection, &sql, ids, |row| {
                let (key, document) = (row.get(0)?, row.get(1)?);
                let text = row.get_ref(5)?.as_str()?;
                let range = rows::passage_range(key, row.get(3)?, row.get(4)?, text)?;
                let language = language(document, row.get::<_, Option<String>>(2)?.as_deref())?;
                let text = if unit == MiningUnit::Document { text } else { &text[range] };
                Ok(PassageText { id: passage_id(key)?, document, language, text: text.to_owned() })
            })
        })
    }

    pub fn first_passages(&self, ids: &[PassageId]) -> Result<Vec<PassageId>, StoreError> {
        let sql = "select id from passages where id = ?1 and ordinal = 0";
        self.read("reading passages", |connection| query_passages(connection, sql, ids, |row| passage_id(row.get(0)?)))
    }

    pub fn document_embeddings_of(&self, ids: &[PassageId]) -> Result<Vec<(PassageId, Vec<Embedding>)>, StoreError> {
        self.read("reading embeddings", |connection| {
            let sql = "select p.id, p.embedding from passages wanted join passages p on p.document = wanted.document
                       where wanted.id = ?1 and p.embedding is not null order by p.ordinal";
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                let embeddings = query_all(connection, sql, [to_sql(id.0)], |row| Ok(read_embedding(row, 0)?.1))?;
                found.extend((!embeddings.is_empty()).then_some((*id, embeddings)));
            }
            Ok(found)
        })
    }

    pub fn known_passages(&self, ids: &[DocumentId], unit: MiningUnit) -> Result<Vec<Option<PassageId>>, StoreError> {
        self.read("reading passages", |connection| {
            let sql = match unit {
                MiningUnit::Passage | MiningUnit::Sentence => {
                    format!(
                        "select min(p.id) from documents d join passages p on p.document = d.key where d.id = ?1 and {LIVE}
                         group by p.document having count(*) = 1"
                    )
                }
                MiningUnit::Document => format!(
                    "select p.id from documents d join passages p on p.document = d.key
                     where d.id = ?1 and p.ordinal = 0 and {LIVE}"
                ),
            };
            query_each(connection, &sql, ids.iter().map(|id| [id.as_str()]), |row| passage_id(row.get(0)?))
        })
    }

    pub fn embedded_keys(&self, after: Option<DocumentKey>, limit: usize) -> Result<Vec<(DocumentKey, DocumentId)>, StoreError> {
        let sql = format!(
            "select d.key, d.id from documents d where d.key > ?1 and {LIVE}
             and exists (select 1 from passages p where p.document = d.key and p.embedding is not null) order by d.key limit ?2"
        );
        let after = after.map_or(i64::MIN, |key| key.0);
        self.read("reading ids", |connection| {
            query_all(connection, &sql, [after, to_sql(limit as u64)], |row| {
                let key = row.get(0)?;
                Ok((DocumentKey(key), document_id(key, row.get_ref(1)?.as_str()?)?))
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
                let stored = row.get_ref(2)?.as_str_or_null()?;
                let value = match path.zip(stored) {
                    Some((path, stored)) => path.find(&metadata(key, stored)?).cloned(),
                    None => None,
                };
                Ok(DocumentAttributes { language, value })
            })
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
