//! What a server answers before its service is open: `/healthz` says that the process is alive, everything else gets 503.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::Request;
use axum::routing::{any, get};
use tower::ServiceExt as _;

use super::error::ApiError;
use super::metrics::RequestMeter;
use super::openapi::operations::METRICS_PATH;
use super::{description, health, middleware};
use crate::domain::Code;

/// The routes of a server that starts, and those of its service once that is open. Clones share them.
#[derive(Clone, Default)]
pub struct StartingRouter(Arc<OnceLock<Router>>);

impl StartingRouter {
    /// Lets `routes` answer all requests from now on, also those on connections that are open already.
    pub fn open(&self, routes: Router) {
        // Only the first call has an effect; there is only one service.
        let _ = self.0.set(routes);
    }

    pub fn router(&self) -> Router {
        let (opened, before) = (Arc::clone(&self.0), routes_before());
        Router::new().fallback(move |request: Request| opened.get().unwrap_or(&before).clone().oneshot(request))
    }
}

fn routes_before() -> Router {
    // Monitoring calls these two; with a route, their refusals are logged like those of a server that recovers.
    let probes = Router::new().route("/readyz", any(refuse)).route(METRICS_PATH, any(refuse));
    let routes = probes.route("/healthz", get(health::check_health)).fallback(refuse);
    middleware::request::wrap(routes, RequestMeter::default(), &description().operations)
}

async fn refuse() -> ApiError {
    ApiError::new(Code::Unavailable, "the server is starting: it loads the model and opens the collections")
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use axum::http::header::RETRY_AFTER;

    use super::*;

    async fn call(router: &Router, path: &str) -> (u16, bool) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        (response.status().as_u16(), response.headers().contains_key(RETRY_AFTER))
    }

    #[tokio::test]
    async fn only_the_health_check_is_answered_before_the_service_is_open() {
        let starting = StartingRouter::default();
        let router = starting.router();
        assert_eq!(call(&router, "/healthz").await, (200, false));
        for path in ["/readyz", "/metrics", "/v1/collections", "/nowhere"] {
            assert_eq!(call(&router, path).await, (503, true), "{path}");
        }
        starting.open(Router::new().route("/v1/collections", get(async || "open")));
        assert_eq!(call(&router, "/v1/collections").await, (200, false));
        assert_eq!(call(&router, "/nowhere").await, (404, false), "the open routes answer everything");
    }
}
