//! Counts the outcomes of scheduled snapshots.

use std::sync::atomic::{AtomicI64, AtomicU64};

/// The outcomes of scheduled snapshots since the start.
#[derive(Debug, Default)]
pub struct ScheduleMeter {
    /// Number of snapshots copied to the target.
    pub stored: AtomicU64,
    /// Number of snapshots not made because nothing had changed.
    pub unchanged: AtomicU64,
    pub failed: AtomicU64,
    /// When the target was last known to have the server's state, in milliseconds since the Unix epoch. 0 if it never was.
    pub last_ms: AtomicI64,
}
