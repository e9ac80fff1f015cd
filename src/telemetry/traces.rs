//! Traces to an OpenTelemetry collector: the spans of requests, embedding, index and store, over HTTP with protobuf.
//!
//! A separate thread sends spans in batches. If the collector is unreachable, they are dropped; the server does not wait.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{KeyValue, global};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Layer;

use super::error::TelemetryError;
use crate::config::Config;

/// The running export of traces. Dropping it sends the rest.
pub(super) struct Traces(SdkTracerProvider);

impl Traces {
    /// Starts the sending thread if an endpoint is set, and also returns the layer that creates the spans.
    pub(super) fn start(config: &Config) -> Result<Option<(Self, Box<dyn Layer<Registry> + Send + Sync>)>, TelemetryError> {
        let Some(endpoint) = &config.otel_endpoint else { return Ok(None) };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .map_err(|error| TelemetryError::Exporter { problem: error.to_string() })?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name("dragoman").with_attribute(version).build();
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(config.otel_sampled)));
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).with_sampler(sampler).build();
        global::set_text_map_propagator(TraceContextPropagator::new());
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("dragoman"));
        // This filter is independent of the log's. It excludes other crates: the exporter's own spans would cause new exports
        // forever.
        let layer = layer.with_filter(Targets::new().with_target("dragoman", LevelFilter::INFO));
        Ok(Some((Self(provider), layer.boxed())))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(%error, "cannot send the last traces");
        }
    }
}
