//! The header `traceparent`: makes a request's span part of its caller's trace.

use axum::http::HeaderMap;
use opentelemetry::global;
use opentelemetry::propagation::Extractor;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}

/// Makes the caller's span the parent of `span`, if the headers name one.
pub(super) fn set_parent_span(span: &Span, headers: &HeaderMap) {
    let parent = global::get_text_map_propagator(|propagator| propagator.extract(&Headers(headers)));
    // Without a collector, no span is exported that could have a parent.
    let _ = span.set_parent(parent);
}
