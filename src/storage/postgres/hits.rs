//! Reads what a search needs about the passages that it found: first their documents, and then the rest of those that become
//! hits.

use std::collections::HashMap;

use postgres::Row;

use super::fault::Fault;
use super::partition::Postgres;
use super::reading::{embeddings_of_documents, read_embedding};
use super::rows::{self, DOCUMENT_COLUMNS, document_columns, keys, metadata, passage_id};
use super::session::Session;
use crate::domain::{DocumentHead, DocumentId, Embedding, Passage, PassageId};
use crate::store::{
    DocumentKey, HitSizes, PassageDocument, PassageRow, SearchFilter, StoreError, document_id, from_sql, language, passage_range,
};

/// The requested passages in their order, as `n`, to be joined with `passages p`.
pub(super) const REQUESTED_PASSAGES: &str = "unnest($1) with ordinality as n (passage, position) join";

impl Postgres {
    /// Selects `columns` of `passages p` and `documents d` for passages of documents that have not expired, in the order of
    /// `ids`.
    pub(super) fn select_for_passages<T>(
        &self,
        session: &mut Session,
        columns: &str,
        ids: &[PassageId],
        read: impl Fn(&Row) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let sql = format!(
            "select {columns} from {REQUESTED_PASSAGES} {} p on p.passage = n.passage join {} d on d.document = p.document
             order by n.position",
            self.names.passages,
            self.live()
        );
        session.rows(&sql, &[&keys(ids)])?.iter().map(read).collect()
    }

    pub(crate) fn documents_of(&self, ids: &[PassageId]) -> Result<Vec<PassageDocument>, StoreError> {
        let columns = "p.passage, d.document, d.id, d.language";
        self.search("reading the documents of passages", |session| {
            self.select_for_passages(session, columns, ids, |row| passage_document(row, 0))
        })
    }

    pub(crate) fn heads_of(&self, ids: &[PassageId]) -> Result<Vec<(PassageId, DocumentHead)>, StoreError> {
        let columns = "p.passage, d.document, d.id, d.language, d.metadata, d.created_at_ms, d.updated_at_ms";
        let head = |row: &Row| {
            let key: i64 = row.try_get(1)?;
            let head = DocumentHead {
                id: document_id(key, row.try_get(2)?)?,
                language: language(key, row.try_get(3)?)?,
                metadata: metadata(key, row.try_get(4)?)?,
                created_at_ms: row.try_get(5)?,
                updated_at_ms: row.try_get(6)?,
            };
            Ok((passage_id(row.try_get(0)?), head))
        };
        self.search("reading the documents of passages", |session| self.select_for_passages(session, columns, ids, head))
    }

    pub(crate) fn embeddings_of(&self, ids: &[PassageId]) -> Result<Vec<(PassageId, Embedding)>, StoreError> {
        self.search("reading embeddings", |session| self.embeddings_in(session, ids))
    }

    pub(super) fn embeddings_in(&self, session: &mut Session, ids: &[PassageId]) -> Result<Vec<(PassageId, Embedding)>, Fault> {
        let sql = format!(
            "select p.passage, p.embedding from {REQUESTED_PASSAGES} {} p on p.passage = n.passage
             where p.embedded_sequence is not null order by n.position",
            self.names.passages
        );
        session.rows(&sql, &[&keys(ids)])?.iter().map(|row| read_embedding(row, 0)).collect()
    }

    pub(crate) fn sizes_of(&self, ids: &[PassageId]) -> Result<Vec<HitSizes>, StoreError> {
        let sizes = self.search("reading sizes", |session| self.sizes_in(session, ids))?;
        Ok(sizes.into_iter().map(|(_, sizes)| sizes).collect())
    }

    fn sizes_in(&self, session: &mut Session, ids: &[PassageId]) -> Result<Vec<(PassageId, HitSizes)>, Fault> {
        let columns = "p.passage, coalesce(octet_length(d.title), 0)::bigint, octet_length(d.text)::bigint,
                       octet_length(d.metadata)::bigint, p.ends - p.begins";
        self.select_for_passages(session, columns, ids, |row| {
            let bytes = |column: usize| row.try_get(column).map(from_sql);
            let sizes = HitSizes { title: bytes(1)?, text: bytes(2)?, metadata: bytes(3)?, passage: bytes(4)? };
            Ok((passage_id(row.try_get(0)?), sizes))
        })
    }

    pub(crate) fn passages_while(
        &self,
        ids: &[PassageId],
        charge: &mut dyn FnMut(HitSizes) -> bool,
    ) -> Result<Option<Vec<PassageRow>>, StoreError> {
        // If the replica fails halfway, the primary starts over. Remembering what was charged avoids charging it twice.
        let mut charged = HashMap::new();
        self.search_snapshot("reading passages", |session| {
            let mut there = Vec::new();
            for (passage, sizes) in self.sizes_in(session, ids)? {
                if charged.get(&passage) != Some(&sizes) && !charge(sizes) {
                    return Ok(None);
                }
                charged.insert(passage, sizes);
                there.push(passage);
            }
            let columns = format!("{}, p.passage, p.begins, p.ends", document_columns(&self.names));
            let rows = self.select_for_passages(session, &columns, &there, |row| {
                let document = rows::document(row)?;
                let at = |index| row.try_get::<_, i64>(DOCUMENT_COLUMNS + index);
                let range = passage_range(at(0)?, at(1)?, at(2)?, &document.text)?;
                let passage = Passage { id: passage_id(at(0)?), start: range.start, end: range.end };
                Ok(PassageRow { passage, document })
            })?;
            Ok(Some(rows))
        })
    }

    pub(crate) fn keep_matching(&self, filter: &SearchFilter, ids: &[PassageId]) -> Result<Vec<PassageId>, StoreError> {
        let mut condition = self.compile(filter);
        let keys = condition.integers(keys(ids));
        self.search("filtering passages", |session| {
            let sql = format!(
                "select p.passage from unnest({keys}) with ordinality as n (passage, position)
                 join {} p on p.passage = n.passage join {} d on d.document = p.document where {} order by n.position",
                self.names.passages,
                self.live(),
                condition.sql
            );
            session.passages(&sql, &condition.parameters())
        })
    }

    pub(crate) fn passage_embeddings(&self, id: &DocumentId) -> Result<Option<Vec<Embedding>>, StoreError> {
        self.search_snapshot("reading a document's embeddings", |session| {
            let sql = format!("select d.document from {} d where d.id = $1", self.live());
            let Some(key) = session.value(&sql, &[&id.as_str()])? else { return Ok(None) };
            Ok(Some(embeddings_of_documents(session, &self.names, &[key])?.remove(&key).unwrap_or_default()))
        })
    }
}

/// Reads a passage's key, and its document's key, id and language, from `column` on.
pub(super) fn passage_document(row: &Row, column: usize) -> Result<PassageDocument, Fault> {
    let key = row.try_get(column + 1)?;
    Ok(PassageDocument {
        passage: passage_id(row.try_get(column)?),
        key: DocumentKey(key),
        document: document_id(key, row.try_get(column + 2)?)?,
        language: language(key, row.try_get(column + 3)?)?,
    })
}
