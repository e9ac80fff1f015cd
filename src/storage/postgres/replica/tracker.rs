//! Tracks a replica: whether it answers, and how old its state is by how much of the log it has applied.
//!
//! The age is measured without comparing clocks. The watcher notes where the log of the primary ended, and when it asked. A
//! replica that has applied the log up to that point sees everything that was acknowledged by then.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use r2d2::Pool;

use crate::storage::postgres::connector::Manager;
use crate::storage::postgres::fault::Fault;
use crate::store::StoreError;

/// Longest time between two checks of the watcher.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(1);
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(10);
/// How long the result of a check is valid.
const CHECK_VALIDITY: Duration = Duration::from_secs(3);
/// How long a read waits for a connection. It is short, because the primary can answer instead.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of remembered log positions that the replica has not applied.
const ENDS_MAX: usize = 4_096;

/// How far a replica is behind its primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaLag {
    /// Bytes of the write-ahead log that it has not applied yet.
    pub bytes: u64,
    /// How old its state is.
    pub age: Duration,
}

/// Where the primary's log ended at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogEnd {
    /// When the primary was asked, measured before the question.
    pub(super) read_at: Instant,
    /// Position in the log in bytes.
    pub(super) bytes: i64,
    /// The time by the primary's clock.
    pub(super) now_ms: i64,
}

/// What a read must see.
pub(crate) struct RequiredState {
    /// The mark of the primary's timeline.
    pub(crate) mark: String,
    /// The collection's changes up to this one.
    pub(crate) sequence: i64,
    /// The log up to this position, in bytes.
    pub(crate) log_bytes: Option<i64>,
    /// The time by the primary's clock, which decides which documents have expired.
    pub(crate) now_ms: i64,
}

pub(crate) struct ReplicaTracker {
    manager: Manager,
    connections_max: u32,
    lag_max: Duration,
    state: RwLock<TrackedState>,
}

struct TrackedState {
    pool: Option<Pool<Manager>>,
    answers: bool,
    checked_at: Instant,
    lag: Option<ReplicaLag>,
    system: String,
    mark: String,
    /// Sorted by time. The first is the newest one that the replica has applied, if it has applied any.
    ends: VecDeque<LogEnd>,
}

impl ReplicaTracker {
    pub(super) fn new(manager: &Manager, lag_max: Duration, connections_max: u32) -> Self {
        let state = TrackedState {
            pool: None,
            answers: false,
            checked_at: Instant::now(),
            lag: None,
            system: String::new(),
            mark: String::new(),
            ends: VecDeque::new(),
        };
        Self { manager: manager.clone(), connections_max, lag_max, state: RwLock::new(state) }
    }

    /// Returns the time until the next check.
    pub(super) fn interval(&self) -> Duration {
        if self.lag_max.is_zero() { CHECK_INTERVAL_MAX } else { (self.lag_max / 4).clamp(CHECK_INTERVAL_MIN, CHECK_INTERVAL_MAX) }
    }

    /// Whether reads use the replica.
    pub(crate) fn answers(&self) -> bool {
        self.state.read().is_usable()
    }

    pub(super) fn pool(&self) -> Option<Pool<Manager>> {
        let state = self.state.read();
        state.pool.clone().filter(|_| state.is_usable())
    }

    /// Returns the prefix of the names of the primary's timelines.
    pub(crate) fn system(&self) -> String {
        self.state.read().system.clone()
    }

    pub(super) fn lag(&self) -> Option<ReplicaLag> {
        let state = self.state.read();
        state.lag.filter(|_| state.is_usable())
    }

    /// Returns what a search that may see an older state must still see. `None` if searches may not, or if that is not known.
    pub(crate) fn recent(&self) -> Option<RequiredState> {
        if self.lag_max.is_zero() {
            return None;
        }
        let state = self.state.read();
        let end = state.ends.iter().find(|end| end.read_at.elapsed() <= self.lag_max)?;
        let since_ms = i64::try_from(end.read_at.elapsed().as_millis()).unwrap_or(i64::MAX);
        let (mark, now_ms) = (state.mark.clone(), end.now_ms.saturating_add(since_ms));
        Some(RequiredState { mark, sequence: 0, log_bytes: Some(end.bytes), now_ms })
    }

