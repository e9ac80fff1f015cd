//! How many files the process may have open, and how many of these may be connections.
//!
//! Where connections take all of them, no database can be opened and no file be written: requests then fail that would
//! only have had to wait.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, as the soft one is meant for programs that cannot handle many files, and gives how
/// many connections may be open at once: `wanted`, unless the limit is too low for them.
pub fn connections_max(wanted: usize) -> usize {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limits.maximum,
        Err(_) => limits.current,
    };
    let used = std::fs::read_dir("/dev/fd").map_or(0, Iterator::count);
    let allowed = allowed(limit, used);
    if allowed >= wanted {
        return wanted;
    }
    let limit = limit.unwrap_or(u64::MAX);
    tracing::warn!(
        limit,
        used,
        connections_max = allowed,
        wanted,
        "the limit on open files (ulimit -n) is low: fewer connections are served at once"
    );
    allowed
}

/// Half of the files that are left are for connections, at least one.
fn allowed(limit: Option<u64>, used: usize) -> usize {
    let Some(limit) = limit else { return usize::MAX };
    (usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(used) / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_databases() {
        assert_eq!(allowed(None, 40), usize::MAX);
        assert_eq!(allowed(Some(1_024), 24), 500);
        assert_eq!(allowed(Some(64), 40), 12);
        assert_eq!((allowed(Some(64), 63), allowed(Some(64), 64), allowed(Some(64), 99)), (1, 1, 1));
        assert_eq!(connections_max(1), 1);
    }
}
