//! The catalog on a database server. `CatalogStorage` has what it has in common with the one in a data directory.
//!
//! Any number of servers may use it. Each one keeps what it has read in memory. `versions` says whether that is still current,
//! and lets a server change only parts whose current state it knows.

mod jobs;
mod session;
mod swap;
mod versions;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use super::fault::Fault;
use super::member::{Member, Sharing, remove_dead_servers};
use super::partition::{drop_collection, lock_row, path};
use super::replacing::{BlockedWrites, remove_unread};
use super::server::{PostgresServer, run_blocking};
use super::session::{SNAPSHOT, Session};
use crate::domain::{Alias, Collection, CollectionId, CollectionName, MetadataPath, with_causes};
use crate::store::{
    CatalogPart, CatalogStorage, CatalogWork, StoreError, Within, delete_collection, read_aliases, read_collections,
    update_collection,
};
pub use jobs::{JobOwnership, TakenOverJobs};
use parking_lot::Mutex;
use session::ServerSession;
use versions::CatalogVersions;

/// How long a deletion is retried.
const DELETION_PATIENCE: Duration = Duration::from_secs(10);

pub struct PostgresCatalog {
    server: Arc<PostgresServer>,
    member: Member,
    /// The versions that this server has in memory, or will have before it answers.
    known: [AtomicI64; CatalogPart::ALL.len()],
    /// The other servers that were alive at the last check.
    others: Mutex<Vec<i64>>,
}

/// What a server caches about collections, read in one transaction.
#[derive(Debug, Default)]
pub struct CatalogNames {
    /// The collections, sorted by name.
    pub collections: Vec<Collection>,
    /// The aliases, sorted by name.
    pub aliases: Vec<Alias>,
    /// The replacements of collections, by the id of the replaced collection, while it may still be read.
    pub replaced: HashMap<CollectionId, CollectionId>,
    /// The metadata indexes of those collections that have any.
    pub metadata_indexes: HashMap<CollectionId, Vec<MetadataPath>>,
}

impl PostgresCatalog {
    /// Opens the catalog. Fails with `StoreError::DatabaseInUse` if a server of a version without support for several servers
    /// uses it. Removes what interrupted creations left: collections without a name and without documents.
    pub fn open(server: &Arc<PostgresServer>) -> Result<Self, StoreError> {
        let member = Member::join(server, Sharing::Shared)?;
        let catalog = Self::with_member(server, member);
        let (others, _) =
            catalog.transaction("looking for other servers", |session| remove_dead_servers(session, catalog.member.id()))?;
        *catalog.others.lock() = others;
        let versions = catalog.versions()?;
        CatalogPart::ALL.into_iter().for_each(|part| catalog.set_known_version(part, versions.of(part)));
        catalog.run("removing interrupted creations", sweep)?;
        Ok(catalog)
    }

    /// Opens the catalog for this process alone, without changing anything. Fails with `StoreError::DatabaseInUse` if a server
    /// uses it.
    pub fn open_read_only(server: &Arc<PostgresServer>) -> Result<Self, StoreError> {
        let member = Member::join(server, Sharing::Exclusive)?;
        Ok(Self::with_member(server, member))
    }

    /// Like `open_read_only`, but removes what interrupted creations left.
    pub fn open_alone(server: &Arc<PostgresServer>) -> Result<Self, StoreError> {
        let catalog = Self::open_read_only(server)?;
        catalog.run("removing interrupted creations", sweep)?;
        Ok(catalog)
    }

    /// Reads the current version of each part, which any server may have changed.
    pub fn versions(&self) -> Result<CatalogVersions, StoreError> {
        let (versions, now_ms) = self.member.read_on_own_connection("looking for changes of the catalog", versions::read)?;
        self.server.record_clock(now_ms);
        Ok(versions)
    }

    /// Returns the time by the database server's clock, in milliseconds since the Unix epoch. Does not ask it, but counts from
    /// what the last `versions` read.
    pub fn now_ms(&self) -> i64 {
        self.server.now_ms()
    }

