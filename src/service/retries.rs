//! How long to wait between attempts.

use std::time::Duration;

/// Returns the pause after a failure that followed `failures` other ones: `first`, doubled each time, up to `max`.
pub(super) fn retry_pause(first: Duration, max: Duration, failures: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(failures)).min(max)
}
