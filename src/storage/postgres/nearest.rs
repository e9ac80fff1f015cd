//! Finds the nearest passages or documents: by comparing with all of them if they are few, or otherwise through the index of
//! the database server, which continues to search while a filter leaves too few.
//!
//! The database server only finds candidates. Their scores are computed here from their full values, as everywhere else.

use std::sync::Arc;

use tokio_postgres::Row;

use super::fault::Fault;
use super::filter::Condition;
use super::hits::passage_document;
use super::partition::{Postgres, indexed_expression};
use super::rows::limit;
use super::session::{Parameter, Session, embedding, vector};
use crate::domain::{DenseMethod, Embedding, Metric};
use crate::index::{Neighbor, nearer_first};
use crate::storage::error::StorageError;
use crate::storage::nearest::{Nearest, NearestSearch, Scope, Unit, compare_in_parts};
use crate::store::{PassageDocument, PassageSet, RequiredPassages, StoreError, to_sql};

/// Up to this many passages are compared one by one.
const COMPARED_MAX: usize = 4_000;
/// Minimum number of candidates requested from the index at first, and their number per wanted document, because several
/// passages of one document may be near.
const CANDIDATES_MIN: usize = 32;
const PER_DOCUMENT: usize = 4;
/// Factor by which the number of candidates grows if they were of too few documents, and its maximum. Beyond the maximum,
/// comparing with all is no more work.
const GROWTH: usize = 4;
const CANDIDATES_MAX: usize = 20_000;
/// Factor between the collection's search width and the width used for pgvector's graph. Among 20,000 passages of real
/// sentences, a search finds 0.959 of the ten nearest with the default width, 0.991 with 2.7 times that width, and 0.996 with
/// four times.
const WIDER: usize = 3;
/// pgvector's limit on the search width.
const EF_MAX: usize = 1_000;
/// How many entries the index visits at most while a filter leaves too few.
const SCANNED_MAX: usize = 50_000;

/// A search in the form that statements need.
struct PreparedSearch<'s> {
    search: &'s NearestSearch<'s>,
    condition: Condition,
    query: pgvector::Vector,
    /// An expression of the distance between `p.embedding` and the query.
    distance: String,
}

impl PreparedSearch<'_> {
    /// Returns the condition's values, then the query.
    fn parameters(&self) -> Vec<Parameter<'_>> {
        let mut values = self.condition.parameters();
        values.push(&self.query);
        values
    }
}

type FoundRow = (Neighbor, PassageDocument);

impl Postgres {
    pub(crate) fn nearest(&self, search: &NearestSearch<'_>) -> Result<Nearest, StorageError> {
        let condition = self.compile_scope(search.scope);
        let operator = if self.metric == Metric::L2 { "<->" } else { "<#>" };
        let distance = format!("(p.embedding {operator} ${})", condition.next());
        let prepared = PreparedSearch { search, condition, query: vector(search.query), distance };
        let through_index = !search.exact && self.should_use_index(&prepared)?;
        let found = if through_index { self.search_index(&prepared, operator)? } else { None };
        let method = if found.is_some() { DenseMethod::Index } else { DenseMethod::Scan };
        let found = match found {
            Some(found) => found,
            None => self.compare_scope(&prepared)?,
        };
        let (neighbors, mut documents): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        if search.unit == Unit::Passage {
            documents.clear();
        }
        Ok(Nearest { neighbors, documents, method })
    }

    /// Compiles the scope to a condition on `documents d` and `passages p`.
    fn compile_scope(&self, scope: Scope<'_>) -> Condition {
        let mut condition = self.compile(scope.filter);
        let (test, passages) = match scope.words {
            None => return condition,
            Some(RequiredPassages::Only(passages)) => ("= any", passages),
            Some(RequiredPassages::AllBut(passages)) => ("<> all", passages),
        };
        let passages = condition.integers(passages.iter().map(|passage| to_sql(passage.0)).collect());
        condition.sql.push_str(&format!(" and p.passage {test}({passages})"));
        condition
    }

    fn joined_tables(&self) -> String {
        format!("{} p join {} d on d.document = p.document", self.names.passages, self.live())
    }

    /// Whether the scope has too many passages to compare with all.
    fn should_use_index(&self, prepared: &PreparedSearch<'_>) -> Result<bool, StoreError> {
        if indexed_expression(self.indexed, self.dimension).is_none() {
            return Ok(false);
        }
        // Without a condition, the count skips the table of documents. It includes expired documents, but those are few.
        let tables =
            if prepared.condition.matches_everything() { format!("{} p", self.names.passages) } else { self.joined_tables() };
        let sql = format!(
            "select count(*) from (select 1 from {tables} where p.embedded_sequence is not null and {} limit {} + 1) found",
            prepared.condition.sql, COMPARED_MAX
        );
        let count = self.search("counting passages", |session| session.query_number(&sql, &prepared.condition.parameters()))?;
        Ok(count > COMPARED_MAX as u64)
    }

