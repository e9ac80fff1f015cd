//! Counts the documents with each value of a field. Adds up numbers and dates as they arrive, without collecting them.

use super::escape::unescape;
use super::fault::Fault;
use super::filter::Condition;
use super::partition::Postgres;
use super::rows::limit;
use super::session::Session;
use crate::domain::{
    Facet, FacetRequest, FacetValue, Facets, Field, HistogramInterval, MetadataPath, NumberOrTime, Scalar, ValueSummary,
    timestamps,
};
use crate::store::{SearchFilter, StoreError, from_sql};

impl Postgres {
    pub(crate) fn facets(&self, filter: &SearchFilter, requests: &[FacetRequest], bytes_max: u64) -> Result<Facets, StoreError> {
        let condition = self.compile(filter);
        self.search_snapshot("counting values", |session| {
            let sql = format!("select count(*) from {} d where {}", self.live(), condition.sql);
            let documents = session.query_number(&sql, &condition.parameters())?;
            Facets::collect(documents, requests, bytes_max, |request, left| self.facet(session, &condition, request, left))
        })
    }

    fn facet(&self, session: &mut Session, condition: &Condition, facet: &FacetRequest, bytes_max: u64) -> Result<Facet, Fault> {
        let (values, missing) = match &facet.field {
            Field::Language => self.languages(session, condition, facet.limit)?,
            Field::Metadata(path) => {
                let value = PathExpression::of(path, condition);
                let values = if facet.limit > 0 { self.values_at(session, &value, facet.limit, bytes_max)? } else { Vec::new() };
                (values, self.count_missing(session, &value)?)
            }
            Field::Id | Field::CreatedAt | Field::UpdatedAt => (Vec::new(), 0),
        };
        let mut counted = Facet { field: facet.field.clone(), values, missing, stats: None, histogram: None };
        if facet.stats || facet.histogram.is_some() {
            let summary = self.summarize(session, condition, facet)?;
            counted.stats = facet.stats.then(|| summary.stats());
            counted.histogram = summary.histogram();
        }
        Ok(counted)
    }

    fn languages(&self, session: &mut Session, condition: &Condition, limit: usize) -> Result<(Vec<FacetValue>, u64), Fault> {
        let sql = format!(
            "select d.language, count(*) from {} d where {} group by d.language order by count(*) desc, d.language",
            self.live(),
            condition.sql
        );
        let (mut values, mut missing) = (Vec::new(), 0);
        for row in session.rows(&sql, &condition.parameters())? {
            let documents = from_sql(row.try_get(1)?);
            match row.try_get::<_, Option<String>>(0)? {
                Some(language) => values.push(FacetValue { value: Scalar::Text(language), documents }),
                None => missing = documents,
            }
        }
        values.truncate(limit);
        Ok((values, missing))
    }

