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

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post};
use jiff::Timestamp;
use tower::ServiceExt;
use utoipa_axum::routes;

use crate::domain::Scope;
use crate::service::Service;
use api::Api;
use classifiers::{applications, definitions, evaluations, predictions};
use collections::{aliases, projections, put, reembedding};
use documents::{by_filter, import_export, put_patch};
use jobs::streams;
use metrics::{Bounds, Metrics, RequestMeter};
use middleware::access::{Access, CollectionAccess};
use middleware::auth::AuthMiddleware;
use mining::results;
use models::{detection, embeddings, similarity};
use openapi::description::Description;
use openapi::operations::DeclaredRoutes;
use settings::Settings;

/// The routes over `service` with the default settings.
pub fn router(service: Service) -> Router {
    router_with(service, Settings::default())
}

/// The routes over `service`, with request ids, keys, limits, caught panics and every error in the same form.
pub fn router_with(service: Service, settings: Settings) -> Router {
    let (mut routes, _) = operations().router.split_for_parts();
    for word in ["scroll", "count", "delete", "update"] {
        // A document may have such a word as its id.
        let path = format!("/v1/collections/{{collection}}/documents/{word}");
        let one = get(documents::get_document).put(put_patch::put_document).patch(put_patch::patch_document);
        routes = routes.route(&path, one.delete(documents::delete_document));
    }
    let description = description();
    let auth = AuthMiddleware::new(service.clone(), settings.clone(), &description.operations);
    let bounds = Bounds { shared: auth.bounds(), connections: settings.connections.clone() };
    let (started_at, requests) = (Timestamp::now(), RequestMeter::default());
    let metrics = Metrics::new(&service, &requests, bounds, started_at);
    let api = Api { service, started_at, description };
    if settings.mcp {
        let inner = routes.clone().layer(axum::middleware::from_fn_with_state(auth.clone(), middleware::auth::authorize_inner));
        let inner = middleware::request::wrap(inner, requests.clone(), &description.operations).with_state(api.clone());
        let mcp = mcp::Mcp::new(&api.service, description, inner);
        routes = routes.route(openapi::operations::MCP_PATH, post(move |request| mcp.answer(request)));
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
    Router::new().fallback_service(ServiceExt::<Request>::map_request(routes, prepare))
}

/// The OpenAPI document of `router`, which `/openapi.json` serves and `openapi/openapi.json` contains.
pub fn document() -> serde_json::Value {
    description().bodies.document().clone()
}

/// The description of the API, built once for all routers of this process.
pub fn description() -> &'static Description {
    static DESCRIPTION: LazyLock<Description> = LazyLock::new(|| {
        let DeclaredRoutes { router, operations } = operations();
        Description::new(openapi::complete(router.into_openapi(), &operations), operations)
    });
    &DESCRIPTION
}

/// Declares the documented operations by module: each handler with the scope of the key that it needs, and the collections
/// that it accesses.
macro_rules! operations {
    ($($module:ident { $($handler:ident: $($access:ident),+;)+ })+) => {
        /// Every documented operation.
        fn operations() -> DeclaredRoutes<Api> {
            let declared = DeclaredRoutes::new(openapi::frame());
            $($(
                let of_module = ($module::ERRORS, $module::EXAMPLES);
                let declared = declared.with_operation(operations!(@access $($access),+), of_module, routes!($module::$handler));
            )+)+
            declared
        }
    };
    (@access Open) => { Access::Open };
    (@access $scope:ident, $collections:ident) => { Access::Key(Scope::$scope, CollectionAccess::$collections) };
}

operations! {
    collections {
        create_collection: Admin, Handler;
        list_collections: Read, Handler;
        get_collection: Read, Path;
        change_collection: Admin, Path;
        delete_collection: Admin, Path;
    }
    put {
        put_collection: Admin, Path;
    }
    reembedding {
        reembed_collection: Admin, Path;
    }
    aliases {
        list_aliases: Read, Everything;
        put_alias: Admin, Everything;
        delete_alias: Admin, Everything;
    }
    documents {
        upsert_documents: Write, Path;
        list_documents: Read, Path;
        get_document: Read, Path;
        delete_document: Write, Path;
    }
    put_patch {
        put_document: Write, Path;
        patch_document: Write, Path;
    }
    by_filter {
        scroll_documents: Read, Path;
        count_documents: Read, Path;
        delete_documents: Write, Path;
        update_documents: Write, Path;
        count_facets: Read, Path;
    }
    projections {
        create_projection: Write, Path;
        list_projections: Read, Path;
        get_projection: Read, Path;
    }
    import_export {
        import_documents: Write, Path;
        export_documents: Read, Path;
    }
    search {
        search_documents: Read, Path;
        search_batch: Read, Path;
        recommend_documents: Read, Path;
    }
    jobs {
        list_jobs: Read, Handler;
        get_job: Read, Handler;
        cancel_job: Write, Handler;
    }
    streams {
        watch_job: Read, Handler;
        get_job_results: Read, Handler;
    }
    snapshots {
        create_snapshot: Admin, Everything;
        list_snapshots: Admin, Everything;
        get_snapshot: Admin, Everything;
        delete_snapshot: Admin, Everything;
        restore_snapshot: Admin, Everything;
        download_snapshot: Admin, Everything;
        upload_snapshot: Admin, Everything;
    }
    definitions {
        create_classifier: Write, Handler;
        list_classifiers: Read, Handler;
        get_classifier: Read, Handler;
        delete_classifier: Write, Handler;
        train_classifier: Write, Handler;
    }
    predictions {
        predict_labels: Read, Handler;
    }
    evaluations {
        evaluate_classifier: Read, Handler;
        start_evaluation: Write, Handler;
        get_evaluation: Read, Handler;
    }
    applications {
        apply_classifier: Write, Handler;
    }
    embeddings {
        create_embeddings: Read, Server;
    }
    similarity {
        compare_pairs: Read, Server;
        compare_sets: Read, Server;
    }
    detection {
        detect_languages: Read, Server;
    }
    mining {
        mine_pairs: Write, Handler;
        find_duplicates: Write, Path;
    }
    results {
        get_mined_pairs: Read, Handler;
        get_mined_pairs_table: Read, Handler;
        get_duplicate_clusters: Read, Handler;
        get_duplicate_clusters_table: Read, Handler;
    }
    models {
        list_models: Read, Server;
        get_model: Read, Server;
    }
    keys {
        create_key: Admin, Everything;
        list_keys: Admin, Everything;
        revoke_key: Admin, Everything;
    }
    health {
        check_health: Open;
        check_readiness: Open;
    }
}
