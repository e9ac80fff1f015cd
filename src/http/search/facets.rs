//! Facets in the API: fields whose values are counted or summarized.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::domain::json::kind;
use crate::domain::{FacetRequest, Field, HistogramInterval, Limits};
use crate::http::error::{ApiError, Checks, invalid};
use crate::http::request::extract::check_limit;
use crate::http::request::values::{check_count, check_items};
use crate::service::json::some_object;

pub const FACETS_MAX: usize = 20;
const VALUES_DEFAULT: usize = 10;

/// A field whose values to count.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FacetInput {
    /// `language`, or a metadata value, written as in a filter; `created_at` and `updated_at` with `stats` or `histogram`.
    #[schema(examples("language", "year", "author.name"))]
    pub field: String,
    /// Maximum values, the most frequent ones, from 1 to the server's limit (1000 unless configured otherwise). Defaults to 10,
    /// and to none with `stats` or `histogram`.
    #[schema(minimum = 1)]
    pub limit: Option<usize>,
    /// Whether to return the count, range, sum and mean of its numbers or, if it has none, the count and range of its RFC 3339
    /// dates.
    #[schema(default = false)]
    pub stats: Option<bool>,
    /// Counts the documents in each interval of its numbers or dates.
    #[serde(default, deserialize_with = "some_object")]
    pub histogram: Option<HistogramInput>,
}

/// The intervals of a histogram, of which at most 1000 may have documents.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HistogramInput {
    /// For numbers, a number above 0. For dates, `hour`, `day`, `week`, `month` or `year`, in UTC.
    #[schema(examples(10, "month"))]
    pub interval: Value,
}

pub fn check(facets: Vec<FacetInput>, limits: &Limits) -> Result<Vec<FacetRequest>, ApiError> {
    check_count("/facets", facets.len(), FACETS_MAX, "facets")?;
    check_items("/facets", facets, |input| check_one(input, limits))
}

fn check_one(input: FacetInput, limits: &Limits) -> Result<FacetRequest, ApiError> {
    let mut checks = Checks::default();
    let stats = input.stats.unwrap_or_default();
    let adds_up = stats || input.histogram.is_some();
    let limit = match input.limit {
        Some(limit) => checks.add_or_default(check_limit(limit, "/limit", limits)),
        None if adds_up => 0,
        None => VALUES_DEFAULT.min(limits.page_max),
    };
    let histogram = checks.add_or_default(input.histogram.map(|histogram| check_interval(&histogram.interval)).transpose());
    let field = match Field::parse(&input.field) {
        Ok(Field::Language) if adds_up => {
            invalid("/field", "must be a metadata path, created_at or updated_at with stats or histogram, got language")
        }
        Ok(Field::CreatedAt | Field::UpdatedAt) if adds_up && input.limit.is_some() => {
            invalid("/limit", format!("must be left out: the values of {} are not counted one by one", input.field))
        }
        Ok(Field::CreatedAt | Field::UpdatedAt) if adds_up && matches!(histogram, Some(HistogramInterval::Width(_))) => {
            invalid("/histogram/interval", format!("must be {} for {}", names(), input.field))
        }
        Ok(Field::CreatedAt | Field::UpdatedAt) if !adds_up => {
            let needs = "with stats or histogram also created_at or updated_at";
            invalid("/field", format!("must be language or a metadata path, {needs}, got {:?}", input.field))
        }
        Ok(Field::Id) => invalid("/field", format!("must be language or a metadata path, got {:?}", input.field)),
        Ok(field) => Ok(field),
        Err(detail) => invalid("/field", detail),
    };
    let field = checks.add(field);
    checks.end_with(field).map(|field| FacetRequest { field, limit, stats, histogram })
}

fn check_interval(interval: &Value) -> Result<HistogramInterval, ApiError> {
    let found = match interval {
        Value::Number(width) => width.as_f64().filter(|width| *width > 0.0).map(HistogramInterval::Width),
        Value::String(name) => {
            HistogramInterval::DATE_INTERVALS.into_iter().find(|(known, _)| known == name).map(|(_, interval)| interval)
        }
        _ => None,
    };
    let got = match interval {
        Value::Number(_) | Value::String(_) => interval.to_string(),
        other => kind(other).to_owned(),
    };
    found.map_or_else(|| invalid("/histogram/interval", format!("must be a number above 0, or {}, got {got}", names())), Ok)
}

fn names() -> String {
    HistogramInterval::DATE_INTERVALS.map(|(name, _)| name).join(", ")
}
