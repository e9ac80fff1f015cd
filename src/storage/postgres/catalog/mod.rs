//! The catalog on a database server: collections, their aliases, and keys. `jobs` and `classifiers` have the rest.
//!
//! Any number of servers may use it. Each one keeps what it has read in memory. `versions` says whether that is still current,
//! and lets a server change only parts whose current state it knows.

mod classifiers;
mod creations;
mod import;
mod jobs;
mod rows;
mod swap;
mod versions;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fault::Fault;
use super::member::{Member, remove_dead_servers};
use super::partition::{drop_collection, path};
use super::replacing::remove_unread;
use super::server::{PostgresServer, run_blocking};
use super::session::{Parameter, SNAPSHOT, Session};
use crate::domain::{Alias, Collection, CollectionId, CollectionName, KeyId, MetadataPath, Page, RequestKey};
use crate::store::{StoreError, StoredKey, codes, names_json, read_collection, read_key};
pub use jobs::{JobOwnership, TakenOverJobs};
use parking_lot::Mutex;
use rows::{CatalogRow, limit, text};
use versions::KnownVersions;
pub use versions::{CatalogPart, CatalogVersions};

const COLUMNS: &str = "key, id, name, description, model, model_fingerprint, dimension, metric, created_at_ms,
    quantization, m, ef_construction, ef_search, default_languages, passage_tokens_max, passage_overlap_tokens";

/// How long a deletion is retried.
const DELETION_PATIENCE: Duration = Duration::from_secs(10);

/// The catalog on a database server.
pub struct PostgresCatalog {
    server: Arc<PostgresServer>,
    member: Member,
    /// The versions that this server has in memory, or will have before it answers.
    known: KnownVersions,
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
        let member = Member::join(server)?;
        let catalog = Self::with_member(server, member);
        let others =
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
        let member = Member::join_exclusively(server)?;
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

    /// Returns the time by the database server's clock, in milliseconds since the Unix epoch. Does not ask it: the last
    /// `versions` found out how far its clock is ahead of this server's.
    pub fn now_ms(&self) -> i64 {
        self.server.now_ms()
    }

    /// Returns the version of a part that this server knows. It can only change a part if this version is current.
    pub fn known_version(&self, part: CatalogPart) -> i64 {
        self.known.of(part)
    }

    /// Records that this server knows a version of a part.
    pub fn set_known_version(&self, part: CatalogPart, version: i64) {
        self.known.set(part, version);
    }

    /// Reads what a server keeps in memory about collections.
    pub fn names(&self) -> Result<CatalogNames, StoreError> {
        self.run("reading the names", |session| {
            session.in_transaction(SNAPSHOT, |session| {
                let sql = format!("select {COLUMNS} from dragoman.catalog order by name");
                let collections = session.rows(&sql, &[])?.into_iter().map(|row| read_collection(&CatalogRow(row)));
                let collections = collections.collect::<Result<_, Fault>>()?;
                let sql =
                    "select c.id, i.path from dragoman.metadata_indexes i join dragoman.collections c on c.key = i.collection
                           order by c.id, i.path";
                let mut metadata_indexes: HashMap<CollectionId, Vec<MetadataPath>> = HashMap::new();
                for row in session.rows(sql, &[])? {
                    metadata_indexes.entry(CollectionId(row.try_get(0)?)).or_default().push(path(row.try_get(1)?)?);
                }
                let sql = "select id, replaced_by from dragoman.collections where replaced_by is not null";
                let read = |row: &postgres::Row| Ok((CollectionId(row.try_get(0)?), CollectionId(row.try_get(1)?)));
                let replaced = session.rows(sql, &[])?.iter().map(read).collect::<Result<_, Fault>>()?;
                Ok(CatalogNames { collections, aliases: read_aliases(session)?, replaced, metadata_indexes })
            })
        })
    }

    /// Does nothing: statements of the catalog are short and never wait for long.
    pub(crate) fn interrupt_after(&self, _: Instant) {}

    pub(crate) fn create(&self, collection: &Collection, request: Option<&RequestKey>) -> Result<(), StoreError> {
        let inserted = self.change_part("creating a collection", CatalogPart::Names, |session| {
            let inserted = insert(session, collection)?;
            if let Some(request) = request.filter(|_| inserted > 0) {
                creations::store_creation(session, request, &collection.id.0, collection.created_at_ms)?;
            }
            Ok(inserted)
        })?;
        if inserted == 0 {
            return Err(StoreError::CollectionExists { name: collection.name.clone() });
        }
        Ok(())
    }