    /// Searches through the index. Returns `None` if it found too few, although there may be more.
    fn search_index(&self, prepared: &PreparedSearch<'_>, operator: &str) -> Result<Option<Vec<FoundRow>>, StorageError> {
        let search = prepared.search;
        let per_unit = if search.unit == Unit::Document { PER_DOCUMENT } else { 1 };
        let oversampling = search.parameters.oversampling.unwrap_or(1.0).max(1.0);
        let mut wanted = ((search.limit.saturating_mul(per_unit) as f32 * oversampling).ceil() as usize).max(CANDIDATES_MIN);
        while wanted <= CANDIDATES_MAX {
            let candidates =
                self.search("searching an index", |session| self.read_candidates(session, prepared, operator, wanted))?;
            let exhausted = candidates.len() < wanted;
            let found = self.keep_nearest(search, candidates);
            if found.len() >= search.limit {
                return Ok(Some(found));
            }
            // The index also ends early at its limits, so only comparing can tell whether there are no more.
            if exhausted {
                return Ok(None);
            }
            wanted = wanted.saturating_mul(GROWTH);
        }
        Ok(None)
    }

    fn read_candidates(
        &self,
        session: &mut Session,
        prepared: &PreparedSearch<'_>,
        operator: &str,
        wanted: usize,
    ) -> Result<Vec<FoundRow>, Fault> {
        let Some(value) = indexed_expression(self.indexed, self.dimension) else { return Ok(Vec::new()) };
        let cast = value.trim_start_matches("embedding");
        let usual = prepared.search.ef_search.saturating_mul(WIDER);
        let ef = prepared.search.parameters.ef_search.unwrap_or(usual).max(wanted).clamp(1, EF_MAX);
        let sql = format!(
            "select p.passage, d.document, d.id, d.language, p.embedding from {} where p.embedding is not null and {}
             order by (p.{value}) {operator} (${}{cast}) limit {wanted}",
            self.joined_tables(),
            prepared.condition.sql,
            prepared.condition.next()
        );
        session.in_transaction("begin read only", |session| {
            // So many passages match that the fastest plan is the index, followed by a lookup of each document by key. Forces
            // that plan, whatever the database server estimates.
            session.execute_batch(&format!(
                "set local hnsw.ef_search = {ef}; set local hnsw.iterative_scan = relaxed_order;
                 set local hnsw.max_scan_tuples = {SCANNED_MAX}; set local enable_sort = off;
                 set local enable_seqscan = off; set local enable_bitmapscan = off; set local enable_hashjoin = off;
                 set local enable_material = off"
            ))?;
            let rows = session.rows(&sql, &prepared.parameters())?;
            rows.iter().map(|row| self.score_row(row, prepared.search.query)).collect()
        })
    }

    fn compare_scope(&self, prepared: &PreparedSearch<'_>) -> Result<Vec<FoundRow>, StorageError> {
        let best = match prepared.search.unit {
            Unit::Passage => "compared",
            Unit::Document => "(select distinct on (document) * from compared order by document, distance, passage)",
        };
        let sql = format!(
            "with compared as materialized (
                 select p.passage, p.document, p.ordinal, {} as distance from {} where p.embedding is not null and {}
             ), best as (select * from {best} each order by distance, passage limit {})
             select best.passage, d.document, d.id, d.language, p.embedding from best
             join {} p on p.document = best.document and p.ordinal = best.ordinal join {} d on d.document = best.document",
            prepared.distance,
            self.joined_tables(),
            prepared.condition.sql,
            limit(prepared.search.limit),
            self.names.passages,
            self.names.documents
        );
        let found = self.search("comparing embeddings", |session| {
            let rows = session.rows(&sql, &prepared.parameters())?;
            rows.iter().map(|row| self.score_row(row, prepared.search.query)).collect::<Result<Vec<_>, Fault>>()
        })?;
        Ok(self.keep_nearest(prepared.search, found))
    }

    fn score_row(&self, row: &Row, query: &Embedding) -> Result<FoundRow, Fault> {
        let document = passage_document(row, 0)?;
        let stored = embedding(document.passage.0 as i64, row.try_get(4)?)?;
        Ok((Neighbor { passage: document.passage, score: self.metric.score(query, &stored) }, document))
    }

    /// Sorts, nearest first, and keeps as many as requested. In a search for documents, keeps only the nearest passage of each.
    fn keep_nearest(&self, search: &NearestSearch<'_>, mut found: Vec<FoundRow>) -> Vec<FoundRow> {
        found.sort_by(|(a, _), (b, _)| nearer_first(a, b));
        if search.unit == Unit::Document {
            let mut seen = std::collections::HashSet::new();
            found.retain(|(_, document)| seen.insert(document.key));
        }
        found.truncate(search.limit);
        found
    }

    pub(crate) fn compare(&self, query: &Embedding, passages: &PassageSet) -> Result<Vec<Neighbor>, StorageError> {
        Ok(compare_in_parts(passages, (self.metric, query), |part| self.embeddings_of(part))?)
    }

    pub(crate) fn passages_in(&self, scope: Scope<'_>) -> Result<Arc<PassageSet>, StoreError> {
        let condition = self.compile_scope(scope);
        let sql = format!("select p.passage from {} where {}", self.joined_tables(), condition.sql);
        let set: PassageSet = self.search("filtering documents", |session| session.passages(&sql, &condition.parameters()))?;
        Ok(Arc::new(set))
    }

    /// Counts the passages that have an embedding.
    pub(crate) fn searchable(&self) -> Result<usize, StorageError> {
        let sql = format!(
            "select passages - (select count(*) from {} where embedded_sequence is null) from dragoman.collections where key = $1",
            self.names.passages
        );
        let count = self.run("counting passages", |session| session.query_number(&sql, &[&self.key]))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    pub(crate) fn is_complete(&self) -> Result<bool, StorageError> {
        Ok(true)
    }

    pub(crate) fn ready(&self) -> Result<(), StorageError> {
        Ok(())
    }
}
