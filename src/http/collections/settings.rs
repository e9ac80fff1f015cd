//! How a collection compares and indexes, in the API: names, limits, and which settings fit together.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::domain::settings::{DIMENSION, EF, M};
use crate::domain::{HnswSettings, Metric, NewSource, PassageBounds, Quantization, passages};
use crate::http::error::{ApiError, Checks, invalid};

/// Parameters of the index, an HNSW graph. Parameters that you leave out get defaults.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HnswOptions {
    /// Neighbors per node: more neighbors improve recall, but take more memory and longer to build. Default 16.
    #[schema(minimum = 4, maximum = 128)]
    pub m: Option<usize>,
    /// Candidates considered while building: more candidates improve recall, but take longer to build. Default 128.
    #[schema(minimum = 8, maximum = 4096)]
    pub ef_construction: Option<usize>,
    /// Candidates considered while searching: more candidates improve recall, but take longer. Default 96.
    #[schema(minimum = 8, maximum = 4096)]
    pub ef_search: Option<usize>,
}

/// Changes to the index's parameters.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HnswChange {
    /// Candidates considered while searching: more candidates improve recall, but take longer.
    #[schema(minimum = 8, maximum = 4096)]
    pub ef_search: Option<usize>,
}

/// How texts are split into passages, each with its own embedding.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PassageOptions {
    /// Maximum tokens per passage, from 8 to what the model reads in full, which is the default.
    #[schema(minimum = 8)]
    pub tokens_max: Option<usize>,
    /// Maximum tokens at the end of a passage that the next one repeats: at most half of `tokens_max`; none by default.
    #[schema(minimum = 0)]
    pub overlap_tokens: Option<usize>,
}

/// The source of embeddings: a model, or the caller, who gives their dimension.
pub fn check_source(model: Option<String>, dimension: Option<usize>) -> Result<NewSource, ApiError> {
    let Some(dimension) = dimension else { return Ok(NewSource::Model(model)) };
    if let Some(model) = model {
        let problem = format!("must be left out with model {model:?}, which determines it, got {dimension}");
        return invalid("/dimension", format!("{problem}; to send your own vectors, keep dimension and leave out model"));
    }
    Ok(NewSource::OwnVectors(check_range("/dimension", dimension, DIMENSION)?))
}

/// The metric and the quantization, which must fit each other and the source.
pub fn check_metric_and_quantization(
    source: &NewSource,
    metric: Option<Metric>,
    quantization: Option<Quantization>,
) -> Result<(Metric, Quantization), ApiError> {
    let metric = metric.unwrap_or_default();
    let quantization = quantization.unwrap_or_else(|| Quantization::usual(metric));
    if matches!(source, NewSource::Model(_)) && metric != Metric::Cosine {
        return invalid(
            "/metric",
            format!(
                "must be cosine for a collection with a model, because its embeddings have unit length, got {}",
                metric.name()
            ),
        );
    }
    if quantization.needs_cosine() && metric != Metric::Cosine {
        let (quantization, metric) = (quantization.name(), metric.name());
        return invalid(
            "/quantization",
            format!("must be f32, bf16 or f16 under the metric {metric}, got {quantization}, which keeps only directions"),
        );
    }
    Ok((metric, quantization))
}

/// How texts are split, within the limits of the model and of each other.
pub fn check_passage_bounds(
    source: &NewSource,
    options: Option<PassageOptions>,
    model_tokens_max: usize,
) -> Result<Option<PassageBounds>, ApiError> {
    let Some(PassageOptions { tokens_max, overlap_tokens }) = options else { return Ok(None) };
    if let NewSource::OwnVectors(_) = source {
        return invalid(
            "/passage_bounds",
            "must be left out with a dimension, because each vector stands for its whole document",
        );
    }
    let bounds = passages::TOKENS_MIN..=model_tokens_max;
    let tokens_max = tokens_max.map(|requested| check_range("/passage_bounds/tokens_max", requested, bounds)).transpose()?;
    let tokens_max = tokens_max.unwrap_or(model_tokens_max);
    let overlap_tokens = check_range("/passage_bounds/overlap_tokens", overlap_tokens.unwrap_or_default(), 0..=tokens_max / 2)?;
    Ok(Some(PassageBounds { tokens_max, overlap_tokens }))
}

pub fn check_hnsw(options: Option<HnswOptions>) -> Result<HnswSettings, ApiError> {
    let options = options.unwrap_or_default();
    let usual = HnswSettings::default();
    let mut checks = Checks::default();
    let m = checks.add_or_default(check_range("/hnsw/m", options.m.unwrap_or(usual.m), M));
    let ef_construction = options.ef_construction.unwrap_or(usual.ef_construction);
    let ef_construction = checks.add_or_default(check_range("/hnsw/ef_construction", ef_construction, EF));
    let ef_search = checks.add_or_default(check_ef_search(options.ef_search)).unwrap_or(usual.ef_search);
    checks.end().map(|()| HnswSettings { m, ef_construction, ef_search })
}

pub fn check_ef_search(requested: Option<usize>) -> Result<Option<usize>, ApiError> {
    requested.map(|requested| check_range("/hnsw/ef_search", requested, EF)).transpose()
}

fn check_range(pointer: &str, got: usize, bounds: std::ops::RangeInclusive<usize>) -> Result<usize, ApiError> {
    if bounds.contains(&got) {
        return Ok(got);
    }
    let detail = format!("must be between {} and {}, got {got}", bounds.start(), bounds.end());
    invalid(pointer, detail)
}
