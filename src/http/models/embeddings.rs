//! `/v1/embeddings`: the loaded encoder behind OpenAI's interface.

use std::fmt;

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::domain::{Code, Embedding, Limits, ModelInfo};
use crate::http::api::Api;
use crate::http::error::{ApiError, Checks, invalid};
use crate::http::request::extract::JsonBody;
use crate::http::request::values::{check_text, check_texts};

/// The error for token ids, which OpenAI's clients may send instead of texts.
const TOKENS: &str = "must be a text or an array of texts, got token ids: only OpenAI's models read those. LangChain's \
                      OpenAIEmbeddings sends texts with check_embedding_ctx_length=False";

/// Texts to embed, in OpenAI's shape.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateEmbeddingsRequest {
    /// One text or several.
    pub input: EmbeddingInput,
    /// Name of the model; the loaded one by default.
    pub model: Option<String>,
    /// Encoding of embeddings: `float` by default.
    #[schema(default = "float")]
    pub encoding_format: Option<EncodingFormat>,
    /// Values per embedding. Must be the model's `dimension`, because embeddings cannot be shortened.
    #[schema(minimum = 1)]
    pub dimensions: Option<usize>,
    /// What the texts are: `document` by default. Searches embed their text as `query`, so use that for query vectors
    /// that you make yourself.
    #[schema(default = "document")]
    pub input_type: Option<EmbeddingInputType>,
    /// Accepted for OpenAI's clients, and ignored.
    pub user: Option<String>,
}

/// One text, or an array of at least one text. No text may be blank. At most the server's limit (2048 unless configured
/// otherwise).
#[derive(Debug)]
pub enum EmbeddingInput {
    One(String),
    Many(Vec<String>),
    /// Token ids, which are refused.
    Tokens,
}

/// `float`: an array of numbers. `base64`: little-endian 32-bit floats as base64.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EncodingFormat {
    #[default]
    Float,
    Base64,
}

/// Whether texts are embedded as documents or as queries. Some models treat both alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingInputType {
    /// A text to be found, or compared with others of its kind.
    #[default]
    Document,
    /// A text to search with.
    Query,
}

/// Embeddings, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub struct EmbeddingList {
    /// Always `list`.
    pub object: &'static str,
    /// One embedding per text, in the order of the request.
    pub data: Vec<EmbeddingItem>,
    /// The model that made them.
    pub model: String,
    /// Tokens that were read.
    pub usage: TokenUsage,
}

/// The embedding of one text.
#[derive(Debug, Serialize, ToSchema)]
pub struct EmbeddingItem {
    /// Always `embedding`.
    pub object: &'static str,
    /// The text's index in the request, from 0.
    pub index: usize,
    /// The embedding, of unit length. With `encoding_format` `base64` it is a string instead, as in OpenAI's service.
    #[schema(value_type = Vec<f32>)]
    pub embedding: EmbeddingValues,
    /// True if the text was longer than the model reads, so that its end was ignored; omitted otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// An embedding in the requested encoding.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum EmbeddingValues {
    Float(Vec<f32>),
    /// Little-endian 32-bit floats as base64.
    Base64(String),
}

/// Tokens that were read.
#[derive(Debug, Serialize, ToSchema)]
pub struct TokenUsage {
    /// Tokens of all texts, after truncation.
    pub prompt_tokens: usize,
    /// The same number, because an embedding produces no tokens.
    pub total_tokens: usize,
}

