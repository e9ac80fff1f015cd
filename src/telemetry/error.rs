//! Errors when the log and the traces are started.

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
    /// The collector's address is not valid.
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
