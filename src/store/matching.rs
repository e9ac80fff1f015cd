//! Documents that match a filter: counts them, reads their passages for searches, reads pages of them, deletes and changes them.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::documents::DocumentStore;
use super::error::Fault;
use super::filter::{Condition, index_expression, walk};
use super::mutations::delete_key;
use super::rows::{self, DOCUMENT_COLUMNS, passage_id, query_all, query_number, query_one, to_sql};
use super::write_rules::{BatchChange, CHANGED_PER_TRANSACTION, ChangedBatch, FoundDocument, patch_found};
use super::write_transaction::WriteTransaction;
use super::{StoreError, queries};
use crate::domain::{
    Document, DocumentId, DocumentOrder, MetadataPath, PassageId, Scalar, ScrollPage, ScrollPosition, ScrollRequest,
    SearchFilter, Sequence,
};

/// The passages whose documents match a filter: either all of them, or the changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Matching {
    /// The sequence number of the database when they were read.
    pub sequence: Sequence,
    /// Whether `passages` has all of them. Otherwise it only has those of changed documents: remove `dropped`, then add them.
    pub complete: bool,
    /// Passages that are gone or whose document changed.
    pub dropped: Vec<PassageId>,
    /// Passages whose document matches.
    pub passages: Vec<PassageId>,
}

impl DocumentStore {
    /// Reads the passages, embedded or not, whose documents match. With `after`, only reads what changed after that sequence
    /// number, if the tombstones since then still exist.
    pub fn matching_passages(&self, filter: &SearchFilter, after: Option<Sequence>) -> Result<Matching, StoreError> {
        let condition = self.compile(filter);
        self.scan("filtering documents", |connection| {
            let sequence = queries::sequence(connection)?;
            let purged_to = queries::tombstones_purged(connection)?;
            let ids =
                |sql: &str, values: &[Value]| query_all(connection, sql, params_from_iter(values), |row| passage_id(row.get(0)?));
            let Some(after) = after.filter(|after| *after >= purged_to) else {
                let sql =
                    format!("select p.id from documents d cross join passages p on p.document = d.key where {}", condition.sql);
                let passages = ids(&sql, &condition.values)?;
                return Ok(Matching { sequence, complete: true, dropped: Vec::new(), passages });
            };
            let (mut dropped, mut passages) = (Vec::new(), Vec::new());
            if after < sequence {
                let number = [Value::Integer(to_sql(after.0))];
                let changed = "select p.id from documents d indexed by documents_sequence
                               cross join passages p on p.document = d.key where d.sequence > ?";
                dropped = ids("select passage from tombstones where sequence > ?", &number)?;
                dropped.extend(ids(changed, &number)?);
                let values = [number.as_slice(), condition.values.as_slice()].concat();
                passages = ids(&format!("{changed} and {}", condition.sql), &values)?;
            }
            Ok(Matching { sequence, complete: false, dropped, passages })
        })
    }

    pub fn count_matching(&self, filter: &SearchFilter, limit: usize) -> Result<usize, StoreError> {
        let condition = self.compile(filter);
        let sql = format!("select count(*) from (select 1 from documents d where {} limit ?)", condition.sql);
        let values = condition.values.into_iter().chain([Value::Integer(to_sql(limit as u64))]);
        self.scan("counting documents", |connection| Ok(query_number(connection, &sql, params_from_iter(values))? as usize))
    }

    pub fn scroll(&self, request: &ScrollRequest, bytes_max: u64) -> Result<ScrollPage, StoreError> {
        let condition = self.compile(&SearchFilter { languages: Vec::new(), filter: request.filter.clone() });
        let key = OrderKey::of(&request.order, &self.metadata_indexes());
        self.scan("listing documents", |connection| scroll(connection, &condition, (request, key), bytes_max))
    }

    /// A document that no longer matches when its turn comes stays as it is.
    pub fn change_batch(
        &self,
        change: &BatchChange,
        filter: &SearchFilter,
        until: Sequence,
        after: i64,
    ) -> Result<ChangedBatch, StoreError> {
        let (condition, change) = (self.compile(filter), change.clone());
        let keys = self.read(change.operation(), |connection| candidates(connection, &condition, until, after))?;
        let Some(&last) = keys.last() else { return Ok(ChangedBatch::default()) };
        let next = (keys.len() == CHANGED_PER_TRANSACTION).then_some(last);
        self.write_patiently(change.operation(), move |transaction| {
            let found = still_matching(transaction.connection, &condition, until, &keys)?;
            let mut rows = Vec::new();
            for key in &found {
                if change_key(transaction, *key, &change)? {
                    rows.push(*key);
                }
            }
            Ok(ChangedBatch { matched: found.len(), rows, next })
        })
    }
}