    /// Returns a table expression of the matching documents, as `d`, with each of their values at a path, as `e.value`.
    fn elements_table(&self, path: &PathExpression) -> String {
        let (live, matches, value) = (self.live(), &path.condition.sql, &path.value);
        format!(
            "(select * from {live} d where {matches}) d cross join lateral jsonb_array_elements(
                 case when jsonb_typeof{value} = 'array' then {value} else jsonb_build_array{value} end
             ) e (value)"
        )
    }

    /// Counts the values at a path: at most `max` of them, and no more once their texts exceed `bytes_max` bytes.
    fn values_at(
        &self,
        session: &mut Session,
        path: &PathExpression,
        max: usize,
        bytes_max: u64,
    ) -> Result<Vec<FacetValue>, Fault> {
        // A value that occurs twice in a document's array is one row of `found`.
        let sql = format!(
            "with found as materialized (
                 select distinct d.document, e.value from {} where {} is not null
             ), kinds as (
                 select value, case jsonb_typeof(value) when 'string' then 'text' when 'boolean' then value::text
                     else jsonb_typeof(value) end collate \"C\" as kind, count(*) as documents,
                     min((value #>> '{{}}') collate \"C\") as shown
                 from found where jsonb_typeof(value) in ('string', 'number', 'boolean') group by value
             )
             select kind, shown, documents from kinds
             order by documents desc, kind, case when kind = 'number' then shown::numeric end, shown limit {}",
            self.elements_table(path),
            path.value,
            limit(max)
        );
        let (mut counted, mut bytes) = (Vec::new(), 0);
        for row in session.rows(&sql, &path.condition.parameters())? {
            let text: &str = row.try_get(1)?;
            let value = match row.try_get::<_, &str>(0)? {
                "true" => Scalar::Bool(true),
                "false" => Scalar::Bool(false),
                "number" => parse_number(text),
                _ => Scalar::Text(unescape(text)),
            };
            let value = FacetValue { value, documents: from_sql(row.try_get(2)?) };
            bytes += value.bytes();
            counted.push(value);
            if bytes > bytes_max {
                break;
            }
        }
        Ok(counted)
    }

    /// Counts the matching documents that have no value or null at a path.
    fn count_missing(&self, session: &mut Session, path: &PathExpression) -> Result<u64, Fault> {
        let (live, matches, value) = (self.live(), &path.condition.sql, &path.value);
        let sql = format!("select count(*) from {live} d where {matches} and coalesce(jsonb_typeof{value}, 'null') = 'null'");
        session.query_number(&sql, &path.condition.parameters())
    }

    /// Adds up the numbers and dates of a field.
    fn summarize(&self, session: &mut Session, condition: &Condition, facet: &FacetRequest) -> Result<ValueSummary, Fault> {
        let mut summary = ValueSummary::new(facet.histogram);
        let mut add = |document: i64, value: NumberOrTime| match summary.add(document, value) {
            true => Ok(()),
            false => {
                let (field, max) = (facet.field.to_string(), HistogramInterval::BUCKETS_MAX);
                Err(Fault::from(StoreError::TooManyBuckets { field, max }))
            }
        };
        match &facet.field {
            Field::CreatedAt | Field::UpdatedAt => {
                let column = if facet.field == Field::CreatedAt { "created_at_ms" } else { "updated_at_ms" };
                let sql = format!("select d.document, d.{column} from {} d where {}", self.live(), condition.sql);
                session.for_each_row(&sql, &condition.parameters(), |row| {
                    add(row.try_get(0)?, NumberOrTime::Time(row.try_get(1)?))
                })?;
            }
            Field::Metadata(path) => {
                let path = PathExpression::of(path, condition);
                // Reads the values document by document. Dates begin with a digit.
                let sql = format!(
                    "select d.document, jsonb_typeof(e.value) = 'number', e.value #>> '{{}}' from {} where {} is not null
                     and (jsonb_typeof(e.value) = 'number' or jsonb_typeof(e.value) = 'string' and e.value #>> '{{}}' ~ '^[0-9]')
                     order by d.document",
                    self.elements_table(&path),
                    path.value
                );
                session.for_each_row(&sql, &path.condition.parameters(), |row| {
                    let (is_number, text): (bool, &str) = (row.try_get(1)?, row.try_get(2)?);
                    let measured = match is_number {
                        true => {
                            let integer = text.parse().ok().map(NumberOrTime::Integer);
                            integer.or_else(|| text.parse().ok().map(NumberOrTime::Number))
                        }
                        false => timestamps::parse(&unescape(text)).map(NumberOrTime::Time),
                    };
                    match measured {
                        Some(measured) => add(row.try_get(0)?, measured),
                        None => Ok(()),
                    }
                })?;
            }
            Field::Id | Field::Language => (),
        }
        Ok(summary)
    }
}

/// The value at a path as an expression, and the condition on documents, whose parameters include the keys of the path.
struct PathExpression {
    value: String,
    condition: Condition,
}

impl PathExpression {
    fn of(path: &MetadataPath, condition: &Condition) -> Self {
        let mut condition = condition.clone();
        Self { value: format!("(d.fields{})", condition.keys(path)), condition }
    }
}

/// Parses a number as the database server writes it: 1.0 is an integer, too.
fn parse_number(text: &str) -> Scalar {
    let integer = text.split_once('.').filter(|(_, decimals)| decimals.bytes().all(|digit| digit == b'0'));
    match integer.map_or(text, |(integer, _)| integer).parse() {
        Ok(integer) => Scalar::Integer(integer),
        Err(_) => Scalar::Real(text.parse().unwrap_or_default()),
    }
}
