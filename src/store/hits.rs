//! Reads what a search needs about the passages that it found: first their documents, and then the rest of those that become
//! hits.

use rusqlite::{Connection, OptionalExtension, Row};

use super::error::Fault;
use super::expiry::LIVE;
use super::rows::{passage_id, read_embedding, to_sql};
use super::{DocumentKey, DocumentStore, HitSizes, PassageDocument, StoreError};
use crate::domain::{DocumentHead, DocumentId, Embedding, Language, PassageId};

impl DocumentStore {
    /// Reads the documents of passages, in the order of `ids`, leaving out deleted ones. Reads no text.
    pub fn documents_of(&self, ids: &[PassageId]) -> Result<Vec<PassageDocument>, StoreError> {
        self.read("reading the documents of passages", |connection| documents_of(connection, ids))
    }

    /// Reads the documents of passages without their texts, in the order of `ids`, leaving out deleted ones.
    pub fn heads_of(&self, ids: &[PassageId]) -> Result<Vec<(PassageId, DocumentHead)>, StoreError> {
        self.read("reading the documents of passages", |connection| heads_of(connection, ids))
    }

    /// Reads the embeddings of passages, in the order of `ids`, leaving out deleted passages and those without an embedding.
    pub fn embeddings_of(&self, ids: &[PassageId]) -> Result<Vec<(PassageId, Embedding)>, StoreError> {
        self.read("reading embeddings", |connection| embeddings_of(connection, ids))
    }

    /// Reads the sizes of everything that a hit may include for each passage, without reading the contents.
    pub fn sizes_of(&self, ids: &[PassageId]) -> Result<Vec<HitSizes>, StoreError> {
        self.read("reading sizes", |connection| sizes_of(connection, ids))
    }

    /// Reads the embeddings of a document's passages, without passages that wait for theirs. Returns `None` if there is no such
    /// document.
    pub fn passage_embeddings(&self, id: &DocumentId) -> Result<Option<Vec<Embedding>>, StoreError> {
        self.read("reading a document's embeddings", |connection| passage_embeddings(connection, id))
    }
}

/// Runs `sql`, whose only parameter is a passage's key, for each of `ids`. Leaves out deleted ones.
fn query_each<T>(
    connection: &Connection,
    sql: &str,
    ids: &[PassageId],
    read: impl Fn(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(statement.query_row([to_sql(id.0)], |row| Ok(read(row))).optional()?.transpose()?);
    }
    Ok(found)
}

/// Builds the statement that reads columns of a passage whose document has not expired.
fn select_live(columns: &str) -> String {
    format!("select {columns} from passages p join documents d on d.key = p.document where p.id = ?1 and {LIVE}")
}

fn documents_of(connection: &Connection, ids: &[PassageId]) -> Result<Vec<PassageDocument>, Fault> {
    query_each(connection, &select_live("p.id, d.key, d.id, d.language"), ids, |row| {
        let (document, language) = read_id_and_language(row)?;
        Ok(PassageDocument { passage: passage_id(row.get(0)?)?, key: DocumentKey(row.get(1)?), document, language })
    })
}

fn heads_of(connection: &Connection, ids: &[PassageId]) -> Result<Vec<(PassageId, DocumentHead)>, Fault> {
    let sql = select_live("p.id, d.key, d.id, d.language, d.metadata, d.created_at_ms, d.updated_at_ms");
    query_each(connection, &sql, ids, |row| {
        let (id, language) = read_id_and_language(row)?;
        let metadata = serde_json::from_str(row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?);
        let problem = "its metadata is not a JSON object";
        let metadata = match metadata {
            Ok(metadata) => metadata,
            Err(_) => return Err(StoreError::CorruptRow { table: "documents", row: row.get(1)?, problem }.into()),
        };
        let (created_at_ms, updated_at_ms) = (row.get(5)?, row.get(6)?);
        Ok((passage_id(row.get(0)?)?, DocumentHead { id, language, metadata, created_at_ms, updated_at_ms }))
    })
}

/// Reads the id and the language from columns 2 and 3. Column 1 has the document's key.
fn read_id_and_language(row: &Row<'_>) -> Result<(DocumentId, Option<Language>), Fault> {
    let key: i64 = row.get(1)?;
    let corrupt = |problem| StoreError::CorruptRow { table: "documents", row: key, problem };
    let (id, language): (String, Option<String>) = (row.get(2)?, row.get(3)?);
    let language = language.map(|code| Language::parse(&code).ok_or_else(|| corrupt("its language is unknown")));
    Ok((DocumentId::parse(&id).map_err(|_| corrupt("its id is not valid"))?, language.transpose()?))
}

fn embeddings_of(connection: &Connection, ids: &[PassageId]) -> Result<Vec<(PassageId, Embedding)>, Fault> {
    let sql = "select id, embedding from passages where id = ?1 and embedding is not null";
    query_each(connection, sql, ids, |row| read_embedding(row, 0))
}

/// Reads sizes. SQLite knows the length of a value without reading it.
fn sizes_of(connection: &Connection, ids: &[PassageId]) -> Result<Vec<HitSizes>, Fault> {
    let sql = select_live("coalesce(octet_length(d.title), 0), octet_length(d.text), octet_length(d.metadata), p.end - p.start");
    let bytes = |row: &Row<'_>, column| Ok::<_, Fault>(u64::try_from(row.get::<_, i64>(column)?).unwrap_or_default());
    query_each(connection, &sql, ids, |row| {
        Ok(HitSizes { title: bytes(row, 0)?, text: bytes(row, 1)?, metadata: bytes(row, 2)?, passage: bytes(row, 3)? })
    })
}

/// Returns the embeddings of a document's passages, without passages that wait for theirs. Returns `None` if there is no such
/// document.
fn passage_embeddings(connection: &Connection, id: &DocumentId) -> Result<Option<Vec<Embedding>>, Fault> {
    let sql = format!("select d.key from documents d where d.id = ?1 and {LIVE}");
    let key: Option<i64> = connection.prepare_cached(&sql)?.query_row([id.as_str()], |row| row.get(0)).optional()?;
    let Some(key) = key else { return Ok(None) };
    let sql = "select id, embedding from passages where document = ?1 and embedding is not null order by ordinal";
    let embeddings = connection
        .prepare_cached(sql)?
        .query_and_then([key], |row| read_embedding(row, 0).map(|(_, embedding)| embedding))?
        .collect::<Result<_, Fault>>()?;
    Ok(Some(embeddings))
}
