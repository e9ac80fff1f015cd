//! `/metrics`: what Prometheus reads, as OpenMetrics or in its text format (`exposition`).
//!
//! Requests and the encoder are counted as they run. The state of the collections is read on request, at most once per
//! `GAUGES_AGE_MAX`, and for at most `COLLECTIONS_MAX` collections, so that a scrape stays cheap even with many collections.

pub mod exposition;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, VARY};
use axum::response::IntoResponse;
use jiff::Timestamp;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::Mutex;

use super::error::ApiError;
use super::settings::{ConnectionCounts, ConnectionMeter, Readings, Settings};
use crate::domain::{Code, JobStatus, JobType};
use crate::service;
use crate::service::error::DATABASE_UNREACHABLE;
use crate::service::gauges::{CollectionGauges, Gauges};
use crate::service::limits::shares::SharedLimit;
use crate::service::snapshots::ScheduleMeter;
use crate::service::{ReplicaState, Service};
use exposition::Exposition;

const PREFIX: &str = "dragoman";
/// How long the state of the collections may be reused.
const GAUGES_AGE_MAX: Duration = Duration::from_secs(5);
/// How long a new reading may take before an earlier one is used instead.
const GAUGES_WAIT: Duration = Duration::from_secs(2);
/// Maximum collections with their own gauges, the first by name; `dragoman_collections` counts all.
const COLLECTIONS_MAX: usize = 1_000;
/// Upper bounds of the latency histogram in seconds.
const LATENCIES_S: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Counts requests. Clones share the counts.
#[derive(Debug, Clone)]
pub struct RequestMeter {
    answered: Family<Labels<2>, Counter>,
    latency_s: Family<Labels<1>, Histogram, fn() -> Histogram>,
    running: Gauge,
}

/// A running request; it counts as running until it is dropped.
pub struct Running<'a>(&'a RequestMeter);

/// Labels by their names.
type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// Numbers that are never negative, by their labels.
type GaugeFamily<const N: usize> = Family<Labels<N>, Gauge<u64, AtomicU64>>;

/// The state of the collections, and when it was read.
type CachedGauges = (Instant, Arc<Gauges>);

#[derive(Clone)]
pub struct Metrics {
    service: Service,
    counted: Arc<Registry>,
    /// The limits that all requests share fairly.
    bounds: Arc<[Arc<SharedLimit>]>,
    /// The connections, whose limit the listener enforces.
    connections: ConnectionMeter,
    readings: Readings,
    cached: Arc<parking_lot::Mutex<Option<CachedGauges>>>,
    /// Locked by who reads the state, so that concurrent requests share one reading.
    reading: Arc<Mutex<()>>,
}

impl Default for RequestMeter {
    fn default() -> Self {
        Self {
            answered: Family::default(),
            latency_s: Family::new_with_constructor(|| Histogram::new(LATENCIES_S)),
            running: Gauge::default(),
        }
    }
}

impl RequestMeter {
    pub fn begin(&self) -> Running<'_> {
        self.running.inc();
        Running(self)
    }
}

impl Running<'_> {
    pub fn end(self, operation: &'static str, status: u16, took: Duration) {
        let status = status.to_string();
        self.0.answered.get_or_create(&[("operation", operation.into()), ("status", status.into())]).inc();
        self.0.latency_s.get_or_create(&[("operation", operation.into())]).observe(took.as_secs_f64());
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.dec();
    }
}

impl Metrics {
    /// Registers the metrics that are counted as they happen.
    pub fn new(
        service: &Service,
        requests: &RequestMeter,
        bounds: Vec<Arc<SharedLimit>>,
        settings: &Settings,
        started_at: Timestamp,
    ) -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let model = service.model();
        let build = [
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("model", model.name.clone()),
            ("model_version", model.version.clone()),
        ];
        registry.register("build", "The program and its model", Info::new(build.to_vec()));
        let started = ConstGauge::new(started_at.as_millisecond() as f64 / 1e3);
        let about = "When the server started to serve, since the Unix epoch";
        registry.register_with_unit("start_time", about, Unit::Seconds, started);

