//! Counts the documents with each value of a field. SQLite does the counting, and moves values to disk if there are many. Adds
//! up numbers and dates as they arrive, without collecting them.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};

use super::StoreError;
use super::documents::DocumentStore;
use super::error::Fault;
use super::filter::{Condition, walk};
use super::rows::{from_sql, query_all, query_number, to_sql};
use crate::domain::{
    Facet, FacetRequest, FacetValue, Facets, Field, HistogramInterval, MetadataPath, NumberOrTime, Scalar, SearchFilter,
    ValueSummary, timestamps,
};

/// Stands for no language. No document has this value.
const NONE: &str = "";

impl DocumentStore {
    /// Counts values among the matching documents, all in a single state of the database. The id has no values, and the
    /// document's times only have a range and a histogram. Fails with `StoreError::TooManyBuckets` if a histogram has too many
    /// buckets. Ends as soon as the values exceed `bytes_max` bytes, and returns the counts so far.
    pub fn facets(&self, filter: &SearchFilter, requests: &[FacetRequest], bytes_max: u64) -> Result<Facets, StoreError> {
        let condition = self.compile(filter);
        self.scan("counting values", |connection| {
            let sql = format!("select count(*) from documents d where {}", condition.sql);
            let documents = query_number(connection, &sql, params_from_iter(&condition.values))?;
            Facets::collect(documents, requests, bytes_max, |request, left| count(connection, &condition, request, left))
        })
    }
}

fn count(connection: &Connection, condition: &Condition, facet: &FacetRequest, bytes_max: u64) -> Result<Facet, Fault> {
    let (values, missing) = match &facet.field {
        Field::Language => languages(connection, condition, facet.limit)?,
        Field::Metadata(path) if facet.limit > 0 => metadata(connection, condition, path, (facet.limit, bytes_max))?,
        Field::Metadata(path) => (Vec::new(), missing(connection, condition, path)?),
        Field::Id | Field::CreatedAt | Field::UpdatedAt => (Vec::new(), 0),
    };
    let mut counted = Facet { field: facet.field.clone(), values, missing, stats: None, histogram: None };
    if facet.stats || facet.histogram.is_some() {
        let summary = summary(connection, condition, facet)?;
        counted.stats = facet.stats.then(|| summary.stats());
        counted.histogram = summary.histogram();
    }
    Ok(counted)
}

fn languages(connection: &Connection, condition: &Condition, limit: usize) -> Result<(Vec<FacetValue>, u64), Fault> {
    let sql = format!(
        "select coalesce(d.language, '{NONE}') as value, count(*) as documents from documents d where {}
         group by value order by documents desc, value",
        condition.sql
    );
    let mut counts = query_all(connection, &sql, params_from_iter(&condition.values), |row| {
        Ok((row.get::<_, String>(0)?, from_sql(row.get(1)?)))
    })?;
    let none = counts.iter().position(|(language, _)| language == NONE);
    let missing = none.map_or(0, |index| counts.remove(index).1);
    counts.truncate(limit);
    let values = counts.into_iter().map(|(language, documents)| FacetValue { value: Scalar::Text(language), documents });
    Ok((values.collect(), missing))
}

