//! `PUT /v1/collections/{collection}`: creates a collection, or keeps an existing one with this name unchanged.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::{CollectionInfo, CreateCollectionRequest, check_new, refused};
use crate::domain::{Caller, Code, CollectionView, MetadataPath, NewCollection};
use crate::http::api::Api;
use crate::http::error::{ApiError, Checks, Violation, invalid};
use crate::http::request::extract::{CollectionPath, JsonBody};
use crate::service::Error;

/// The settings that the collection should have: the members of `CreateCollectionRequest`. The name is that of the path, or is
/// left out.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct PutCollectionRequest(CreateCollectionRequest);

impl PartialSchema for PutCollectionRequest {
    fn schema() -> RefOr<Schema> {
        let mut schema = CreateCollectionRequest::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            object.description = Some("The settings, as when a collection is created.".to_owned());
            object.required.retain(|name| name != "name");
            let name = ObjectBuilder::new().schema_type(Type::String).description(Some("The name in the path."));
            object.properties.insert("name".to_owned(), name.into());
        }
        schema
    }
}

impl ToSchema for PutCollectionRequest {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        CreateCollectionRequest::schemas(schemas);
    }
}

/// Put a collection
///
/// Makes sure that there is a collection with this name and these settings: creates it, or keeps the existing one with its
/// documents. A setting that you leave out may have any value in an existing collection, and gets its default in a new one. If
/// a setting differs, nothing changes, and `errors` names each setting that differs.
#[utoipa::path(
    put, path = "/v1/collections/{collection}", tag = "collections",
    request_body(content = PutCollectionRequest, description = "The settings; `{}` for the defaults."),
    responses(
        (status = 200, description = "The collection exists and stays as it is.", body = CollectionInfo),
        (status = 201, description = "The collection was created.", body = CollectionInfo),
    ),
)]
pub async fn put_collection(
    State(api): State<Api>,
    caller: Caller,
    CollectionPath(name): CollectionPath,
    JsonBody(PutCollectionRequest(requested)): JsonBody<PutCollectionRequest>,
) -> Result<(StatusCode, Json<CollectionInfo>), ApiError> {
    let mut checks = Checks::default();
    if let Some(other) = requested.name.as_deref().filter(|given| *given != name.as_str()) {
        let detail = format!("must be {:?}, the name in the path, or be left out, got {other:?}", name.as_str());
        checks.add::<()>(invalid("/name", detail));
    }
    let new = check_new(requested.clone(), checks, Some(name.clone()), api.service.model().tokens_max)?;
    let existing = match api.service.get_collection(&name).await {
        Ok(view) if view.collection.name == name => view,
        _ => match api.service.create_collection(new.clone(), None).await {
            Ok(view) => return Ok((StatusCode::CREATED, Json(view.into()))),
            // Another request created it meanwhile.
            Err(Error::CollectionExists { .. }) => api.service.get_collection(&name).await?,
            Err(error) => return Err(refused(error, &caller)),
        },
    };
    let differences = differences(&requested, &new, &existing);
    if !differences.is_empty() {
        return Err(ApiError::several(Code::CollectionExists, differences));
    }
    Ok((StatusCode::OK, Json(existing.into())))
}

/// The differences between the request and the existing collection; `new` is the collection that the request would create.
fn differences(requested: &CreateCollectionRequest, new: &NewCollection, existing: &CollectionView) -> Vec<Violation> {
    let is = &existing.collection;
    let mut found = Vec::new();
    let described = requested.description.as_deref().filter(|text| !(text.is_empty() && is.description.is_none()));
    push_difference(&mut found, "/description", described, is.description.as_deref());
    push_difference(&mut found, "/model", requested.model.as_ref(), is.model.as_ref().map(|model| &model.name));
    match (requested.dimension, &is.model) {
        (Some(dimension), Some(model)) => {
            let detail = format!("the existing collection has the model {}, got {dimension}", model.name);
            found.push(Violation::at("/dimension", detail));
        }
        (dimension, _) => push_difference(&mut found, "/dimension", dimension, Some(is.dimension)),
    }
    push_difference(&mut found, "/metric", requested.metric, Some(is.metric));
    push_difference(&mut found, "/quantization", requested.quantization, Some(is.quantization));
    if let Some(hnsw) = &requested.hnsw {
        push_difference(&mut found, "/hnsw/m", hnsw.m, Some(is.hnsw.m));
        push_difference(&mut found, "/hnsw/ef_construction", hnsw.ef_construction, Some(is.hnsw.ef_construction));
        push_difference(&mut found, "/hnsw/ef_search", hnsw.ef_search, Some(is.hnsw.ef_search));
    }
    if let Some(bounds) = &requested.passage_bounds {
        let tokens = is.passages.map(|passages| passages.tokens_max);
        push_difference(&mut found, "/passage_bounds/tokens_max", bounds.tokens_max, tokens);
        let overlap = is.passages.map(|passages| passages.overlap_tokens);
        push_difference(&mut found, "/passage_bounds/overlap_tokens", bounds.overlap_tokens, overlap);
    }
    let codes = |languages: &[crate::domain::Language]| languages.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let languages = requested.default_languages.as_ref().map(|_| codes(&new.default_languages));
    push_difference(&mut found, "/default_languages", languages, Some(codes(&is.default_languages)));
    let names = |paths: &[MetadataPath]| paths.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let paths = requested.metadata_indexes.as_ref().map(|_| names(&new.metadata_indexes));
    push_difference(&mut found, "/metadata_indexes", paths, Some(names(&existing.metadata_indexes)));
    found
}

fn push_difference<T: PartialEq + Serialize>(found: &mut Vec<Violation>, pointer: &str, requested: Option<T>, is: Option<T>) {
    if let Some(requested) = requested.filter(|requested| Some(requested) != is.as_ref()) {
        let is = is.map_or_else(|| "has none".to_owned(), |is| format!("has {}", json!(is)));
        found.push(Violation::at(pointer, format!("the existing collection {is}, got {}", json!(requested))));
    }
}