/// Changes a document. Returns whether that changed anything.
fn change_key(transaction: &mut WriteTransaction<'_>, key: i64, change: &BatchChange) -> Result<bool, Fault> {
    let patch = match change {
        BatchChange::Delete => return delete_key(transaction, key).map(|_| true),
        BatchChange::Update(patch) => patch,
    };
    let sql = format!("select {DOCUMENT_COLUMNS} from documents d where d.key = ?");
    let document = query_one(transaction.connection, &sql, [key], rows::document)?;
    document.map_or(Ok(false), |document| patch_found(transaction, &FoundDocument { key, document }, patch))
}

/// What a list is sorted by before the id: an expression, which is null for documents without a value, and the values of its
/// parameters.
struct OrderKey {
    sql: String,
    values: Vec<Value>,
}

impl OrderKey {
    /// Compiles an order. Returns `None` for the order by id.
    fn of(order: &DocumentOrder, indexes: &[MetadataPath]) -> Option<Self> {
        let column_only = |column: &str| Some(Self { sql: column.to_owned(), values: Vec::new() });
        match order {
            DocumentOrder::Id => None,
            DocumentOrder::CreatedAt => column_only("d.created_at_ms"),
            DocumentOrder::UpdatedAt => column_only("d.updated_at_ms"),
            DocumentOrder::Metadata(path) => {
                if let Some(sql) = index_expression(path, "d.metadata").filter(|_| indexes.contains(path)) {
                    return Some(Self { sql, values: Vec::new() });
                }
                // These are the same values as those of the indexed expression.
                let (tables, conditions, values, last) = walk(path);
                Some(Self { sql: format!("(select {last}.value from {tables} where {conditions})"), values })
            }
        }
    }

    fn value_of(&self, connection: &Connection, id: &DocumentId) -> Result<Option<Scalar>, Fault> {
        let sql = format!("select {} from documents d where d.id = ?", self.sql);
        let values = self.values.iter().cloned().chain([Value::Text(id.as_str().to_owned())]);
        let value: Value = connection.prepare_cached(&sql)?.query_row(params_from_iter(values), |row| row.get(0))?;
        Ok(match value {
            Value::Integer(integer) => Some(Scalar::Integer(integer)),
            Value::Real(real) => Some(Scalar::Real(real)),
            Value::Text(text) => Some(Scalar::Text(text)),
            Value::Null | Value::Blob(_) => None,
        })
    }
}

fn scroll(
    connection: &Connection,
    condition: &Condition,
    (request, key): (&ScrollRequest, Option<OrderKey>),
    mut bytes_max: u64,
) -> Result<ScrollPage, Fault> {
    let mut documents = Vec::new();
    let without_value = matches!((&key, &request.after), (Some(_), Some(ScrollPosition { value: None, .. })));
    let mut more = false;
    for with_value in [true, false] {
        let is_part = if with_value { !without_value } else { !more && matches!(request.order, DocumentOrder::Metadata(_)) };
        if !is_part {
            continue;
        }
        let part = list_statement(condition, request, key.as_ref(), with_value);
        let mut statement = connection.prepare_cached(&part.sql)?;
        let mut rows = statement.query(params_from_iter(part.values))?;
        more = queries::add_to_page(&mut documents, &mut rows, request.limit, &mut bytes_max)?;
    }
    let last: Option<&Document> = documents.last().filter(|_| more);
    let next = last.map(|document| {
        let value = key.as_ref().map_or(Ok(None), |key| key.value_of(connection, &document.id))?;
        Ok::<_, Fault>(ScrollPosition { value, id: document.id.clone() })
    });
    let next = next.transpose()?;
    Ok(ScrollPage { documents, next })
}

