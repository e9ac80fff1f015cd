//! `/v1/similarity`: compares texts by meaning, in pairs or all of one set with all of another.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::{Limits, PairSimilarity, SimilarityMatrix};
use crate::http::api::Api;
use crate::http::error::{ApiError, Checks, invalid};
use crate::http::request::extract::JsonBody;
use crate::http::request::values::{check_count, check_text, check_texts};
use crate::service::json::objects;

/// Pairs of texts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ComparePairsRequest {
    /// The pairs: at least one; their texts together at most the server's limit (2048 unless configured otherwise).
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 1)]
    pub pairs: Vec<TextPair>,
}

/// Two texts, in any languages.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TextPair {
    /// The first text.
    #[schema(min_length = 1)]
    pub first: String,
    /// The second text.
    #[schema(min_length = 1)]
    pub second: String,
}

/// The similarity of the texts of each pair.
#[derive(Debug, Serialize, ToSchema)]
pub struct PairSimilarities {
    /// One for each pair, in the order of the request.
    pub results: Vec<PairSimilarity>,
}

/// Two sets of texts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompareSetsRequest {
    /// The texts of the rows. Both sets together have at most the server's limit (2048 unless configured otherwise). Without
    /// `second`, this set has at most half of that.
    #[schema(min_items = 1)]
    pub first: Vec<String>,
    /// The texts of the columns; defaults to those of the rows.
    #[schema(min_items = 1)]
    pub second: Option<Vec<String>>,
}

/// Compare pairs of texts
///
/// Returns the cosine similarity of the two texts of each pair, in any languages.
#[utoipa::path(
    post, path = "/v1/similarity", tag = "comparison",
    request_body(content = ComparePairsRequest, description = "The pairs."),
    responses((status = 200, description = "One score per pair, in their order.", body = PairSimilarities)),
)]
pub async fn compare_pairs(
    State(api): State<Api>,
    JsonBody(body): JsonBody<ComparePairsRequest>,
) -> Result<Json<PairSimilarities>, ApiError> {
    let limits = api.service.limits();
    check_count("/pairs", body.pairs.len(), limits.embedding_inputs_max / 2, "pairs (half of embedding_inputs_max)")?;
    let mut checks = Checks::default();
    for (index, pair) in body.pairs.iter().enumerate() {
        checks.add(check_text(&format!("/pairs/{index}/first"), &pair.first, limits));
        checks.add(check_text(&format!("/pairs/{index}/second"), &pair.second, limits));
    }
    checks.end()?;
    let (first, second) = body.pairs.into_iter().map(|pair| (pair.first, pair.second)).unzip();
    Ok(Json(PairSimilarities { results: api.service.compare_pairs(first, second).await? }))
}

/// Compare sets of texts
///
/// Returns the cosine similarity of every text of one set with every text of another, or of the same set.
#[utoipa::path(
    post, path = "/v1/similarity/matrix", tag = "comparison",
    request_body(content = CompareSetsRequest, description = "The sets."),
    responses((status = 200, description = "The scores.", body = SimilarityMatrix)),
)]
pub async fn compare_sets(
    State(api): State<Api>,
    JsonBody(body): JsonBody<CompareSetsRequest>,
) -> Result<Json<SimilarityMatrix>, ApiError> {
    let CompareSetsRequest { first, second } = body;
    check_sets(&first, second.as_deref(), api.service.limits())?;
    Ok(Json(api.service.compare_sets(first, second).await?))
}

fn check_sets(first: &[String], second: Option<&[String]>, limits: &Limits) -> Result<(), ApiError> {
    check_texts("/first", first, limits)?;
    let Some(second) = second else {
        let (max, got) = (limits.embedding_inputs_max / 2, first.len());
        let too_many =
            format!("a set compared with itself may hold at most {max} texts (half of embedding_inputs_max), got {got}");
        return if got > max { invalid("/first", too_many) } else { Ok(()) };
    };
    check_texts("/second", second, limits)?;
    let (max, got) = (limits.embedding_inputs_max, first.len() + second.len());
    if got > max {
        return invalid("/second", format!("both sets together may hold at most {max} texts (embedding_inputs_max), got {got}"));
    }
    Ok(())
}
