//! Copies the rows of a foreign database into a new database that our own migrations create. Copies nothing else: indexes,
//! triggers, counts and the index of terms are rebuilt.
//!
//! The new database is created at the version of the foreign one and then migrated, as the foreign one would have been. It must
//! not be used before the copy is complete: a crash leaves an unusable file.

use std::fs::File;
use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::check::into_damage;
use super::checksum::unseal_embedding;
use super::connection::{file_error, sync};
use super::error::{Fault, cause};
use super::foreign::{DatabaseKind, ForeignDatabase};
use super::metadata_indexes::declare;
use super::migrate::{apply, migrate};
use super::queries::CUTTING_RULES;
use super::rows::{self, DOCUMENT_COLUMNS, PASSAGE_COLUMNS};
use super::{StoreError, TermsOf, term_rows};
use crate::domain::passages::{HEADING_CHARS_MAX, HEADINGS_MAX};
use crate::domain::{Language, PassageContext, TITLE_CHARS_MAX};

/// KiB of pages that the new database keeps in memory.
const CACHE_KIB: i64 = 32 << 10;
/// Number of SQLite virtual machine steps between two checks for cancellation.
const STEPS_PER_CHECK: i32 = 10_000;
/// The largest integer that a row may have, far from the end of the range, so that counters above it never overflow.
const NUMBER_MAX: i64 = i64::MAX / 2;
/// Maximum damaged rows to report.
const DAMAGE_MAX: usize = 100;
/// Maximum bytes of a title, and of the headings above a passage with their line ends.
const TITLE_BYTES_MAX: usize = TITLE_CHARS_MAX * CHAR_BYTES_MAX;
const HEADINGS_BYTES_MAX: usize = HEADINGS_MAX * (HEADING_CHARS_MAX * CHAR_BYTES_MAX + 1);
const CHAR_BYTES_MAX: usize = 4;
const OPERATION: &str = "reading a foreign database";

/// The tables whose rows are copied, in an order that satisfies references. Checkpoints of jobs are out of date, indexes are
/// saved again, and archives never contain keys.
const CATALOG_TABLES: &[&str] = &["collections", "aliases", "classifiers", "classifier_texts"];
// The last two are one table, before and after it was renamed.
const COLLECTION_TABLES: &[&str] = &["documents", "passages", "kept_answers", "idempotency_records"];

/// Copies the rows of the database `from`, which no other process has open and which should be of this kind, into the new file
/// `to`. Returns the damage found in the first damaged rows. Damaged rows are copied unchanged, so that reading them reports the
/// damage. A damaged embedding is left out and computed again. `stop` is checked regularly; once it returns true, this ends with
/// `StoreError::Interrupted`. The file is durable when this returns.
pub fn import_foreign(
    kind: DatabaseKind,
    from: &Path,
    to: &Path,
    terms_of: &TermsOf,
    stop: impl Fn() -> bool + Clone + Send + 'static,
) -> Result<Vec<StoreError>, StoreError> {
    let foreign = ForeignDatabase::open(kind, from, stop.clone())?;
    let damage = create(to).and_then(|ours| copy(kind, &foreign, ours, terms_of, stop));
    let damage = damage.map_err(|fault| match fault.into_store_error(OPERATION) {
        StoreError::Interrupted { operation } if foreign.took_too_long() => {
            StoreError::Damaged { operation, source: cause("reading a row never ends") }
        }
        // Our own statements are correct, so if SQLite refuses something, the file is to blame.
        StoreError::Sqlite { operation, source } => StoreError::Damaged { operation, source },
        error => error,
    })?;
    sync(to)?;
    Ok(damage)
}

fn copy(
    kind: DatabaseKind,
    foreign: &ForeignDatabase,
    mut ours: Connection,
    terms_of: &TermsOf,
    stop: impl Fn() -> bool + Send + 'static,
) -> Result<Vec<StoreError>, Fault> {
    let schema = kind.schema();
    ours.progress_handler(STEPS_PER_CHECK, Some(stop))?;
    apply(&mut ours, schema, foreign.version)?;
    let tables = match kind {
        DatabaseKind::Catalog => CATALOG_TABLES,
        DatabaseKind::Collection => COLLECTION_TABLES,
    };
    let transaction = ours.transaction()?;
    for table in tables {
        copy_table(foreign, &transaction, table)?;
    }
    if kind == DatabaseKind::Collection {
        copy_state(foreign, &transaction)?;
    }
    transaction.commit()?;
    migrate(&mut ours, schema)?;
    if kind == DatabaseKind::Catalog {
        return Ok(Vec::new());
    }
    let transaction = ours.transaction()?;
    for (number, path) in (1..).zip(&foreign.indexes) {
        declare(&transaction, path, number)?;
    }
    // Tokens are recomputed: those of an archive cannot be trusted.
    transaction.execute("update token_fill set filled = 0, until = (select sequence from state)", [])?;
    let damage = check_rows(&transaction, terms_of)?;
    transaction.commit()?;
    Ok(damage)
}

