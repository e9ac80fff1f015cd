//! `/v1/classifiers/{classifier}/predict`: predicts the labels of texts and of stored documents.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ClassifierPath, check_threshold, visible_classifier};
use crate::domain::json::singles;
use crate::domain::{Caller, CollectionName, DocumentId, Limits, PredictItems, PredictOptions, Prediction};
use crate::http::api::Api;
use crate::http::error::{ApiError, invalid};
use crate::http::middleware::auth::check_access;
use crate::http::request::extract::JsonBody;
use crate::http::request::values::{check_count, check_each, check_integer, check_parsed, check_texts};
use crate::http::response::elapsed_ms;
use crate::service::json::some_object;

/// Default and maximum number of labels to return with their probabilities.
const SCORES_DEFAULT: usize = 5;
const SCORES_MAX: usize = 1_000;
/// Maximum neighbors to return per text.
const EXPLAIN_MAX: usize = 100;

/// Texts or documents to predict the labels of: exactly one of `texts` and `documents`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictRequest {
    /// Texts in any languages, at most the server's limit (2048 unless configured otherwise). If a text is longer than the
    /// model reads, all of its passages count.
    pub texts: Option<Vec<String>>,
    /// Stored documents.
    #[serde(default, deserialize_with = "some_object")]
    pub documents: Option<DocumentsByIdInput>,
    /// Replaces the classifier's own threshold, 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    #[serde(default, deserialize_with = "singles")]
    pub threshold: Option<f32>,
    /// How many of the most likely labels to return with their probabilities, 0 to 1000.
    #[schema(minimum = 0, maximum = 1000, default = 5)]
    pub scores: Option<usize>,
    /// How many labeled passages to return for each text, nearest first, 0 to 100: for a `knn` those that voted, otherwise those
    /// near the text.
    #[schema(minimum = 0, maximum = 100, default = 0)]
    pub explain: Option<usize>,
}

/// Stored documents by their ids.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentsByIdInput {
    /// Their collection, by its name or an alias.
    pub collection: String,
    /// Their ids, at most the server's limit for documents per request (1000 unless configured otherwise).
    #[schema(min_items = 1)]
    pub ids: Vec<String>,
}

/// The predictions for several texts.
#[derive(Debug, Serialize, ToSchema)]
pub struct PredictResult {
    /// One per text or document, in the order of the request.
    pub predictions: Vec<Prediction>,
    /// Number of texts or documents on which it abstained.
    pub abstained: usize,
    /// Milliseconds from the parsed request to the response.
    #[schema(minimum = 0)]
    pub took_ms: f64,
}

/// Predict labels
///
/// Predicts the labels of texts or of stored documents, with probabilities, and with `explain` labeled passages. A `knn` of the
/// same collection never uses a document as its own neighbor.
#[utoipa::path(
    post, path = "/v1/classifiers/{classifier}/predict", tag = "classifiers",
    request_body(content = PredictRequest, description = "The texts or documents."),
    responses((status = 200, description = "One prediction per text or document.", body = PredictResult)),
)]
pub async fn predict_labels(
    State(api): State<Api>,
    caller: Caller,
    ClassifierPath(name): ClassifierPath,
    JsonBody(body): JsonBody<PredictRequest>,
) -> Result<Json<PredictResult>, ApiError> {
    let started = Instant::now();
    let (items, options) = check(body, api.service.limits())?;
    if let PredictItems::Documents { collection, .. } = &items {
        check_access(&caller, collection)?;
    }
    visible_classifier(&api, &caller, &name).await?;
    let found = api.service.predict(&name, items, options).await?;
    Ok(Json(PredictResult {
        abstained: found.iter().filter(|prediction| prediction.abstained).count(),
        predictions: found,
        took_ms: elapsed_ms(started),
    }))
}

fn check(body: PredictRequest, limits: &Limits) -> Result<(PredictItems, PredictOptions), ApiError> {
    let items = match (body.texts, body.documents) {
        (Some(texts), None) => {
            check_texts("/texts", &texts, limits)?;
            PredictItems::Texts(texts)
        }
        (None, Some(DocumentsByIdInput { collection, ids })) => {
            let collection = check_parsed("/documents/collection", CollectionName::parse(&collection))?;
            check_count("/documents/ids", ids.len(), limits.batch_documents_max, "ids (batch_documents_max)")?;
            let ids = check_each("/documents/ids", &ids, |pointer, id| check_parsed(pointer, DocumentId::parse(id)))?;
            PredictItems::Documents { collection, ids }
        }
        _ => return invalid("", "must have exactly one of texts and documents"),
    };
    let options = PredictOptions {
        threshold: check_threshold(body.threshold)?,
        scores: check_integer("/scores", body.scores.unwrap_or(SCORES_DEFAULT), 0..=SCORES_MAX)?,
        explain: check_integer("/explain", body.explain.unwrap_or_default(), 0..=EXPLAIN_MAX)?,
    };
    Ok((items, options))
}
