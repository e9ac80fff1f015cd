//! Errors while setting up the log and the traces.

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Why the log or the traces could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("the log filter {filter:?} is not valid")]
    Filter { filter: String, source: tracing_subscriber::filter::ParseError },
    #[error("the log filter {filter:?} has {got:?}, but a word by itself must be a level: {}", LEVELS.join(", "))]
    Level { filter: String, got: String },
    #[error(
        "the system does not let the server start another thread: raise the limit (ulimit -u, pids.max of the container, \
         TasksMax of the service)"
    )]
    Thread { source: std::io::Error },
    #[error("cannot start the log")]
    Start(#[from] tracing_subscriber::util::TryInitError),
    #[error("otel_endpoint must be an address that begins with http://, such as http://127.0.0.1:4318, got {got:?}")]
    Endpoint { got: String },
    #[error("otel_endpoint is set, but this program was built without the feature otel")]
    WithoutTraces,
    #[error("cannot send traces: {problem}")]
    Exporter { problem: String },
}
