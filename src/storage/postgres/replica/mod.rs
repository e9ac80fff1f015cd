//! A streaming replica that answers reads: connections to it, its state, and counts of reads. `watch` monitors it.
//! `crate::storage::postgres::read_routing` decides which reads it answers.
//!
//! Nothing fails because of the replica. The primary answers whatever the replica cannot.

mod tracker;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use r2d2::PooledConnection;

use super::connector::Manager;
use super::fault::Fault;
use crate::store::StoreError;
pub(super) use tracker::RequiredState;
use tracker::{ReplicaLag, ReplicaTracker};
use watch::Watcher;

/// How to reach a replica, and what it may answer.
#[derive(Debug, Clone)]
pub struct ReplicaOptions {
    /// A URL, `postgres://user:password@host/database`, or key-value pairs as in libpq.
    pub url: String,
    /// How old the state that a search sees may be. With zero, a search sees everything that was acknowledged before it began.
    pub lag_max: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaState {
    /// Whether reads use it.
    pub answers: bool,
    /// How far it is behind the primary, if it was checked recently.
    pub lag: Option<ReplicaLag>,
    /// Counts of reads since the start, each with the name of its outcome.
    pub reads: Vec<(&'static str, u64)>,
}

/// The outcome of a read that the replica may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The replica answered.
    Replica,
    /// The replica had not applied everything that the read must see.
    Behind,
    /// The replica was not asked, because it did not answer recently or is no longer a replica.
    Unavailable,
    /// The replica failed, or ended the read because it conflicted with changes to apply.
    Failed,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Replica, Self::Behind, Self::Unavailable, Self::Failed];

    /// The label in the metrics, which dashboards use.
    fn name(self) -> &'static str {
        match self {
            Self::Replica => "replica",
            Self::Behind => "behind",
            Self::Unavailable => "away",
            Self::Failed => "failed",
        }
    }
}

/// A replica, monitored until this is dropped.
pub(super) struct Replica {
    pub(super) tracker: Arc<ReplicaTracker>,
    counts: [AtomicU64; Outcome::ALL.len()],
    _watcher: Watcher,
}

impl Replica {
    /// Starts to monitor the replica. Fails if it is not a replica of this primary. An unreachable replica may come back later.
    pub(super) fn start(options: &ReplicaOptions, primary: &Manager, connections_max: u32) -> Result<Self, StoreError> {
        let manager = primary.for_replica(&options.url)?;
        let tracker = Arc::new(ReplicaTracker::new(&manager, options.lag_max, connections_max));
        let watcher = Watcher::start(primary.without_types(), manager.without_types(), &tracker)?;
        Ok(Self { tracker, counts: Default::default(), _watcher: watcher })
    }

    /// Returns a connection to it, or `None` while reads do not use it.
    pub(super) fn session(&self) -> Result<Option<PooledConnection<Manager>>, Fault> {
        Ok(self.tracker.pool().map(|pool| pool.get()).transpose()?)
    }

    pub(super) fn count(&self, outcome: Outcome) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn state(&self) -> ReplicaState {
        let count = |outcome: Outcome| (outcome.name(), self.counts[outcome as usize].load(Ordering::Relaxed));
        ReplicaState { answers: self.tracker.answers(), lag: self.tracker.lag(), reads: Outcome::ALL.map(count).to_vec() }
    }
}
