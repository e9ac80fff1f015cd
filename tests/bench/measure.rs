//! Medians.

#![allow(dead_code, reason = "each benchmark uses its part")]

use std::time::Duration;

/// The median of measured times.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The median of measured rates.
pub fn median_rate(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
