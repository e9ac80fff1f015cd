//! How many files the process may have open, and how many of them may be connections and databases.
//!
//! If connections used all of them, no database could be opened and no file written, and requests would fail that could simply
//! have waited.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum files of an open database: the database and its log, each opened by the writer and by four readers, the memory that
/// they share, and one to spare.
const FILES_PER_DATABASE: usize = 12;
/// One in this many files is for databases.
const DATABASES_PART: usize = 4;
/// If a database must be opened while the maximum is open, another one is closed first; with two, one of them stays open.
const DATABASES_MIN: usize = 2;

/// How many databases may be open at once: `wanted`, unless the limit on open files is too low for them.
pub fn databases_open_max(wanted: usize) -> usize {
    let limit = raised();
    let allowed = left(limit, used()) / DATABASES_PART / FILES_PER_DATABASE;
    allowed.clamp(DATABASES_MIN.min(wanted), wanted)
}

/// How many connections may be open at once: `wanted`, unless the limit on open files is too low for them.
pub fn connections_max(wanted: usize) -> usize {
    let (limit, used) = (raised(), used());
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
        "the limit on open files (ulimit -n) is low; serving fewer connections at once"
    );
    allowed
}

/// Raises the soft limit to the hard one, because the soft one is meant for programs that cannot handle many files; returns it.
fn raised() -> Option<u64> {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limits.maximum,
        Err(_) => limits.current,
    }
}

fn used() -> usize {
    std::fs::read_dir("/dev/fd").map_or(0, Iterator::count)
}

fn left(limit: Option<u64>, used: usize) -> usize {
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(used))
}

/// Half of the remaining files, at least one, are for connections.
fn allowed(limit: Option<u64>, used: usize) -> usize {
    if limit.is_none() { usize::MAX } else { (left(limit, used) / 2).max(1) }
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

    #[test]
    fn databases_leave_files_to_connections() {
        assert_eq!((databases_open_max(1), databases_open_max(2)), (1, 2));
        assert!(left(Some(1_024), 24) / DATABASES_PART / FILES_PER_DATABASE >= 20);
    }
}
