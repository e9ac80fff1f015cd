//! How a collection compares and indexes, on the wire: names, bounds, and what goes together with what.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::ApiError;
use super::languages::languages;
use crate::domain::settings::{DIMENSION, EF, M};
use crate::domain::{Code, HnswSettings, Language, Metric, NewSource, PassageBounds, Quantization, passages};

/// How two embeddings are compared.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetricName {
    /// Cosine similarity, -1 to 1, higher is nearer.
    Cosine,
    /// Dot product, higher is nearer.
    Dot,
    /// The negative of the Euclidean distance: 0 for what is equal.
    L2,
}

/// How the index keeps values. The store keeps them whole.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuantizationName {
    /// Four bytes per value.
    F32,
    /// Two bytes per value, with the range of `f32`.
    Bf16,
    /// Two bytes per value.
    F16,
    /// One byte per value; the nearest are compared again by their stored values. Only under the metric cosine.
    I8,
    /// One bit per value, its sign; the nearest are compared again by their stored values. Only under the metric cosine.
    B1,
}

/// Parameters of the index, an HNSW graph. Those that are left out have their usual values.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HnswOptions {
    /// Neighbors per node: more find more, take more memory and longer to build. 16 when left out.
    #[serde(default)]
    #[schema(nullable = false, minimum = 4, maximum = 128)]
    pub m: Option<usize>,
    /// Candidates while adding: more find more and take longer to build. 128 when left out.
    #[serde(default)]
    #[schema(nullable = false, minimum = 8, maximum = 4096)]
    pub ef_construction: Option<usize>,
    /// Candidates while searching: more find more and take longer. 96 when left out.
    #[serde(default)]
    #[schema(nullable = false, minimum = 8, maximum = 4096)]
    pub ef_search: Option<usize>,
}

/// What may change of the index's parameters.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HnswChange {
    /// Candidates while searching: more find more and take longer.
    #[serde(default)]
    #[schema(nullable = false, minimum = 8, maximum = 4096)]
    pub ef_search: Option<usize>,
}

/// Parameters of the index, an HNSW graph.
#[derive(Debug, Serialize, ToSchema)]
pub struct HnswInfo {
    /// Neighbors per node.
    #[schema(minimum = 4, maximum = 128)]
    pub m: usize,
    /// Candidates while adding.
    #[schema(minimum = 8, maximum = 4096)]
    pub ef_construction: usize,
    /// Candidates while searching.
    #[schema(minimum = 8, maximum = 4096)]
    pub ef_search: usize,
}

/// How texts are cut into passages, each with an embedding of its own.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PassageOptions {
    /// Tokens of one passage at most, from 8 to what the model reads whole, which it is when left out.
    #[serde(default)]
    #[schema(nullable = false, minimum = 8)]
    pub tokens_max: Option<usize>,
    /// Tokens at the end of a passage that the next one repeats, at most: half of `tokens_max` or fewer; none when left out.
    #[serde(default)]
    #[schema(nullable = false, minimum = 0)]
    pub overlap_tokens: Option<usize>,
}

/// How texts are cut into passages, each with an embedding of its own.
#[derive(Debug, Serialize, ToSchema)]
pub struct PassageInfo {
    /// Tokens of one passage at most.
    #[schema(minimum = 1)]
    pub tokens_max: usize,
    /// Tokens at the end of a passage that the next one repeats, at most.
    #[schema(minimum = 0)]
    pub overlap_tokens: usize,
}

impl From<MetricName> for Metric {
    fn from(name: MetricName) -> Self {
        match name {
            MetricName::Cosine => Self::Cosine,
            MetricName::Dot => Self::Dot,
            MetricName::L2 => Self::L2,
        }
    }
}

impl From<Metric> for MetricName {
    fn from(metric: Metric) -> Self {
        match metric {
            Metric::Cosine => Self::Cosine,
            Metric::Dot => Self::Dot,
            Metric::L2 => Self::L2,
        }
    }
}

impl From<QuantizationName> for Quantization {
    fn from(name: QuantizationName) -> Self {
        match name {
            QuantizationName::F32 => Self::F32,
            QuantizationName::Bf16 => Self::Bf16,
            QuantizationName::F16 => Self::F16,
            QuantizationName::I8 => Self::I8,
            QuantizationName::B1 => Self::B1,
        }
    }
}

impl From<Quantization> for QuantizationName {
    fn from(quantization: Quantization) -> Self {
        match quantization {
            Quantization::F32 => Self::F32,
            Quantization::Bf16 => Self::Bf16,
            Quantization::F16 => Self::F16,
            Quantization::I8 => Self::I8,
            Quantization::B1 => Self::B1,
        }
    }
}