/// Builds the statement that reads one part of a list from where the page begins: the documents with a value of the key, or
/// those without one, which come after them. Each part can be read along an index if there is one.
fn list_statement(condition: &Condition, request: &ScrollRequest, key: Option<&OrderKey>, with_value: bool) -> Condition {
    let (sign, direction) = if request.descending { ("<", "desc") } else { (">", "asc") };
    let mut sql = format!("select {DOCUMENT_COLUMNS} from documents d where {}", condition.sql);
    let mut values = condition.values.clone();
    if let Some(key) = key {
        sql.push_str(&format!(" and {} is {}null", key.sql, if with_value { "not " } else { "" }));
        values.extend_from_slice(&key.values);
    }
    let key = key.filter(|_| with_value);
    let after = request.after.as_ref().filter(|after| with_value || after.value.is_none());
    if let Some(ScrollPosition { value, id }) = after {
        let id = Value::Text(id.as_str().to_owned());
        match key {
            None => sql.push_str(&format!(" and d.id {sign} ?")),
            Some(key) => {
                let value = match value {
                    Some(Scalar::Integer(integer)) => Value::Integer(*integer),
                    Some(Scalar::Real(real)) => Value::Real(*real),
                    Some(Scalar::Text(text)) => Value::Text(text.clone()),
                    Some(Scalar::Bool(truth)) => Value::Integer(i64::from(*truth)),
                    None => Value::Null,
                };
                // The first comparison is implied by the second. It is there because SQLite cannot use the second one to find
                // the position in an index of an expression.
                sql.push_str(&format!(" and {0} {sign}= ? and ({0}, d.id) {sign} (?, ?)", key.sql));
                for _ in 0..2 {
                    values.extend_from_slice(&key.values);
                    values.push(value.clone());
                }
            }
        }
        values.push(id);
    }
    let first = key.map(|key| format!("{} {direction}, ", key.sql)).unwrap_or_default();
    values.extend(key.into_iter().flat_map(|key| key.values.iter().cloned()));
    sql.push_str(&format!(" order by {first}d.id {direction} limit ?"));
    // Reads one more than requested to see whether there is a next page.
    values.push(Value::Integer(to_sql(request.limit as u64).saturating_add(1)));
    Condition { sql, values }
}

fn candidates(connection: &Connection, condition: &Condition, until: Sequence, after: i64) -> Result<Vec<i64>, Fault> {
    let sql =
        format!("select d.key from documents d where {} and d.sequence <= ? and d.key > ? order by d.key limit ?", condition.sql);
    let parameters = [to_sql(until.0), after, CHANGED_PER_TRANSACTION as i64].map(Value::Integer);
    let values = condition.values.iter().cloned().chain(parameters);
    query_all(connection, &sql, params_from_iter(values), |row| Ok(row.get(0)?))
}

/// Returns those of the `keys`, which ascend, whose documents still match and were not changed after `until`. One statement for
/// all of them, because SQLite prepares a list of values in the condition anew for each statement.
fn still_matching(connection: &Connection, condition: &Condition, until: Sequence, keys: &[i64]) -> Result<Vec<i64>, Fault> {
    // The keys come first, so that only their documents are read, whatever the condition.
    let sql = format!(
        "select d.key from json_each(?) k cross join documents d on d.key = k.value where {} and d.sequence <= ? order by d.key",
        condition.sql
    );
    let list = Value::Text(serde_json::json!(keys).to_string());
    let values = std::iter::once(list).chain(condition.values.iter().cloned()).chain([Value::Integer(to_sql(until.0))]);
    query_all(connection, &sql, params_from_iter(values), |row| Ok(row.get(0)?))
}

#[cfg(test)]
mod tests {
    use super::super::filter::compile;
    use super::super::queries::tests::query_plan;
    use super::*;
    use crate::domain::Filter;

    /// Returns SQLite's query plan for the part of a list with values after a position, by an indexed path or another one.
    fn plan(path: &str, descending: bool) -> String {
        let (path, indexed) = (MetadataPath::parse(path).unwrap(), [MetadataPath::parse("year").unwrap()]);
        let condition = compile(&SearchFilter::default(), &[]);
        let value = Some(Scalar::Integer(2020));
        let after = Some(ScrollPosition { value, id: DocumentId::parse("a").unwrap() });
        let order = DocumentOrder::Metadata(path);
        let key = OrderKey::of(&order, &indexed);
        let request = ScrollRequest { filter: Filter::default(), order, descending, limit: 10, after };
        let part = list_statement(&condition, &request, key.as_ref(), true);
        query_plan(&indexed, &part.sql, params_from_iter(part.values))
    }

    #[test]
    fn a_sorted_list_is_read_through_the_index_of_its_field() {
        for descending in [false, true] {
            let plan = plan("year", descending);
            assert!(plan.contains("SEARCH d USING INDEX by_path_0"), "{plan}");
            assert!(!plan.contains("USE TEMP B-TREE FOR ORDER BY"), "{plan}");
        }
        assert!(!plan("other", false).contains("by_path_0"));
    }
}
