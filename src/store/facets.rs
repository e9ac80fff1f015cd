//! Counts the documents with each value of a field, and adds up numbers and dates. One scan of the matching documents serves all
//! fields.

use rusqlite::{Connection, Row, params_from_iter};
use serde_json::Value;

use super::StoreError;
use super::documents::DocumentStore;
use super::error::Fault;
use super::filter::Condition;
use super::json_path::find_in_json;
use super::rows::{corrupt_document, query_number};
use super::value_counts::{CountedValue, ValueCounts};
use crate::domain::{
    Facet, FacetRequest, FacetValue, Facets, Field, HistogramInterval, MetadataPath, NumberOrTime, SearchFilter, ValueSummary,
    timestamps,
};

/// Maximum bytes of distinct values in memory, for all fields of a request together. If the values of a field do not fit, they
/// are counted in several scans, and may take as much again.
const COUNTED_BYTES_MAX: usize = 32 << 20;

impl DocumentStore {
    /// Counts values among the matching documents, all in a single state of the database. The id has no values, and the
    /// document's times only have a range and a histogram. Fails with `StoreError::TooManyBuckets` if a histogram has too many
    /// buckets. Returns no more fields once the values exceed `bytes_max` bytes.
    pub fn facets(&self, filter: &SearchFilter, requests: &[FacetRequest], bytes_max: u64) -> Result<Facets, StoreError> {
        let condition = self.compile(filter);
        self.scan("counting values", |connection| {
            if requests.is_empty() {
                let sql = format!("select count(*) from documents d where {}", condition.sql);
                let documents = query_number(connection, &sql, params_from_iter(&condition.values))?;
                return Ok(Facets { documents, counts: Vec::new(), bytes: 0 });
            }
            let documents = Documents { connection, condition: &condition, columns: columns(requests) };
            let counter = |request| FieldCounter::new(request, COUNTED_BYTES_MAX / requests.len());
            let mut counters: Vec<FieldCounter<'_>> = requests.iter().map(counter).collect();
            let mut number = 0;
            documents.scan(|row| {
                number += 1;
                counters.iter_mut().try_for_each(|counter| counter.add(row))
            })?;
            Facets::collect(number, counters, bytes_max, |counter, left| counter.into_facet(left, &documents))
        })
    }
}

/// Returns the columns that the counters of these fields read, each in its place. Whole documents are only read for metadata: an
/// index has the languages.
fn columns(requests: &[FacetRequest]) -> String {
    let needs = |column: &'static str, is_needed: fn(&Field) -> bool| {
        if requests.iter().any(|request| is_needed(&request.field)) { column } else { "null" }
    };
    let language = needs("d.language", |field| *field == Field::Language);
    let created = needs("d.created_at_ms", |field| *field == Field::CreatedAt);
    let updated = needs("d.updated_at_ms", |field| *field == Field::UpdatedAt);
    let metadata = needs("d.metadata", |field| matches!(field, Field::Metadata(_)));
    format!("d.key, {language}, {created}, {updated}, {metadata}")
}

/// The documents whose values are counted.
struct Documents<'c> {
    connection: &'c Connection,
    condition: &'c Condition,
    columns: String,
}

impl Documents<'_> {
    /// Passes each document to `take`.
    fn scan(&self, mut take: impl FnMut(&Row<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
        let sql = format!("select {} from documents d where {}", self.columns, self.condition.sql);
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(&self.condition.values))?;
        while let Some(row) = rows.next()? {
            take(row)?;
        }
        Ok(())
    }
}

/// Counts the values of one field.
struct FieldCounter<'r> {
    request: &'r FacetRequest,
    missing: u64,
    /// The values, unless none are wanted.
    values: Option<ValueCounts>,
    summary: Option<ValueSummary>,
}

impl<'r> FieldCounter<'r> {
    /// Counts nothing yet. The distinct values take at most `bytes_max` bytes of memory.
    fn new(request: &'r FacetRequest, bytes_max: usize) -> Self {
        Self {
            request,
            missing: 0,
            values: (request.limit > 0).then(|| ValueCounts::new(request.limit, bytes_max)),
            summary: (request.stats || request.histogram.is_some()).then(|| ValueSummary::new(request.histogram)),
        }
    }

