//! The server's membership as other modules use it: its number, and named locks that end with it.

use parking_lot::Mutex;

use super::session::Session;

/// The lock that all servers share. Versions that did not support several servers take it exclusively.
pub(super) const SHARED_LOCK: i64 = 0x6472_6167_6f6d_616f;

pub(super) struct Membership {
    /// The number of the server, chosen at start.
    pub(super) id: i64,
    /// The connection that holds the locks. `None` while the database is unreachable.
    pub(super) locks: Mutex<Option<Session>>,
    /// The connection for a read that every request waits for. It is separate, so that this read never waits for the pool.
    pub(super) read_session: Mutex<Option<Session>>,
}

impl Membership {
    /// Takes a named lock without waiting, until `unlock` or until the connection breaks. Returns whether it got the lock.
    pub(super) fn lock(&self, name: &str) -> bool {
        self.with_locks("select pg_try_advisory_lock(hashtextextended($1, 0))", name)
    }

    pub(super) fn unlock(&self, name: &str) {
        self.with_locks("select pg_advisory_unlock(hashtextextended($1, 0))", name);
    }

    /// Like `lock`, but shared with other servers.
    pub(super) fn lock_shared(&self, name: &str) -> bool {
        self.with_locks("select pg_try_advisory_lock_shared(hashtextextended($1, 0))", name)
    }

    pub(super) fn unlock_shared(&self, name: &str) {
        self.with_locks("select pg_advisory_unlock_shared(hashtextextended($1, 0))", name);
    }

    fn with_locks(&self, sql: &str, name: &str) -> bool {
        let query = || {
            let mut locks = self.locks.lock();
            let row = locks.as_mut()?.row(sql, &[&name]).ok()??;
            row.try_get(0).ok()
        };
        query().unwrap_or_default()
    }
}
