//! A collection on a database server that is replaced by another one: writes to it wait in the meantime and then fail on
//! every server, and its rows stay as long as they are read.

use std::sync::Arc;
use std::time::Duration;

use dragoman::domain::{
    CollectionModel, CollectionName, Job, JobId, JobProgress, JobStatus, JobType, JobUnit, Metadata, PassageBounds, Precondition,
    RequestKey, Sequence,
};
use dragoman::storage::{Postgres, PostgresCatalog, PostgresOptions, PostgresServer, Storage};
use dragoman::store::StoreError;
use postgres::{Client, NoTls};

use crate::contract::{WRITES_MAX, collection, document, id, terms_of};
use crate::postgres_server::Database;

/// A collection that a job replaces.
struct Replacing {
    options: PostgresOptions,
    server: Arc<PostgresServer>,
    catalog: PostgresCatalog,
    old: Postgres,
    old_row: dragoman::domain::Collection,
    next: Postgres,
    next_row: dragoman::domain::Collection,
}

fn name(text: &str) -> CollectionName {
    CollectionName::parse(text).unwrap()
}

fn job(number: usize) -> Job {
    Job {
        id: JobId::parse(&format!("0198c0de-0000-7000-8000-{number:012}")).unwrap(),
        kind: JobType::Reembed,
        status: JobStatus::Queued,
        collection: Some(name("texts")),
        request: Metadata::new(),
        details: Metadata::new(),
        progress: JobProgress { done: 0, total: 9, unit: JobUnit::Documents, rate: None, eta_s: None },
        error: None,
        cancel_requested: false,
        created_at_ms: 1,
        started_at_ms: None,
        finished_at_ms: None,
    }
}

fn of_model(fingerprint: &str, dimension: usize) -> dragoman::domain::Collection {
    let row = collection(dimension, dragoman::domain::Metric::Cosine);
    let model = CollectionModel { name: "ems".to_owned(), fingerprint: fingerprint.to_owned() };
    dragoman::domain::Collection {
        model: Some(model),
        passages: Some(PassageBounds { tokens_max: 64, overlap_tokens: 0 }),
        ..row
    }
}

impl Replacing {
    fn begin() -> Self {
        let options = Database::shared().0.own();
        let server = PostgresServer::connect(&options).unwrap();
        let catalog = PostgresCatalog::open(&server).unwrap();
        let open = |row| Postgres::open(&server, row, terms_of(), WRITES_MAX).unwrap();
        let (old_row, next_row) = (of_model("old", 3), of_model("new", 5));
        let (old, next) = (open(&old_row), open(&next_row));
        catalog.create(&old_row, None).unwrap();
        catalog.set_alias(&name("latest"), &old_row.id).unwrap();
        catalog.create_job(&job(1), None, None).unwrap();
        next.mark_replacement(&job(1).id).unwrap();
        Self { options, server, catalog, old, old_row, next, next_row }
    }

    fn swap_in(&self) -> Result<bool, StoreError> {
        let mut blocked = self.old.block_writes()?;
        self.catalog.swap_in(&mut blocked, &job(1).id, &self.old_row.id, &self.next_row)
    }

