//! Turns settings into options of the parts (HTTP, keys, TLS, storage, snapshots), and validates them before anything starts.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::error::AppError;
use crate::bundle::{Bundle, MANIFEST};
use crate::config::{Config, Durability, ModelSetting};
use crate::domain::{Limits, Secret};
use crate::http::middleware::hosts::{Hosts, Origin};
use crate::http::settings::{Rate, Settings};
use crate::server::Tls;
use crate::service::snapshots::schedule::SnapshotSchedule;
use crate::service::{PostgresOptions, ReplicaOptions};
use crate::targets::{self, Target, TargetError};

/// Minimum length of an admin key, in characters. 16 are enough for a random key.
const ADMIN_KEY_CHARS_MIN: usize = 16;

/// Checks everything that can be wrong with the settings themselves, without starting or changing anything. Returns warnings
/// about suspicious settings that do not keep the server from starting.
pub fn check(config: &Config) -> Result<Option<String>, AppError> {
    http_settings(config)?;
    let warning = load_tls(config)?.and_then(|tls| tls.warning(Timestamp::now()));
    postgres_options(config)?;
    replica_options(config)?;
    let key = admin_key(config)?;
    if let Some(target) = &config.snapshots.snapshot_target {
        targets::parse(target, config.snapshots.snapshot_endpoint.as_deref()).map_err(snapshot_target_error)?;
    }
    check_data_folder(config)?;
    let addresses = config.listen.to_socket_addrs().map_err(|source| listen_error(&config.listen, source))?;
    // Only the server reads the keys in the catalog, because one may be running right now.
    if !config.data.join("catalog.sqlite").exists() && config.store.store.is_none() {
        for address in addresses {
            check_exposure(address, key.is_some(), config)?;
        }
    }
    if let ModelSetting::Bundle(folder) = config.model() {
        open_bundle(&folder)?;
    }
    Ok(warning)
}

/// A missing folder is created later.
pub(super) fn check_data_folder(config: &Config) -> Result<(), AppError> {
    match config.data.is_file() {
        true => refuse("data", format!("must be a folder, got the file {}", config.data.display())),
        false => Ok(()),
    }
}

pub(super) fn listen_error(address: &str, source: std::io::Error) -> AppError {
    let source = match source.kind() {
        std::io::ErrorKind::InvalidInput => std::io::Error::new(source.kind(), "it must be HOST:PORT, such as 127.0.0.1:7700"),
        _ => source,
    };
    AppError::Listen { address: address.to_owned(), source }
}

fn refuse<T>(setting: &'static str, problem: impl Into<String>) -> Result<T, AppError> {
    Err(AppError::Setting { setting, problem: problem.into() })
}

/// Opens the bundle and verifies its files.
pub(super) fn open_bundle(folder: &Path) -> Result<Bundle, AppError> {
    if !folder.join(MANIFEST).exists() {
        return Err(AppError::NoModel { path: folder.to_owned() });
    }
    Bundle::open(folder).map_err(|source| AppError::Bundle { path: folder.to_owned(), source })
}

/// The database server that stores everything, if one is set.
pub(super) fn postgres_options(config: &Config) -> Result<Option<PostgresOptions>, AppError> {
    let settings = &config.store;
    let Some(url) = settings.store.as_ref().map(Secret::expose) else { return Ok(None) };
    if !is_postgres(url) {
        // The value may contain a password.
        return refuse("store", "must begin with postgres://");
    }
    if config.durability == Durability::Relaxed {
        return refuse("durability", "cannot be relaxed together with store: a database server always uses full");
    }
    if config.snapshots.snapshot_target.is_some() {
        return refuse("snapshot_target", "cannot be set together with store: back up the database with its own tools");
    }
    let (url, authorities) = (url.to_owned(), settings.store_authorities.clone());
    Ok(Some(PostgresOptions { url, authorities, connections_max: settings.store_connections_max }))
}

/// The replica of the database server that answers reads, if one is set.
pub(super) fn replica_options(config: &Config) -> Result<Option<ReplicaOptions>, AppError> {
    let settings = &config.store;
    let Some(url) = settings.store_replica.as_ref().map(Secret::expose) else { return Ok(None) };
    if settings.store.is_none() {
        return refuse("store_replica", "is set without store, whose replica it must be");
    }
    if !is_postgres(url) {
        return refuse("store_replica", "must begin with postgres://");
    }
    let lag_max = Duration::from_millis(settings.store_replica_lag_max_ms);
    Ok(Some(ReplicaOptions { url: url.to_owned(), lag_max }))
}

/// Whether a setting is the address of a database server.
pub(super) fn is_postgres(url: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme))
}

pub(super) fn http_settings(config: &Config) -> Result<Settings, AppError> {
    let traffic = &config.traffic;
    let origins = config.access.cors_origins.iter().map(|text| Origin::parse(text)).collect::<Result<Vec<_>, _>>();
    let cors_origins = origins.map_err(|problem| AppError::Setting { setting: "cors_origins", problem })?;
    let hosts = Hosts::parse(&config.access.hosts).map_err(|problem| AppError::Setting { setting: "hosts", problem })?;
    Ok(Settings {
        hosts,
        requests_max: traffic.requests_max,
        event_streams_max: traffic.event_streams_max,
        caller_requests_max: Some(traffic.caller_requests_max).filter(|max| *max > 0),
        rate: Some(Rate { per_second: traffic.rate_per_s, burst: traffic.rate_burst }).filter(|rate| rate.per_second > 0.0),
        request_timeout: Duration::from_secs(traffic.request_timeout_s),
        cors_origins,
        metrics_open: config.access.metrics_open,
        mcp: config.access.mcp,
        ..Settings::default()
    })
}