/// Embed texts
///
/// Embeds texts with the loaded model, without storing anything. Requests, responses and errors have the shape of OpenAI's
/// embeddings endpoint, so that its clients work unchanged. Token ids instead of texts are refused.
#[utoipa::path(
    post, path = "/v1/embeddings", tag = "embeddings",
    request_body(content = CreateEmbeddingsRequest, description = "The texts."),
    responses((status = 200, description = "One embedding per text, in their order.", body = EmbeddingList)),
)]
pub async fn create_embeddings(
    State(api): State<Api>,
    JsonBody(body): JsonBody<CreateEmbeddingsRequest>,
) -> Result<Json<EmbeddingList>, ApiError> {
    let model = api.service.model();
    let mut checks = Checks::default();
    checks.add(check_model(&body, model));
    let format = body.encoding_format.unwrap_or_default();
    let texts = checks.add_or_default(check_inputs(body.input, api.service.limits()));
    checks.end()?;
    let embedded = match body.input_type.unwrap_or_default() {
        EmbeddingInputType::Document => api.service.embed(texts).await?,
        EmbeddingInputType::Query => api.service.embed_queries(texts).await?,
    };
    let tokens = embedded.iter().map(|embedded| embedded.tokens.len()).sum();
    let item = |(index, embedded): (usize, crate::domain::Embedded)| EmbeddingItem {
        object: "embedding",
        index,
        embedding: encode(&embedded.embedding, format),
        truncated: embedded.truncated,
    };
    Ok(Json(EmbeddingList {
        object: "list",
        data: embedded.into_iter().enumerate().map(item).collect(),
        model: model.name.clone(),
        usage: TokenUsage { prompt_tokens: tokens, total_tokens: tokens },
    }))
}

fn check_model(body: &CreateEmbeddingsRequest, model: &ModelInfo) -> Result<(), ApiError> {
    let mut checks = Checks::default();
    if let Some(name) = body.model.as_deref().filter(|name| *name != model.name) {
        let detail = format!("must be {:?}, the loaded model, got {name:?}", model.name);
        checks.add::<()>(Err(ApiError::at(Code::UnknownModel, "/model", detail)));
    }
    if let Some(got) = body.dimensions.filter(|got| *got != model.dimension) {
        let (dimension, name) = (model.dimension, &model.name);
        let detail = format!("must be {dimension} or left out: embeddings of {name} cannot be shortened, got {got}");
        checks.add::<()>(invalid("/dimensions", detail));
    }
    checks.end()
}

fn check_inputs(input: EmbeddingInput, limits: &Limits) -> Result<Vec<String>, ApiError> {
    match input {
        EmbeddingInput::One(text) => check_text("/input", &text, limits).map(|()| vec![text]),
        EmbeddingInput::Many(texts) => check_texts("/input", &texts, limits).map(|()| texts),
        EmbeddingInput::Tokens => invalid("/input", TOKENS),
    }
}

fn encode(embedding: &Embedding, format: EncodingFormat) -> EmbeddingValues {
    match format {
        EncodingFormat::Float => EmbeddingValues::Float(embedding.as_slice().to_vec()),
        EncodingFormat::Base64 => EmbeddingValues::Base64(STANDARD.encode(embedding.to_bytes())),
    }
}

impl<'de> Deserialize<'de> for EmbeddingInput {
    /// Parses a string or an array of strings. A derived untagged enum would only say that nothing fits.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = EmbeddingInput;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of strings")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(EmbeddingInput::One(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Self::Value, E> {
                Ok(EmbeddingInput::One(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
                let mut texts = match sequence.next_element()? {
                    Some(Value::String(text)) => vec![text],
                    Some(value) if is_tokens(&value) => {
                        while sequence.next_element::<IgnoredAny>()?.is_some() {}
                        return Ok(EmbeddingInput::Tokens);
                    }
                    Some(other) => vec![String::deserialize(other).map_err(de::Error::custom)?],
                    None => Vec::new(),
                };
                while let Some(text) = sequence.next_element()? {
                    texts.push(text);
                }
                Ok(EmbeddingInput::Many(texts))
            }
        }

        deserializer.deserialize_any(Texts)
    }
}

/// Whether the first element of an input is a token, or the tokens of a text.
fn is_tokens(first: &Value) -> bool {
    first.is_u64() || first.as_array().is_some_and(|tokens| tokens.iter().all(Value::is_u64))
}

impl PartialSchema for EmbeddingInput {
    fn schema() -> RefOr<Schema> {
        let text = || ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
        let single = text().description(Some("One text."));
        let many = ArrayBuilder::new().items(text()).min_items(Some(1)).description(Some("Several texts."));
        let about = "One text, or an array of at least one text. No text may be blank. The server limits the number of texts \
                     (2048 unless configured otherwise).";
        OneOfBuilder::new().item(single).item(many).description(Some(about)).into()
    }
}

impl ToSchema for EmbeddingInput {}
