//! `/v1/models`: the loaded model, as OpenAI's clients read it, with additional members.

pub mod detection;
pub mod embeddings;
pub mod similarity;

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::api::Api;
use super::error::ApiError;
use crate::domain::{Code, Device, Language, ModelInfo};
use crate::http::request::extract::path_parameter;

path_parameter!(ModelPath, "model", String, |name| Ok::<_, Infallible>(name.to_owned()));

/// The loaded models, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelList {
    /// Always `list`.
    pub object: &'static str,
    /// The models.
    pub data: Vec<LoadedModel>,
}

/// A loaded model.
#[derive(Debug, Serialize, ToSchema)]
pub struct LoadedModel {
    /// The name.
    pub id: String,
    /// Always `model`.
    pub object: &'static str,
    /// When this server started to serve it, in seconds since the Unix epoch.
    pub created: i64,
    /// Always `dragoman`.
    pub owned_by: &'static str,
    /// The version of its bundle.
    pub version: String,
    /// SHA-256 over everything that determines its embeddings: models with the same fingerprint give the same embeddings.
    pub fingerprint: String,
    /// Values per embedding.
    #[schema(minimum = 1)]
    pub dimension: usize,
    /// Maximum tokens that it reads of one text; longer documents are split into passages, longer queries are cut off.
    #[schema(minimum = 1)]
    pub tokens_max: usize,
    /// The languages that it was trained on.
    pub languages: Vec<ModelLanguage>,
    /// Where it runs: `cpu`, or `cuda:` with the number of the device.
    pub device: String,
    /// Why it does not run on the requested device; omitted if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_note: Option<String>,
    /// Measured quality.
    pub quality: ModelQuality,
}

/// A language that a model was trained on.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelLanguage {
    /// ISO 639-1 code, as documents and searches name the language.
    pub code: &'static str,
    /// English name.
    pub name: &'static str,
    /// ISO 15924 code of its main script.
    pub script: &'static str,
}

/// Measured quality, by the name of the measure.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelQuality(pub BTreeMap<String, f64>);

/// List models
///
/// Lists the loaded models: languages, dimension, limits, device and measured quality.
#[utoipa::path(
    get, path = "/v1/models", tag = "models",
    responses((status = 200, description = "The loaded models.", body = ModelList)),
)]
pub async fn list_models(State(api): State<Api>) -> Result<Json<ModelList>, ApiError> {
    Ok(Json(ModelList { object: "list", data: vec![describe(api.service.model(), api.started_at.as_second())] }))
}

/// Get a model
///
/// Describes the loaded model. Errors have OpenAI's shape: 404 for any other model.
#[utoipa::path(
    get, path = "/v1/models/{model}", tag = "models",
    responses((status = 200, description = "The model.", body = LoadedModel)),
)]
pub async fn get_model(State(api): State<Api>, ModelPath(name): ModelPath) -> Result<Json<LoadedModel>, ApiError> {
    let model = api.service.model();
    if name != model.name {
        let detail = format!("there is no model {name:?}; the loaded one is {:?}", model.name);
        return Err(ApiError::new(Code::UnknownModel, detail));
    }
    Ok(Json(describe(model, api.started_at.as_second())))
}

fn describe(model: &ModelInfo, created: i64) -> LoadedModel {
    let language =
        |language: &Language| ModelLanguage { code: language.code(), name: language.name(), script: language.script() };
    LoadedModel {
        id: model.name.clone(),
        object: "model",
        created,
        owned_by: "dragoman",
        version: model.version.clone(),
        fingerprint: model.fingerprint.clone(),
        dimension: model.dimension,
        tokens_max: model.tokens_max,
        languages: model.languages.iter().map(language).collect(),
        device: match model.device {
            Device::Cpu => "cpu".to_owned(),
            Device::Cuda(number) => format!("cuda:{number}"),
        },
        device_note: model.device_note.clone(),
        quality: ModelQuality(model.quality.iter().cloned().collect()),
    }
}
