//! Reads documents: single ones, pages and counts, and what a write needs of a document.

use std::collections::HashMap;

use pgvector::Vector;
use tokio_postgres::Row;

use super::fault::Fault;
use super::filter::{Condition, index_expressions};
use super::names::{PARTITIONED, PartitionNames};
use super::partition::{CachedCounts, Postgres, path};
use super::replacing::BlockedWrites;
use super::rows::{self, BYTES, DOCUMENT_COLUMNS, document_columns, keys, limit, sequence};
use super::session::{Parameter, Session, embedding};
use crate::domain::{
    CollectionCounts, Document, DocumentId, DocumentPage, Embedding, Language, MetadataPath, Page, PassageId, Sequence,
};
use crate::store::{CUTTING_RULES, FoundDocument, PendingPassage, SearchFilter, StoreError, from_sql, to_sql};

const DECLARING: &str = "declaring metadata indexes";

/// Reads a document from the table expression `live`.
pub(super) fn find_document(
    session: &mut Session,
    names: &PartitionNames,
    live: &str,
    id: &DocumentId,
) -> Result<Option<FoundDocument>, Fault> {
    let sql = format!("select {} from {live} d where d.id = $1", document_columns(names));
    let Some(row) = session.row(&sql, &[&id.as_str()])? else { return Ok(None) };
    Ok(Some(FoundDocument { key: row.try_get(0)?, document: rows::document(&row)? }))
}

/// Reads the passages of a document with their texts, in order.
pub(super) fn passages_of(session: &mut Session, names: &PartitionNames, document: i64) -> Result<Vec<PendingPassage>, Fault> {
    let sql = format!(
        "select p.passage, p.document, p.begins, p.ends, p.headings, case when p.ordinal = 0 then d.text end,
             case when p.ordinal = 0 then d.title end
         from {} p join {} d on d.document = p.document where p.document = $1 order by p.ordinal",
        names.passages, names.documents
    );
    rows::pending(&session.rows(&sql, &[&document])?)
}

/// Reads the embeddings of documents' passages, in order, without passages that have none.
pub(super) fn embeddings_of_documents(
    session: &mut Session,
    names: &PartitionNames,
    documents: &[i64],
) -> Result<HashMap<i64, Vec<Embedding>>, Fault> {
    let sql = format!(
        "select document, passage, embedding from {} where document = any($1) and embedded_sequence is not null
         order by document, ordinal",
        names.passages
    );
    let mut found: HashMap<i64, Vec<Embedding>> = HashMap::new();
    for row in session.rows(&sql, &[&documents])? {
        found.entry(row.try_get(0)?).or_default().push(read_embedding(&row, 1)?.1);
    }
    Ok(found)
}

/// Reads a passage's key and its embedding from columns `column` and `column + 1`.
pub(super) fn read_embedding(row: &Row, column: usize) -> Result<(PassageId, Embedding), Fault> {
    let passage = row.try_get(column)?;
    Ok((rows::passage_id(passage), embedding(passage, row.try_get::<_, Vector>(column + 1)?)?))
}