        registry.register("requests", "Requests answered", requests.answered.clone());
        let about = "Time from the head of a request to the head of its response";
        registry.register_with_unit("request", about, Unit::Seconds, requests.latency_s.clone());
        registry.register("requests_running", "Running requests", requests.running.clone());

        let meter = service.embed_meter().clone();
        registry.register_with_unit("embed_wait", "Time that a text waited for the encoder", Unit::Seconds, meter.wait_s);
        registry.register_with_unit("embed_batch", "Duration of a forward pass", Unit::Seconds, meter.batch_s);
        registry.register("embed_batch_texts", "Texts in a forward pass", meter.batch_texts);
        registry.register("embed_texts", "Texts embedded", meter.texts);
        registry.register("embed_tokens", "Embedded tokens, without padding", meter.tokens);
        registry.register("embed_failures", "Forward passes that failed", meter.failures);
        Self {
            service: service.clone(),
            counted: Arc::new(registry),
            bounds: bounds.into(),
            connections: settings.connections.clone(),
            readings: settings.readings.clone(),
            cached: Arc::default(),
            reading: Arc::default(),
        }
    }

    /// Serves the metrics, in the form that the client asks for.
    pub async fn serve(self, headers: HeaderMap) -> Result<impl IntoResponse, ApiError> {
        let gauges = self.gauges().await?;
        let mut state = gauge_registry(&gauges, self.service.embed_queue_texts());
        register_bounds(&mut state, &self.bounds, &self.connections);
        register_readings(&mut state, &self.readings);
        register_schedule(&mut state, self.service.schedule_meter());
        if let Some(replica) = self.service.replica_state() {
            register_replica(&mut state, &replica);
        }
        let mut text = String::new();
        let written = encode_registry(&mut text, &self.counted)
            .and_then(|()| encode_registry(&mut text, &state))
            .and_then(|()| encode_eof(&mut text));
        written.map_err(|error| ApiError::internal(format!("the metrics cannot be written: {error}")))?;
        let form = Exposition::negotiate(&headers);
        Ok(([(CONTENT_TYPE, form.media_type()), (VARY, "accept")], form.convert(text)))
    }

    /// The state of the server, at most a few seconds old. If reading it takes longer than `GAUGES_WAIT`, or if the database
    /// server is unreachable, the last known one: what is counted needs no database, so an outage must not hide it.
    async fn gauges(&self) -> Result<Arc<Gauges>, ApiError> {
        let last = self.cached.lock().clone();
        // A task of its own, so that a slow reading is not in vain.
        let reading = tokio::spawn(self.clone().read_gauges());
        let Some((_, last)) = last else { return reading.await.map_err(service::Error::from)? };
        match tokio::time::timeout(GAUGES_WAIT, reading).await {
            Ok(Ok(Ok(gauges))) => Ok(gauges),
            _ => Ok(last),
        }
    }

    /// Reads the state of the server, unless it has just been read.
    async fn read_gauges(self) -> Result<Arc<Gauges>, ApiError> {
        let _reading = self.reading.lock().await;
        let fresh = self.cached.lock().clone().filter(|(read_at, _)| read_at.elapsed() < GAUGES_AGE_MAX);
        if let Some((_, gauges)) = fresh {
            return Ok(gauges);
        }
        let unreachable = || ApiError::new(Code::StorageUnavailable, DATABASE_UNREACHABLE);
        let gauges = Arc::new(self.service.gauges().await?.ok_or_else(unreachable)?);
        *self.cached.lock() = Some((Instant::now(), Arc::clone(&gauges)));
        Ok(gauges)
    }
}

