//! The documents that match a filter: their passages for searches, pages of them, their deletion and changes to them.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use super::conditional::change;
use super::documents::DocumentStore;
use super::error::Fault;
use super::filter::{Condition, SearchFilter};
use super::mutations::delete_key;
use super::rows::{self, DOCUMENT_COLUMNS, passage_id, to_sql};
use super::writer::WriteTransaction;
use super::{StoreError, queries};
use crate::domain::{DocumentOrder, DocumentPatch, PassageId, ScrollPage, ScrollPosition, ScrollRequest, Sequence};

/// Documents deleted or changed in one transaction: bounds how long other writes wait.
const CHANGED_PER_TRANSACTION: usize = 500;

/// The passages whose documents match a filter: all of them, or changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Matching {
    /// The sequence number of the database that this applies to.
    pub sequence: Sequence,
    /// Whether `passages` are all; otherwise only those of changed documents, to add after removing `dropped`.
    pub complete: bool,
    /// Passages that are gone, or whose document changed.
    pub dropped: Vec<PassageId>,
    /// Passages whose document matches.
    pub passages: Vec<PassageId>,
}

/// The result of one transaction of a longer deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedSome {
    /// The rows of the deleted documents, as `StoreError::CorruptRow` names them.
    pub rows: Vec<i64>,
    /// Where the next transaction continues; `None` when done.
    pub next: Option<i64>,
}

/// The result of one transaction of a longer change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdatedSome {
    /// Documents that matched.
    pub matched: usize,
    /// The rows of those that were changed, as `StoreError::CorruptRow` names them.
    pub rows: Vec<i64>,
    /// Where the next transaction continues; `None` when done.
    pub next: Option<i64>,
}

impl DocumentStore {
    /// Reads the passages, embedded or not, whose documents match; with `after`, only what changed after that number of the
    /// sequence, as far as the database still knows.
    pub fn matching_passages(&self, filter: &SearchFilter, after: Option<Sequence>) -> Result<Matching, StoreError> {
        let condition = self.compile(filter);
        self.read("filtering documents", |connection| matching(connection, &condition, after))
    }

    /// Reads a page of the matching documents, in the requested order. It ends early as one of `list` does.
    pub fn scroll(&self, request: &ScrollRequest, bytes_max: u64) -> Result<ScrollPage, StoreError> {
        let condition = self.compile(&SearchFilter { languages: Vec::new(), filter: request.filter.clone() });
        self.read("listing documents", |connection| scroll(connection, &condition, request, bytes_max))
    }

    /// Deletes some of the matching documents that were not changed after `until`, starting after the place `after`, 0 for
    /// the first. Each transaction is short, so other writes run in between. A document that no longer matches when its turn
    /// comes stays. Waits for a place in the write queue if that is full.
    pub fn delete_some(&self, filter: &SearchFilter, until: Sequence, after: i64) -> Result<DeletedSome, StoreError> {
        const DOING: &str = "deleting documents";
        let condition = self.compile(filter);
        let keys = self.read(DOING, |connection| candidates(connection, &condition, until, after))?;
        let Some(&last) = keys.last() else { return Ok(DeletedSome { rows: Vec::new(), next: None }) };
        let next = (keys.len() == CHANGED_PER_TRANSACTION).then_some(last);
        let delete = move |transaction: &mut WriteTransaction<'_>| delete_keys(transaction, &condition, until, &keys);
        let rows = self.write_patiently(DOING, delete)?;
        Ok(DeletedSome { rows, next })
    }

    /// Changes metadata and expiry of some of the matching documents, chosen as `delete_some` chooses. One that would become too
    /// large fails its whole transaction.
    pub fn update_some(
        &self,
        filter: &SearchFilter,
        until: Sequence,
        after: i64,
        patch: DocumentPatch,
    ) -> Result<UpdatedSome, StoreError> {
        const DOING: &str = "changing documents";
        let (condition, terms_of) = (self.compile(filter), self.terms_of);
        let keys = self.read(DOING, |connection| candidates(connection, &condition, until, after))?;
        let Some(&last) = keys.last() else { return Ok(UpdatedSome { matched: 0, rows: Vec::new(), next: None }) };
        let next = (keys.len() == CHANGED_PER_TRANSACTION).then_some(last);
        self.write_patiently(DOING, move |transaction| {
            let sql =
                format!("select {DOCUMENT_COLUMNS} from documents d where d.key = ? and d.sequence <= ? and {}", condition.sql);
            let mut still = transaction.connection.prepare_cached(&sql)?;
            let (mut matched, mut rows) = (0, Vec::new());
            for key in keys {
                let own = [key, to_sql(until.0)].map(Value::Integer);
                let values = params_from_iter(own.iter().chain(&condition.values));
                let Some(document) = still.query_row(values, |row| Ok(rows::document(row))).optional()?.transpose()? else {
                    continue;
                };
                matched += 1;
                if change(transaction, &document, &patch, terms_of)? {
                    rows.push(key);
                }
            }
            Ok(UpdatedSome { matched, rows, next })
        })
    }
}

