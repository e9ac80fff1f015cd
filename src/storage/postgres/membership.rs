//! What the parts of a server know of its membership among the servers of a database: its number, and locks that end with it.

use parking_lot::Mutex;
use postgres::types::Type;

use super::session::Session;

/// All servers share it. One of before there were several wants it for itself.
pub(super) const SHARED_LOCK: i64 = 0x6472_6167_6f6d_616f;

/// The membership of a server.
pub(super) struct Membership {
    /// Drawn at the start.
    pub(super) id: i64,
    /// Holds the locks; `None` while the database is away.
    pub(super) locks: Mutex<Option<Session>>,
    /// Reads what every request waits for, so it waits for no connection of the pool.
    pub(super) looking: Mutex<Option<Session>>,
}

impl Membership {
    /// Takes a lock by its name, without waiting for who has it, until `unlock` or until the connection breaks. Says whether it has it.
    pub(super) fn lock(&self, name: &str) -> bool {
        self.with_locks("select pg_try_advisory_lock(hashtextextended($1, 0))", name)
    }

    /// Gives a lock back.
    pub(super) fn unlock(&self, name: &str) {
        self.with_locks("select pg_advisory_unlock(hashtextextended($1, 0))", name);
    }

    /// As `lock`, together with others who share it.
    pub(super) fn lock_shared(&self, name: &str) -> bool {
        self.with_locks("select pg_try_advisory_lock_shared(hashtextextended($1, 0))", name)
    }

    /// Gives a shared lock back.
    pub(super) fn unlock_shared(&self, name: &str) {
        self.with_locks("select pg_advisory_unlock_shared(hashtextextended($1, 0))", name);
    }

    fn with_locks(&self, sql: &str, name: &str) -> bool {
        let ask = || {
            let mut locks = self.locks.lock();
            let row = locks.as_mut()?.row(sql, &[(&name, Type::TEXT)]).ok()??;
            row.try_get(0).ok()
        };
        ask().unwrap_or_default()
    }
}
