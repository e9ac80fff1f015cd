//! Composition root: start-up order and shutdown.

use std::future::IntoFuture as _;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::bundle::{Bundle, BundleError, MANIFEST};
use crate::config::{Config, DeviceSetting, Durability, ModelSetting};
use crate::domain::Limits;
use crate::embed::{DeviceChoice, EmbedError, EmbedOptions, Embedder};
use crate::http;
use crate::service::{self, Parts, Service};

/// Why the server did not start, or did not stop in order.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// There is no bundle in the folder.
    #[error("there is no model in {} (no {MANIFEST}); name a bundle's folder with --model", path.display())]
    NoModel {
        /// The folder.
        path: PathBuf,
    },
    /// The bundle cannot be used.
    #[error("cannot use the model in {}", path.display())]
    Bundle {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: BundleError,
    },
    /// The encoder cannot be started.
    #[error("cannot start the encoder")]
    Embedder(#[source] EmbedError),
    /// The data directory cannot be opened.
    #[error("cannot open the data directory {}", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<service::Error>,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The listener failed while serving, or signals cannot be received.
    #[error("serving failed")]
    Serve(#[source] std::io::Error),
    /// Something could not be saved or closed at the end. What was acknowledged is in the databases all the same.
    #[error("shutting down failed")]
    Shutdown(#[source] Box<service::Error>),
    /// A task on another thread panicked.
    #[error("a start-up task failed")]
    Task(#[from] tokio::task::JoinError),
}

/// Runs the server until SIGTERM or SIGINT.
///
/// The address is taken first, so that a second server on it fails at once, and answers when the service is open; recovery
/// of the indexes goes on in the background while `/healthz` answers. At the end requests in flight get their time, then the
/// indexes are saved and the databases closed.
pub async fn run(config: Config) -> Result<(), AppError> {
    let mut stop = stop_signal().map_err(AppError::Serve)?;
    let listen = |source| AppError::Listen { address: config.listen.clone(), source };
    let listener = TcpListener::bind(&config.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let limits = limits(&config);
    let embedder = start_embedder(&config, &limits).await?;
    let model = embedder.model();
    tracing::info!(model = %model.name, version = %model.version, device = ?model.device, note = model.device_note, "model loaded");
    let service = open_service(&config, embedder.clone(), limits).await?;
    tracing::info!(%address, "listening");

    let mut stopping = stop.clone();
    let graceful = async move {
        let _ = stopping.wait_for(|stop| *stop).await;
    };
    let serving = axum::serve(listener, http::router(service.clone())).with_graceful_shutdown(graceful).into_future();
    let grace = Duration::from_secs(config.shutdown_grace_s);
    let overdue = async {
        let _ = stop.wait_for(|stop| *stop).await;
        tracing::info!("stopping");
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        served = serving => served.map_err(AppError::Serve)?,
        () = overdue => tracing::warn!(grace_s = config.shutdown_grace_s, "requests still run after the grace period, ending them"),
    }
    service.shutdown().await.map_err(|source| AppError::Shutdown(Box::new(source)))?;
    embedder.stop();
    tracing::info!("stopped");
    Ok(())
}

/// Loads the model. Reading and checking the weights and warming up take a moment and block.
async fn start_embedder(config: &Config, limits: &Limits) -> Result<Embedder, AppError> {
    let folder = match config.model() {
        ModelSetting::Fake { dimension } => {
            tracing::warn!(dimension, "the encoder is a stand-in for tests, its answers mean nothing");
            return Ok(Embedder::fake(dimension));
        }
        ModelSetting::Bundle(folder) => folder,
    };
    let options = EmbedOptions {
        device: match config.device {
            DeviceSetting::Auto => DeviceChoice::Auto,
            DeviceSetting::Cpu => DeviceChoice::Cpu,
            DeviceSetting::Cuda(device) => DeviceChoice::Cuda(device),
        },
        threads: config.threads,
        batch_tokens_max: config.batch_tokens_max,
        queue_texts_max: limits.embed_queue_texts_max,
    };
    let starting = tokio::task::spawn_blocking(move || {
        if !folder.join(MANIFEST).exists() {
            return Err(AppError::NoModel { path: folder });
        }
        let bundle = Bundle::open(&folder).map_err(|source| AppError::Bundle { path: folder, source })?;
        Embedder::start(&bundle, &options).map_err(AppError::Embedder)
    });
    starting.await?
}

async fn open_service(config: &Config, embedder: Embedder, limits: Limits) -> Result<Service, AppError> {
    let path = config.data.clone();
    let power_safe = config.durability == Durability::Full;
    let parts = Parts { data_dir: path.clone(), embedder, limits, power_safe };
    let opening = tokio::task::spawn_blocking(move || Service::open(parts));
    opening.await?.map_err(|source| AppError::Open { path, source: Box::new(source) })
}

fn limits(config: &Config) -> Limits {
    Limits {
        body_bytes_max: config.body_bytes_max,
        embed_queue_texts_max: config.embed_queue_texts_max,
        write_queue_max: config.write_queue_max,
        ..Limits::default()
    }
}

/// Becomes true at the first SIGTERM or SIGINT. Signals are caught from now on, also during start-up.
fn stop_signal() -> std::io::Result<watch::Receiver<bool>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
        let _ = sender.send(true);
    });
    Ok(receiver)
}