impl From<HnswSettings> for HnswInfo {
    fn from(settings: HnswSettings) -> Self {
        let HnswSettings { m, ef_construction, ef_search } = settings;
        Self { m, ef_construction, ef_search }
    }
}

impl From<PassageBounds> for PassageInfo {
    fn from(bounds: PassageBounds) -> Self {
        let PassageBounds { tokens_max, overlap_tokens } = bounds;
        Self { tokens_max, overlap_tokens }
    }
}

/// Where the embeddings come from: a model, or the caller, who says how many values they have.
pub fn source(model: Option<String>, dimension: Option<usize>) -> Result<NewSource, ApiError> {
    let Some(dimension) = dimension else { return Ok(NewSource::Model(model)) };
    if let Some(model) = model {
        let detail = format!(
            "must be left out with a model, whose dimension is its own: expected one of the two, got {dimension} and model {model:?}"
        );
        return Err(ApiError::at(Code::InvalidRequest, "/dimension", detail));
    }
    Ok(NewSource::OwnVectors(within("/dimension", dimension, DIMENSION)?))
}

/// The metric and the quantization, which must fit each other and the source.
pub fn values(
    source: &NewSource,
    metric: Option<MetricName>,
    quantization: Option<QuantizationName>,
) -> Result<(Metric, Quantization), ApiError> {
    let metric: Metric = metric.map(Metric::from).unwrap_or_default();
    let quantization: Quantization = quantization.map_or_else(|| Quantization::usual(metric), Quantization::from);
    if matches!(source, NewSource::Model(_)) && metric != Metric::Cosine {
        let detail =
            format!("must be cosine for a collection with a model, whose embeddings have unit length, got {}", metric.name());
        return Err(ApiError::at(Code::InvalidRequest, "/metric", detail));
    }
    if quantization.needs_cosine() && metric != Metric::Cosine {
        let (quantization, metric) = (quantization.name(), metric.name());
        let detail =
            format!("must be f32, bf16 or f16 under the metric {metric}, got {quantization}, which keeps directions only");
        return Err(ApiError::at(Code::InvalidRequest, "/quantization", detail));
    }
    Ok((metric, quantization))
}

/// How texts are cut, within the bounds that the model and each other set.
pub fn passage_bounds(
    source: &NewSource,
    options: Option<PassageOptions>,
    model_tokens_max: usize,
) -> Result<Option<PassageBounds>, ApiError> {
    let Some(PassageOptions { tokens_max, overlap_tokens }) = options else { return Ok(None) };
    if let NewSource::OwnVectors(_) = source {
        let detail = "must be left out with a dimension: a vector of the caller's own stands for its whole document";
        return Err(ApiError::at(Code::InvalidRequest, "/passage_bounds", detail));
    }
    let bounds = passages::TOKENS_MIN..=model_tokens_max;
    let tokens_max = tokens_max.map(|asked| within("/passage_bounds/tokens_max", asked, bounds)).transpose()?;
    let tokens_max = tokens_max.unwrap_or(model_tokens_max);
    let overlap_tokens = within("/passage_bounds/overlap_tokens", overlap_tokens.unwrap_or_default(), 0..=tokens_max / 2)?;
    Ok(Some(PassageBounds { tokens_max, overlap_tokens }))
}

/// The parameters of the index, within their bounds.
pub fn hnsw(options: Option<HnswOptions>) -> Result<HnswSettings, ApiError> {
    let options = options.unwrap_or_default();
    let usual = HnswSettings::default();
    Ok(HnswSettings {
        m: within("/hnsw/m", options.m.unwrap_or(usual.m), M)?,
        ef_construction: within("/hnsw/ef_construction", options.ef_construction.unwrap_or(usual.ef_construction), EF)?,
        ef_search: ef_search(options.ef_search)?.unwrap_or(usual.ef_search),
    })
}

/// The width of searches, within its bounds.
pub fn ef_search(asked: Option<usize>) -> Result<Option<usize>, ApiError> {
    asked.map(|asked| within("/hnsw/ef_search", asked, EF)).transpose()
}

/// The languages that searches look in unless they say otherwise.
pub fn default_languages(codes: &[String]) -> Result<Vec<Language>, ApiError> {
    languages(codes, "/default_languages")
}

fn within(pointer: &str, got: usize, bounds: std::ops::RangeInclusive<usize>) -> Result<usize, ApiError> {
    if bounds.contains(&got) {
        return Ok(got);
    }
    let detail = format!("must be between {} and {}, got {got}", bounds.start(), bounds.end());
    Err(ApiError::at(Code::InvalidRequest, pointer, detail))
}
