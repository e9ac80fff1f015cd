//! Logs: structured, on standard error, as text or JSON; and traces to an OpenTelemetry collector, where the program was built
//! for that.

#[cfg(feature = "otel")]
mod traces;

use std::io::IsTerminal as _;

use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt};

use crate::config::{Config, LogFormat};

/// An error of the log's set-up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter cannot be parsed.
    #[error("the log filter {filter:?} is not valid")]
    Filter {
        /// What came.
        filter: String,
        /// The cause.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// There is a log already.
    #[error("cannot start the log")]
    Start(#[from] tracing_subscriber::util::TryInitError),
    /// The collector's address is none.
    #[error("otel_endpoint must be an address that begins with http://, such as http://127.0.0.1:4318, got {got:?}")]
    Endpoint {
        /// What came.
        got: String,
    },
    /// This program cannot send traces.
    #[error("otel_endpoint is set, but this program was built without the feature otel")]
    WithoutTraces,
    /// The exporter of traces cannot be started.
    #[error("cannot send traces: {problem}")]
    Exporter {
        /// The cause.
        problem: String,
    },
}

/// Sends what is left when it is dropped.
#[must_use = "traces end when this is dropped"]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    _traces: Option<traces::Traces>,
}

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts the log of this process and, when an endpoint is set, its traces.
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

/// Says whether the log and the traces can be started with these settings.
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
    let parsed = EnvFilter::builder().parse(&config.log);
    parsed.map_err(|source| TelemetryError::Filter { filter: config.log.clone(), source })
}
