//! How many files the process may have open, and how many of them may be connections and databases.
//!
//! If connections used all of them, no database could be opened and no file written, and requests would fail that could simply
//! have waited.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum files of an open database: the database and its log, each opened by the writer and by four readers, their shared
/// memory, and one spare.
const FILES_PER_DATABASE: usize = 12;
/// One in this many files is for databases.
const DATABASES_PART: usize = 4;
/// Minimum number of files that a server opens after it has begun to listen: those of the catalog and of one more database,
/// and a few others.
const FILES_AFTER_LISTENING: usize = 2 * FILES_PER_DATABASE + 4;
/// Minimum number of open databases. To open another one at the maximum, one is closed first; with two, the other stays open.
pub const DATABASES_MIN: usize = 2;

/// How many databases may be open at once: `wanted`, unless the limit on open files is too low for them.
pub fn databases_open_max(wanted: usize) -> usize {
    databases_within(raise_file_limit(), count_open_files(), wanted)
}

fn databases_within(limit: Option<u64>, used: usize, wanted: usize) -> usize {
    let allowed = remaining_files(limit, used) / DATABASES_PART / FILES_PER_DATABASE;
    allowed.clamp(DATABASES_MIN.min(wanted), wanted)
}

/// How many connections may be open at once: `wanted`, unless the limit on open files is too low for them. Called before the
/// databases are open.
pub fn connections_max(wanted: usize) -> usize {
    let (limit, used) = (raise_file_limit(), count_open_files() + FILES_AFTER_LISTENING);
    let allowed = connections_within(limit, used, wanted);
    if allowed == wanted {
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

/// Raises the soft limit to the hard one and returns it. The soft limit is meant for programs that cannot handle many files.
fn raise_file_limit() -> Option<u64> {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limits.maximum,
        Err(_) => limits.current,
    }
}

fn count_open_files() -> usize {
    std::fs::read_dir("/dev/fd").map_or(0, Iterator::count)
}

fn remaining_files(limit: Option<u64>, used: usize) -> usize {
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(used))
}

/// Half of the remaining files, at least one, are for connections.
fn connections_within(limit: Option<u64>, used: usize, wanted: usize) -> usize {
    if limit.is_none() { wanted } else { (remaining_files(limit, used) / 2).max(1).min(wanted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_limited_to_half_of_the_free_file_descriptors() {
        assert_eq!(connections_within(None, 40, 10_000), 10_000);
        assert_eq!([499, 500, 501].map(|wanted| connections_within(Some(1_024), 24, wanted)), [499, 500, 500]);
        assert_eq!(connections_within(Some(64), 40, 10_000), 12);
        assert_eq!([63, 64, 99].map(|used| connections_within(Some(64), used, 10_000)), [1, 1, 1]);
    }

    #[test]
    fn two_databases_always_fit_and_twenty_fit_in_1024_open_files() {
        assert_eq!([1, 2, 3].map(|wanted| databases_within(Some(64), 40, wanted)), [1, 2, 2]);
        assert_eq!([19, 20, 21].map(|wanted| databases_within(Some(1_024), 24, wanted)), [19, 20, 20]);
        assert_eq!(databases_within(None, 40, 10_000), 10_000);
    }
}
