//! Checks for damage: SQLite's own check of the file's structure, then every document and every embedding against its checksum.

use rusqlite::Connection;

use super::StoreError;
use super::error::{Fault, cause};
use super::rows::{self, DOCUMENT_COLUMNS, PASSAGE_COLUMNS, read_embedding};

pub(super) fn check(connection: &Connection, limit: usize) -> Result<Vec<StoreError>, Fault> {
    let mut found = check_structure(connection, CHECKING, limit)?;
    if found.is_empty() {
        found.extend(wrong_counts(connection)?);
    }
    let documents = format!("select {DOCUMENT_COLUMNS} from documents d order by d.key");
    read_all_rows(connection, &documents, limit, &mut found, |row| rows::document(row).map(drop))?;
    let passages = format!(
        "select {DOCUMENT_COLUMNS}, {PASSAGE_COLUMNS} from passages wanted join documents d on d.key = wanted.document
         order by wanted.id"
    );
    read_all_rows(connection, &passages, limit, &mut found, |row| rows::passage(row).map(drop))?;
    let embeddings = "select id, embedding from passages where embedding is not null order by id";
    read_all_rows(connection, embeddings, limit, &mut found, |row| read_embedding(row, 0).map(drop))?;
    Ok(found)
}

/// Returns what SQLite's own check finds: inconsistent pages, and indexes that do not match their tables.
pub(super) fn check_structure(connection: &Connection, operation: &'static str, limit: usize) -> Result<Vec<StoreError>, Fault> {
    let mut statement = connection.prepare(&format!("pragma integrity_check({limit})"))?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    loop {
        let message: String = match rows.next() {
            Ok(Some(row)) => row.get(0)?,
            Ok(None) => return Ok(found),
            Err(error) => {
                found.push(into_damage(error, operation)?);
                return Ok(found);
            }
        };
        if message != "ok" {
            found.push(StoreError::Damaged { operation, source: cause(&message.replace('\n', " ")) });
        }
    }
}

/// Compares the counts that triggers maintain with the rows.
fn wrong_counts(connection: &Connection) -> Result<Option<StoreError>, Fault> {
    let sql = "select (select count(*) from passages) = (select passages from state)
               and (select count(*) from documents) = (select coalesce(sum(documents), 0) from language_counts)";
    let fit: bool = connection.query_row(sql, [], |row| row.get(0))?;
    let problem = "its counts do not match the rows";
    Ok((!fit).then_some(StoreError::CorruptRow { table: "state", row: 1, problem }))
}

const CHECKING: &str = "checking the database";

/// Reads all rows of a query. Continues after a damaged row, and stops where SQLite itself cannot continue.
fn read_all_rows(
    connection: &Connection,
    sql: &str,
    limit: usize,
    found: &mut Vec<StoreError>,
    read: impl Fn(&rusqlite::Row<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while found.len() < limit {
        match rows.next() {
            Ok(Some(row)) => {
                if let Err(fault) = read(row) {
                    found.push(into_damage(fault, CHECKING)?);
                }
            }
            Ok(None) => break,
            Err(error) => {
                found.push(into_damage(error, CHECKING)?);
                break;
            }
        }
    }
    Ok(())
}

/// Separates damage from unrelated failures.
pub(super) fn into_damage(fault: impl Into<Fault>, operation: &'static str) -> Result<StoreError, Fault> {
    let error = fault.into().into_store_error(operation);
    if error.is_damage() { Ok(error) } else { Err(error.into()) }
}
