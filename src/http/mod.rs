//! The HTTP API: the whole route table on one screen.
//!
//! Handlers parse a request, call one use case and build the response. What surrounds every request (id, log line, error body,
//! caught panics) is in `envelope`, the checks before it (keys, limits, time) in `guard`; every failure is an `ApiError`,
//! rendered in `error`.

pub mod access;
pub mod aliases;
pub mod api;
mod browsers;
pub mod classifiers;
pub mod collection_settings;
pub mod collections;
mod console;
pub mod cursor;
pub mod description;
pub mod detection;
pub mod document_input;
pub mod documents;
pub mod embeddings;
pub mod envelope;
pub mod error;
pub mod extract;
pub mod facets;
pub mod filter;
pub mod guard;
pub mod health;
pub mod hosts;
pub mod in_flight;
pub mod job_streams;
pub mod jobs;
pub mod keys;
pub mod languages;
pub mod metrics;
pub mod mining;
pub mod mining_results;
pub mod models;
pub mod nulls;
pub mod openapi;
pub mod operation_errors;
pub mod origins;
mod patterns;
pub mod preconditions;
pub mod reembedding;
pub mod request_id;
pub mod revisions;
pub mod search;
pub mod selections;
pub mod settings;
pub mod similarity;
pub mod snapshots;
mod streamed;
#[cfg(feature = "otel")]
mod trace_context;
pub mod traffic;
pub mod transfer;

use std::sync::LazyLock;

use axum::Router;
use axum::routing::get;
use jiff::Timestamp;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::service::Service;
use api::Api;
use description::Description;
use guard::Gate;
use metrics::{Bounds, Metrics, RequestMeter};
use settings::Settings;

/// The routes over `service` with the default settings.
pub fn router(service: Service) -> Router {
    router_with(service, Settings::default())
}

/// The routes over `service`, with request ids, keys, limits, caught panics and every error in the same form.
pub fn router_with(service: Service, settings: Settings) -> Router {
    let (mut routes, _) = operations().split_for_parts();
    for word in ["scroll", "count", "delete"] {
        // A document may have such a word as its id.
        let path = format!("/v1/collections/{{collection}}/documents/{word}");
        let one = get(documents::get_document).put(revisions::put_document).patch(revisions::patch_document);
        routes = routes.route(&path, one.delete(documents::delete_document));
    }
    let description = description();
    let gate = Gate::new(service.clone(), settings.clone(), &description.operations);
    let bounds = Bounds { shared: gate.bounds(), connections: settings.connections.clone() };
    let routes = routes
        .route("/openapi.json", get(openapi::serve_document))
        .route(access::METRICS_PATH, get(metrics::serve_metrics))
        .route("/docs/errors", get(openapi::serve_errors_page))
        .merge(openapi::swagger_ui())
        .route(console::PAGE_PATH, get(console::serve_page))
        .route(console::FILE_PATH, get(console::serve_file))
        .fallback(error::route_not_found)
        .layer(axum::middleware::from_fn_with_state(gate, guard::guard));
    let routes = match settings.cors() {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    let (started_at, requests) = (Timestamp::now(), RequestMeter::default());
    let metrics = Metrics::new(&service, &requests, bounds, started_at);
    let routes = envelope::wrap(routes, requests, &description.operations);
    routes.with_state(Api { service, started_at, metrics, description })
}

/// The OpenAPI document of `router`, as `/openapi.json` serves it and `openapi/openapi.json` keeps it.
pub fn document() -> serde_json::Value {
    openapi::complete(operations().into_openapi())
}

/// The same document, read once for all routers of this process.
pub fn description() -> &'static Description {
    static DESCRIPTION: LazyLock<Description> = LazyLock::new(|| Description::of(document()));
    &DESCRIPTION
}

/// Every documented operation.
fn operations() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(openapi::frame())
        .routes(routes!(collections::create_collection, collections::list_collections))
        .routes(routes!(collections::get_collection, collections::change_collection, collections::delete_collection))
        .routes(routes!(reembedding::reembed_collection))
        .routes(routes!(aliases::list_aliases))
        .routes(routes!(aliases::put_alias, aliases::delete_alias))
        .routes(routes!(documents::upsert_documents, documents::list_documents))
        .routes(routes!(documents::get_document, revisions::put_document, revisions::patch_document, documents::delete_document))
        .routes(routes!(selections::scroll_documents))
        .routes(routes!(selections::count_documents))
        .routes(routes!(selections::delete_documents))
        .routes(routes!(selections::count_facets))
        .routes(routes!(transfer::import_documents))
        .routes(routes!(transfer::export_documents))
        .routes(routes!(search::search_documents))
        .routes(routes!(search::search_batch))
        .routes(routes!(search::recommend_documents))
        .routes(routes!(jobs::list_jobs))
        .routes(routes!(jobs::get_job))
        .routes(routes!(jobs::cancel_job))
        .routes(routes!(job_streams::watch_job))
        .routes(routes!(job_streams::get_job_results))
        .routes(routes!(snapshots::create_snapshot, snapshots::list_snapshots))
        .routes(routes!(snapshots::get_snapshot, snapshots::delete_snapshot))
        .routes(routes!(snapshots::restore_snapshot))
        .routes(routes!(snapshots::download_snapshot, snapshots::upload_snapshot))
        .routes(routes!(classifiers::definitions::create_classifier, classifiers::definitions::list_classifiers))
        .routes(routes!(classifiers::definitions::get_classifier, classifiers::definitions::delete_classifier))
        .routes(routes!(classifiers::definitions::train_classifier))
        .routes(routes!(classifiers::predictions::predict_labels))
        .routes(routes!(classifiers::evaluations::evaluate_classifier))
        .routes(routes!(classifiers::evaluations::start_evaluation))
        .routes(routes!(classifiers::evaluations::get_evaluation))
        .routes(routes!(classifiers::applications::apply_classifier))
        .routes(routes!(embeddings::create_embeddings))
        .routes(routes!(similarity::compare_pairs))
        .routes(routes!(similarity::compare_sets))
        .routes(routes!(detection::detect_languages))
        .routes(routes!(mining::mine_pairs))
        .routes(routes!(mining::find_duplicates))
        .routes(routes!(mining_results::get_mined_pairs))
        .routes(routes!(mining_results::get_mined_pairs_table))
        .routes(routes!(mining_results::get_duplicate_clusters))
        .routes(routes!(mining_results::get_duplicate_clusters_table))
        .routes(routes!(models::list_models))
        .routes(routes!(keys::create_key, keys::list_keys))
        .routes(routes!(keys::revoke_key))
        .routes(routes!(health::check_health))
        .routes(routes!(health::check_readiness))
}
