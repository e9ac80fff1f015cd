//! Logs: structured, on standard error, as text or JSON; and traces to an OpenTelemetry collector, if the program was built
//! with that feature.

mod error;
mod layer;
#[cfg(feature = "otel")]
mod traces;

use std::io::IsTerminal as _;

use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, fmt};

pub use error::TelemetryError;

use crate::config::{Config, LogFormat};
use layer::BoxedLayer;

/// The log and the traces. Dropping it sends the remaining traces.
#[must_use = "traces end when this is dropped"]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    _traces: Option<traces::Traces>,
}

/// Starts the log of this process and, if an endpoint is set, its traces.
pub fn start(config: &Config) -> Result<Telemetry, TelemetryError> {
    check(config)?;
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines: BoxedLayer = match config.log_format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed(),
    };
    #[cfg_attr(not(feature = "otel"), expect(unused_mut, reason = "only traces are added"))]
    let mut layers = vec![lines.with_filter(filter(config)?).boxed()];
    #[cfg(feature = "otel")]
    let traces = traces::Traces::start(config)?.map(|(traces, layer)| {
        layers.push(layer);
        traces
    });
    tracing_subscriber::registry().with(layers).try_init()?;
    Ok(Telemetry {
        #[cfg(feature = "otel")]
        _traces: traces,
    })
}

/// Checks whether the log and the traces can be started with these settings.
pub fn check(config: &Config) -> Result<(), TelemetryError> {
    filter(config)?;
    match &config.otel_endpoint {
        None => Ok(()),
        Some(_) if cfg!(not(feature = "otel")) => Err(TelemetryError::WithoutTraces),
        Some(endpoint) if endpoint.strip_prefix("http://").is_some_and(|rest| !rest.is_empty()) => Ok(()),
        Some(got) => Err(TelemetryError::Endpoint { got: got.clone() }),
    }
}

fn filter(config: &Config) -> Result<EnvFilter, TelemetryError> {
    // rmcp logs messages with the texts in them; a filter that names it explicitly still enables that.
    let parsed = EnvFilter::builder().parse(format!("rmcp=off,{}", config.log));
    parsed.map_err(|source| TelemetryError::Filter { filter: config.log.clone(), source })
}
