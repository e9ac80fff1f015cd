//! `/v1/detect`: detects the language of texts.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::api::Api;
use crate::http::error::ApiError;
use crate::http::request::extract::JsonBody;
use crate::http::request::values::check_texts;

/// Texts to detect the language of.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DetectLanguagesRequest {
    /// The texts: at least one, none blank, at most the server's limit (2048 unless configured otherwise).
    #[schema(min_items = 1)]
    pub texts: Vec<String>,
}

/// The languages of texts.
#[derive(Debug, Serialize, ToSchema)]
pub struct LanguageDetections {
    /// One for each text, in the order of the request.
    pub detections: Vec<LanguageDetection>,
}

/// The language of a text. Empty if it is in none of the supported languages: without letters, in letters of another script, or
/// in another language, as far as the model can tell.
#[derive(Debug, Serialize, ToSchema)]
pub struct LanguageDetection {
    /// ISO 639-1 code of the most likely language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<&'static str>,
    /// Confidence, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub confidence: Option<f32>,
}

/// Detect languages
///
/// Detects the language of each text, as the server does for documents without one. For a long text it reads the
/// beginning, the middle and the end.
#[utoipa::path(
    post, path = "/v1/detect", tag = "comparison",
    request_body(content = DetectLanguagesRequest, description = "The texts."),
    responses((status = 200, description = "One language per text, in their order.", body = LanguageDetections)),
)]
pub async fn detect_languages(
    State(api): State<Api>,
    JsonBody(body): JsonBody<DetectLanguagesRequest>,
) -> Result<Json<LanguageDetections>, ApiError> {
    check_texts("/texts", &body.texts, api.service.limits())?;
    let found = api.service.detect(body.texts).await?;
    let detections = found.into_iter().map(|detected| LanguageDetection {
        language: detected.map(|detected| detected.language.code()),
        confidence: detected.map(|detected| detected.confidence),
    });
    Ok(Json(LanguageDetections { detections: detections.collect() }))
}
