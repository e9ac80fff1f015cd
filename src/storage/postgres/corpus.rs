//! Reads documents and passages for mining, classifiers and maps, and the tokens that late interaction keeps in memory.

use std::collections::HashMap;

use serde_json::Value;
use tokio_postgres::Row;

use super::fault::Fault;
use super::filter::Condition;
use super::hits::REQUESTED_PASSAGES;
use super::partition::Postgres;
use super::reading::{embeddings_of_documents, page_rows, read_embedding};
use super::rows::{self, document_columns, keys, limit, metadata, passage_id, sequence, texts};
use super::session::Session;
use crate::domain::{Document, DocumentId, Embedding, MetadataPath, MiningUnit, Page, PassageId, Sequence, TokenSet, WordCounts};
use crate::store::{
    DocumentAttributes, DocumentEmbeddings, DocumentKey, EmbeddedDocument, PassageText, SearchFilter, StoreError, TokenChanges,
    document_id, language, passage_range, to_sql,
};

impl Postgres {
    pub(crate) fn embedded_documents(
        &self,
        filter: &SearchFilter,
        page: &Page<DocumentId>,
        bytes_max: u64,
    ) -> Result<(Vec<EmbeddedDocument>, Option<DocumentId>), StoreError> {
        let mut condition = self.compile(filter);
        let after = condition.text(page.after.as_ref().map_or("", DocumentId::as_str));
        condition.sql.push_str(&format!(" and d.id > {after}"));
        let live = self.live();
        self.read_latest_snapshot("reading documents with embeddings", |session| {
            let which = (live.as_str(), condition.sql.as_str(), "d.id", page.limit);
            let (rows, more) = page_rows(session, &self.names, which, bytes_max, &condition.parameters())?;
            let found = self.with_means(session, &rows)?;
            let next = found.last().filter(|_| more).map(|last| last.document.id.clone());
            Ok((found, next))
        })
    }

    pub(crate) fn embedded_by_id(&self, ids: &[DocumentId]) -> Result<Vec<Option<EmbeddedDocument>>, StoreError> {
        self.read_latest_snapshot("reading documents with embeddings", |session| {
            let sql = format!("select {} from {} d where d.id = any($1)", document_columns(&self.names), self.live());
            let found = session.rows(&sql, &[&texts(ids)])?;
            let read = self.with_means(session, &found)?;
            let by_id: HashMap<DocumentId, EmbeddedDocument> =
                read.into_iter().map(|found| (found.document.id.clone(), found)).collect();
            Ok(ids.iter().map(|id| by_id.get(id).cloned()).collect())
        })
    }

    /// Reads documents with the means of their embeddings.
    fn with_means(&self, session: &mut Session, found: &[Row]) -> Result<Vec<EmbeddedDocument>, Fault> {
        let keys = found.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<Vec<i64>, Fault>>()?;
        let mut embeddings = embeddings_of_documents(session, &self.names, &keys)?;
        let documents = found.iter().map(rows::document).collect::<Result<Vec<Document>, Fault>>()?;
        let with_mean = |(document, key): (Document, i64)| {
            let vectors = embeddings.remove(&key).unwrap_or_default();
            EmbeddedDocument { embedding: if document.indexed { Embedding::mean(&vectors) } else { None }, document }
        };
        Ok(documents.into_iter().zip(keys).map(with_mean).collect())
    }

    pub(crate) fn matching_values(
        &self,
        filter: &SearchFilter,
        path: &MetadataPath,
        max: usize,
    ) -> Result<Vec<(DocumentId, Option<Value>)>, StoreError> {
        let condition = self.compile(filter);
        self.read_latest("reading metadata", |session| {
            let Condition { sql, .. } = &condition;
            let documents = self.live();
            let sql =
                format!("select d.document, d.id, d.metadata from {documents} d where {sql} order by d.id limit {}", limit(max));
            let mut found = Vec::new();
            session.for_each_row(&sql, &condition.parameters(), |row| {
                let key = row.try_get(0)?;
                let value = path.find(&metadata(key, row.try_get(2)?)?).cloned();
                found.push((document_id(key, row.try_get(1)?)?, value));
                Ok(())
            })?;
            Ok(found)
        })
    }

