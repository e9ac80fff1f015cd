//! The clock that a database's writes and its SQL use.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use super::error::Fault;

/// Returns the time in milliseconds since the Unix epoch. It may jump, even backwards.
pub type Clock = fn() -> i64;

/// Returns the system's time, or 0 before the epoch.
pub fn system_clock() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

/// Makes this clock available to the SQL of a connection as `now_ms()`.
pub(super) fn register_clock(connection: &Connection, clock: Clock) -> Result<(), Fault> {
    Ok(connection.create_scalar_function("now_ms", 0, FunctionFlags::SQLITE_UTF8, move |_| Ok(clock()))?)
}
