//! Reads passages for mining: by their keys, with texts and embeddings separately, in batches of the caller's size.

use super::StoreError;
use super::documents::DocumentStore;
use super::expiry::LIVE;
use super::rows::{self, passage_id, query_all, query_each, query_passages, to_sql};
use crate::domain::{DocumentId, Embedding, Language, MiningUnit, PassageId};

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

impl DocumentStore {
    pub fn passage_texts(&self, ids: &[PassageId], unit: MiningUnit) -> Result<Vec<PassageText>, StoreError> {
        let sql = format!(
            "select p.id, p.document, d.language, p.start, p.end, d.text from passages p join documents d on d.key = p.document
             where p.id = ?1 and p.embedding is not null and {LIVE}"
        );
        self.read("reading passages", |connection| {
            query_passages(connection, &sql, ids, |row| {
                let (key, document) = (row.get(0)?, row.get(1)?);
                let text = row.get_ref(5)?.as_str().map_err(rusqlite::Error::from)?;
                let range = rows::passage_range(key, row.get(3)?, row.get(4)?, text)?;
                let language = rows::language(document, row.get::<_, Option<String>>(2)?.as_deref())?;
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
                let embeddings = query_all(connection, sql, [to_sql(id.0)], |row| Ok(rows::read_embedding(row, 0)?.1))?;
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
}