    /// Asks the database server for the time by its clock, in milliseconds since the Unix epoch.
    pub fn read_clock(&self) -> Result<i64, StoreError> {
        self.versions()?;
        Ok(self.now_ms())
    }

    /// Returns the version of a part that this server knows. It can only change a part if this version is current.
    pub fn known_version(&self, part: CatalogPart) -> i64 {
        self.known[part as usize].load(Ordering::SeqCst)
    }

    /// Records that this server knows a version of a part.
    pub fn set_known_version(&self, part: CatalogPart, version: i64) {
        self.known[part as usize].store(version, Ordering::SeqCst);
    }

    /// Reads what a server keeps in memory about collections.
    pub fn names(&self) -> Result<CatalogNames, StoreError> {
        const OPERATION: &str = "reading the names";
        self.run(OPERATION, |session| {
            session.in_transaction(SNAPSHOT, |session| {
                let mut rows = ServerSession { session, operation: OPERATION };
                let (collections, aliases) = (read_collections(&mut rows)?, read_aliases(&mut rows)?);
                let session = rows.session;
                let sql =
                    "select c.id, i.path from dragoman.metadata_indexes i join dragoman.collections c on c.key = i.collection
                           order by c.id, i.path";
                let mut metadata_indexes: HashMap<CollectionId, Vec<MetadataPath>> = HashMap::new();
                for row in session.rows(sql, &[])? {
                    metadata_indexes.entry(CollectionId(row.try_get(0)?)).or_default().push(path(row.try_get(1)?)?);
                }
                let sql = "select id, replaced_by from dragoman.collections where replaced_by is not null";
                let read = |row: &tokio_postgres::Row| Ok((CollectionId(row.try_get(0)?), CollectionId(row.try_get(1)?)));
                let replaced = session.rows(sql, &[])?.iter().map(read).collect::<Result<_, Fault>>()?;
                Ok(CatalogNames { collections, aliases, replaced, metadata_indexes })
            })
        })
    }

    /// Like `update`, in the transaction that blocks writes to the collection, and commits it.
    pub fn update_and_commit(&self, blocked: &mut BlockedWrites, collection: &Collection) -> Result<bool, StoreError> {
        const OPERATION: &str = "changing a collection";
        let changed = blocked.run(OPERATION, |session, _| {
            let version = versions::increment(session, CatalogPart::Names, self.known_version(CatalogPart::Names))?;
            let is_there = update_collection(&mut ServerSession { session, operation: OPERATION }, collection)?;
            Ok(is_there.then_some(version))
        })?;
        let Some(version) = changed else { return Ok(false) };
        blocked.commit(OPERATION)?;
        self.set_known_version(CatalogPart::Names, version);
        Ok(true)
    }

    fn try_delete(&self, name: &CollectionName) -> Result<Option<Collection>, StoreError> {
        const OPERATION: &str = "deleting a collection";
        let (deleted, version) = self.transaction(OPERATION, |session| {
            // Before the version, because a change of the collection and a swap lock both in this order.
            lock_row(session, name)?;
            let version = versions::increment(session, CatalogPart::Names, self.known_version(CatalogPart::Names))?;
            let deleted = delete_collection(&mut ServerSession { session, operation: OPERATION }, name)?;
            if let Some(found) = &deleted {
                drop_collection(session, &found.id)?;
            }
            Ok((deleted, version))
        })?;
        self.set_known_version(CatalogPart::Names, version);
        Ok(deleted)
    }

    fn with_member(server: &Arc<PostgresServer>, member: Member) -> Self {
        Self { server: Arc::clone(server), member, known: Default::default(), others: Mutex::default() }
    }