    /// Stops reads from using the replica until `mark_healthy`.
    pub(crate) fn pause(&self) {
        self.state.write().answers = false;
    }

    /// Like `pause`, after a check found that it is unreachable or not a replica.
    pub(super) fn mark_unavailable(&self) {
        let mut state = self.state.write();
        (state.lag, state.answers) = (None, false);
    }

    /// Records a new primary, or the same one after it was unreachable.
    pub(super) fn record_primary(&self, system: String, mark: String) {
        let mut state = self.state.write();
        (state.system, state.mark) = (system, mark);
        state.ends.clear();
    }

    pub(super) fn record_log_end(&self, end: LogEnd) {
        let ends = &mut self.state.write().ends;
        if ends.len() < ENDS_MAX {
            ends.push_back(end);
        }
    }

    /// Records that the replica is healthy and has applied the log up to `applied` bytes.
    pub(super) fn mark_healthy(&self, applied: i64) -> Result<(), StoreError> {
        // Makes a new pool after a failure, because earlier connections are broken.
        let was_healthy = self.state.read().answers;
        let pool = (!was_healthy).then(|| pool(&self.manager, self.connections_max)).transpose()?;
        let mut state = self.state.write();
        state.lag = lag(&mut state.ends, applied);
        state.checked_at = Instant::now();
        state.answers = true;
        let left = pool.and_then(|pool| state.pool.replace(pool));
        drop(state);
        // Dropped outside the lock, because closing connections takes a moment.
        drop(left);
        Ok(())
    }
}

impl TrackedState {
    fn is_usable(&self) -> bool {
        self.answers && self.checked_at.elapsed() < CHECK_VALIDITY
    }
}

/// Returns how far a replica that has applied this much is behind. Forgets ends that are older than the newest one that it has
/// reached.
fn lag(ends: &mut VecDeque<LogEnd>, applied: i64) -> Option<ReplicaLag> {
    while ends.get(1).is_some_and(|next| next.bytes <= applied) {
        ends.pop_front();
    }
    let (first, last) = (ends.front()?, ends.back()?);
    let bytes = u64::try_from(last.bytes - applied).unwrap_or_default();
    let age = if bytes == 0 { Duration::ZERO } else { first.read_at.elapsed() };
    Some(ReplicaLag { bytes, age })
}

fn pool(manager: &Manager, connections_max: u32) -> Result<Pool<Manager>, StoreError> {
    // If a connection turns out to be broken, the read goes to the primary, so connections are not tested beforehand.
    Pool::builder()
        .max_size(connections_max.max(1))
        .min_idle(Some(0))
        .test_on_check_out(false)
        .connection_timeout(CONNECTION_TIMEOUT)
        .build(manager.clone())
        .map_err(|error| Fault::from(error).into_store_error("connecting to the replica"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replica_lag_is_measured_from_the_newest_log_end_it_has_reached() {
        let now = Instant::now();
        let end = |seconds: u64, bytes| LogEnd { read_at: now - Duration::from_secs(seconds), bytes, now_ms: 0 };
        let all: VecDeque<_> = [end(50, 100), end(40, 200), end(30, 200), end(20, 300)].into();
        for (applied, bytes, age_s, left) in
            [(100, 200, 50, 4), (150, 150, 50, 4), (200, 100, 30, 2), (300, 0, 0, 1), (400, 0, 0, 1)]
        {
            let mut ends = all.clone();
            let lag = lag(&mut ends, applied).unwrap();
            assert_eq!((lag.bytes, lag.age.as_secs(), ends.len()), (bytes, age_s, left), "{applied}");
        }
        assert_eq!(lag(&mut VecDeque::new(), 1), None);
    }
}
