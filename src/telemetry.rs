//! Logs: structured, on standard error, as text or JSON.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

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
}

/// Starts the log of this process.
pub fn start(config: &Config) -> Result<(), TelemetryError> {
    let filter = EnvFilter::builder()
        .parse(&config.log)
        .map_err(|source| TelemetryError::Filter { filter: config.log.clone(), source })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.log_format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).finish().try_init()?,
        LogFormat::Json => {
            builder.json().flatten_event(true).with_current_span(true).with_span_list(false).finish().try_init()?
        }
    }
    Ok(())
}