/// Limits requests and event streams so that some connections are always idle: one of them can be closed for the next caller,
/// which may be a mere health check.
pub(super) fn reserve_idle_connections(http_settings: &mut Settings, connections_max: usize) {
    http_settings.requests_max = http_settings.requests_max.min((connections_max / 2).max(1));
    http_settings.event_streams_max = http_settings.event_streams_max.min((connections_max / 4).max(1));
}

/// Lowers the limit on bodies to what a single caller can send: bodies count twice, and a caller gets half of the memory for
/// requests. A larger body would be refused each time it is sent again.
pub(super) fn lower_body_limit(limits: &mut Limits) {
    let (wanted, in_flight_bytes_max) = (limits.body_bytes_max, limits.in_flight_bytes_max);
    let most = usize::try_from(in_flight_bytes_max / 4).unwrap_or(usize::MAX).max(1);
    if wanted > most {
        limits.body_bytes_max = most;
        tracing::warn!(
            body_bytes_max = most,
            wanted,
            in_flight_bytes_max,
            "a request body may take at most a quarter of in_flight_bytes_max; accepting smaller bodies than body_bytes_max says"
        );
    }
}

/// The admin key, given directly or in a file.
pub(super) fn admin_key(config: &Config) -> Result<Option<Secret>, AppError> {
    let (setting, secret) = match (&config.access.admin_key, &config.access.admin_key_file) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return refuse("admin_key", "cannot be set together with admin_key_file"),
        (Some(secret), None) => ("admin_key", secret.clone()),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|source| AppError::KeyFile { path: path.clone(), source })?;
            ("admin_key_file", Secret::from(text.lines().next().unwrap_or_default().trim()))
        }
    };
    let got = secret.expose().chars().count();
    if got < ADMIN_KEY_CHARS_MIN {
        return refuse(setting, format!("must have at least {ADMIN_KEY_CHARS_MIN} characters, got {got}"));
    }
    if let Some(bad) = secret.expose().chars().find(|c| !c.is_ascii_graphic() && *c != ' ') {
        let problem = format!("must consist of printable ASCII characters, as a header does, got U+{:04X}", u32::from(bad));
        return refuse(setting, problem);
    }
    if secret.expose().trim() != secret.expose() {
        return refuse(setting, "must not begin or end with a space, because headers drop it");
    }
    Ok(Some(secret))
}

/// The schedule of snapshots, if one is set, with a target that was found to be writable.
pub(super) async fn snapshot_schedule(config: &Config) -> Result<Option<SnapshotSchedule>, AppError> {
    let settings = &config.snapshots;
    let Some(name) = &settings.snapshot_target else { return Ok(None) };
    let target = Target::open(name, settings.snapshot_endpoint.as_deref()).map_err(snapshot_target_error)?;
    if let (Ok(folder), Ok(data)) = (Path::new(name).canonicalize(), config.data.canonicalize())
        && folder.starts_with(&data)
    {
        let problem = format!("must be outside of the data directory {}, got {name:?}", data.display());
        return refuse("snapshot_target", problem);
    }
    target.check_writable().await.map_err(|error| AppError::SnapshotTarget(Box::new(error)))?;
    let interval = Duration::from_secs(settings.snapshot_interval_s);
    Ok(Some(SnapshotSchedule { target, interval, keep: settings.snapshot_keep }))
}

fn snapshot_target_error(error: TargetError) -> AppError {
    match error {
        TargetError::Invalid(problem) => AppError::Setting { setting: "snapshot_target", problem },
        error => AppError::SnapshotTarget(Box::new(error)),
    }
}

/// Certificate and key, if set.
pub(super) fn load_tls(config: &Config) -> Result<Option<Arc<Tls>>, AppError> {
    let alone = |setting, other| refuse(setting, format!("is set without {other}; TLS needs both"));
    match (&config.access.tls_certificate, &config.access.tls_key) {
        (None, None) => Ok(None),
        (Some(_), None) => alone("tls_certificate", "tls_key"),
        (None, Some(_)) => alone("tls_key", "tls_certificate"),
        (Some(certificate), Some(key)) => Ok(Some(Arc::new(Tls::open(certificate, key).map_err(AppError::Tls)?))),
    }
}

/// Refuses to serve other machines without any key, unless --insecure is set; warns if keys are sent unencrypted.
pub(super) fn check_exposure(address: SocketAddr, has_keys: bool, config: &Config) -> Result<(), AppError> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    if !has_keys && !config.access.insecure {
        return Err(AppError::Exposed { address });
    }
    if !has_keys {
        tracing::warn!(%address, "there are no keys: other machines can read and change everything");
    } else if config.access.tls_certificate.is_none() {
        tracing::warn!(%address, "keys and texts travel unencrypted, because TLS is off; a proxy in front of the server can provide it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_may_take_at_most_a_quarter_of_the_memory_for_requests() {
        for (body_bytes_max, in_flight_bytes_max, expect) in [(100, 400, 100), (101, 400, 100), (1, 3, 1)] {
            let mut limits = Limits { body_bytes_max, in_flight_bytes_max, ..Limits::default() };
            lower_body_limit(&mut limits);
            assert_eq!(limits.body_bytes_max, expect, "{body_bytes_max} of {in_flight_bytes_max}");
        }
    }
}