    pub(crate) fn passage_texts(&self, ids: &[PassageId], unit: MiningUnit) -> Result<Vec<PassageText>, StoreError> {
        let columns = "p.passage, p.document, d.language, p.begins, p.ends, d.text, p.embedded_sequence is not null";
        let read = |row: &Row| {
            let (passage, document): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            let text = super::escape::unescape(row.try_get(5)?);
            let range = passage_range(passage, row.try_get(3)?, row.try_get(4)?, &text)?;
            let text = if unit == MiningUnit::Document { text } else { text[range].to_owned() };
            let language = language(document, row.try_get(2)?)?;
            let passage = PassageText { id: passage_id(passage), document, language, text };
            Ok(row.try_get::<_, bool>(6)?.then_some(passage))
        };
        let found = self.read_latest("reading passages", |session| self.select_for_passages(session, columns, ids, read))?;
        Ok(found.into_iter().flatten().collect())
    }

    pub(crate) fn first_passages(&self, ids: &[PassageId]) -> Result<Vec<PassageId>, StoreError> {
        self.read_latest("reading passages", |session| {
            let sql = format!(
                "select p.passage from {REQUESTED_PASSAGES} {} p on p.passage = n.passage where p.ordinal = 0
                 order by n.position",
                self.names.passages
            );
            session.passages(&sql, &[&keys(ids)])
        })
    }

    pub(crate) fn known_passages(&self, ids: &[DocumentId], unit: MiningUnit) -> Result<Vec<Option<PassageId>>, StoreError> {
        self.read_latest("reading passages", |session| {
            let (documents, passages) = (self.live(), &self.names.passages);
            let alone = match unit {
                MiningUnit::Passage | MiningUnit::Sentence => format!(
                    "and not exists (select 1 from {passages} other where other.document = d.document and other.ordinal > 0)"
                ),
                MiningUnit::Document => String::new(),
            };
            let sql = format!(
                "select p.passage from unnest($1) with ordinality as n (id, position) left join {documents} d on d.id = n.id
                 left join {passages} p on p.document = d.document and p.ordinal = 0 {alone} order by n.position"
            );
            let found: Vec<Option<i64>> = session.column(&sql, &[&texts(ids)])?;
            Ok(found.into_iter().map(|passage| passage.map(passage_id)).collect())
        })
    }

    pub(crate) fn document_embeddings_of(&self, ids: &[PassageId]) -> Result<Vec<(PassageId, Vec<Embedding>)>, StoreError> {
        self.read_latest("reading embeddings", |session| {
            let passages = &self.names.passages;
            let sql = format!(
                "select n.position, p.passage, p.embedding from {REQUESTED_PASSAGES} {passages} wanted
                 on wanted.passage = n.passage join {passages} p on p.document = wanted.document where p.embedded_sequence is not null
                 order by n.position, p.ordinal"
            );
            let mut found: Vec<(i64, Vec<Embedding>)> = Vec::new();
            for row in session.rows(&sql, &[&keys(ids)])? {
                let (position, embedding) = (row.try_get(0)?, read_embedding(&row, 1)?.1);
                match found.last_mut().filter(|(last, _)| *last == position) {
                    Some((_, embeddings)) => embeddings.push(embedding),
                    None => found.push((position, vec![embedding])),
                }
            }
            let with_documents = |(position, embeddings): (i64, Vec<Embedding>)| {
                let wanted = usize::try_from(position - 1).ok().and_then(|position| ids.get(position));
                wanted.map(|wanted| (*wanted, embeddings))
            };
            Ok(found.into_iter().filter_map(with_documents).collect())
        })
    }

    pub(crate) fn embedded_keys(
        &self,
        after: Option<DocumentKey>,
        max: usize,
    ) -> Result<Vec<(DocumentKey, DocumentId)>, StoreError> {
        self.read_latest("reading ids", |session| {
            let (documents, passages) = (self.live(), &self.names.passages);
            let sql = format!(
                "select d.document, d.id from {documents} d where d.document > $1
                 and exists (select 1 from {passages} p where p.document = d.document and p.embedded_sequence is not null)
                 order by d.document limit $2"
            );
            let after = after.map_or(i64::MIN, |key| key.0);
            let read = |row: &Row| {
                let key = row.try_get(0)?;
                Ok((DocumentKey(key), document_id(key, row.try_get(1)?)?))
            };
            session.rows(&sql, &[&after, &limit(max)])?.iter().map(read).collect()
        })
    }

