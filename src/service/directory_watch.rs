//! Notices that the data directory was removed, moved, unmounted or replaced while the server runs. The open files stay usable,
//! but anything written to them would be lost, so the server refuses writes until the directory is back at its path.

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::watch;

use super::blocking::blocking;
use super::error::Error;
use super::state::{State, after_pause};

/// Pause between two checks. Writes make the same check; this one is for `/readyz` and the log of a server that gets no writes.
const PAUSE: Duration = Duration::from_secs(2);

/// Checks the data directory until the server stops.
pub(super) async fn run(state: Weak<State>, mut stop_announced: watch::Receiver<bool>) {
    while let Some(state) = after_pause(&state, &mut stop_announced, PAUSE).await {
        // The result is logged, and kept for `is_directory_lost`.
        let _ = blocking(move || state.check_directory()).await;
    }
}

impl State {
    /// Refuses a write if the data directory is gone. With a database server, the directory holds nothing that was acknowledged.
    /// Blocks.
    pub(super) fn check_directory(&self) -> Result<(), Error> {
        if self.server.is_some() || self.lock.check() { Ok(()) } else { Err(Error::DirectoryLost) }
    }

    /// Like `check_directory`, but by the last check. For asynchronous threads, because it does not block.
    pub(super) fn check_directory_seen(&self) -> Result<(), Error> {
        if self.is_directory_lost() { Err(Error::DirectoryLost) } else { Ok(()) }
    }

    /// Whether the data directory was gone at the last check.
    pub(super) fn is_directory_lost(&self) -> bool {
        self.lock.is_lost()
    }
}