/// Values read at the moment of the scrape.
fn gauge_registry(gauges: &Gauges, embed_queue_texts: usize) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register("embed_queue_texts", "Texts waiting for the encoder", ConstGauge::new(embed_queue_texts as u64));
    registry.register("collections", "Collections", ConstGauge::new(gauges.collections.len() as u64));
    let damaged = "Collections with a damaged database";
    registry.register("collections_damaged", damaged, ConstGauge::new(gauges.collections_damaged));
    let replaced = "Copies of replaced collections that are not removed yet, for example because an export still reads them";
    registry.register("collections_replaced", replaced, ConstGauge::new(gauges.collections_replaced));
    registry.register("jobs", "Jobs that the server remembers", job_gauges(gauges));
    if let Some(bytes) = resident_bytes() {
        registry.register_with_unit("resident_memory", "Memory of the process", Unit::Bytes, ConstGauge::new(bytes));
    }
    type Read = fn(&CollectionGauges) -> u64;
    let of_collections: [(&str, &str, Option<Unit>, Read); 6] = [
        ("documents", "Documents", None, |collection| collection.counts.documents),
        ("passages", "Passages", None, |collection| collection.counts.passages),
        ("passages_pending", "Passages that are not searchable yet", None, |collection| collection.counts.passages_pending),
        ("disk", "Database, saved index and write-ahead log on disk", Some(Unit::Bytes), |collection| {
            collection.counts.disk_bytes
        }),
        ("index_disk", "Saved index on disk", Some(Unit::Bytes), |collection| collection.index_bytes),
        ("log_disk", "Write-ahead log on disk", Some(Unit::Bytes), |collection| collection.log_bytes),
    ];
    for (name, help, unit, read) in of_collections {
        let family = GaugeFamily::default();
        for collection in gauges.collections.iter().take(COLLECTIONS_MAX) {
            family.get_or_create(&[("collection", collection.name.as_str().to_owned().into())]).set(read(collection));
        }
        let name = format!("collection_{name}");
        match unit {
            Some(unit) => registry.register_with_unit(name, help, unit, family),
            None => registry.register(name, help, family),
        }
    }
    registry
}

/// Each limit, how much of it is in use, and how often it was reached.
fn register_bounds(registry: &mut Registry, bounds: &[Arc<SharedLimit>], connections: &ConnectionCounts) {
    let (limits, used, refused) = (GaugeFamily::default(), GaugeFamily::default(), Family::<Labels<1>, Counter>::default());
    let add = |name: &'static str, [limit, in_use, refusals]: [u64; 3]| {
        let label = [("bound", name.into())];
        limits.get_or_create(&label).set(limit);
        used.get_or_create(&label).set(in_use);
        refused.get_or_create(&label).inc_by(refusals);
    };
    for bound in bounds {
        add(bound.name(), [bound.limit(), bound.used(), bound.refused()]);
    }
    let ConnectionCounts { open, limit, evicted } = connections;
    add("connections_max", [limit, open, evicted].map(|count| count.load(Ordering::Relaxed)));
    registry.register("bound_limit", "Limits that all requests share, by the name of their setting", limits);
    registry.register("bound_used", "How much of each limit is in use", used);
    registry.register("bound_refusals", "Refusals at the limit; for connections: idle ones closed to make room", refused);
}

/// The log and the certificate, which other parts of the program look after.
fn register_readings(registry: &mut Registry, readings: &Readings) {
    if let Some(dropped) = &readings.log_lines_dropped {
        let about = "Log lines dropped because their reader was too slow";
        registry.register("log_lines_dropped", about, ConstCounter::new(dropped()));
    }
    if let Some(expiry) = &readings.certificate_expiry_s {
        let about = "When the TLS certificate expires, since the Unix epoch; 0 if that cannot be read";
        registry.register_with_unit("tls_certificate_expiry", about, Unit::Seconds, ConstGauge::new(expiry()));
    }
}

fn register_schedule(registry: &mut Registry, meter: &ScheduleMeter) {
    let counts = [("stored", &meter.stored), ("unchanged", &meter.unchanged), ("failed", &meter.failed)];
    let results = results(counts.map(|(result, count)| (result, count.load(Ordering::Relaxed))));
    registry.register("scheduled_snapshots", "Scheduled snapshots, by outcome", results);
    let last = ConstGauge::new(meter.last_ms.load(Ordering::Relaxed) as f64 / 1e3);
    let about = "When the target was last known to have the server's state, since the Unix epoch; 0 if not since the start";
    registry.register_with_unit("scheduled_snapshot_time", about, Unit::Seconds, last);
}