    pub(crate) fn embeddings_by_document(&self, keys: &[DocumentKey]) -> Result<Vec<DocumentEmbeddings>, StoreError> {
        let keys: Vec<i64> = keys.iter().map(|key| key.0).collect();
        self.read_latest_snapshot("reading embeddings", |session| {
            let sql = format!(
                "select d.document, d.id, d.language from unnest($1) with ordinality as n (document, position)
                 join {} d on d.document = n.document order by n.position",
                self.live()
            );
            let documents = session.rows(&sql, &[&keys])?;
            let mut embeddings = embeddings_of_documents(session, &self.names, &keys)?;
            let read = |row: &Row| {
                let key: i64 = row.try_get(0)?;
                let (id, language) = (document_id(key, row.try_get(1)?)?, language(key, row.try_get(2)?)?);
                Ok(DocumentEmbeddings { id, language, embeddings: embeddings.remove(&key).unwrap_or_default() })
            };
            documents.iter().map(read).collect()
        })
    }

    pub(crate) fn attributes_of(
        &self,
        ids: &[DocumentId],
        path: Option<&MetadataPath>,
    ) -> Result<Vec<Option<DocumentAttributes>>, StoreError> {
        self.read_latest("reading languages", |session| {
            let sql = format!(
                "select d.document, d.language, case when $2 then d.metadata end
                 from unnest($1) with ordinality as n (id, position) left join {} d on d.id = n.id order by n.position",
                self.live()
            );
            let read = |row: &Row| {
                let Some(key) = row.try_get::<_, Option<i64>>(0)? else { return Ok(None) };
                let language = language(key, row.try_get(1)?)?;
                let value = match (path, row.try_get::<_, Option<&str>>(2)?) {
                    (Some(path), Some(json)) => path.find(&metadata(key, json)?).cloned(),
                    _ => None,
                };
                Ok(Some(DocumentAttributes { language, value }))
            };
            session.rows(&sql, &[&texts(ids), &path.is_some()])?.iter().map(read).collect()
        })
    }

    pub(crate) fn token_changes(&self, after: Option<Sequence>, words: bool) -> Result<TokenChanges, StoreError> {
        // Its caller knows the last change, and would read again until it is there.
        self.read_latest_snapshot("reading tokens", |session| {
            let sql = "select sequence, tombstones_purged from dragoman.collections where key = $1";
            let Some(row) = session.row(sql, &[&self.key])? else { return Err(StoreError::Closed.into()) };
            let (now, purged) = (sequence(row.try_get(0)?), sequence(row.try_get(1)?));
            let after = after.filter(|after| *after >= purged);
            let mut changes = TokenChanges { sequence: now, complete: after.is_none(), ..TokenChanges::default() };
            if after.is_some_and(|after| after >= now) {
                return Ok(changes);
            }
            if let Some(after) = after {
                let sql = "select passage from dragoman.tombstones where collection = $1 and sequence > $2 order by sequence";
                changes.removed = session.passages(sql, &[&self.key, &to_sql(after.0)])?;
            }
            let sql = format!(
                "select t.passage, t.tokens, case when $2 then t.words end from {} p
                 join {} t on t.document = p.document and t.passage = p.passage where p.embedded_sequence > $1",
                self.names.passages, self.names.tokens
            );
            let after = to_sql(after.unwrap_or_default().0);
            session.for_each_row(&sql, &[&after, &words], |row| {
                let passage = passage_id(row.try_get(0)?);
                let tokens = row.try_get::<_, Option<&[u8]>>(1)?.and_then(TokenSet::from_bytes);
                changes.passages.extend(tokens.map(|tokens| (passage, tokens)));
                let words = row.try_get::<_, Option<&[u8]>>(2)?.and_then(WordCounts::from_bytes);
                changes.words.extend(words.map(|words| (passage, words)));
                Ok(())
            })?;
            Ok(changes)
        })
    }
}