    fn ids(&self) -> Vec<String> {
        let mut client = Client::connect(&self.options.url, NoTls).unwrap();
        let rows = client.query("select id from dragoman.collections order by key", &[]).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Pretends that so much time has passed.
    fn pretend_elapsed(&self, ms: i64) {
        let mut client = Client::connect(&self.options.url, NoTls).unwrap();
        client.execute("update dragoman.collections set replaced_at_ms = replaced_at_ms - $1", &[&ms]).unwrap();
    }
}

#[test]
fn a_replacement_takes_over_name_aliases_idempotency_records_and_sequence() {
    let replacing = Replacing::begin();
    let Replacing { catalog, old, next, old_row, next_row, .. } = &replacing;
    let request = RequestKey::new("k", "f".to_owned()).unwrap();
    old.upsert_once(vec![document("a", "sea")], request.clone(), Box::new(|_| "answered".to_owned())).unwrap();
    old.upsert_for_job(&job(1).id, vec![document("b", "sea")], Box::new(|_| "half".to_owned())).unwrap();
    assert!(replacing.swap_in().unwrap());
    let names = catalog.names().unwrap();
    let shown = dragoman::domain::Collection { name: old_row.name.clone(), ..next_row.clone() };
    assert_eq!((names.collections, names.replaced.get(&old_row.id)), (vec![shown], Some(&next_row.id)));
    assert_eq!((names.aliases.len(), names.aliases[0].collection.as_str()), (1, "texts"));
    assert_eq!(next.idempotency_record(&request).unwrap().as_deref(), Some("answered"));
    assert_eq!(next.job_checkpoint(&job(1).id).unwrap().as_deref(), Some("half"));
    assert!(next.upsert_if(vec![document("c", "sea")], Precondition::None).unwrap()[0].sequence > old.sequence().unwrap());
    assert!(matches!(replacing.swap_in(), Err(StoreError::Replaced)));
    let import = Job { kind: JobType::Import, ..job(2) };
    let late = catalog.create_job(&import, None, Some(&old_row.id));
    assert!(matches!(late, Err(StoreError::Replaced)), "a job for the old collection would not be passed on: {late:?}");
    assert_eq!(catalog.create_job(&import, None, Some(&next_row.id)).unwrap(), None);
}

#[test]
fn a_job_that_follows_a_collection_waits_for_a_running_swap() {
    let replacing = Replacing::begin();
    let Replacing { catalog, old_row, options, .. } = &replacing;
    let import = Job { kind: JobType::Import, ..job(2) };
    let mut swapping = Client::connect(&options.url, NoTls).unwrap();
    let mut swap = swapping.transaction().unwrap();
    let sql = "with pointed as (update dragoman.aliases set collection = 'swapped' where collection = $1)
               update dragoman.catalog set id = 'swapped' where id = $1";
    swap.execute(sql, &[&old_row.id.0]).unwrap();
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| catalog.create_job(&import, None, Some(&old_row.id)));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!accepting.is_finished());
        swap.commit().unwrap();
        let accepted = accepting.join().unwrap();
        assert!(matches!(accepted, Err(StoreError::Replaced)), "{accepted:?}");
    });
}

#[test]
fn writes_wait_on_every_server_while_blocked_and_fail_after_a_swap() {
    let replacing = Replacing::begin();
    let elsewhere = PostgresServer::connect(&replacing.options).unwrap();
    let other = Postgres::open_existing(&elsewhere, &replacing.old_row, terms_of(), WRITES_MAX).unwrap();
    let write = |of: &Postgres, text: &str| of.upsert_if(vec![document(text, "sea")], Precondition::None);
    std::thread::scope(|scope| {
        let blocked = replacing.old.block_writes().unwrap();
        let writing = [&replacing.old, &other].map(|of| scope.spawn(move || write(of, "a").map(drop)));
        std::thread::sleep(Duration::from_millis(200));
        assert!(writing.iter().all(|one| !one.is_finished()));
        assert!(other.get(&id("a")).unwrap().is_none(), "reads continue");
        drop(blocked);
        writing.into_iter().for_each(|one| one.join().unwrap().unwrap());
    });
    std::thread::scope(|scope| {
        let mut blocked = replacing.old.block_writes().unwrap();
        let other = &other;
        let writing = scope.spawn(move || write(other, "late").map(drop));
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(blocked.metadata_indexes().unwrap(), []);
        let Replacing { catalog, old_row, next_row, .. } = &replacing;
        assert!(catalog.swap_in(&mut blocked, &job(1).id, &old_row.id, next_row).unwrap());
        let refused = writing.join().unwrap();
        assert!(matches!(refused, Err(StoreError::Replaced)), "{refused:?}");
    });
    assert!(other.get(&id("late")).unwrap().is_none());
    assert!(matches!(other.delete_if(&id("a"), Precondition::None), Err(StoreError::Replaced)));
    assert!(other.get(&id("a")).unwrap().is_some(), "the replaced collection stays readable");
}