    pub(crate) fn find_created_by(&self, request: &RequestKey, now_ms: i64) -> Result<Option<String>, StoreError> {
        self.run("reading an idempotency record", |session| creations::find(session, request, now_ms))
    }

    pub(crate) fn update(&self, collection: &Collection) -> Result<bool, StoreError> {
        let sql = "update dragoman.catalog set description = $2, ef_search = $3, default_languages = $4 where id = $1";
        let description = collection.description.as_deref().map(text);
        let description = description.as_deref();
        let (ef_search, languages) = (collection.hnsw.ef_search as i64, codes(&collection.default_languages));
        let values: [Parameter<'_>; 4] = [&collection.id.0, &description, &ef_search, &languages];
        self.change_part("changing a collection", CatalogPart::Names, |session| Ok(session.execute(sql, &values)? > 0))
    }

    pub(crate) fn list(&self, page: &Page<CollectionName>) -> Result<Vec<Collection>, StoreError> {
        let sql = format!("select {COLUMNS} from dragoman.catalog where name > $1 order by name limit $2");
        let after = page.after.as_ref().map_or("", CollectionName::as_str);
        self.run("listing collections", |session| {
            session.rows(&sql, &[&after, &limit(page.limit)])?.into_iter().map(|row| read_collection(&CatalogRow(row))).collect()
        })
    }

    pub(crate) fn delete(&self, name: &CollectionName) -> Result<Option<Collection>, StoreError> {
        let begun = Instant::now();
        loop {
            match self.try_delete(name) {
                // A transaction that reads the tables in another order and this one, which drops them, may deadlock. Then the
                // database ends one of the two.
                Err(StoreError::Interrupted { .. }) if begun.elapsed() < DELETION_PATIENCE => (),
                deleted => return deleted,
            }
        }
    }

    fn try_delete(&self, name: &CollectionName) -> Result<Option<Collection>, StoreError> {
        self.change_part("deleting a collection", CatalogPart::Names, |session| {
            let sql = format!("delete from dragoman.catalog where name = $1 returning {COLUMNS}");
            let Some(row) = session.row(&sql, &[&name.as_str()])? else { return Ok(None) };
            let found = read_collection(&CatalogRow(row))?;
            drop_collection(session, &found.id)?;
            Ok(Some(found))
        })
    }

    pub(crate) fn aliases(&self) -> Result<Vec<Alias>, StoreError> {
        self.run("reading the aliases", read_aliases)
    }

    pub(crate) fn set_alias(&self, name: &CollectionName, collection: &CollectionId) -> Result<(), StoreError> {
        let sql = "insert into dragoman.aliases (name, collection)
                   select $1, $2 where not exists (select 1 from dragoman.catalog where name = $1)
                   on conflict (name) do update set collection = excluded.collection";
        let values: [Parameter<'_>; 2] = [&name.as_str(), &collection.0];
        match self.change_part("setting an alias", CatalogPart::Names, |session| session.execute(sql, &values))? {
            0 => Err(StoreError::CollectionExists { name: name.clone() }),
            _ => Ok(()),
        }
    }

    pub(crate) fn delete_alias(&self, name: &CollectionName) -> Result<bool, StoreError> {
        let sql = "delete from dragoman.aliases where name = $1";
        self.change_part("deleting an alias", CatalogPart::Names, |session| Ok(session.execute(sql, &[&name.as_str()])? > 0))
    }

    pub(crate) fn add_key(&self, stored: &StoredKey) -> Result<(), StoreError> {
        self.change_part("adding a key", CatalogPart::Keys, |session| insert_key(session, stored))
    }

    pub(crate) fn keys(&self) -> Result<Vec<StoredKey>, StoreError> {
        let sql = "select key, id, name, secret_sha256, scope, collections, created_at_ms, expires_at_ms from dragoman.api_keys
                   order by id";
        self.run("reading keys", |session| session.rows(sql, &[])?.into_iter().map(|row| read_key(&CatalogRow(row))).collect())
    }

    pub(crate) fn remove_key(&self, id: &KeyId) -> Result<bool, StoreError> {
        let sql = "delete from dragoman.api_keys where id = $1";
        self.change_part("removing a key", CatalogPart::Keys, |session| Ok(session.execute(sql, &[&id.as_str()])? > 0))
    }

    fn with_member(server: &Arc<PostgresServer>, member: Member) -> Self {
        Self { server: Arc::clone(server), member, known: KnownVersions::default(), others: Mutex::default() }
    }

    /// Runs statements. Errors name the operation `doing`.
    fn run<T>(&self, doing: &'static str, work: impl FnOnce(&mut Session) -> Result<T, Fault>) -> Result<T, StoreError> {
        run_blocking(|| self.server.session().and_then(|mut session| work(&mut session)))
            .map_err(|fault| fault.into_store_error(doing))
    }

    /// Runs several statements in one transaction.
    fn transaction<T>(&self, doing: &'static str, work: impl FnOnce(&mut Session) -> Result<T, Fault>) -> Result<T, StoreError> {
        self.run(doing, |session| session.in_transaction("begin", work))
    }

    /// Runs a change of a part. Fails with `StoreError::CatalogChanged` if this server does not know the part's current
    /// version.
    fn change_part<T>(
        &self,
        doing: &'static str,
        part: CatalogPart,
        work: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let (done, version) = self.transaction(doing, |session| {
            let version = versions::increment(session, part, self.known_version(part))?;
            Ok((work(session)?, version))
        })?;
        self.set_known_version(part, version);
        Ok(done)
    }
}

fn read_aliases(session: &mut Session) -> Result<Vec<Alias>, Fault> {
    let sql =
        "select a.name, c.name, c.key from dragoman.aliases a join dragoman.catalog c on c.id = a.collection order by a.name";
    let read = |row: postgres::Row| {
        let key = row.try_get(2)?;
        let corrupt = |_| StoreError::CorruptRow { table: "aliases", row: key, problem: "its name is not valid" };
        let name = CollectionName::parse(row.try_get(0)?).map_err(corrupt)?;
        Ok(Alias { name, collection: CollectionName::parse(row.try_get(1)?).map_err(corrupt)? })
    };
    session.rows(sql, &[])?.into_iter().map(read).collect()
}

/// Adds a row. Returns 0 if the name is taken.
fn insert(session: &mut Session, collection: &Collection) -> Result<u64, Fault> {
    let sql = "insert into dragoman.catalog (id, name, description, model, model_fingerprint, dimension, metric, created_at_ms,
                   quantization, m, ef_construction, ef_search, default_languages, passage_tokens_max, passage_overlap_tokens)
               values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) on conflict (name) do nothing";
    let (model, fingerprint) =
        collection.model.as_ref().map_or(("", ""), |model| (model.name.as_str(), model.fingerprint.as_str()));
    let description = collection.description.as_deref().map(text);
    let description = description.as_deref();
    let [dimension, m, ef_construction, ef_search] =
        [collection.dimension, collection.hnsw.m, collection.hnsw.ef_construction, collection.hnsw.ef_search]
            .map(|number| number as i64);
    let languages = codes(&collection.default_languages);
    let tokens_max = collection.passages.map(|bounds| bounds.tokens_max as i64);
    let overlap = collection.passages.map_or(0, |bounds| bounds.overlap_tokens as i64);
    let values: [Parameter<'_>; 15] = [
        &collection.id.0,
        &collection.name.as_str(),
        &description,
        &model,
        &fingerprint,
        &dimension,
        &collection.metric.name(),
        &collection.created_at_ms,
        &collection.quantization.name(),
        &m,
        &ef_construction,
        &ef_search,
        &languages,
        &tokens_max,
        &overlap,
    ];
    session.execute(sql, &values)
}

/// Adds the row of a key.
fn insert_key(session: &mut Session, stored: &StoredKey) -> Result<(), Fault> {
    let sql = "insert into dragoman.api_keys (id, name, secret_sha256, scope, collections, created_at_ms, expires_at_ms)
               values ($1, $2, $3, $4, $5, $6, $7)";
    let key = &stored.key;
    let (name, hash) = (text(&key.name), stored.secret_sha256.as_slice());
    let collections = key.collections.as_deref().map(names_json);
    let values: [Parameter<'_>; 7] =
        [&key.id.as_str(), &name.as_ref(), &hash, &key.scope.name(), &collections, &key.created_at_ms, &key.expires_at_ms];
    session.execute(sql, &values).map(drop)
}

/// Drops collections that the catalog does not name: replaced ones that nobody reads, replacements whose job has ended, and
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
                let error = &fault.into_store_error("removing a replaced collection") as &dyn std::error::Error;
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
