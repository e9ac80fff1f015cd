//! Boosts in the API, and their validation.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::domain::json::kind;
use crate::domain::{Boost, BoostBy, Decay, DecayShape, DistinctJson, Field, Limits, NumberOrTime, timestamps};
use crate::http::error::{ApiError, Checks, invalid};
use crate::http::request::filter::{self, FilterNode};
use crate::http::request::values::{check_count, check_items, check_number};
use crate::service::json::some_object;

/// Raises or lowers the scores of documents that match `filter`, or whose `field` is near an origin.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BoostInput {
    /// The documents that get the full weight. Excludes `field` and `decay`.
    #[schema(value_type = Option<FilterNode>)]
    pub filter: Option<DistinctJson>,
    /// A metadata path as in filters, `created_at` or `updated_at`. The scores of documents without such a number or date do
    /// not change.
    #[schema(examples("published"))]
    pub field: Option<String>,
    /// How the boost decays with the distance from the origin.
    #[serde(default, deserialize_with = "some_object")]
    pub decay: Option<DecayInput>,
    /// The factor for the odds in mode `full`, otherwise for the score; below 1 it lowers the score. The product of all factors
    /// is limited to 0.001 to 1000.
    #[schema(minimum = 0.01, maximum = 100, default = 2)]
    pub weight: Option<f64>,
}

/// A document's factor is weight ^ nearness. Nearness is 1 at the origin; `half_life` or `scale` says how it falls with the
/// distance. Distances of dates are in days.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecayInput {
    /// A number, an RFC 3339 time or date, or `now`, the default.
    #[schema(value_type = Value, required = false, examples("now", 100))]
    pub origin: Option<Value>,
    /// Exponential: the distance at which nearness is 1/2, above 0.
    pub half_life: Option<f64>,
    /// Gaussian: the standard deviation, above 0.
    pub scale: Option<f64>,
}

pub(super) fn check_boosts(inputs: Option<Vec<BoostInput>>, limits: &Limits) -> Result<Vec<Boost>, ApiError> {
    let Some(inputs) = inputs else { return Ok(Vec::new()) };
    check_count("/boosts", inputs.len(), Boost::COUNT_MAX, "boosts")?;
    check_items("/boosts", inputs, |input| check_boost(input, limits))
}

pub(super) fn check_diversity(diversity: Option<f32>, balance_languages: Option<bool>) -> Result<f32, ApiError> {
    let Some(diversity) = diversity else { return Ok(0.0) };
    check_number("/diversity", diversity, 0.0..=1.0)?;
    match balance_languages {
        Some(true) => invalid("/diversity", "must be left out with balance_languages, which already orders the hits"),
        _ => Ok(diversity),
    }
}

fn check_boost(input: BoostInput, limits: &Limits) -> Result<Boost, ApiError> {
    let mut checks = Checks::default();
    let by = match (input.filter, input.field, input.decay) {
        (Some(filter), None, None) => filter::parse(Some(filter), limits).map(BoostBy::Filter),
        (None, Some(field), Some(decay)) => check_decay(&field, &decay).map(BoostBy::Decay),
        (None, Some(_), None) => invalid("/decay", "missing; a field needs it"),
        (None, None, Some(_)) => invalid("/field", "missing; decay needs it"),
        (None, None, None) => invalid("", "must have filter, or field with decay, got neither"),
        (Some(_), ..) => invalid("", "must have filter, or field with decay, got both"),
    };
    let by = checks.add(by);
    let weight = checks.add_or_default(check_number("/weight", input.weight.unwrap_or(Boost::WEIGHT_DEFAULT), Boost::WEIGHTS));
    checks.end_with(by).map(|by| Boost { by, weight })
}

fn check_decay(field: &str, decay: &DecayInput) -> Result<Decay, ApiError> {
    let mut checks = Checks::default();
    let origin = checks.add(check_origin(decay.origin.as_ref()));
    let shape = checks.add(check_shape(decay));
    let field = match Field::parse(field) {
        Ok(Field::Id | Field::Language) => {
            invalid("/field", format!("must be a metadata path, created_at or updated_at, got {field:?}"))
        }
        Ok(Field::CreatedAt | Field::UpdatedAt) if matches!(origin, Some(NumberOrTime::Number(_) | NumberOrTime::Integer(_))) => {
            invalid("/decay/origin", format!("must be an RFC 3339 time or date, or now, for {field}, got a number"))
        }
        Ok(field) => Ok(field),
        Err(detail) => invalid("/field", detail),
    };
    let made = checks.add(field).zip(origin).zip(shape);
    checks.end_with(made).map(|((field, origin), shape)| Decay { field, origin, shape })
}

fn check_origin(origin: Option<&Value>) -> Result<NumberOrTime, ApiError> {
    let found = match origin {
        None => Some(now()),
        Some(Value::String(text)) if text == "now" => Some(now()),
        Some(Value::String(text)) => timestamps::parse(text).map(NumberOrTime::Time),
        Some(number) => number.as_f64().map(NumberOrTime::Number),
    };
    let describe_origin = || match origin {
        Some(Value::String(text)) => format!("{text:?}"),
        other => other.map_or("nothing", kind).to_owned(),
    };
    let form = "must be a number, an RFC 3339 time or date such as 2026-01-31, or now";
    found.map_or_else(|| invalid("/decay/origin", format!("{form}, got {}", describe_origin())), Ok)
}

fn now() -> NumberOrTime {
    NumberOrTime::Time(jiff::Timestamp::now().as_millisecond())
}

fn check_shape(decay: &DecayInput) -> Result<DecayShape, ApiError> {
    let positive = |member: &str, distance: f64| {
        let is_positive = distance > 0.0 && distance.is_finite();
        if is_positive { Ok(distance) } else { invalid(format!("/decay/{member}"), format!("must be above 0, got {distance}")) }
    };
    match (decay.half_life, decay.scale) {
        (Some(half_life), None) => Ok(DecayShape::Exponential { half_life: positive("half_life", half_life)? }),
        (None, Some(scale)) => Ok(DecayShape::Gaussian { scale: positive("scale", scale)? }),
        (None, None) => invalid("/decay", "must have exactly one of half_life and scale, got none"),
        (Some(_), Some(_)) => invalid("/decay", "must have exactly one of half_life and scale, got both"),
    }
}
