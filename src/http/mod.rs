//! The wire: the whole route table on one screen.
//!
//! Handlers read a request, call one use case and shape its answer. What surrounds every request (id, log line, error body,
//! caught panics) is in `envelope`; every failure is an `ApiError`, rendered in `error`.

pub mod collections;
pub mod cursor;
pub mod documents;
pub mod embeddings;
pub mod envelope;
pub mod error;
pub mod extract;
pub mod filter;
pub mod health;
pub mod models;
pub mod openapi;
pub mod search;

use axum::Router;
use axum::routing::get;
use jiff::Timestamp;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::service::Service;

/// What every handler can reach.
#[derive(Clone)]
pub struct Api {
    /// The use cases.
    pub service: Service,
    /// When this server began to serve its model.
    pub started_at: Timestamp,
}

/// The routes over `service`, with request ids, body limit, panics caught and every error in the same form.
pub fn router(service: Service) -> Router {
    let (routes, _) = operations().split_for_parts();
    let routes = routes
        .route("/openapi.json", get(openapi::serve_document))
        .route("/docs/errors", get(openapi::serve_errors_page))
        .merge(openapi::swagger_ui());
    envelope::wrap(routes).with_state(Api { service, started_at: Timestamp::now() })
}

/// The OpenAPI document of `router`, as `/openapi.json` serves it and `openapi/openapi.json` keeps it.
pub fn document() -> serde_json::Value {
    openapi::complete(operations().into_openapi())
}

/// Every documented operation.
fn operations() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(openapi::frame())
        .routes(routes!(collections::create_collection, collections::list_collections))
        .routes(routes!(collections::get_collection, collections::delete_collection))
        .routes(routes!(documents::upsert_documents, documents::list_documents))
        .routes(routes!(documents::get_document, documents::delete_document))
        .routes(routes!(search::search_documents))
        .routes(routes!(embeddings::create_embeddings))
        .routes(routes!(models::list_models))
        .routes(routes!(health::check_health))
        .routes(routes!(health::check_readiness))
}