/// The state of the database server's replica. Its lag is left out while it is unknown.
fn register_replica(registry: &mut Registry, replica: &ReplicaState) {
    registry.register("replica_up", "Whether the replica answers reads", ConstGauge::new(u64::from(replica.answers)));
    let about = "Reads that the replica may answer, by outcome";
    registry.register("replica_reads", about, results(replica.reads.iter().copied()));
    let Some(lag) = replica.lag else { return };
    let (bytes, age_s) = (ConstGauge::new(lag.bytes), ConstGauge::new(lag.age.as_secs_f64()));
    registry.register_with_unit("replica_lag", "Log that the replica has not applied yet", Unit::Bytes, bytes);
    registry.register_with_unit("replica_age", "Age of the replica's state", Unit::Seconds, age_s);
}

fn results(counts: impl IntoIterator<Item = (&'static str, u64)>) -> Family<Labels<1>, Counter> {
    let family = Family::<Labels<1>, Counter>::default();
    for (result, count) in counts {
        family.get_or_create(&[("result", result.into())]).inc_by(count);
    }
    family
}

/// Jobs by type and status, including zeros, so that an alert can compare with the time before the first job.
fn job_gauges(gauges: &Gauges) -> GaugeFamily<2> {
    let family = GaugeFamily::default();
    for kind in &JobType::ALL {
        for status in &JobStatus::ALL {
            let counts = gauges
                .jobs
                .iter()
                .filter(|(job_kind, job_status, _)| job_kind == kind && job_status == status)
                .map(|(_, _, count)| *count);
            let labels = [("type", kind.name().into()), ("status", status.name().into())];
            family.get_or_create(&labels).set(counts.sum());
        }
    }
    family
}

/// Memory of this process, on systems that report it as Linux does.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::CollectionCounts;

    #[test]
    fn job_counts_include_zeros_for_every_type_and_status() {
        let jobs = vec![(JobType::Mine, JobStatus::Failed, 3)];
        let mut text = String::new();
        let gauges = Gauges { collections: Vec::new(), collections_damaged: 0, collections_replaced: 0, jobs };
        encode_registry(&mut text, &gauge_registry(&gauges, 0)).unwrap();
        assert!(text.contains("dragoman_jobs{type=\"mine\",status=\"failed\"} 3\n"), "{text}");
        assert!(text.contains("dragoman_jobs{type=\"import\",status=\"running\"} 0\n"), "{text}");
        assert_eq!(text.matches("dragoman_jobs{").count(), JobType::ALL.len() * JobStatus::ALL.len());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn resident_memory_is_known_and_exceeds_one_mebibyte() {
        let bytes = resident_bytes();
        assert!(bytes.is_some_and(|bytes| bytes > 1 << 20), "{bytes:?}");
    }

    #[test]
    fn collections_beyond_the_bound_are_only_counted() {
        let gauges_of = |number: usize| CollectionGauges {
            name: crate::domain::CollectionName::parse(&format!("c{number:05}")).unwrap(),
            counts: CollectionCounts { documents: 7, ..CollectionCounts::default() },
            index_bytes: 0,
            log_bytes: 0,
        };
        let collections = (0..COLLECTIONS_MAX + 1).map(gauges_of).collect();
        let gauges = Gauges { collections, collections_damaged: 1, collections_replaced: 2, jobs: Vec::new() };
        let mut text = String::new();
        encode_registry(&mut text, &gauge_registry(&gauges, 3)).unwrap();
        assert!(text.contains("dragoman_collections 1001\n"), "{text}");
        assert!(text.contains("dragoman_collection_documents{collection=\"c00999\"} 7\n") && !text.contains("c01000"));
        assert!(text.contains("dragoman_embed_queue_texts 3\n") && text.contains("dragoman_collections_damaged 1\n"));
        assert!(text.contains("dragoman_collections_replaced 2\n"), "{text}");
    }
}