    /// Runs statements. Errors name the operation.
    fn run<T>(&self, operation: &'static str, work: impl FnOnce(&mut Session) -> Result<T, Fault>) -> Result<T, StoreError> {
        run_blocking(|| self.server.session().and_then(|mut session| work(&mut session)))
            .map_err(|fault| fault.into_store_error(operation))
    }

    fn transaction<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.run(operation, |session| session.in_transaction("begin", work))
    }

    /// Runs a change of a part. Fails with `StoreError::CatalogChanged` if this server does not know the part's current
    /// version.
    fn change_part<T>(
        &self,
        operation: &'static str,
        part: CatalogPart,
        work: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let (done, version) = self.transaction(operation, |session| {
            let version = versions::increment(session, part, self.known_version(part))?;
            Ok((work(session)?, version))
        })?;
        self.set_known_version(part, version);
        Ok(done)
    }
}

impl CatalogStorage for PostgresCatalog {
    fn run_work(&self, operation: &'static str, within: Within, work: &mut CatalogWork<'_>) -> Result<(), StoreError> {
        let run = |session: &mut Session| -> Result<(), Fault> { Ok(work(&mut ServerSession { session, operation })?) };
        match within {
            Within::Statements => self.run(operation, run),
            Within::Snapshot => self.run(operation, |session| session.in_transaction(SNAPSHOT, run)),
            Within::Transaction => self.transaction(operation, run),
            Within::ChangeOf(part) => self.change_part(operation, part, run),
        }
    }

    fn server_number(&self) -> Option<i64> {
        Some(self.member.id())
    }

    fn delete(&self, name: &CollectionName) -> Result<Option<Collection>, StoreError> {
        let started = Instant::now();
        loop {
            match self.try_delete(name) {
                // A transaction that reads the tables in another order and this one, which drops them, may deadlock. Then the
                // database ends one of the two.
                Err(StoreError::Interrupted { .. }) if started.elapsed() < DELETION_PATIENCE => (),
                deleted => return deleted,
            }
        }
    }

    /// Does nothing: statements of the catalog are short and never wait for long.
    fn interrupt_after(&self, _: Instant) {}
}

/// Gives the operations of `CatalogStorage`.
impl Deref for PostgresCatalog {
    type Target = dyn CatalogStorage;

    fn deref(&self) -> &Self::Target {
        self
    }
}

/// Drops collections that the catalog does not name: replaced ones that are no longer read, replacements whose job has ended, and
/// empty ones whose creating server is gone. Keeps others that have documents, in case they were lost by mistake.
fn sweep(session: &mut Session) -> Result<(), Fault> {
    let sql = "select id, documents_drawn, key, replaced_by is not null, job is not null
               from dragoman.collections
               where not exists (select 1 from dragoman.catalog where catalog.id = collections.id)
               and (job is not null or replaced_by is not null
                    or not exists (select 1 from dragoman.servers where servers.id = collections.maker))
               and not exists (select 1 from dragoman.jobs where jobs.id = collections.job and jobs.finished_at_ms is null)";
    for row in session.rows(sql, &[])? {
        let id = CollectionId(row.try_get(0)?);
        if row.try_get(3)? {
            let key = row.try_get(2)?;
            if let Err(fault) = session.in_transaction("begin", |session| remove_unread(session, key)) {
                let error = with_causes(&fault.into_store_error("removing a replaced collection"));
                tracing::warn!(%id, error, "cannot remove a collection that was replaced; the next start tries again");
            }
            continue;
        }
        if row.try_get(4)? {
            tracing::info!(%id, "removing a replacement that an interrupted job left behind");
            session.in_transaction("begin", |session| drop_collection(session, &id))?;
            continue;
        }
        if row.try_get::<_, i64>(1)? > 0 {
            tracing::warn!(%id, problem = "the catalog does not name it, but it has documents", "a collection is not served");
            continue;
        }
        tracing::info!(%id, "removing a collection that an interrupted creation left behind");
        session.in_transaction("begin", |session| drop_collection(session, &id))?;
    }
    Ok(())
}
