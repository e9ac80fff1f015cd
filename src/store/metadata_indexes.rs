//! Declared metadata indexes. The list of their paths is stored next to the documents, so a copy of the database includes it.

use rusqlite::Connection;

use super::StoreError;
use super::error::Fault;
use super::filter::index_expression;
use super::rows::query_one;
use super::write_transaction::WriteTransaction;
use crate::domain::MetadataPath;

/// The key under which `job_checkpoints` has the rest of a change. No job has this id, because ids of jobs are UUIDs.
pub(super) const UNFINISHED_CHANGE: &str = "collection-change";
/// Prefix of the names of these indexes. A number follows.
const INDEX_PREFIX: &str = "documents_metadata_";

/// Whether `set` creates such names.
pub(super) fn is_index_name(name: &str) -> bool {
    let number = name.strip_prefix(INDEX_PREFIX).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn all(connection: &Connection) -> Result<Vec<MetadataPath>, Fault> {
    let mut statement = connection.prepare("select path from metadata_indexes order by path")?;
    let paths = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    let damaged = |_| StoreError::CorruptRow { table: "metadata_indexes", row: 0, problem: "its path is not valid" };
    paths.iter().map(|path| Ok(MetadataPath::parse(path).map_err(damaged)?)).collect()
}

/// Creates missing indexes and drops those that are not in `paths`. Returns the indexed paths.
pub(super) fn set(transaction: &mut WriteTransaction<'_>, paths: &[MetadataPath]) -> Result<Vec<MetadataPath>, Fault> {
    let connection = transaction.connection;
    let declared = all(connection)?;
    for path in declared.iter().filter(|path| !paths.contains(path)) {
        let text = path.to_string();
        let name: String =
            connection.query_row("select name from metadata_indexes where path = ?1", [&text], |row| row.get(0))?;
        // The name becomes part of a statement, and the database may be foreign.
        if !is_index_name(&name) {
            let problem = "it names an unknown index";
            return Err(StoreError::CorruptRow { table: "metadata_indexes", row: 0, problem }.into());
        }
        connection.execute_batch(&format!("drop index {name}"))?;
        connection.execute("delete from metadata_indexes where path = ?1", [&text])?;
    }
    for path in paths.iter().filter(|path| !declared.contains(path)) {
        // The number only grows, so no name is used twice.
        let sql = "select coalesce(max(cast(substr(name, 20) as integer)), 0) + 1 from metadata_indexes";
        declare(connection, path, connection.query_row(sql, [], |row| row.get(0))?)?;
    }
    all(connection)
}

/// Stores what is left to do of a change that began with the indexes. `None` means that nothing is.
pub(super) fn set_unfinished_change(transaction: &WriteTransaction<'_>, rest: Option<&str>) -> Result<(), Fault> {
    let connection = transaction.connection;
    connection.execute("delete from job_checkpoints where job = ?1", [UNFINISHED_CHANGE])?;
    if let Some(rest) = rest {
        connection.execute("insert into job_checkpoints (job, checkpoint) values (?1, ?2)", [UNFINISHED_CHANGE, rest])?;
    }
    Ok(())
}

/// Returns what is left to do of a change.
pub(super) fn unfinished_change(connection: &Connection) -> Result<Option<String>, Fault> {
    let sql = "select checkpoint from job_checkpoints where job = ?1";
    query_one(connection, sql, [UNFINISHED_CHANGE], |row| Ok(row.get(0)?))
}

/// Creates the index of a path, unless it exists.
pub(super) fn declare(connection: &Connection, path: &MetadataPath, number: i64) -> Result<(), Fault> {
    let (text, name) = (path.to_string(), format!("{INDEX_PREFIX}{number}"));
    let inserted = connection.execute("insert or ignore into metadata_indexes (path, name) values (?1, ?2)", [&text, &name])?;
    if inserted == 1 { create_index(connection, &name, path) } else { Ok(()) }
}

/// Creates the index of a path under a name that satisfies `is_index_name`.
pub(super) fn create_index(connection: &Connection, name: &str, path: &MetadataPath) -> Result<(), Fault> {
    let expression = index_expression(path, "metadata").ok_or_else(|| StoreError::PathNotIndexable { path: path.to_string() })?;
    Ok(connection.execute_batch(&format!("create index {name} on documents ({expression})"))?)
}
