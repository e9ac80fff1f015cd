//! Counts the documents with each value of a field.

use postgres::types::Type;

use super::escape::unescape;
use super::fault::Fault;
use super::filter::Condition;
use super::partition::Partition;
use super::rows::limit;
use super::session::Session;
use crate::domain::{Facet, FacetRequest, FacetValue, Facets, Field, MetadataPath, Scalar};
use crate::store::{SearchFilter, StoreError};

impl Partition {
    pub(super) fn facets(&self, filter: &SearchFilter, requests: &[FacetRequest], bytes_max: u64) -> Result<Facets, StoreError> {
        let condition = self.compile(filter);
        self.snapshot("counting values", |session| {
            let sql = format!("select count(*) from {} d where {}", self.names.documents, condition.sql);
            let documents = session.number(&sql, &condition.parameters())?;
            let mut facets = Facets { documents, counts: Vec::with_capacity(requests.len()), bytes: 0 };
            for request in requests {
                let left = bytes_max.saturating_sub(facets.bytes);
                let counts = self.facet(session, &condition, request, left)?;
                facets.bytes += counts.values.iter().map(|one| text_bytes(&one.value)).sum::<u64>();
                facets.counts.push(counts);
                if facets.bytes > bytes_max {
                    break;
                }
            }
            Ok(facets)
        })
    }

    fn facet(&self, session: &mut Session, condition: &Condition, facet: &FacetRequest, bytes_max: u64) -> Result<Facet, Fault> {
        match &facet.field {
            Field::Language => self.languages(session, condition, facet.limit),
            Field::Metadata(path) => self.values_at(session, condition, path, (facet.limit, bytes_max)),
            Field::Id | Field::CreatedAt | Field::UpdatedAt => {
                Ok(Facet { field: facet.field.clone(), values: Vec::new(), missing: 0 })
            }
        }
    }

    fn languages(&self, session: &mut Session, condition: &Condition, limit: usize) -> Result<Facet, Fault> {
        let sql = format!(
            "select d.language, count(*) from {} d where {} group by d.language order by count(*) desc, d.language",
            self.names.documents, condition.sql
        );
        let (mut values, mut missing) = (Vec::new(), 0);
        for row in session.rows(&sql, &condition.parameters())? {
            let documents = unsigned(row.try_get(1)?);
            match row.try_get::<_, Option<String>>(0)? {
                Some(language) => values.push(FacetValue { value: Scalar::Text(language), documents }),
                None => missing = documents,
            }
        }
        values.truncate(limit);
        Ok(Facet { field: Field::Language, values, missing })
    }

    /// Counts the values at `path`: at most this many, and no more once their texts exceed this many bytes.
    fn values_at(
        &self,
        session: &mut Session,
        condition: &Condition,
        path: &MetadataPath,
        (most, bytes_max): (usize, u64),
    ) -> Result<Facet, Fault> {
        let keys: Vec<String> = path.keys().iter().map(|key| super::escape::escape(key).into_owned()).collect();
        let first = condition.next();
        let places: Vec<String> = (first..first + keys.len()).map(|number| format!(" -> ${number}")).collect();
        let value = format!("(d.fields{})", places.concat());
        let (documents, matches) = (&self.names.documents, &condition.sql);
        let mut values = condition.parameters();
        values.extend(keys.iter().map(|key| (key as _, Type::TEXT)));
        // A value that a document's array has twice is one row of `found`.
        let sql = format!(
            "with found as materialized (
                 select distinct d.document, e.value from documents_of_the_filter d
                 cross join lateral jsonb_array_elements(
                     case when jsonb_typeof{value} = 'array' then {value} else jsonb_build_array{value} end
                 ) e (value) where {value} is not null
             ), kinds as (
                 select value, case jsonb_typeof(value) when 'string' then 'text' when 'boolean' then value::text
                     else jsonb_typeof(value) end collate \"C\" as kind, count(*) as documents
                 from found where jsonb_typeof(value) in ('string', 'number', 'boolean') group by value
             )
             select kind, value #>> '{{}}', documents from kinds
             order by documents desc, kind, case when kind = 'number' then (value #>> '{{}}')::numeric end,
                 (value #>> '{{}}') collate \"C\" limit {}",
            limit(most)
        );
        let of_the_filter = format!("(select * from {documents} d where {matches})");
        let sql = sql.replace("documents_of_the_filter", &of_the_filter);
        let (mut counted, mut bytes) = (Vec::new(), 0);
        for row in session.rows(&sql, &values)? {
            let text: &str = row.try_get(1)?;
            let value = match row.try_get::<_, &str>(0)? {
                "true" => Scalar::Bool(true),
                "false" => Scalar::Bool(false),
                "number" => number(text),
                _ => Scalar::Text(unescape(text)),
            };
            bytes += text_bytes(&value);
            counted.push(FacetValue { value, documents: unsigned(row.try_get(2)?) });
            if bytes > bytes_max {
                break;
            }
        }
        let sql =
            format!("select count(*) from {documents} d where {matches} and coalesce(jsonb_typeof{value}, 'null') = 'null'");
        let missing = session.number(&sql, &values)?;
        Ok(Facet { field: Field::Metadata(path.clone()), values: counted, missing })
    }
}

/// A number as the server writes it.
fn number(text: &str) -> Scalar {
    match text.parse() {
        Ok(integer) => Scalar::Integer(integer),
        Err(_) => Scalar::Real(text.parse().unwrap_or_default()),
    }
}

fn text_bytes(value: &Scalar) -> u64 {
    if let Scalar::Text(text) = value { text.len() as u64 } else { 0 }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
