//! The number of arenas of the C library's allocator, if it is GNU's.
//!
//! It gives threads arenas of their own, up to eight per core, and memory freed in one is not available to threads of another.
//! The threads of requests and jobs come and go; each grows some arena to the size of its largest task, and an arena hardly ever
//! returns memory. So a server with constant work kept growing for an hour, until every arena had had its turn. With one arena
//! per core it stays the same and is no slower: `cargo bench --bench growth` shows it.

/// Minimum arenas: one thread that frees much must not hold up all others.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS_MIN: usize = 2;

/// Limits the arenas to the number of cores, unless the environment does. Call it before any thread is started: existing arenas
/// stay.
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
