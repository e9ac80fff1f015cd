//! How many arenas the C library's allocator has, where it is that of GNU.
//!
//! It gives threads arenas of their own, up to eight for each core, and what is freed in one serves no thread of another. The threads
//! of requests and jobs come and go; each takes some arena to the size of the largest thing it does, and an arena hardly ever gives
//! memory back. So a server that does the same for an hour went on growing until every arena had had its turn. With one arena
//! for each core it stays as it is, and takes no more time: `cargo bench --bench growth` shows it.

/// Arenas at least: one thread that frees much must not hold up all others.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS_MIN: usize = 2;

/// Bounds the arenas by the cores, unless the environment does. To be called before any thread is started: an arena that is there
/// stays.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn bound_arenas() {
    let tunables = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
    if std::env::var_os("MALLOC_ARENA_MAX").is_some() || tunables.contains("arena_max") {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let arenas = libc::c_int::try_from(cores.max(ARENAS_MIN)).unwrap_or(libc::c_int::MAX);
    #[expect(unsafe_code, reason = "the C library has no safe call for it; it takes two numbers and touches no memory of ours")]
    let taken = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
    debug_assert_eq!(taken, 1, "the allocator takes any positive number of arenas");
}

/// Other allocators have no such arenas.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn bound_arenas() {}