/// Counts the values at `path`: at most `limit` of them, and no more once their texts exceed `bytes_max` bytes.
fn metadata(
    connection: &Connection,
    condition: &Condition,
    path: &MetadataPath,
    (limit, bytes_max): (usize, u64),
) -> Result<(Vec<FacetValue>, u64), Fault> {
    let (from, keys, last) = elements(path, condition);
    // A value that occurs twice in a document's array is one row of `found`.
    let sql = format!(
        "with found as materialized (
             select distinct d.key as document,
                 case coalesce(e.type, {last}.type) when 'integer' then 'number' when 'real' then 'number'
                     else coalesce(e.type, {last}.type) end as kind,
                 case when {last}.type = 'array' then e.atom else {last}.atom end as value
             {from}
         )
         select kind, value, count(*) as documents from found where kind in ('text', 'number', 'true', 'false')
         group by kind, value order by documents desc, kind, value limit ?"
    );
    let own = keys.into_iter().chain([Value::Integer(to_sql(limit as u64))]);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(own))?;
    let (mut values, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let kind: String = row.get(0)?;
        let value = match (kind.as_str(), row.get_ref(1)?) {
            ("true", _) => Scalar::Bool(true),
            ("false", _) => Scalar::Bool(false),
            (_, ValueRef::Integer(integer)) => Scalar::Integer(integer),
            (_, ValueRef::Real(real)) => Scalar::Real(real),
            (_, ValueRef::Text(text)) => Scalar::Text(String::from_utf8_lossy(text).into_owned()),
            (_, ValueRef::Null | ValueRef::Blob(_)) => continue,
        };
        let counted = FacetValue { value, documents: from_sql(row.get(2)?) };
        bytes += counted.bytes();
        values.push(counted);
        if bytes > bytes_max {
            break;
        }
    }
    Ok((values, missing(connection, condition, path)?))
}

/// Counts the matching documents whose value at `path` does not exist or is null.
fn missing(connection: &Connection, condition: &Condition, path: &MetadataPath) -> Result<u64, Fault> {
    let (tables, conditions, keys, last) = walk(path);
    let sql = format!(
        "select count(*) from documents d where not exists (select 1 from {tables} where {conditions} and {last}.type <> 'null')
         and {}",
        condition.sql
    );
    query_number(connection, &sql, params_from_iter(keys.iter().chain(&condition.values)))
}

/// Builds the `from` and `where` of a statement over the values at `path` in matching documents. It has a row for each value,
/// or for each element of an array, document by document. Also returns the values of its parameters, and the name of the table
/// with the values; table `e` has the elements.
fn elements(path: &MetadataPath, condition: &Condition) -> (String, Vec<Value>, String) {
    let (tables, conditions, keys, last) = walk(path);
    let from = format!(
        "from documents d cross join {tables}
         left join json_each(case when {last}.type = 'array' then {last}.value end) e on true
         where {conditions} and {}",
        condition.sql
    );
    (from, keys.into_iter().chain(condition.values.iter().cloned()).collect(), last)
}

/// Adds up the numbers and dates of a field.
fn summary(connection: &Connection, condition: &Condition, facet: &FacetRequest) -> Result<ValueSummary, Fault> {
    let own = |column| (format!("select d.key, d.{column} from documents d where {}", condition.sql), condition.values.clone());
    let mut summary = ValueSummary::new(facet.histogram);
    let (is_own, (sql, values)) = match &facet.field {
        Field::CreatedAt => (true, own("created_at_ms")),
        Field::UpdatedAt => (true, own("updated_at_ms")),
        Field::Metadata(path) => {
            let (from, values, last) = elements(path, condition);
            let value = format!("case when {last}.type = 'array' then e.atom else {last}.atom end");
            // Leaves out booleans, because true would count as the number 1.
            let counts = format!("coalesce(e.type, {last}.type) in ('integer', 'real', 'text')");
            (false, (format!("select d.key, {value} {from} and {counts}"), values))
        }
        Field::Id | Field::Language => return Ok(summary),
    };
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        let measured = match row.get_ref(1)? {
            ValueRef::Integer(ms) if is_own => NumberOrTime::Time(ms),
            ValueRef::Integer(integer) => NumberOrTime::Number(integer as f64),
            ValueRef::Real(real) => NumberOrTime::Number(real),
            ValueRef::Text(text) => match std::str::from_utf8(text).ok().and_then(timestamps::parse) {
                Some(ms) => NumberOrTime::Time(ms),
                None => continue,
            },
            ValueRef::Null | ValueRef::Blob(_) => continue,
        };
        if !summary.add(row.get(0)?, measured) {
            let (field, max) = (facet.field.to_string(), HistogramInterval::BUCKETS_MAX);
            return Err(StoreError::TooManyBuckets { field, max }.into());
        }
    }
    Ok(summary)
}