/// Reads the documents of a page, and whether there are more, as `page_rows`.
pub(super) fn read_page(
    session: &mut Session,
    names: &PartitionNames,
    page: (&str, &str, &str, usize),
    bytes_max: u64,
    parameters: &[Parameter<'_>],
) -> Result<(Vec<Document>, bool), Fault> {
    let (rows, more) = page_rows(session, names, page, bytes_max, parameters)?;
    Ok((rows.iter().map(rows::document).collect::<Result<_, Fault>>()?, more))
}

/// Reads the rows of a page, and whether there are more: at most `limit` documents of the table expression `live`, as `d`, for
/// which `which` holds, in this order.
pub(super) fn page_rows(
    session: &mut Session,
    names: &PartitionNames,
    (live, which, order, limit): (&str, &str, &str, usize),
    bytes_max: u64,
    parameters: &[Parameter<'_>],
) -> Result<(Vec<Row>, bool), Fault> {
    let (documents, max) = (&names.documents, rows::limit(limit));
    // For documents that do not fit, only the sizes are read. The database server knows the length of a text without reading
    // it.
    let sql = format!(
        "with page as materialized (
             select document, row_number() over () as position, sum(bytes) over (rows unbounded preceding) as bytes
             from (select d.document, {BYTES} as bytes from {live} d where {which} order by {order} limit {max} + 1) first
         )
         select {}, (select count(*) from page) from page join {documents} d on d.document = page.document
         where page.position = 1 or (page.position <= {max} and page.bytes <= {}) order by page.position",
        document_columns(names),
        to_sql(bytes_max)
    );
    let mut found = session.rows(&sql, parameters)?;
    let there: i64 = found.first().map_or(Ok(0), |row| row.try_get(DOCUMENT_COLUMNS))?;
    found.truncate(limit);
    let more = there > to_sql(found.len() as u64);
    Ok((found, more))
}

impl Postgres {
    pub(crate) fn get(&self, id: &DocumentId) -> Result<Option<Document>, StoreError> {
        self.run("reading a document", |session| {
            Ok(find_document(session, &self.names, &self.live(), id)?.map(|found| found.document))
        })
    }

    pub(crate) fn list(&self, page: &Page<DocumentId>, bytes_max: u64) -> Result<DocumentPage, StoreError> {
        self.search("listing documents", |session| self.list_in(session, page, bytes_max))
    }

    pub(crate) fn list_embedded(
        &self,
        page: &Page<DocumentId>,
        bytes_max: u64,
    ) -> Result<(DocumentPage, Vec<Option<Embedding>>), StoreError> {
        self.search_snapshot("listing documents", |session| {
            let page = self.list_in(session, page, bytes_max)?;
            let ids: Vec<&str> = page.documents.iter().map(|document| document.id.as_str()).collect();
            let (documents, passages) = (&self.names.documents, &self.names.passages);
            let sql = format!(
                "select p.passage, p.embedding from unnest($1) with ordinality as n (id, position)
                 join {documents} d on d.id = n.id
                 left join {passages} p on p.document = d.document and p.ordinal = 0 and p.embedded_sequence is not null
                     and not exists (select 1 from {passages} other where other.document = d.document and other.ordinal > 0)
                 order by n.position"
            );
            let found = session.rows(&sql, &[&ids])?;
            let embedding = |row: &Row| match row.try_get::<_, Option<i64>>(0)? {
                Some(_) => Ok(Some(read_embedding(row, 0)?.1)),
                None => Ok(None),
            };
            let embeddings = found.iter().map(embedding).collect::<Result<_, Fault>>()?;
            Ok((page, embeddings))
        })
    }

    fn list_in(&self, session: &mut Session, page: &Page<DocumentId>, bytes_max: u64) -> Result<DocumentPage, Fault> {
        let after = page.after.as_ref().map_or("", DocumentId::as_str);
        let live = self.live();
        let which = (live.as_str(), "d.id > $1", "d.id", page.limit);
        let (documents, more) = self::read_page(session, &self.names, which, bytes_max, &[&after])?;
        let next = documents.last().filter(|_| more).map(|document| document.id.clone());
        Ok(DocumentPage { documents, next })
    }

    pub(crate) fn count_matching(&self, filter: &SearchFilter, max: usize) -> Result<usize, StoreError> {
        let condition = self.compile(filter);
        let count = self.search("counting documents", |session| {
            let Condition { sql, .. } = &condition;
            let max = limit(max);
            let sql = format!("select count(*) from (select 1 from {} d where {sql} limit {max}) found", self.live());
            session.query_number(&sql, &condition.parameters())
        })?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    pub(crate) fn counts(&self) -> Result<CollectionCounts, StoreError> {
        let (now, now_ms) = self.run("counting", |session| {
            let sql = format!("select sequence, {} from dragoman.collections where key = $1", self.now());
            let Some(row) = session.row(&sql, &[&self.key])? else { return Err(StoreError::Closed.into()) };
            Ok((sequence(row.try_get(0)?), row.try_get::<_, i64>(1)?))
        })?;
        let cached_counts = self.cached_counts.lock().clone();
        let is_valid = |counts: &CachedCounts| counts.sequence == now && counts.until_ms.is_none_or(|until_ms| now_ms < until_ms);
        if let Some(valid) = cached_counts.filter(is_valid) {
            return Ok(valid.counts);
        }
        let counted = self.search_snapshot("counting", |session| self.count(session))?;
        *self.cached_counts.lock() = Some(counted.clone());
        Ok(counted.counts)
    }

    /// Counts without documents that have expired but are not removed yet.
    fn count(&self, session: &mut Session) -> Result<CachedCounts, Fault> {
        let (documents, passages, now) = (&self.names.documents, &self.names.passages, self.now());
        let sizes = PARTITIONED.map(|table| format!("pg_total_relation_size('dragoman.{table}_{}')", self.key)).join(" + ");
        let sql = format!(
            "with expired as materialized (select document from {documents} where expires_at_ms <= {now})
             select c.sequence, c.cutting_rules < {CUTTING_RULES}, c.passages - (select count(*) from {passages} p join expired e on e.document = p.document),
                 (select count(*) from {passages} where embedded_sequence is null
                  and document not in (select document from expired)),
                 {sizes}, (select min(expires_at_ms) from {documents} where expires_at_ms > {now})
             from dragoman.collections c where c.key = $1"
        );
        let Some(row) = session.row(&sql, &[&self.key])? else { return Err(StoreError::Closed.into()) };
        let number = |column: usize| row.try_get(column).map(from_sql);
        let sql = format!(
            "select d.language, count(*) from {} d group by d.language order by count(*) desc, coalesce(d.language, '')",
            self.live()
        );
        let language = |row: &Row| -> Result<(Option<Language>, u64), Fault> {
            let code: Option<&str> = row.try_get(0)?;
            Ok((code.and_then(Language::parse), from_sql(row.try_get(1)?)))
        };
        let languages = session.rows(&sql, &[])?.iter().map(language).collect::<Result<Vec<_>, Fault>>()?;
        let counts = CollectionCounts {
            documents: languages.iter().map(|(_, documents)| documents).sum(),
            passages: number(2)?,
            passages_pending: number(3)?,
            languages,
            disk_bytes: number(4)?,
            cut_by_older_rules: row.try_get(1)?,
        };
        Ok(CachedCounts { sequence: Sequence(number(0)?), until_ms: row.try_get(5)?, counts })
    }

    pub(crate) fn sequence(&self) -> Result<Sequence, StoreError> {
        self.run("reading the sequence", |session| {
            let sql = "select sequence from dragoman.collections where key = $1";
            Ok(sequence(session.value(sql, &[&self.key])?.ok_or(StoreError::Closed)?))
        })
    }

    pub(crate) fn last_embedded(&self) -> Result<Sequence, StoreError> {
        self.run("reading the newest embedding", |session| {
            let passages = &self.names.passages;
            let sql = format!("select coalesce(max(embedded_sequence), 0) from {passages} where embedded_sequence is not null");
            Ok(Sequence(session.query_number(&sql, &[])?))
        })
    }

    pub(crate) fn metadata_indexes(&self) -> Vec<MetadataPath> {
        self.indexes.read().clone()
    }

    pub(crate) fn set_metadata_indexes(&self, paths: Vec<MetadataPath>) -> Result<(), StoreError> {
        let set = in_order(paths);
        self.write(DECLARING, |writing| declare(writing.session, &self.names, writing.key, &set))?;
        *self.indexes.write() = set;
        Ok(())
    }

    /// Like `set_metadata_indexes`, in the transaction that blocks writes to this collection. Returns the indexed paths; after
    /// the commit, `refresh_metadata_indexes` must get them.
    pub fn declare_metadata_indexes(
        &self,
        blocked: &mut BlockedWrites,
        paths: Vec<MetadataPath>,
    ) -> Result<Vec<MetadataPath>, StoreError> {
        let set = in_order(paths);
        blocked.run(DECLARING, |session, key| self.interruptible(session, |session| declare(session, &self.names, key, &set)))?;
        Ok(set)
    }

    pub(crate) fn pending(&self, after: PassageId, max: usize) -> Result<Vec<PendingPassage>, StoreError> {
        self.run("reading passages without embedding", |session| {
            let (documents, passages) = (&self.names.documents, &self.names.passages);
            let sql = format!(
                "with p as materialized (
                     select passage, document, begins, ends, headings from {passages}
                     where embedded_sequence is null and passage > $1 and {} order by passage limit $2
                 ), first as (select *, lag(document) over (order by passage) is distinct from document as is_first from p)
                 select first.passage, first.document, first.begins, first.ends, first.headings, case when is_first then d.text end,
                     case when is_first then d.title end
                 from first join {documents} d on d.document = first.document order by first.passage",
                self.own_passages_condition()
            );
            rows::pending(&session.rows(&sql, &[&to_sql(after.0), &limit(max)])?)
        })
    }

    pub(crate) fn pending_count_excluding(&self, last: PassageId, others: &[PassageId]) -> Result<u64, StoreError> {
        self.run("counting passages without embedding", |session| {
            let sql = format!(
                "select count(*) from {} where embedded_sequence is null and passage <= $1 and passage <> all($2)",
                self.names.passages
            );
            session.query_number(&sql, &[&to_sql(last.0), &keys(others)])
        })
    }
}

fn in_order(mut paths: Vec<MetadataPath>) -> Vec<MetadataPath> {
    paths.sort_by_key(ToString::to_string);
    paths.dedup();
    paths
}

/// Creates the missing indexes of a collection and drops those that are not in `set`.
fn declare(session: &mut Session, names: &PartitionNames, key: i64, set: &[MetadataPath]) -> Result<(), Fault> {
    let sql = "select path, number from dragoman.metadata_indexes where collection = $1 order by path";
    let declared = session.rows(sql, &[&key])?;
    let declared =
        declared.iter().map(|row| Ok((path(row.try_get(0)?)?, row.try_get(1)?))).collect::<Result<Vec<(_, i64)>, Fault>>()?;
    for (dropped, number) in declared.iter().filter(|(path, _)| !set.contains(path)) {
        session.execute_batch(&format!("drop index dragoman.{0}, dragoman.{0}_number", index_name(key, *number)))?;
        let sql = "delete from dragoman.metadata_indexes where collection = $1 and number = $2";
        session.execute(sql, &[&key, number])?;
        tracing::debug!(path = %dropped, "an index was dropped");
    }
    let mut number = declared.iter().map(|(_, number)| *number).max().unwrap_or_default();
    for path in set.iter().filter(|path| declared.iter().all(|(known, _)| known != *path)) {
        number += 1;
        create_path_indexes(session, names, key, path, number)?;
    }
    Ok(())
}

/// Returns the name of a path's index over values of any type. The index over numbers has a suffix.
fn index_name(collection: i64, number: i64) -> String {
    format!("documents_{collection}_metadata_{number}")
}

/// Creates the two indexes of a path: one for equality of values of any size, the other for ranges of numbers.
fn create_path_indexes(
    session: &mut Session,
    names: &PartitionNames,
    collection: i64,
    path: &MetadataPath,
    number: i64,
) -> Result<(), Fault> {
    let text = path.to_string();
    let Some([value, number_of]) = index_expressions(path, "fields") else {
        return Err(StoreError::PathNotIndexable { path: text }.into());
    };
    let sql = "insert into dragoman.metadata_indexes (collection, path, number) values ($1, $2, $3)";
    let escaped = super::escape::escape(&text);
    session.execute(sql, &[&collection, &escaped.as_ref(), &number])?;
    let (name, documents) = (index_name(collection, number), &names.documents);
    session.execute_batch(&format!(
        "create index {name} on {documents} using hash ({value}); create index {name}_number on {documents} ({number_of})"
    ))
}
