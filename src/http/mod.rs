//! The HTTP API: the whole route table on one screen.
//!
//! Handlers parse a request, call one use case and shape the response. `middleware::request` does what every request needs (id,
//! log line, error body, caught panics); `middleware::auth` has the checks before the handlers (keys, limits, timeout). Every
//! failure is an `ApiError`, rendered in `error`. Each resource has a module of the same name here and in `service`. `request`
//! parses requests, `response` has what responses share, and `openapi` generates the API description from the declarations of
//! the routes.

pub mod api;
pub mod classifiers;
pub mod collections;
mod console;
pub mod documents;
pub mod error;
pub mod health;
pub mod jobs;
pub mod keys;
mod mcp;
pub mod metrics;
pub mod middleware;
pub mod mining;
pub mod models;
pub mod openapi;
pub mod request;
pub mod response;
pub mod search;
pub mod settings;
pub mod snapshots;
pub mod starting;

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post};
use jiff::Timestamp;
use tower::ServiceExt;
use utoipa_axum::routes;

use crate::domain::{Code, Scope};
use crate::service::Service;
use api::Api;
use classifiers::{applications, definitions, evaluations, predictions};
use collections::{aliases, projections, put, reembedding};
use documents::{by_filter, import_export, put_patch};
use jobs::streams;
use metrics::{Metrics, RequestMeter};
use middleware::access::{Access, CollectionAccess};
use middleware::auth::AuthMiddleware;
use mining::results;
use models::{detection, embeddings, similarity};
use openapi::description::Description;
use openapi::operations::DeclaredRoutes;
use settings::Settings;

/// The routes over `service`, with request ids, keys, limits, caught panics and every error in the same form.
pub fn router_with(service: Service, settings: Settings) -> Router {
    let (mut routes, _) = operations().router.split_for_parts();
    for word in ["scroll", "count", "delete", "update"] {
        // A document may have such a word as its id.
        let path = format!("/v1/collections/{{collection}}/documents/{word}");
        let document = get(documents::get_document).put(put_patch::put_document).patch(put_patch::patch_document);
        routes = routes.route(&path, document.delete(documents::delete_document));
    }
    let description = description();
    let auth = AuthMiddleware::new(service.clone(), settings.clone(), &description.operations);
    let (started_at, requests) = (Timestamp::now(), RequestMeter::default());
    let metrics = Metrics::new(&service, &requests, auth.bounds(), &settings, started_at);
    let api = Api { service, started_at, description };
    if settings.mcp {
        let inner = routes.clone().layer(axum::middleware::from_fn_with_state(auth.clone(), middleware::auth::authorize_inner));
        let inner = middleware::request::wrap(inner, requests.clone(), &description.operations).with_state(api.clone());
        let mcp = mcp::Mcp::new(&api.service, description, inner);
        routes = routes.route(openapi::operations::MCP_PATH, post(move |request| mcp.serve(request)));
    }
    let routes = routes
        .route("/openapi.json", get(openapi::serve_document))
        .route(openapi::operations::METRICS_PATH, get(move |headers| metrics.serve(headers)))
        .route("/docs/errors", get(openapi::serve_errors_page))
        .merge(openapi::swagger_ui())
        .route(console::PAGE_PATH, get(console::serve_page))
        .route(console::FILE_PATH, get(console::serve_file))
        .fallback(error::route_not_found)
        .layer(axum::middleware::from_fn_with_state(auth, middleware::auth::authorize));
    let routes = match settings.cors() {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    let routes = middleware::request::wrap(routes, requests, &description.operations).layer(middleware::compression::layer());
    let routes: Router = routes.with_state(api);
    // The path is trimmed before routing, because it determines the route.
    let prepare = |request| middleware::compression::accept_uncompressed(middleware::trailing_slash::trim(request));
    let routes = ServiceExt::<Request>::map_request(routes, prepare).map_response(middleware::stream_length::keep_unknown);
    Router::new().fallback_service(routes)
}

/// The OpenAPI document of `router`, which `/openapi.json` serves and `openapi/openapi.json` contains.
pub fn document() -> serde_json::Value {
    description().document.clone()
}

/// The description of the API, built once for all routers of this process.
pub fn description() -> &'static Description {
    static DESCRIPTION: LazyLock<Description> = LazyLock::new(|| {
        let DeclaredRoutes { router, operations } = operations();
        Description::new(openapi::complete(router.into_openapi(), &operations), operations)
    });
    &DESCRIPTION
}

/// Declares the documented operations: each handler with the scope of the key that it needs and the collections that it
/// accesses, the examples of its bodies in `openapi/examples`, and the error codes that it can return, in groups and singly.
macro_rules! operations {
    ($($module:ident::$handler:ident: $($access:ident),+, [$($part:tt),*], $($group:ident)* $([$($code:ident),*])?;)+) => {
        fn operations() -> DeclaredRoutes<Api> {
            let declared = DeclaredRoutes::new(openapi::frame());
            $(
                let declared = declared.with_operation(
                    operations!(@access $($access),+),
                    &[$(openapi::operation_errors::$group,)* &[$($(Code::$code),*)?]],
                    &[$((stringify!($part), operations!(@example $handler $part))),*],
                    routes!($module::$handler),
                );
            )+
            declared
        }
    };
    (@access Open) => { Access::Open };
    (@access $scope:ident, $collections:ident) => { Access::Key(Scope::$scope, CollectionAccess::$collections) };
    (@example $handler:ident $part:tt) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"), "/openapi/examples/", stringify!($handler), ".", stringify!($part), ".json"
        ))
    };
}

