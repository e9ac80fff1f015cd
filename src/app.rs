//! Composition root: start-up order and shutdown. `settings` makes the parts that the configuration describes, `arenas` limits
//! the memory that the allocator holds, `private_files` keeps other users out, `writable` explains why a folder cannot be
//! written, `open_files` and `threads` keep within what the system allows, `runtime_telemetry` turns off ONNX Runtime's
//! telemetry, and `moving` moves a server's data while none runs.

mod arenas;
mod error;
mod moving;
mod open_files;
mod private_files;
mod runtime_telemetry;
mod settings;
mod threads;
mod writable;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::{Config, Durability, ModelSetting};
use crate::domain::Limits;
use crate::embed::{EmbedOptions, Embedder};
use crate::http;
use crate::http::settings::{Reading, Settings};
use crate::http::starting::StartingRouter;
use crate::server::{ServeOptions, Tls, WRITE_TIMEOUT, listen, serve};
use crate::service::{Parts, Service};

pub use arenas::bound_arenas;
pub use error::AppError;
pub use moving::move_data;
pub use runtime_telemetry::disable_runtime_telemetry;
pub use settings::check;

/// How long a server that has stored everything waits for its threads before it ends.
const THREADS_STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the server on its own threads until SIGTERM or SIGINT. Does not wait for threads that still compute for requests
/// that are over. `log_lines_dropped` counts the lines of the log that could not be written.
pub fn serve_until_signal(config: Config, log_lines_dropped: impl Fn() -> u64 + Send + Sync + 'static) -> Result<(), AppError> {
    let runtime = threads::start_runtime()?;
    let ended = runtime.block_on(run(config, Arc::new(log_lines_dropped)));
    runtime.shutdown_timeout(THREADS_STOP_TIMEOUT);
    ended
}

/// Runs the server until SIGTERM or SIGINT.
///
/// The address is bound first, so that a second server on it fails at once. Until the service is open, only `/healthz` is
/// answered, and a signal ends the program at once. Recovery of the indexes continues in the background after that. At the end,
/// running requests get their grace period, unless there is a second signal, and new ones are refused; then the indexes are
/// saved and the databases closed.
async fn run(config: Config, log_lines_dropped: Reading) -> Result<(), AppError> {
    check_clock(Timestamp::now())?;
    let (mut stop, at_once) = stop_signals().map_err(AppError::Serve)?;
    let hangup = signal(SignalKind::hangup()).map_err(AppError::Serve)?;
    // A write beyond the limit on file sizes then fails like a write to a full disk, instead of ending the process.
    let _too_large = signal(SignalKind::from_raw(libc::SIGXFSZ)).map_err(AppError::Serve)?;
    settings::check_data_folder(&config)?;
    let listen_error = |source| settings::listen_error(&config.listen, source);
    let listener = listen(&config.listen).await.map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    let (mut http_settings, tls, admin_key) =
        (settings::http_settings(&config)?, settings::load_tls(&config)?, settings::admin_key(&config)?);
    if let Some(warning) = tls.as_ref().and_then(|tls| tls.warning(Timestamp::now())) {
        tracing::warn!("{warning}");
    }
    http_settings.hosts = http_settings.hosts.listening_on(address.ip());
    http_settings.readings.log_lines_dropped = Some(log_lines_dropped);
    http_settings.readings.certificate_expiry_s = tls.clone().map(|tls| Arc::new(move || tls.expiry_s()) as Reading);
    http_settings.stop = stop.clone();
    let starting = StartingRouter::default();
    let options = serve_options(&config, &mut http_settings, tls.clone());
    let serving = tokio::spawn(serve(listener, starting.router(), options, stop.clone()));
    let limits = possible_limits(&config);
    let embedder = start_embedder(&config, &limits).await?;
    let model = embedder.model();
    tracing::info!(model = %model.name, version = %model.version, device = ?model.device, note = model.device_note, "model loaded");
    let Some(service) = open_unless_stopped(&config, embedder.clone(), limits, &mut stop).await? else {
        embedder.stop();
        return Ok(());
    };
    if let Some(secret) = admin_key {
        service.set_admin_key(secret.expose());
    }
    let checked = tokio::select! {
        checked = settings::snapshot_schedule(&config) => checked,
        // A target that does not answer must not delay the stop.
        _ = stop.wait_for(|stop| *stop) => Ok(None),
    };
    let schedule = match checked {
        Ok(schedule) => schedule,
        Err(error) => {
            service.shutdown().await.map_err(|source| AppError::Shutdown(Box::new(source)))?;
            return Err(error);
        }
    };
    let stopped = match settings::check_exposure(address, service.requires_key(), &config) {
        Ok(()) => {
            starting.open(http::router_with(service.clone(), http_settings));
            tracing::info!(%address, tls = tls.is_some(), keys = service.requires_key(), "listening");
            schedule.into_iter().for_each(|schedule| service.schedule_snapshots(schedule));
            let (mut stopping, announcing) = (stop.clone(), service.clone());
            tokio::spawn(async move {
                let _ = stopping.wait_for(|stop| *stop).await;
                // Otherwise, event streams of jobs would delay the shutdown until the grace period is over.
                announcing.announce_stop();
            });
            let reloading = tls.map(|tls| tokio::spawn(tls.keep_current(hangup)));
            let ended = serve_until_stopped(serving, &mut stop, at_once, config.shutdown_grace_s).await;
            reloading.inspect(JoinHandle::abort);
            ended
        }
        refused => refused,
    };
    service.shutdown().await.map_err(|source| AppError::Shutdown(Box::new(source)))?;
    embedder.stop();
    tracing::info!("stopped");
    stopped
}