#[test]
fn only_the_owner_of_the_job_copies_and_swaps() {
    let replacing = Replacing::begin();
    let mut client = Client::connect(&replacing.options.url, NoTls).unwrap();
    client.execute("update dragoman.jobs set owner = 1", &[]).unwrap();
    let elsewhere = |done: Result<(), StoreError>| assert!(matches!(done, Err(StoreError::JobTakenOver)), "{done:?}");
    elsewhere(replacing.next.write_copies(&job(1).id, Vec::new()));
    elsewhere(replacing.next.delete_by_key(&job(1).id, Vec::new()));
    elsewhere(replacing.swap_in().map(drop));
    assert!(
        replacing.old.upsert_if(vec![document("a", "sea")], Precondition::None).is_ok(),
        "the old collection still accepts writes"
    );
}

#[test]
fn a_collection_deleted_or_changed_elsewhere_is_not_replaced() {
    let replacing = Replacing::begin();
    let other = PostgresCatalog::open(&PostgresServer::connect(&replacing.options).unwrap()).unwrap();
    let changed = dragoman::domain::Collection { description: Some("new".to_owned()), ..replacing.old_row.clone() };
    assert!(other.update(&changed).unwrap());
    assert!(matches!(replacing.swap_in(), Err(StoreError::CatalogChanged)));
    other.delete(&name("texts")).unwrap().unwrap();
    assert!(matches!(replacing.old.block_writes(), Err(StoreError::Closed)));
}

#[test]
fn one_job_at_a_time_replaces_a_collection() {
    let replacing = Replacing::begin();
    let second = replacing.catalog.create_job(&job(2), None, None);
    assert!(matches!(second, Err(StoreError::JobUnfinished)), "{second:?}");
    let other = Job { collection: Some(name("other")), ..job(3) };
    replacing.catalog.create_job(&other, None, None).unwrap();
    replacing.catalog.finish_job(&job(1).id, JobStatus::Canceled, None, 2).unwrap();
    replacing.catalog.create_job(&job(2), None, None).unwrap();
}

#[test]
fn rows_of_a_replaced_collection_are_removed_once_nobody_reads_them() {
    let replacing = Replacing::begin();
    let reader = PostgresServer::connect(&replacing.options).unwrap();
    let _member = PostgresCatalog::open(&reader).unwrap();
    let reading = Postgres::open_existing(&reader, &replacing.old_row, terms_of(), WRITES_MAX).unwrap();
    assert!(!replacing.old.remove_replaced().unwrap(), "it was not replaced");
    assert!(replacing.swap_in().unwrap());
    assert!(!replacing.old.remove_replaced().unwrap(), "another server may not know about the replacement yet");
    reading.retain_replaced();
    replacing.pretend_elapsed(60_000);
    assert!(!replacing.old.remove_replaced().unwrap(), "another server still reads it");
    drop(PostgresCatalog::open(&PostgresServer::connect(&replacing.options).unwrap()).unwrap());
    assert_eq!(replacing.ids().len(), 2);
    assert!(reading.remove_replaced().unwrap() && replacing.old.remove_replaced().unwrap());
    assert_eq!(replacing.ids(), [replacing.next_row.id.0.as_str()]);
}

#[test]
fn startup_removes_replaced_collections_and_abandoned_replacements() {
    let replacing = Replacing::begin();
    let fresh = |at: usize| {
        let row = of_model("other", at);
        let engine = Postgres::open(&replacing.server, &row, terms_of(), WRITES_MAX).unwrap();
        engine.upsert_if(vec![document("a", "sea")], Precondition::None).unwrap();
        (engine, row)
    };
    let ((abandoned, _), (going_on, kept)) = (fresh(4), fresh(6));
    abandoned.mark_replacement(&job(8).id).unwrap();
    replacing.catalog.create_job(&Job { collection: Some(name("other")), ..job(9) }, None, None).unwrap();
    going_on.mark_replacement(&job(9).id).unwrap();
    assert!(replacing.swap_in().unwrap());
    replacing.pretend_elapsed(60_000);
    drop(PostgresCatalog::open(&PostgresServer::connect(&replacing.options).unwrap()).unwrap());
    assert_eq!(replacing.ids(), [replacing.next_row.id.0.as_str(), kept.id.0.as_str()]);
    Postgres::remove_unlisted(&replacing.server, &kept.id).unwrap();
    Postgres::remove_unlisted(&replacing.server, &replacing.next_row.id).unwrap();
    assert_eq!(replacing.ids(), [replacing.next_row.id.0.as_str()], "the catalog still lists it");
    assert_eq!(replacing.next.sequence().unwrap(), Sequence(0));
}