fn matching(connection: &Connection, condition: &Condition, after: Option<Sequence>) -> Result<Matching, Fault> {
    let sequence = queries::sequence(connection)?;
    let forgotten = queries::tombstones_purged(connection)?;
    let (mut dropped, mut passages) = (Vec::new(), Vec::new());
    let Some(after) = after.filter(|after| *after >= forgotten) else {
        let sql = format!("select p.id from documents d cross join passages p on p.document = d.key where {}", condition.sql);
        ids(connection, &sql, &condition.values, &mut passages)?;
        return Ok(Matching { sequence, complete: true, dropped, passages });
    };
    if after < sequence {
        let number = [Value::Integer(to_sql(after.0))];
        ids(connection, "select passage from tombstones where sequence > ?", &number, &mut dropped)?;
        let changed = "select p.id from documents d indexed by documents_sequence
                       cross join passages p on p.document = d.key where d.sequence > ?";
        ids(connection, changed, &number, &mut dropped)?;
        let values = [number.as_slice(), condition.values.as_slice()].concat();
        ids(connection, &format!("{changed} and {}", condition.sql), &values, &mut passages)?;
    }
    Ok(Matching { sequence, complete: false, dropped, passages })
}

fn ids(connection: &Connection, sql: &str, values: &[Value], found: &mut Vec<PassageId>) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        found.push(passage_id(row.get(0)?)?);
    }
    Ok(())
}

fn scroll(connection: &Connection, condition: &Condition, request: &ScrollRequest, bytes_max: u64) -> Result<ScrollPage, Fault> {
    let column = match request.order {
        DocumentOrder::Id => None,
        DocumentOrder::CreatedAt => Some("d.created_at_ms"),
        DocumentOrder::UpdatedAt => Some("d.updated_at_ms"),
    };
    let (sign, direction) = if request.descending { ("<", "desc") } else { (">", "asc") };
    let mut sql = format!("select {DOCUMENT_COLUMNS} from documents d where {}", condition.sql);
    let mut values = condition.values.clone();
    if let Some(after) = &request.after {
        let id = Value::Text(after.id.as_str().to_owned());
        match column {
            None => sql.push_str(&format!(" and d.id {sign} ?")),
            Some(column) => {
                sql.push_str(&format!(" and ({column}, d.id) {sign} (?, ?)"));
                values.push(Value::Integer(after.at_ms));
            }
        }
        values.push(id);
    }
    let time = column.map(|column| format!("{column} {direction}, ")).unwrap_or_default();
    sql.push_str(&format!(" order by {time}d.id {direction} limit ?"));
    // One more than requested tells whether there is a next page.
    values.push(Value::Integer(to_sql(request.limit as u64).saturating_add(1)));
    let mut statement = connection.prepare_cached(&sql)?;
    let (documents, more) = queries::page_of(&mut statement.query(params_from_iter(values))?, request.limit, bytes_max)?;
    let next = documents.last().filter(|_| more).map(|document| ScrollPosition {
        at_ms: match request.order {
            DocumentOrder::Id => 0,
            DocumentOrder::CreatedAt => document.created_at_ms,
            DocumentOrder::UpdatedAt => document.updated_at_ms,
        },
        id: document.id.clone(),
    });
    Ok(ScrollPage { documents, next })
}

fn candidates(connection: &Connection, condition: &Condition, until: Sequence, after: i64) -> Result<Vec<i64>, Fault> {
    let sql =
        format!("select d.key from documents d where {} and d.sequence <= ? and d.key > ? order by d.key limit ?", condition.sql);
    let own = [to_sql(until.0), after, CHANGED_PER_TRANSACTION as i64].map(Value::Integer);
    let values = condition.values.iter().cloned().chain(own);
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_map(params_from_iter(values), |row| row.get(0))?.collect::<Result<_, _>>()?)
}

fn delete_keys(
    transaction: &mut WriteTransaction<'_>,
    condition: &Condition,
    until: Sequence,
    keys: &[i64],
) -> Result<Vec<i64>, Fault> {
    let sql = format!("select 1 from documents d where d.key = ? and d.sequence <= ? and {}", condition.sql);
    let mut still = transaction.connection.prepare_cached(&sql)?;
    let mut deleted = Vec::new();
    for key in keys {
        let own = [*key, to_sql(until.0)].map(Value::Integer);
        if still.exists(params_from_iter(own.iter().chain(&condition.values)))? {
            delete_key(transaction, *key)?;
            deleted.push(*key);
        }
    }
    Ok(deleted)
}
