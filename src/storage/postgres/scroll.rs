//! Reads pages of matching documents in the requested order.

use serde_json::Value;

use super::escape::{scalar_json, stored_json};
use super::filter::Condition;
use super::partition::Postgres;
use super::reading::read_page;
use crate::domain::{Document, DocumentOrder, MetadataPath, Scalar, ScrollPage, ScrollPosition, ScrollRequest};
use crate::store::{SearchFilter, StoreError};

/// What a list is sorted by before the id.
struct OrderKey {
    /// Condition that a document has a value, because documents without one come last. `None` if all have one.
    has_value: Option<String>,
    /// Expressions to compare one after the other.
    columns: Vec<String>,
}

impl OrderKey {
    /// Compiles an order. Adds its parameters to those of `condition`.
    fn of(order: &DocumentOrder, condition: &mut Condition) -> Self {
        let with_columns =
            |columns: &[&str]| Self { has_value: None, columns: columns.iter().map(|&column| column.to_owned()).collect() };
        match order {
            DocumentOrder::Id => with_columns(&[]),
            DocumentOrder::CreatedAt => with_columns(&["d.created_at_ms"]),
            DocumentOrder::UpdatedAt => with_columns(&["d.updated_at_ms"]),
            DocumentOrder::Metadata(path) => Self::by_path(path, condition),
        }
    }

    /// Compiles the order by a path: first numbers and booleans, then texts. Arrays and objects are sorted among the texts by
    /// their JSON as it was sent.
    fn by_path(path: &MetadataPath, condition: &mut Condition) -> Self {
        let keys = condition.keys(path);
        let value = format!("(d.fields{keys})");
        let kind = format!("jsonb_typeof{value}");
        let rank = format!("(case when {kind} in ('number', 'boolean') then 0 else 1 end)");
        let number = format!(
            "(case {kind} when 'number' then ({value} #>> '{{}}')::numeric when 'boolean' then {value}::boolean::integer::numeric
                 else 0::numeric end)"
        );
        let text = format!(
            "(case {kind} when 'string' then {value} #>> '{{}}' when 'array' then (d.metadata::json{keys})::text
                 when 'object' then (d.metadata::json{keys})::text else '' end) collate \"C\""
        );
        Self { has_value: Some(format!("(coalesce({kind}, 'null') <> 'null')")), columns: vec![rank, number, text] }
    }

    /// Returns the condition that a document comes after this position.
    fn after(&self, position: &ScrollPosition, sign: &str, condition: &mut Condition) -> String {
        let id = condition.text(position.id.as_str());
        let none = match (&self.has_value, &position.value) {
            (Some(has_value), None) => return format!("(not {has_value} and d.id {sign} {id})"),
            (Some(has_value), Some(_)) => format!("not {has_value} or "),
            (None, _) => String::new(),
        };
        let values = match (self.columns.len(), &position.value) {
            (0, _) => Some(Vec::new()),
            (1, Some(Scalar::Integer(ms))) => Some(vec![condition.integer(*ms)]),
            (3, Some(value)) => sort_values(value, condition),
            _ => None,
        };
        let Some(mut values) = values else { return "false".to_owned() };
        values.push(id);
        let columns: Vec<&str> = self.columns.iter().map(String::as_str).chain(["d.id"]).collect();
        format!("({none}({}) {sign} ({}))", columns.join(", "), values.join(", "))
    }

    fn order(&self, direction: &str) -> String {
        let first = self.has_value.iter().map(|has_value| format!("{has_value} desc, "));
        let columns = self.columns.iter().map(|column| format!("{column} {direction}, "));
        first.chain(columns).chain([format!("d.id {direction}")]).collect()
    }
}

/// Returns the values of the three columns that sort a value at a path, or `None` for a number that no document can have.
fn sort_values(value: &Scalar, condition: &mut Condition) -> Option<Vec<String>> {
    let (rank, number, text) = match value {
        Scalar::Text(text) => ("1", "0".to_owned(), text.as_str()),
        Scalar::Bool(truth) => ("0", i64::from(*truth).to_string(), ""),
        Scalar::Integer(_) | Scalar::Real(_) => ("0", scalar_json(value)?, ""),
    };
    let (number, text) = (condition.text(&number), condition.text(text));
    Some(vec![rank.to_owned(), format!("{number}::numeric"), text])
}

/// Returns the value of a document that a list in this order continues after.
fn value_of(order: &DocumentOrder, document: &Document) -> Option<Scalar> {
    let path = match order {
        DocumentOrder::Id => return None,
        DocumentOrder::CreatedAt => return Some(Scalar::Integer(document.created_at_ms)),
        DocumentOrder::UpdatedAt => return Some(Scalar::Integer(document.updated_at_ms)),
        DocumentOrder::Metadata(path) => path,
    };
    match path.find(&document.metadata)? {
        Value::Null => None,
        Value::Bool(truth) => Some(Scalar::Integer(i64::from(*truth))),
        Value::Number(number) => number.as_i64().map(Scalar::Integer).or_else(|| number.as_f64().map(Scalar::Real)),
        Value::String(text) => Some(Scalar::Text(text.clone())),
        value @ (Value::Array(_) | Value::Object(_)) => Some(Scalar::Text(stored_json(value))),
    }
}

impl Postgres {
    pub(crate) fn scroll(&self, request: &ScrollRequest, bytes_max: u64) -> Result<ScrollPage, StoreError> {
        let mut condition = self.compile(&SearchFilter { languages: Vec::new(), filter: request.filter.clone() });
        let key = OrderKey::of(&request.order, &mut condition);
        let (sign, direction) = if request.descending { ("<", "desc") } else { (">", "asc") };
        if let Some(position) = &request.after {
            let after = key.after(position, sign, &mut condition);
            condition.sql.push_str(&format!(" and {after}"));
        }
        let (live, order) = (self.live(), key.order(direction));
        let (documents, more) = self.search("listing documents", |session| {
            let which = (live.as_str(), condition.sql.as_str(), order.as_str(), request.limit);
            read_page(session, &self.names, which, bytes_max, &condition.parameters())
        })?;
        let last = documents.last().filter(|_| more);
        let next = last.map(|last| ScrollPosition { value: value_of(&request.order, last), id: last.id.clone() });
        Ok(ScrollPage { documents, next })
    }
}
