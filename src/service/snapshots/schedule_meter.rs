//! Counts what becomes of scheduled snapshots.

use std::sync::atomic::{AtomicI64, AtomicU64};

/// What became of scheduled snapshots since the start.
#[derive(Debug, Default)]
pub struct ScheduleMeter {
    /// Copied to the target.
    pub stored: AtomicU64,
    /// Not made, because nothing had changed.
    pub unchanged: AtomicU64,
    /// Attempts that failed.
    pub failed: AtomicU64,
    /// When the target was last known to have the server's state, in milliseconds since the Unix epoch; 0 for not yet.
    pub last_ms: AtomicI64,
}