/// Creates a new database without protection against a crash.
fn create(path: &Path) -> Result<Connection, Fault> {
    if let Err(error) = File::create_new(path) {
        return Err(file_error(path, error).into());
    }
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.pragma_update_and_check(None, "journal_mode", "off", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "off")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}

/// Copies all rows of a table, if this version has it. Our own definition determines its columns.
fn copy_table(foreign: &ForeignDatabase, ours: &Connection, table: &'static str) -> Result<(), Fault> {
    let columns = columns(ours, table)?;
    if columns.is_empty() {
        return Ok(());
    }
    let placeholders = vec!["?"; columns.len()].join(", ");
    let columns_sql = columns.join(", ");
    let mut insert = ours.prepare(&format!("insert into {table} ({columns_sql}) values ({placeholders})"))?;
    // Reads in storage order. If a row occurs twice, as in a maliciously linked tree, it violates our keys.
    let mut select = foreign.connection.prepare(&format!("select {columns_sql} from main.{table} not indexed"))?;
    let mut rows = select.query([])?;
    let mut number = 0;
    while let Some(row) = rows.next()? {
        foreign.record_row();
        number += 1;
        for column in 0..columns.len() {
            let value = row.get_ref(column)?;
            if matches!(value, ValueRef::Integer(value) if !(0..=NUMBER_MAX).contains(&value)) {
                let problem = "it has a number that this program never writes";
                return Err(StoreError::CorruptRow { table, row: number, problem }.into());
            }
            insert.raw_bind_parameter(column + 1, ToSqlOutput::Borrowed(value))?;
        }
        insert.raw_execute().map_err(|error| refused_row(error, table, number))?;
    }
    Ok(())
}

/// Converts the error of our table when it refuses a row with a duplicate key, a wrong type or a broken reference.
fn refused_row(error: rusqlite::Error, table: &'static str, row: i64) -> Fault {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => {
            StoreError::CorruptRow { table, row, problem: "it violates the table's constraints" }.into()
        }
        _ => error.into(),
    }
}

fn columns(ours: &Connection, table: &str) -> Result<Vec<String>, Fault> {
    let mut statement = ours.prepare("select name from pragma_table_info(?1)")?;
    Ok(statement.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// Copies the sequence number, the identity, and the last key of a passage. Our own triggers have already updated the
/// counts.
fn copy_state(foreign: &ForeignDatabase, ours: &Connection) -> Result<(), Fault> {
    let corrupt = |problem| Fault::from(StoreError::CorruptRow { table: "state", row: 1, problem });
    let columns = columns(ours, "state")?;
    let [has_identity, has_rules] = ["identity", "cutting_rules"].map(|name| columns.iter().any(|column| column == name));
    let or_null = |name: &'static str, there| if there { name } else { "null" };
    let (identity, rules) = (or_null("identity", has_identity), or_null("cutting_rules", has_rules));
    let sql = format!("select sequence, {identity}, {rules} from main.state not indexed");
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<Vec<u8>>>(1)?, row.get(2)?));
    let (sequence, identity, rules): (i64, Option<Vec<u8>>, Option<i64>) =
        foreign.connection.query_row(&sql, [], read).map_err(|error| match error {
            rusqlite::Error::QueryReturnedNoRows => corrupt("it is missing"),
            other => other.into(),
        })?;
    foreign.record_row();
    let sql = "select max(coalesce((select max(sequence) from documents), 0),
               coalesce((select max(embedded_sequence) from passages), 0))";
    let minimum: i64 = ours.query_row(sql, [], |row| row.get(0))?;
    if !(minimum..=NUMBER_MAX).contains(&sequence) {
        return Err(corrupt("its sequence number is lower than that of a row"));
    }
    // Tombstones are only needed by an index saved before them, and archives contain no index.
    let purged =
        if columns.iter().any(|column| column == "tombstones_purged") { "tombstones_purged" } else { "removals_forgotten" };
    ours.execute(&format!("update state set sequence = ?1, {purged} = ?1"), [sequence])?;
    if has_identity {
        let identity = identity.filter(|identity| identity.len() == IDENTITY_BYTES);
        ours.execute("update state set identity = ?1", [identity.ok_or_else(|| corrupt("it has no identity"))?])?;
    }
    if has_rules {
        let known = rules.filter(|rules| (1..=CUTTING_RULES).contains(rules));
        let rules = known.ok_or_else(|| corrupt("its texts are split by unknown rules"))?;
        ours.execute("update state set cutting_rules = ?1", [rules])?;
    }
    let sql = "select seq from main.sqlite_sequence not indexed where name = 'passages'";
    let mut statement = foreign.connection.prepare(sql)?;
    let last = statement.query([])?.next()?.map(|row| row.get::<_, i64>(0)).transpose()?;
    foreign.record_row();
    match last {
        Some(last) if (0..=NUMBER_MAX).contains(&last) => {
            let sql = "select coalesce(max(id), 0) from passages";
            let last = last.max(ours.query_row(sql, [], |row| row.get(0))?);
            ours.execute("delete from sqlite_sequence where name = 'passages'", [])?;
            ours.execute("insert into sqlite_sequence (name, seq) values ('passages', ?1)", [last])?;
            Ok(())
        }
        Some(_) => {
            let problem = "it has a number that this program never writes";
            Err(StoreError::CorruptRow { table: "sqlite_sequence", row: 1, problem }.into())
        }
        None => Ok(()),
    }
}

