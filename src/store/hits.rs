//! Reads what a search needs about the passages that it found: first their documents, and then the rest of those that become
//! hits.

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row, params_from_iter};

use super::error::Fault;
use super::expiry::LIVE;
use super::rows::{
    self, DOCUMENT_COLUMNS, PASSAGE_COLUMNS, document_id, from_sql, language, metadata, passage_id, query_all, query_one,
    query_passages, read_embedding, to_sql,
};
use super::{DocumentKey, DocumentStore, HitSizes, PassageDocument, PassageParts, PassageRow, SearchFilter, StoreError};
use crate::domain::{DocumentHead, DocumentId, Embedding, PassageId};

impl DocumentStore {
    pub fn documents_of(&self, ids: &[PassageId]) -> Result<Vec<PassageDocument>, StoreError> {
        let sql = select_live("p.id, d.key, d.id, d.language");
        self.read("reading the documents of passages", |connection| {
            query_passages(connection, &sql, ids, |row| {
                let key = row.get(1)?;
                Ok(PassageDocument {
                    passage: passage_id(row.get(0)?)?,
                    key: DocumentKey(key),
                    document: document_id(key, &row.get::<_, String>(2)?)?,
                    language: language(key, row.get::<_, Option<String>>(3)?.as_deref())?,
                })
            })
        })
    }

    pub fn heads_of(&self, ids: &[PassageId]) -> Result<Vec<(PassageId, DocumentHead)>, StoreError> {
        let sql = select_live("p.id, d.key, d.id, d.language, d.metadata, d.created_at_ms, d.updated_at_ms");
        self.read("reading the documents of passages", |connection| {
            query_passages(connection, &sql, ids, |row| {
                let key = row.get(1)?;
                let head = DocumentHead {
                    id: document_id(key, &row.get::<_, String>(2)?)?,
                    language: language(key, row.get::<_, Option<String>>(3)?.as_deref())?,
                    metadata: metadata(key, row.get_ref(4)?.as_str()?)?,
                    created_at_ms: row.get(5)?,
                    updated_at_ms: row.get(6)?,
                };
                Ok((passage_id(row.get(0)?)?, head))
            })
        })
    }

    pub fn embeddings_of(&self, ids: &[PassageId]) -> Result<Vec<(PassageId, Embedding)>, StoreError> {
        let sql = "select id, embedding from passages where id = ?1 and embedding is not null";
        self.read("reading embeddings", |connection| query_passages(connection, sql, ids, |row| read_embedding(row, 0)))
    }

    pub fn sizes_of(&self, ids: &[PassageId]) -> Result<Vec<HitSizes>, StoreError> {
        // SQLite knows the length of a value without reading it.
        let sql =
            select_live("coalesce(octet_length(d.title), 0), octet_length(d.text), octet_length(d.metadata), p.end - p.start");
        self.read("reading sizes", |connection| {
            query_passages(connection, &sql, ids, |row| {
                let bytes = |column: usize| row.get(column).map(from_sql);
                Ok(HitSizes { title: bytes(0)?, text: bytes(1)?, metadata: bytes(2)?, passage: bytes(3)? })
            })
        })
    }

    pub fn passages(&self, ids: &[PassageId], parts: PassageParts) -> Result<Vec<PassageRow>, StoreError> {
        Ok(self.passages_while(ids, parts, |_| true)?.unwrap_or_default())
    }

    pub fn passages_while(
        &self,
        ids: &[PassageId],
        parts: PassageParts,
        mut charge: impl FnMut(HitSizes) -> bool,
    ) -> Result<Option<Vec<PassageRow>>, StoreError> {
        let sql = format!(
            "select {DOCUMENT_COLUMNS}, {PASSAGE_COLUMNS}
             from passages wanted join documents d on d.key = wanted.document where wanted.id = ?1 and {LIVE}"
        );
        self.read("reading passages", |connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                let mut read = |row: &Row<'_>| -> Result<Option<PassageRow>, Fault> {
                    let passage = rows::passage(row)?;
                    let [title, metadata, text] = rows::sizes(row)?;
                    if !charge(HitSizes { title, text, metadata, passage: (passage.end - passage.start) as u64 }) {
                        return Ok(None);
                    }
                    Ok(Some(rows::passage_row(row, passage, parts)?))
                };
                match statement.query_row([to_sql(id.0)], |row| Ok(read(row))).optional()?.transpose()? {
                    Some(Some(row)) => found.push(row),
                    Some(None) => return Ok(None),
                    None => (),
                }
            }
            Ok(Some(found))
        })
    }

    pub fn passages_of(&self, documents: &[DocumentKey]) -> Result<Vec<PassageId>, StoreError> {
        self.read("reading passages", |connection| {
            let sql = "select id from passages where document = ?1";
            let mut found = Vec::new();
            for document in documents {
                found.extend(query_all(connection, sql, [document.0], |row| passage_id(row.get(0)?))?);
            }
            Ok(found)
        })
    }

    pub fn keep_matching(&self, filter: &SearchFilter, ids: &[PassageId]) -> Result<Vec<PassageId>, StoreError> {
        let condition = self.compile(filter);
        let sql = format!("select 1 from passages p join documents d on d.key = p.document where p.id = ? and {}", condition.sql);
        self.read("filtering passages", |connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut existing = Vec::new();
            for id in ids {
                let key = Value::Integer(to_sql(id.0));
                if statement.exists(params_from_iter(std::iter::once(&key).chain(&condition.values)))? {
                    existing.push(*id);
                }
            }
            Ok(existing)
        })
    }

    pub fn passage_embeddings(&self, id: &DocumentId) -> Result<Option<Vec<Embedding>>, StoreError> {
        self.read("reading a document's embeddings", |connection| {
            let sql = format!("select d.key from documents d where d.id = ?1 and {LIVE}");
            let key = query_one(connection, &sql, [id.as_str()], |row| Ok(row.get::<_, i64>(0)?))?;
            let Some(key) = key else { return Ok(None) };
            let sql = "select id, embedding from passages where document = ?1 and embedding is not null order by ordinal";
            Ok(Some(query_all(connection, sql, [key], |row| Ok(read_embedding(row, 0)?.1))?))
        })
    }
}

/// Builds the statement that reads columns of a passage whose document has not expired.
fn select_live(columns: &str) -> String {
    format!("select {columns} from passages p join documents d on d.key = p.document where p.id = ?1 and {LIVE}")
}
