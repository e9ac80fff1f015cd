//! Finds out how many threads the system lets the process start: whether they are enough to serve, and how many databases
//! may be open.
//!
//! A limit may count the threads of the process's user (`ulimit -u`) or of its control group (`pids.max`, which containers and
//! `TasksMax` of systemd set). A limit on address space has the same effect, because each thread has a stack.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{Resource, getrlimit, getuid};
use tokio::runtime::Runtime;

use super::error::AppError;
use super::open_files::DATABASES_MIN;
use crate::threads::try_threads;

/// Stack size of each thread that serves. JSON may be 128 levels deep, and parsing takes several frames per level.
const STACK_BYTES: usize = 8 << 20;
/// Threads that a server needs on top of one per core: for the encoder, two databases, recovery and blocking work.
const THREADS_BESIDES_CORES: usize = 8;
/// One in this many of the remaining threads is for databases.
const DATABASES_PART: usize = 2;
/// Where the system shows control groups.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// Starts the threads that serve. Fails if the system does not let the process start as many as a server needs: the runtime would
/// then panic, or wait forever.
pub fn start_runtime() -> Result<Runtime, AppError> {
    let needed = std::thread::available_parallelism().map_or(1, usize::from) + THREADS_BESIDES_CORES;
    try_threads(needed, STACK_BYTES).map_err(|source| AppError::Threads { needed, source })?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.thread_stack_size(STACK_BYTES).enable_all().build().map_err(AppError::Serve)
}

/// How many databases may be open at once, each with a thread: `wanted`, unless the process may start too few threads.
pub fn databases_open_max(wanted: usize) -> usize {
    databases_within(remaining(), wanted)
}

fn databases_within(remaining: Option<usize>, wanted: usize) -> usize {
    remaining.map_or(wanted, |remaining| (remaining / DATABASES_PART).clamp(DATABASES_MIN.min(wanted), wanted))
}

/// How many more threads the process may start; `None` if nothing limits them.
fn remaining() -> Option<usize> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    remaining_of_user().into_iter().chain(remaining_in_groups(&groups, Path::new(CONTROL_GROUPS))).min()
}

fn remaining_of_user() -> Option<usize> {
    // The system does not apply this limit to root.
    let limit = getrlimit(Resource::Nproc).current.filter(|_| !getuid().is_root())?;
    Some(usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(count_threads_of_user()))
}

/// Counts the threads of this process's user. A container does not see those outside of it.
fn count_threads_of_user() -> usize {
    let user = getuid().as_raw();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let own_processes = processes.filter(|process| process.metadata().is_ok_and(|found| found.uid() == user));
    own_processes.filter_map(|process| std::fs::read_dir(process.path().join("task")).ok()).map(Iterator::count).sum()
}

/// The smallest number of threads that any control group of the process still allows. `groups` lists them, as in
/// `/proc/self/cgroup`. The limits of the groups above also apply. In a container, the path may be the host's, and only the
/// group at the top exists.
fn remaining_in_groups(groups: &str, control_groups: &Path) -> Option<usize> {
    let remaining = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let top = match controllers {
            "" => control_groups.to_owned(),
            "pids" => control_groups.join(controllers),
            _ => return None,
        };
        let own_group = top.join(path.trim_start_matches('/'));
        own_group.ancestors().take_while(|group| group.starts_with(&top)).filter_map(remaining_in_group).min()
    });
    remaining.min()
}

fn remaining_in_group(group: &Path) -> Option<usize> {
    let number = |file: &str| -> Option<usize> { std::fs::read_to_string(group.join(file)).ok()?.trim().parse().ok() };
    Some(number("pids.max")?.saturating_sub(number("pids.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_get_half_of_the_remaining_threads_and_at_least_two() {
        assert_eq!(databases_within(None, 128), 128);
        assert_eq!([0, 3, 40, 256, 1_000].map(|remaining| databases_within(Some(remaining), 128)), [2, 2, 20, 128, 128]);
        assert_eq!(databases_within(Some(0), 1), 1);
    }

    #[test]
    fn the_tightest_control_group_counts() {
        let root = tempfile::tempdir().unwrap();
        let group = |path: &str, max: &str, current: &str| {
            let folder = root.path().join(path);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("pids.max"), format!("{max}\n")).unwrap();
            std::fs::write(folder.join("pids.current"), format!("{current}\n")).unwrap();
        };
        group("system.slice", "100", "40");
        group("system.slice/dragoman.service", "max", "12");
        group("pids/docker/1", "30", "10");
        let of = |groups: &str| remaining_in_groups(groups, root.path());
        assert_eq!(of("0::/system.slice/dragoman.service\n"), Some(60));
        assert_eq!(of("12:cpu:/docker/1\n8:pids:/docker/1\n"), Some(20));
        assert_eq!(of("0::/elsewhere\n"), None);
        group("", "9", "10");
        assert_eq!(of("0::/path/on/the/host\n"), Some(0));
    }
}