    /// Adds a document, with the `columns` of all fields.
    fn add(&mut self, row: &Row<'_>) -> Result<(), Fault> {
        match &self.request.field {
            Field::CreatedAt => return self.summarize(row.get(0)?, NumberOrTime::Time(row.get(2)?)),
            Field::UpdatedAt => return self.summarize(row.get(0)?, NumberOrTime::Time(row.get(3)?)),
            Field::Id => return Ok(()),
            Field::Language | Field::Metadata(_) => (),
        }
        let (key, values): (i64, _) = (row.get(0)?, values_of(&self.request.field, row)?);
        let Some(values) = values else {
            self.missing += 1;
            return Ok(());
        };
        for value in values {
            if let Some(measured) = measured(&value).filter(|_| self.summary.is_some()) {
                self.summarize(key, measured)?;
            }
            if let Some((counts, value)) = self.values.as_mut().zip(CountedValue::of(value)) {
                counts.add(key, value);
            }
        }
        Ok(())
    }

    fn summarize(&mut self, document: i64, value: NumberOrTime) -> Result<(), Fault> {
        if self.summary.as_mut().is_none_or(|summary| summary.add(document, value)) {
            return Ok(());
        }
        let (field, max) = (self.request.field.to_string(), HistogramInterval::BUCKETS_MAX);
        Err(StoreError::TooManyBuckets { field, max }.into())
    }

    /// Returns the counts, with no more values once their texts exceed `bytes_max` bytes. Scans the documents again if the values
    /// had no room in memory together.
    fn into_facet(mut self, bytes_max: u64, documents: &Documents<'_>) -> Result<Facet, Fault> {
        let field = &self.request.field;
        if let Some(counts) = &mut self.values {
            while counts.next_part(COUNTED_BYTES_MAX) {
                documents.scan(|row| {
                    let key = row.get(0)?;
                    let values = values_of(field, row)?.unwrap_or_default().into_iter().filter_map(CountedValue::of);
                    values.for_each(|value| counts.add(key, value));
                    Ok(())
                })?;
            }
        }
        let mut bytes = 0;
        let mut within = |value: &FacetValue| {
            let goes_on = bytes <= bytes_max;
            bytes += value.bytes();
            goes_on
        };
        let values = self.values.map_or_else(Vec::new, ValueCounts::into_values);
        Ok(Facet {
            field: field.clone(),
            values: values.into_iter().take_while(|value| within(value)).collect(),
            missing: self.missing,
            stats: self.summary.as_ref().filter(|_| self.request.stats).map(ValueSummary::stats),
            histogram: self.summary.as_ref().and_then(ValueSummary::histogram),
        })
    }
}

/// Returns the values of a document's field: the elements of an array, or the only value. `None` if there is no value or null.
fn values_of(field: &Field, row: &Row<'_>) -> Result<Option<Vec<Value>>, Fault> {
    match field {
        Field::Language => Ok(row.get::<_, Option<String>>(1)?.map(|language| vec![Value::String(language)])),
        Field::Metadata(path) => values_at(path, row),
        Field::Id | Field::CreatedAt | Field::UpdatedAt => Ok(None),
    }
}

fn values_at(path: &MetadataPath, row: &Row<'_>) -> Result<Option<Vec<Value>>, Fault> {
    let json = row.get_ref(4)?.as_str().unwrap_or_default();
    match find_in_json(json, path.keys()) {
        Ok(None | Some(Value::Null)) => Ok(None),
        Ok(Some(Value::Array(elements))) => Ok(Some(elements)),
        Ok(Some(value)) => Ok(Some(vec![value])),
        Err(_) => Err(corrupt_document(row.get(0)?, "its metadata is not a JSON object").into()),
    }
}

/// Returns the number or the date that a value is.
fn measured(value: &Value) -> Option<NumberOrTime> {
    match value {
        Value::Number(number) => {
            let integer = number.as_i64().map(NumberOrTime::Integer);
            integer.or_else(|| number.as_f64().map(NumberOrTime::Number))
        }
        Value::String(text) => timestamps::parse(text).map(NumberOrTime::Time),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
