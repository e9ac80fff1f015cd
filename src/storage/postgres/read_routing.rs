//! Reads that a replica may answer.
//!
//! A read first asks the primary for the collection's last change, which is one row, and for the current time, which decides
//! which documents have expired. Then it runs on the replica, on a single state that includes at least this change, and uses
//! that time. Everything that a read depends on comes with a change: documents, passages, embeddings, terms, tokens and
//! tombstones. Metadata indexes do not, but they do not affect answers. So a read sees everything that was acknowledged before
//! it began, whichever server acknowledged it.
//!
//! A search may be allowed to see an older state. Then it does not ask the primary. Instead, the replica must have applied the
//! primary's log up to where it ended that long ago.
//!
//! Either way, the replica must have the mark of the primary's timeline. A replica that followed a former primary may have
//! different changes with the same numbers.

use tokio_postgres::SimpleQueryRow;

use super::fault::Fault;
use super::partition::Postgres;
use super::replica::{Outcome, Replica, RequiredState};
use super::server::run_blocking;
use super::session::{SNAPSHOT, Session};
use crate::domain::with_causes;
use crate::store::{StoreError, is_caller_gone};

/// Selects the primary's last change of a collection, its time, and the mark of its timeline.
const NEWEST: &str = "
    select c.sequence, (extract(epoch from clock_timestamp()) * 1000)::bigint,
        (select mark::text from dragoman.timelines where timeline = $2 || left(pg_walfile_name(pg_current_wal_flush_lsn()), 8))
    from dragoman.collections c where c.key = $1";
/// Selects how much of the log a replica has applied, before its state is taken.
const APPLIED: &str = "select coalesce((pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint, 0)";

impl RequiredState {
    /// Begins a transaction on the replica, and selects whether it is a replica with the mark, and the collection's last
    /// change, or null for an incomplete collection that a job is still building.
    fn begin(&self, collection: i64) -> String {
        format!(
            "{SNAPSHOT}; set local dragoman.now_ms = '{}';
             select pg_is_in_recovery() and exists (select 1 from dragoman.timelines where mark = '{}'),
                 (select sequence from dragoman.collections where key = {collection} and job is null)",
            self.now_ms, self.mark
        )
    }

    fn is_satisfied_by(&self, row: Option<&SimpleQueryRow>) -> bool {
        let Some(row) = row else { return false };
        let sequence = row.get(1).and_then(|number| number.parse::<i64>().ok());
        row.get(0) == Some("t") && sequence.is_some_and(|sequence| sequence >= self.sequence)
    }
}

impl Postgres {
    /// Runs a read of one statement, which a replica may answer. It may see a state as old as the options allow.
    pub(super) fn search<T>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.read_on_replica(operation, true, &mut work)?.map_or_else(|| self.run(operation, work), Ok)
    }

    /// Like `search`, but for several statements that all see the same state.
    pub(super) fn search_snapshot<T>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.read_on_replica(operation, true, &mut work)?.map_or_else(|| self.snapshot(operation, work), Ok)
    }

    /// Like `search`, but for jobs, which always see the last change.
    pub(super) fn read_latest<T>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.read_on_replica(operation, false, &mut work)?.map_or_else(|| self.run(operation, work), Ok)
    }

    /// Like `read_latest`, but for several statements that all see the same state.
    pub(super) fn read_latest_snapshot<T>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.read_on_replica(operation, false, &mut work)?.map_or_else(|| self.snapshot(operation, work), Ok)
    }

    /// Runs a read on the replica. Returns `None` if the primary has to answer.
    fn read_on_replica<T>(
        &self,
        operation: &'static str,
        may_lag: bool,
        work: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<Option<T>, StoreError> {
        let Some(replica) = self.server.replica() else { return Ok(None) };
        if !replica.tracker.answers() {
            replica.count(Outcome::Unavailable);
            return Ok(None);
        }
        let recent = if may_lag { replica.tracker.recent() } else { None };
        let wanted = match recent {
            Some(recent) => Some(recent),
            None => self.required_state(operation, replica)?,
        };
        let Some(wanted) = wanted else {
            replica.count(Outcome::Behind);
            return Ok(None);
        };
        let result = run_blocking(|| self.try_replica(replica, &wanted, work));
        let (outcome, value) = match result {
            Ok(Some(value)) => (Outcome::Replica, Some(value)),
            Ok(None) => (Outcome::Behind, None),
            Err(fault) if is_caller_gone() => return Err(fault.into_store_error(operation)),
            Err(fault) => {
                // If the rows are wrong, the primary will report it. The replica itself is fine.
                if !matches!(fault, Fault::Store(_)) {
                    replica.tracker.pause();
                }
                let error = fault.into_store_error(operation);
                tracing::debug!(error = with_causes(&error), "the primary answers a read instead of the replica");
                (Outcome::Failed, None)
            }
        };
        replica.count(outcome);
        Ok(value)
    }

    /// Returns what a read must see to see every change. `None` if the collection is gone or the timeline has no mark yet.
    fn required_state(&self, operation: &'static str, replica: &Replica) -> Result<Option<RequiredState>, StoreError> {
        let system = replica.tracker.system();
        self.run(operation, |session| {
            let Some(row) = session.row(NEWEST, &[&self.key, &system])? else { return Ok(None) };
            let (sequence, now_ms): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            let mark: Option<String> = row.try_get(2)?;
            Ok(mark.map(|mark| RequiredState { mark, sequence, log_bytes: None, now_ms }))
        })
    }

    /// Runs a read on the replica. Returns `None` if it has not applied what the read must see, or if it is no longer used.
    fn try_replica<T>(
        &self,
        replica: &Replica,
        wanted: &RequiredState,
        work: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let Some(mut session) = replica.session()? else { return Ok(None) };
        self.interruptible(&mut session, |session| {
            if let Some(bytes) = wanted.log_bytes
                && (session.query_number(APPLIED, &[])? as i64) < bytes
            {
                return Ok(None);
            }
            session.in_transaction_with_row(&wanted.begin(self.key), |session, row| match wanted.is_satisfied_by(row.as_ref()) {
                true => work(session).map(Some),
                false => Ok(None),
            })
        })
    }
}
