//! The right to use a database: one server at a time has it, by a lock that a connection of its own holds.
//!
//! When that connection breaks, as with a restart of the database, the server takes the lock again. If another server was faster, this
//! one must not go on with what it has in memory, so it does not reach the database any more until it is started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::storage::postgres::fault::Fault;
use crate::storage::postgres::server::PostgresServer;
use crate::storage::postgres::session::Session;
use crate::store::StoreError;

/// Any number that no other program locks.
const LOCK: i64 = 0x6472_6167_6f6d_616f;
/// How often the connection is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the database may take to notice that the server before is gone.
const PATIENCE: Duration = Duration::from_secs(3);
/// Has the database notice within half a minute that this machine is gone.
const KEEP_ALIVE: &str = "set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 4";

/// The right to use a database, until it is dropped.
pub(super) struct Lease {
    given_up: Arc<AtomicBool>,
    keeper: Option<JoinHandle<()>>,
}

impl Lease {
    /// Takes it. `StoreError::DatabaseInUse` if another server has it.
    pub(super) fn take(server: &Arc<PostgresServer>) -> Result<Self, StoreError> {
        const DOING: &str = "locking the database";
        let begun = Instant::now();
        let session = loop {
            match locked(server).map_err(|fault| fault.while_doing(DOING))? {
                Some(session) => break session,
                None if begun.elapsed() > PATIENCE => return Err(StoreError::DatabaseInUse),
                None => std::thread::sleep(Duration::from_millis(100)),
            }
        };
        let given_up = Arc::new(AtomicBool::new(false));
        let (server, stop) = (Arc::downgrade(server), Arc::clone(&given_up));
        let keep = move || {
            let mut session = Some(session);
            while !stop.load(Ordering::Acquire) {
                std::thread::park_timeout(LOOK_EVERY);
                let Some(server) = server.upgrade() else { return };
                if session.as_mut().is_some_and(|session| session.check().is_ok()) {
                    continue;
                }
                session = None;
                let found = locked(&server);
                server.note(found.is_ok());
                match found {
                    Ok(Some(again)) => session = Some(again),
                    Ok(None) => {
                        tracing::error!("another server has taken over the database; start this one again to use it");
                        return server.shut();
                    }
                    // The database is away, for everybody.
                    Err(_) => (),
                }
            }
        };
        let keeper = std::thread::Builder::new().name("postgres-lease".to_owned()).spawn(keep);
        let keeper = keeper.map_err(|source| StoreError::File { path: "postgres-lease".into(), source: Arc::new(source) })?;
        Ok(Self { given_up, keeper: Some(keeper) })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Release);
        if let Some(keeper) = self.keeper.take() {
            keeper.thread().unpark();
            let _ = keeper.join();
        }
    }
}

/// A connection that holds the lock; `None` while another one does.
fn locked(server: &PostgresServer) -> Result<Option<Session>, Fault> {
    let mut session = server.connect_alone()?;
    session.batch(KEEP_ALIVE)?;
    let row = session.row(&format!("select pg_try_advisory_lock({LOCK})"), &[])?;
    let locked = row.map(|row| row.try_get::<_, bool>(0)).transpose()?;
    Ok(locked.unwrap_or_default().then_some(session))
}