operations! {
    collections::create_collection: Admin, Handler, [request, 201], WRITE_ERRORS
        [UnknownModel, UnknownLanguage, CollectionExists, AliasExists, TooManyCollections, IdempotencyConflict];
    collections::list_collections: Read, Handler, [200], READ_ERRORS [InvalidCursor];
    collections::get_collection: Read, Path, [200], READ_ERRORS [CollectionNotFound];
    collections::change_collection: Admin, Path, [request, 200], WRITE_ERRORS [CollectionNotFound, UnknownLanguage];
    collections::delete_collection: Admin, Path, [], READ_ERRORS [CollectionNotFound, AliasExists, Overloaded];
    put::put_collection: Admin, Path, [request, 200, 201], WRITE_ERRORS
        [UnknownModel, UnknownLanguage, CollectionExists, AliasExists, TooManyCollections, CollectionNotFound];
    reembedding::reembed_collection: Admin, Path, [request, 202], WRITE_ERRORS
        [CollectionNotFound, NoModel, ModelCurrent, JobRunning];
    aliases::list_aliases: Read, Handler, [200], READ_ERRORS [InvalidCursor];
    aliases::put_alias: Admin, Everything, [request, 200], WRITE_ERRORS
        [CollectionNotFound, CollectionExists, TooManyCollections];
    aliases::delete_alias: Admin, Everything, [], READ_ERRORS [AliasNotFound];
    documents::upsert_documents: Write, Path, [request, 200, 207], WRITE_ERRORS
        [UnknownLanguage, CollectionNotFound, ModelMismatch, IdempotencyConflict, DocumentPending];
    documents::list_documents: Read, Path, [200], READ_ERRORS [InvalidCursor, CollectionNotFound];
    documents::get_document: Read, Path, [200], READ_ERRORS [CollectionNotFound, DocumentNotFound];
    documents::delete_document: Write, Path, [], READ_ERRORS
        [CollectionNotFound, DocumentNotFound, PreconditionFailed, Overloaded];
    put_patch::put_document: Write, Path, [request, 200, 201], WRITE_ERRORS
        [UnknownLanguage, CollectionNotFound, ModelMismatch, PreconditionFailed];
    put_patch::patch_document: Write, Path, [request, 200], WRITE_ERRORS
        [UnknownLanguage, CollectionNotFound, DocumentNotFound, ModelMismatch, PreconditionFailed];
    by_filter::scroll_documents: Read, Path, [request, 200], READ_ERRORS BODY_ERRORS
        [InvalidCursor, InvalidFilter, CollectionNotFound];
    by_filter::count_documents: Read, Path, [request, 200], READ_ERRORS BODY_ERRORS [InvalidFilter, CollectionNotFound];
    by_filter::delete_documents: Write, Path, [request, 200], WRITE_ERRORS
        [InvalidFilter, CollectionNotFound, IdempotencyConflict];
    by_filter::update_documents: Write, Path, [request, 200], WRITE_ERRORS
        [InvalidFilter, CollectionNotFound, IdempotencyConflict];
    by_filter::count_facets: Read, Path, [request, 200], READ_ERRORS BODY_ERRORS
        [InvalidFilter, CollectionNotFound, AnswerTooLarge];
    projections::create_projection: Write, Path, [request, 202], WRITE_ERRORS
        [CollectionNotFound, TooFewDocuments, JobRunning, IdempotencyConflict];
    projections::list_projections: Read, Path, [200], READ_ERRORS [CollectionNotFound];
    projections::get_projection: Read, Path, [200], READ_ERRORS [CollectionNotFound, ProjectionNotFound, AnswerTooLarge];
    import_export::import_documents: Write, Path, [202], READ_ERRORS
        [MalformedFile, BodyTooLarge, UnsupportedMediaType, CollectionNotFound, ModelMismatch, Overloaded];
    import_export::export_documents: Read, Path, [], READ_ERRORS [CollectionNotFound];
    search::search_documents: Read, Path, [request, 200], READ_ERRORS BODY_ERRORS SEARCH_ERRORS;
    search::search_batch: Read, Path, [request, 200], READ_ERRORS BODY_ERRORS SEARCH_ERRORS;
    search::recommend_documents: Read, Path, [request, 200], READ_ERRORS BODY_ERRORS SEARCH_ERRORS;
    jobs::list_jobs: Read, Handler, [200], READ_ERRORS [InvalidCursor];
    jobs::get_job: Read, Handler, [200], READ_ERRORS [JobNotFound];
    jobs::cancel_job: Write, Handler, [200], READ_ERRORS [JobNotFound, JobFinished];
    streams::watch_job: Read, Handler, [], READ_ERRORS [JobNotFound];
    streams::get_job_results: Read, Handler, [], READ_ERRORS [JobNotFound, NoResults];
    snapshots::create_snapshot: Admin, Everything, [request, 202], WRITE_ERRORS [CollectionNotFound, NotSupported];
    snapshots::list_snapshots: Admin, Everything, [200], READ_ERRORS [InvalidCursor, InvalidSnapshot];
    snapshots::get_snapshot: Admin, Everything, [200], READ_ERRORS [SnapshotNotFound, InvalidSnapshot];
    snapshots::delete_snapshot: Admin, Everything, [], READ_ERRORS [SnapshotNotFound];
    snapshots::restore_snapshot: Admin, Everything, [request, 202], WRITE_ERRORS
        [SnapshotNotFound, InvalidSnapshot, CollectionNotFound, CollectionExists, AliasExists, TooManyCollections,
         ClassifierExists, TooManyClassifiers, NotSupported];
    snapshots::download_snapshot: Admin, Everything, [], READ_ERRORS [SnapshotNotFound, InvalidSnapshot];
    snapshots::upload_snapshot: Admin, Everything, [201], READ_ERRORS
        [MalformedFile, BodyTooLarge, UnsupportedMediaType, Overloaded, SnapshotExists, InvalidSnapshot, NotSupported];
    definitions::create_classifier: Write, Handler, [request, 201], WRITE_ERRORS
        [UnknownLanguage, InvalidFilter, UnknownLabel, InvalidTrainingSet, CollectionNotFound, ModelMismatch, NoModel,
         ClassifierExists, TooManyClassifiers, IdempotencyConflict];
    definitions::list_classifiers: Read, Handler, [200], READ_ERRORS [InvalidCursor];
    definitions::get_classifier: Read, Handler, [200], READ_ERRORS [ClassifierNotFound];
    definitions::delete_classifier: Write, Handler, [], READ_ERRORS [ClassifierNotFound];
    definitions::train_classifier: Write, Handler, [202], READ_ERRORS
        [ClassifierNotFound, ClassifierNotReady, CollectionNotFound, ModelMismatch, NoModel, InvalidTrainingSet, Overloaded];
    predictions::predict_labels: Read, Handler, [request, 200], READ_ERRORS BODY_ERRORS CLASSIFIER_ERRORS
        [DocumentNotFound, AnswerTooLarge];
    evaluations::evaluate_classifier: Read, Handler, [request, 200], READ_ERRORS BODY_ERRORS CLASSIFIER_ERRORS
        [UnknownLanguage, InvalidFilter, UnknownLabel];
    evaluations::start_evaluation: Write, Handler, [request, 202], READ_ERRORS BODY_ERRORS CLASSIFIER_ERRORS [InvalidFilter];
    evaluations::get_evaluation: Read, Handler, [200], READ_ERRORS [JobNotFound, NoResults];
    applications::apply_classifier: Write, Handler, [request, 202], READ_ERRORS BODY_ERRORS CLASSIFIER_ERRORS [InvalidFilter];
    embeddings::create_embeddings: Read, Server, [request, 200], BODY_ERRORS
        [InvalidRequest, UnknownModel, Overloaded, Unavailable, Internal];
    similarity::compare_pairs: Read, Server, [request, 200], BODY_ERRORS [InvalidRequest, Overloaded, Unavailable, Internal];
    similarity::compare_sets: Read, Server, [request, 200], BODY_ERRORS [InvalidRequest, Overloaded, Unavailable, Internal];
    detection::detect_languages: Read, Server, [request, 200], BODY_ERRORS [InvalidRequest, Unavailable, Internal];
    mining::mine_pairs: Write, Handler, [request, 202], WRITE_ERRORS MINING_ERRORS;
    mining::find_duplicates: Write, Path, [request, 202], WRITE_ERRORS MINING_ERRORS;
    results::get_mined_pairs: Read, Handler, [], READ_ERRORS [JobNotFound, NoResults];
    results::get_mined_pairs_table: Read, Handler, [], READ_ERRORS [JobNotFound, NoResults];
    results::get_duplicate_clusters: Read, Handler, [], READ_ERRORS [JobNotFound, NoResults];
    results::get_duplicate_clusters_table: Read, Handler, [], READ_ERRORS [JobNotFound, NoResults];
    models::list_models: Read, Server, [200], [InvalidRequest, Internal];
    models::get_model: Read, Server, [200], [InvalidRequest, UnknownModel, Internal];
    keys::create_key: Admin, Everything, [request, 201], WRITE_ERRORS [TooManyKeys];
    keys::list_keys: Admin, Everything, [200], [InvalidRequest, InvalidCursor, Internal];
    keys::revoke_key: Admin, Everything, [], READ_ERRORS [KeyNotFound, LastAdminKey];
    health::check_health: Open, [200], [Internal];
    health::check_readiness: Open, [200], [Unavailable, Internal];
}
