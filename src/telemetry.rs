//! Logs: structured, on standard error, as text or JSON; and traces to an OpenTelemetry collector, if the program was built
//! with that feature.
//!
//! A thread of its own writes the log, so nothing waits for a reader of standard error that has stalled. Lines that no
//! longer fit into the buffer are dropped and counted.

mod error;
#[cfg(feature = "otel")]
mod traces;

use std::convert::Infallible;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc;
use std::thread::Builder;
use std::time::Duration;

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt};

pub use error::TelemetryError;

use crate::config::{Config, LogFormat};
use crate::threads::try_threads;

/// Maximum number of lines that wait to be written; further ones are dropped.
const WAITING_LINES_MAX: usize = 10_000;
/// How long the end of the process waits until its last lines are written.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(2);
/// How many threads must be possible before the log starts its own thread. The system may still count a thread that has just
/// ended.
const THREADS_TRIED: usize = 2;
/// Stack size of these threads: the usual one.
const STACK_BYTES: usize = 2 << 20;

/// The log and the traces. Dropping it sends the remaining traces and writes the remaining lines.
#[must_use = "logs and traces end when this is dropped"]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    traces: Option<traces::Traces>,
    writer: Option<WorkerGuard>,
    dropped: ErrorCounter,
}

impl Telemetry {
    /// Returns a function that counts the lines dropped so far.
    pub fn dropped_lines(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let dropped = self.dropped.clone();
        move || dropped.dropped_lines() as u64
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        #[cfg(feature = "otel")]
        drop(self.traces.take());
        let writer = self.writer.take();
        // If the lines are stuck, the guard says so on standard output, which may have the same stalled reader.
        finish_in_time(move || drop(writer));
    }
}

/// Starts the log of this process and, if an endpoint is set, its traces.
pub fn start(config: &Config) -> Result<Telemetry, TelemetryError> {
    check(config)?;
    // Without a thread, `finish` would panic.
    try_threads(THREADS_TRIED, STACK_BYTES).map_err(|source| TelemetryError::Thread { source })?;
    let writer = NonBlockingBuilder::default().buffered_lines_limit(WAITING_LINES_MAX).lossy(true).thread_name("log");
    let (lines, writer) = writer.finish(io::stderr());
    let dropped = lines.error_counter();
    let lines = fmt::layer().with_writer(lines);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match config.log_format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
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
        traces,
        writer: Some(writer),
        dropped,
    })
}

/// Writes a line to standard error when no log is running. Gives up if the reader of standard error has stalled.
pub fn write_last_line(line: String) {
    // If standard error is gone, the line has no reader.
    let write = |line: &str| drop(writeln!(io::stderr(), "{line}"));
    let copy = line.clone();
    if !finish_in_time(move || write(&copy)) {
        write(&line);
    }
}

/// Runs `work` on a thread of its own and waits until it is done, but not for long. Returns `false`, without having run it, if
/// the system does not let the thread start.
fn finish_in_time(work: impl FnOnce() + Send + 'static) -> bool {
    let (running, ended) = mpsc::channel::<Infallible>();
    let thread = Builder::new().spawn(move || {
        work();
        drop(running);
    });
    if thread.is_ok() {
        let _ = ended.recv_timeout(LAST_LINES_TIMEOUT);
    }
    thread.is_ok()
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
    // rmcp logs messages with the texts in them, and ort what only its developers need. A filter that names them explicitly still
    // enables that.
    // Commas in brackets separate the fields of a span.
    let mut depth = 0_i32;
    let mut ends = |c: char| {
        depth += i32::from("[{".contains(c)) - i32::from("]}".contains(c));
        c == ',' && depth == 0
    };
    let words = config.log.split(&mut ends).map(str::trim).filter(|word| !word.is_empty() && !word.contains(['=', '[', ':']));
    if let Some(got) = words.into_iter().find(|word| word.parse::<LevelFilter>().is_err()) {
        // Otherwise it would be the name of a module, and everything else would be silent.
        return Err(TelemetryError::Level { filter: config.log.clone(), got: got.to_owned() });
    }
    let parsed = EnvFilter::builder().parse(format!("rmcp=off,ort=warn,{}", config.log));
    parsed.map_err(|source| TelemetryError::Filter { filter: config.log.clone(), source })
}