const IDENTITY_BYTES: usize = 16;

/// Reads every document, passage and embedding as the server would, and writes the terms of passages.
fn check_rows(ours: &Connection, terms_of: &TermsOf) -> Result<Vec<StoreError>, Fault> {
    let mut damage = Vec::new();
    let mut record = |found: Result<(), Fault>| -> Result<bool, Fault> {
        let Err(fault) = found else { return Ok(true) };
        let error = into_damage(fault, OPERATION)?;
        if damage.len() < DAMAGE_MAX {
            damage.push(error);
        }
        Ok(false)
    };
    let mut select = ours.prepare(&format!("select {DOCUMENT_COLUMNS} from documents d order by d.key"))?;
    let mut documents = select.query([])?;
    while let Some(row) = documents.next()? {
        check_length(row, 12, TITLE_BYTES_MAX, ("documents", row.get(0)?))?;
        record(rows::document(row).map(drop))?;
        let text = row.get_ref(8)?.as_str().unwrap_or_default();
        let mut unreadable = Vec::new();
        let title: Option<String> = row.get(12).unwrap_or_default();
        let language: Option<Language> = row.get::<_, Option<String>>(2).unwrap_or_default().as_deref().and_then(Language::parse);
        let sql = format!("select {PASSAGE_COLUMNS}, embedding from passages wanted where document = ?1 order by ordinal");
        let mut select = ours.prepare_cached(&sql)?;
        let mut passages = select.query([row.get::<_, i64>(0)?])?;
        while let Some(passage) = passages.next()? {
            let id: i64 = passage.get(0)?;
            check_length(passage, 6, HEADINGS_BYTES_MAX, ("passages", id))?;
            let context = PassageContext { title: title.clone(), headings: passage.get(6).unwrap_or_default() };
            let terms = |text: &str| terms_of.compute(&context.prepend_to(text), language);
            let intact = rows::passage_at(passage, 0, text);
            if record(intact.and_then(|(_, range, _)| term_rows::insert(ours, id, &terms(&text[range]))))?
                && let ValueRef::Blob(sealed) = passage.get_ref(7)?
                && unseal_embedding(id, sealed).is_err()
            {
                unreadable.push(id);
            }
        }
        for id in unreadable {
            let sql = "update passages set embedding = null, embedded_sequence = null where id = ?1";
            ours.prepare_cached(sql)?.execute([id])?;
        }
    }
    ours.execute("update lexical_fill set filled = until", [])?;
    ours.execute("update stem_fill set filled = until, vocabulary = ?1", [terms_of.vocabulary])?;
    Ok(damage)
}

/// Limits a column that is read again with every passage of a document.
fn check_length(row: &rusqlite::Row<'_>, column: usize, max: usize, at: (&'static str, i64)) -> Result<(), Fault> {
    let long = row.get_ref(column)?.as_bytes_or_null().is_ok_and(|bytes| bytes.is_some_and(|bytes| bytes.len() > max));
    let (table, row) = at;
    let problem = "its title or its headings are longer than this program allows";
    if long { Err(StoreError::CorruptRow { table, row, problem }.into()) } else { Ok(()) }
}
