//! Reads what a search needs about the passages that it found: first their documents, and then the rest of those that become
//! hits.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::escape::unescape;
use super::fault::Fault;
use super::partition::Postgres;
use super::reading::{embeddings_of_documents, read_embedding};
use super::rows::{keys, metadata, passage_id};
use super::session::Session;
use crate::domain::{DocumentHead, DocumentId, Embedding, Passage, PassageId};
use crate::store::{
    DocumentKey, Excerpt, HitSizes, PassageDocument, PassageParts, PassageRow, SearchFilter, StoreError, corrupt_passage,
    document_id, from_sql, language, passage_range,
};

/// Maximum bytes of a text that the database server sends as a whole, even if only a passage of it is needed, because cutting it
/// would take longer.
const SENT_WHOLE_MAX: usize = 16 << 10;

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
        parts: PassageParts,
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
            let rows = session.rows(&self.select_parts(parts), &[&keys(&there)])?;
            Ok(Some(rows.iter().map(|row| passage_row(row, parts)).collect::<Result<_, _>>()?))
        })
    }

    /// Builds the statement that reads the columns of `passage_row`. Of a long text that was not requested, the server only sends
    /// the passage, unless it is escaped, because then its bytes are elsewhere.
    fn select_parts(&self, parts: PassageParts) -> String {
        let PassageParts { title, text, excerpt } = parts;
        let long = if text { "false".to_owned() } else { format!("octet_length(d.text) > {SENT_WHOLE_MAX}") };
        format!(
            "select d.document, d.id, d.language, d.metadata, d.created_at_ms, d.updated_at_ms,
                 (select count(*) from {passages} own where own.document = d.document),
                 p.passage, p.begins, p.ends,
                 case when {title} then d.title end,
                 case when {text} or {excerpt} and long.bytes is null then d.text end,
                 case when {excerpt} then substring(long.bytes from p.begins::int + 1 for (p.ends - p.begins)::int) end,
                 case when {excerpt} then length(convert_from(substring(long.bytes from 1 for p.begins::int), 'UTF8'))::bigint end
             from {REQUESTED_PASSAGES} {passages} p on p.passage = n.passage join {} d on d.document = p.document
             cross join lateral (
                 select case when position('\\x01'::bytea in bytes) = 0 then bytes end as bytes
                 from (select case when {excerpt} and {long} then convert_to(d.text, 'UTF8') end as bytes offset 0) converted offset 0
             ) long
             order by n.position",
            self.live(),
            passages = self.names.passages,
        )
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

/// Reads a row of `select_parts`.
fn passage_row(row: &Row, parts: PassageParts) -> Result<PassageRow, Fault> {
    let key: i64 = row.try_get(0)?;
    let [passage, begins, ends]: [i64; 3] = [row.try_get(7)?, row.try_get(8)?, row.try_get(9)?];
    let text = row.try_get::<_, Option<&str>>(11)?.map(unescape);
    let sent: Option<&[u8]> = row.try_get(12)?;
    let corrupt = || corrupt_passage(passage, "its range is not a part of the document's text");
    let excerpt = match (sent, &text) {
        (Some(bytes), _) => {
            let is_whole = from_sql(ends - begins) == bytes.len() as u64;
            let text = std::str::from_utf8(bytes).ok().filter(|_| is_whole).ok_or_else(corrupt)?.to_owned();
            let start = from_sql(row.try_get(13)?) as usize;
            Some(Excerpt { range: start..start + text.chars().count(), text })
        }
        (None, Some(text)) => Some(Excerpt::of(text, passage_range(passage, begins, ends, text)?)),
        (None, None) => None,
    };
    Ok(PassageRow {
        passage: Passage { id: passage_id(passage), start: from_sql(begins) as usize, end: from_sql(ends) as usize },
        document: DocumentHead {
            id: document_id(key, row.try_get(1)?)?,
            language: language(key, row.try_get(2)?)?,
            metadata: metadata(key, row.try_get(3)?)?,
            created_at_ms: row.try_get(4)?,
            updated_at_ms: row.try_get(5)?,
        },
        passages: from_sql(row.try_get(6)?) as usize,
        title: row.try_get::<_, Option<&str>>(10)?.map(unescape),
        text: text.filter(|_| parts.text),
        excerpt: excerpt.filter(|_| parts.excerpt),
    })
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