/// Refuses a clock before 1970, with which hyper panics at each connection, because it cannot write the header `date`.
fn check_clock(now: Timestamp) -> Result<(), AppError> {
    if now < Timestamp::UNIX_EPOCH { Err(AppError::Clock { now }) } else { Ok(()) }
}

/// The options of the listener. Lowers limits of `http_settings` to what the connections allow.
fn serve_options(config: &Config, http_settings: &mut Settings, tls: Option<Arc<Tls>>) -> ServeOptions {
    let connections_max = open_files::connections_max(config.traffic.connections_max);
    settings::reserve_idle_connections(http_settings, connections_max);
    ServeOptions {
        connections_max,
        connections: http_settings.connections.clone(),
        header_timeout: Duration::from_secs(config.traffic.header_timeout_s),
        write_timeout: WRITE_TIMEOUT,
        tls,
    }
}

/// Waits for the end of `serving`; after the stop, for at most the grace period, which a second signal cuts short.
async fn serve_until_stopped(
    mut serving: JoinHandle<()>,
    stop: &mut watch::Receiver<bool>,
    mut at_once: watch::Receiver<bool>,
    grace_s: u64,
) -> Result<(), AppError> {
    let overdue = async {
        let _ = stop.wait_for(|stop| *stop).await;
        tokio::time::sleep(Duration::from_secs(grace_s)).await;
    };
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        () = overdue => tracing::warn!(grace_s, "requests still run after the grace period; not waiting"),
        _ = at_once.wait_for(|at_once| *at_once) => tracing::warn!("requests still run at the second signal; not waiting"),
    }
    serving.abort();
    Ok(())
}

/// Loads the model. Reading and verifying the weights and warming up take a moment and block.
async fn start_embedder(config: &Config, limits: &Limits) -> Result<Embedder, AppError> {
    let folder = match config.model() {
        ModelSetting::Fake { dimension } => {
            tracing::warn!(dimension, "the encoder is a fake for tests; its embeddings mean nothing");
            return Ok(Embedder::fake(dimension));
        }
        ModelSetting::Bundle(folder) => folder,
    };
    let options = EmbedOptions {
        device: config.device,
        threads: config.threads,
        batch_tokens_max: config.batch_tokens_max,
        queue_texts_max: limits.embed_queue_texts_max,
    };
    let starting = tokio::task::spawn_blocking(move || {
        Embedder::start(&settings::open_bundle(&folder)?, &options).map_err(AppError::Embedder)
    });
    starting.await?
}

/// Opens the service. Returns `None` if the server is told to stop before it is open: nothing was acknowledged yet, so the next
/// start finds what it would find after a kill.
async fn open_unless_stopped(
    config: &Config,
    embedder: Embedder,
    limits: Limits,
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<Service>, AppError> {
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => {
            tracing::info!("stopped before the data was open");
            Ok(None)
        }
        opened = open_service(config, embedder, limits) => opened.map(Some),
    }
}

/// Returns the configured limits, lowered to what the system and each other allow.
fn possible_limits(config: &Config) -> Limits {
    let mut limits = config.limits.clone();
    limits.databases_open_max = threads::databases_open_max(open_files::databases_open_max(limits.databases_open_max));
    settings::lower_body_limit(&mut limits);
    limits
}

async fn open_service(config: &Config, embedder: Embedder, limits: Limits) -> Result<Service, AppError> {
    let path = config.data.clone();
    let power_safe = config.durability == Durability::Full;
    let parts = Parts { data_dir: path.clone(), embedder, limits, power_safe };
    let (store, replica) = (settings::postgres_options(config)?, settings::replica_options(config)?);
    let on_server = store.is_some();
    let opening = tokio::task::spawn_blocking(move || {
        private_files::keep_private(&parts.data_dir);
        match store {
            Some(options) => Service::open_on_postgres(&options, replica.as_ref(), parts),
            None => Service::open(parts),
        }
    });
    opening.await?.map_err(|source| {
        if on_server {
            return AppError::Store(Box::new(source));
        }
        let (source, (user, group)) = (Box::new(source), writable::current_user_and_group());
        match writable::find_write_obstacle(&path) {
            Some(obstacle) => AppError::NotWritable { path, user, group, obstacle, source },
            None => AppError::Open { path, source },
        }
    })
}

/// The first becomes true at the first SIGTERM or SIGINT, the second one at the next. Signals are caught from now on, even during
/// start-up.
fn stop_signals() -> std::io::Result<(watch::Receiver<bool>, watch::Receiver<bool>)> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (stop, stopped) = watch::channel(false);
    let (at_once, ended_at_once) = watch::channel(false);
    tokio::spawn(async move {
        for sender in [&stop, &at_once] {
            tokio::select! {
                _ = terminate.recv() => (),
                _ = interrupt.recv() => (),
            }
            let _ = sender.send(true);
        }
        // If a sender were dropped, its receivers would stop waiting.
        std::future::pending::<()>().await;
    });
    Ok((stopped, ended_at_once))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_does_not_start_with_a_clock_before_1970() {
        let refused = check_clock("1969-12-31T23:59:59Z".parse().unwrap()).unwrap_err();
        assert_eq!(refused.to_string(), "the clock of this machine must show 1970 or later, got 1969-12-31T23:59:59Z");
        assert!(check_clock(Timestamp::UNIX_EPOCH).is_ok());
    }
}
