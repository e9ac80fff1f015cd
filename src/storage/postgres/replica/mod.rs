//! A streaming replica that answers reads: connections to it, what is known of it, and what became of the reads. `watch` looks at it
//! all the time; the reads themselves are in `crate::storage::postgres::spread`.
//!
//! Nothing fails because of it. What it cannot answer, the primary answers.

mod known;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use r2d2::PooledConnection;

use super::connector::Manager;
use super::fault::Fault;
use crate::store::StoreError;
pub use known::ReplicaLag;
use known::{Known, Recent};
use watch::Watcher;

/// How to reach a replica, and what it may answer.
#[derive(Debug, Clone)]
pub struct ReplicaOptions {
    /// A URL, `postgres://user:password@host/database`, or pairs as libpq reads them.
    pub url: String,
    /// How old the state that a search sees may be. Zero: it sees everything that was acknowledged before it began.
    pub lag_max: Duration,
}

/// What a replica does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaState {
    /// Whether it is asked.
    pub answers: bool,
    /// How far it is behind the primary, if it was seen a moment ago.
    pub lag: Option<ReplicaLag>,
    /// What became of reads since the start: a name, and how many.
    pub reads: Vec<(&'static str, u64)>,
}

/// What becomes of a read that the replica may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The replica answered.
    Replica,
    /// It had not applied what the read must see.
    Behind,
    /// It was not asked, because it did not answer a moment ago or is no replica any more.
    Away,
    /// It was asked and failed, or ended the read for what it had to apply.
    Failed,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Replica, Self::Behind, Self::Away, Self::Failed];

    fn name(self) -> &'static str {
        match self {
            Self::Replica => "replica",
            Self::Behind => "behind",
            Self::Away => "away",
            Self::Failed => "failed",
        }
    }
}

/// A replica, watched until it is dropped.
pub(super) struct Replica {
    known: Arc<Known>,
    counts: [AtomicU64; Outcome::ALL.len()],
    _watcher: Watcher,
}

impl Replica {
    /// Begins to watch it. An error if it is no replica of this primary; one that is away may come later.
    pub(super) fn start(options: &ReplicaOptions, primary: &Manager, connections_max: u32) -> Result<Self, StoreError> {
        let manager = primary.of_replica(&options.url)?;
        let known = Arc::new(Known::new(&manager, options.lag_max, connections_max));
        let watcher = Watcher::start(primary.without_types(), manager.without_types(), &known)?;
        Ok(Self { known, counts: Default::default(), _watcher: watcher })
    }

    /// A connection to it; `None` while it is not asked.
    pub(super) fn session(&self) -> Result<Option<PooledConnection<Manager>>, Fault> {
        Ok(self.known.pool().map(|pool| pool.get()).transpose()?)
    }

    /// Whether it is asked.
    pub(super) fn answers(&self) -> bool {
        self.known.answers()
    }

    /// What the names of the primary's timelines begin with.
    pub(super) fn system(&self) -> String {
        self.known.system()
    }

    /// What a search must see that may be behind; `None` if none may, or if it is not known.
    pub(super) fn recent(&self) -> Option<Recent> {
        self.known.recent()
    }

    /// It failed: it is not asked again before the watcher finds it well.
    pub(super) fn pause(&self) {
        self.known.pause();
    }

    /// Counts a read.
    pub(super) fn count(&self, outcome: Outcome) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// What it does.
    pub(super) fn state(&self) -> ReplicaState {
        let count = |outcome: Outcome| (outcome.name(), self.counts[outcome as usize].load(Ordering::Relaxed));
        ReplicaState { answers: self.answers(), lag: self.known.lag(), reads: Outcome::ALL.map(count).to_vec() }
    }
}
