//! Limits the number of arenas of the GNU C library's allocator, which ONNX Runtime, SQLite and the index allocate from. The
//! Rust code has its own allocator (`src/main.rs`).
//!
//! The allocator gives threads their own arenas, up to eight per core, and memory freed in one arena is not available to
//! threads of another. The threads of requests and jobs come and go; each grows some arena to the size of its largest task, and
//! an arena rarely returns memory. So under constant load a server kept growing for an hour, until every arena had been used.
//! With one arena per core its size stays constant and it is no slower, as `cargo bench --bench growth` shows.

/// Minimum arenas: one thread that frees much memory must not block all others.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS_MIN: usize = 2;

/// Limits the arenas to the number of cores, unless the environment sets a limit. Call it before any thread is started:
/// existing arenas stay.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn bound_arenas() {
    let tunables = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
    if std::env::var_os("MALLOC_ARENA_MAX").is_some() || tunables.contains("arena_max") {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let arenas = libc::c_int::try_from(cores.max(ARENAS_MIN)).unwrap_or(libc::c_int::MAX);
    #[expect(unsafe_code, reason = "the C library has no safe call for it; it takes two numbers and touches no memory of ours")]
    let accepted = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
    debug_assert_eq!(accepted, 1, "the allocator takes any positive number of arenas");
}

/// Other allocators have no such arenas.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn bound_arenas() {}
