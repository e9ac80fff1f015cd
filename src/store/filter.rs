//! Compiles a `SearchFilter` to an SQL condition with bound parameters. The only caller input that becomes SQL text is the path
//! of a declared metadata index, which `index_expression` restricts and quotes.
//!
//! Every part of a condition is true or false, never null, so that `not` works.

use rusqlite::types::Value;

use super::expiry::{LIVE, LIVE_BY_INDEX};
use crate::domain::{Field, Filter, MetadataPath, Relation, Scalar, SearchFilter, Test};

/// A condition on `documents d` with the values of its `?` parameters, in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

/// Compiles a filter. An empty one matches every document. No condition matches an expired document. SQLite can use an index
/// for the paths in `indexes`.
pub(super) fn compile(filter: &SearchFilter, indexes: &[MetadataPath]) -> Condition {
    let mut compiler = Compiler { condition: Condition { sql: LIVE.to_owned(), values: Vec::new() }, indexes };
    if *filter == SearchFilter::default() {
        compiler.condition.sql = LIVE_BY_INDEX.to_owned();
    }
    if !filter.languages.is_empty() {
        compiler.sql(" and d.language is not null and d.language in ");
        let codes = filter.languages.iter().map(|language| Value::Text(language.code().to_owned()));
        compiler.list(codes.collect());
    }
    if filter.filter != Filter::default() {
        compiler.sql(" and ");
        compiler.filter(&filter.filter);
    }
    compiler.condition
}

/// Returns the indexed expression of a declared path, over the metadata in `column`. Returns `None` if the path has a key that
/// SQLite's paths cannot name exactly: one with a quote, a backslash or a control character.
///
/// The expression only finds candidates, because it does not distinguish true from 1, nor an array from a text. Walking the
/// keys one by one decides whether they match.
pub(super) fn index_expression(path: &MetadataPath, column: &str) -> Option<String> {
    if !path.is_indexable() {
        return None;
    }
    let keys: String = path.keys().iter().map(|key| format!(".\"{}\"", key.replace('\'', "''"))).collect();
    Some(format!("json_extract({column}, '${keys}')"))
}

/// Returns the tables of a walk along `path` through the metadata, the conditions that make the last table the value, the
/// values of the parameters, and the name of the last table.
///
/// SQLite's JSON paths would be a third faster, but they confuse keys that differ only after a zero character.
pub(super) fn walk(path: &MetadataPath) -> (String, String, Vec<Value>, String) {
    let last = path.keys().len().saturating_sub(1);
    let mut tables = "json_each(d.metadata) k0".to_owned();
    for depth in 1..=last {
        let outer = depth - 1;
        tables.push_str(&format!(", json_each(case when k{outer}.type = 'object' then k{outer}.value end) k{depth}"));
    }
    let conditions: Vec<_> = (0..=last).map(|depth| format!("k{depth}.key = ?")).collect();
    let values = path.keys().iter().map(|key| Value::Text(key.clone())).collect();
    (tables, conditions.join(" and "), values, format!("k{last}"))
}

struct Compiler<'i> {
    condition: Condition,
    indexes: &'i [MetadataPath],
}

impl Compiler<'_> {
    fn sql(&mut self, sql: &str) {
        self.condition.sql.push_str(sql);
    }

    fn value(&mut self, value: Value) {
        self.sql("?");
        self.condition.values.push(value);
    }

    fn list(&mut self, values: Vec<Value>) {
        self.sql(&format!("({})", vec!["?"; values.len()].join(", ")));
        self.condition.values.extend(values);
    }

    fn filter(&mut self, filter: &Filter) {
        match filter {
            Filter::And(filters) => self.joined(filters, " and ", "true"),
            Filter::Or(filters) => self.joined(filters, " or ", "false"),
            Filter::Not(filter) => {
                self.sql("not ");
                self.filter(filter);
            }
            Filter::Field(Field::Metadata(path), test) => self.metadata(path, test),
            Filter::Field(field, test) => self.own(field, test),
        }
    }

    fn joined(&mut self, filters: &[Filter], word: &str, empty: &str) {
        self.sql("(");
        if filters.is_empty() {
            self.sql(empty);
        }
        for (index, filter) in filters.iter().enumerate() {
            if index > 0 {
                self.sql(word);
            }
            self.filter(filter);
        }
        self.sql(")");
    }

    /// Compiles a test of one of the document's own fields. Only the language can be null.
    fn own(&mut self, field: &Field, test: &Test) {
        let (column, is_text) = match field {
            Field::Id => ("d.id", true),
            Field::Language => ("d.language", true),
            Field::CreatedAt => ("d.created_at_ms", false),
            Field::UpdatedAt | Field::Metadata(_) => ("d.updated_at_ms", false),
        };
        let fits = |scalar: &Scalar| matches!(scalar, Scalar::Text(_)) == is_text && !matches!(scalar, Scalar::Bool(_));
        match test {
            Test::Eq(scalar) if fits(scalar) => {
                self.sql(&format!("{column} is "));
                self.scalar(scalar);
            }
            Test::Ne(scalar) => {
                self.sql("not (");
                self.own(field, &Test::Eq(scalar.clone()));
                self.sql(")");
            }
            Test::In(scalars) => {
                let fitting: Vec<&Scalar> = scalars.iter().filter(|scalar| fits(scalar)).collect();
                self.sql(&format!("({column} is not null and {column} in ("));
                self.scalars(&fitting);
                self.sql("))");
            }
            Test::Compare(relation, scalar) if fits(scalar) => {
                self.sql(&format!("({column} is not null and {column} {} ", relation.sign()));
                self.scalar(scalar);
                self.sql(")");
            }
            Test::Exists(expected) => self.sql(&format!("{column} is {}null", if *expected { "not " } else { "" })),
            Test::Prefix(prefix) if is_text => {
                self.sql(&format!("({column} is not null and "));
                self.prefix(column, prefix);
                self.sql(")");
            }
            Test::Eq(_) | Test::Compare(..) | Test::Prefix(_) | Test::Any(_) => self.sql("false"),
        }
    }

    fn metadata(&mut self, path: &MetadataPath, test: &Test) {
        let (deny, test) = match test {
            Test::Ne(scalar) => (true, Test::Eq(scalar.clone())),
            Test::Exists(false) => (true, Test::Exists(true)),
            other => (false, other.clone()),
        };
        self.sql(if deny { "not (" } else { "(" });
        if let Some(expression) = index_expression(path, "d.metadata").filter(|_| self.indexes.contains(path)) {
            self.candidates(&expression, &test);
        }
        let (tables, conditions, values, last) = walk(path);
        self.sql(&format!("exists (select 1 from {tables} where {conditions} and "));
        self.condition.values.extend(values);
        self.test(&last, &test);
        self.sql("))");
    }

    /// Compiles a test of the value in the row `row` of `json_each`.
    fn test(&mut self, row: &str, test: &Test) {
        match test {
            Test::Eq(scalar) => self.among(row, std::slice::from_ref(scalar)),
            Test::In(scalars) => self.among(row, scalars),
            Test::Any(scalars) => {
                self.sql(&format!(
                    "exists (select 1 from json_each(case when {row}.type = 'array' then {row}.value end) e where "
                ));
                self.among("e", scalars);
                self.sql(")");
            }
            Test::Compare(relation, scalar) => {
                self.sql(&format!("{row}.type {} and {row}.atom {} ", types(scalar), relation.sign()));
                self.scalar(scalar);
            }
            Test::Prefix(prefix) => {
                self.sql(&format!("{row}.type = 'text' and "));
                self.prefix(&format!("{row}.atom"), prefix);
            }
            Test::Ne(_) | Test::Exists(_) => self.sql(&format!("{row}.type <> 'null'")),
        }
    }

    /// Compiles whether the value equals one of `scalars`.
    fn among(&mut self, row: &str, scalars: &[Scalar]) {
        let (mut texts, mut numbers, mut truths) = (Vec::new(), Vec::new(), Vec::new());
        for scalar in scalars {
            match scalar {
                Scalar::Text(_) => texts.push(scalar),
                Scalar::Integer(_) | Scalar::Real(_) => numbers.push(scalar),
                Scalar::Bool(truth) => truths.push(*truth),
            }
        }
        self.sql("(false");
        for (types, scalars) in [("= 'text'", texts), ("in ('integer', 'real')", numbers)] {
            if !scalars.is_empty() {
                self.sql(&format!(" or ({row}.type {types} and {row}.atom in ("));
                self.scalars(&scalars);
                self.sql("))");
            }
        }
        // Uses each only once, because a long chain would be too deep an expression for SQLite.
        truths.sort_unstable();
        truths.dedup();
        for truth in truths {
            self.sql(&format!(" or {row}.type = '{truth}'"));
        }
        self.sql(")");
    }

    /// Adds a condition that an index can answer and that holds whenever `test` does. Adds nothing if there is none.
    fn candidates(&mut self, expression: &str, test: &Test) {
        match test {
            Test::Eq(scalar) => {
                self.sql(&format!("{expression} = "));
                self.candidate(scalar);
            }
            Test::In(scalars) if !scalars.is_empty() => {
                self.sql(&format!("{expression} in ("));
                for (index, scalar) in scalars.iter().enumerate() {
                    self.sql(if index > 0 { ", " } else { "" });
                    self.candidate(scalar);
                }
                self.sql(")");
            }
            Test::Compare(relation, scalar) => {
                self.sql(&format!("{expression} {} ", relation.sign()));
                self.candidate(scalar);
                // SQLite orders every number before every text.
                match (relation, scalar) {
                    (Relation::Gt | Relation::Gte, Scalar::Integer(_) | Scalar::Real(_)) => {
                        self.sql(&format!(" and {expression} < ''"));
                    }
                    (Relation::Lt | Relation::Lte, Scalar::Text(_)) => self.sql(&format!(" and {expression} >= ''")),
                    _ => (),
                }
            }
            Test::Prefix(prefix) => self.prefix(expression, prefix),
            Test::In(_) | Test::Any(_) | Test::Ne(_) | Test::Exists(_) => return,
        }
        self.sql(" and ");
    }

    /// Adds a value in the form that `json_extract` returns.
    fn candidate(&mut self, scalar: &Scalar) {
        match scalar {
            Scalar::Bool(truth) => self.value(Value::Integer(i64::from(*truth))),
            other => self.scalar(other),
        }
    }

    fn scalars(&mut self, scalars: &[&Scalar]) {
        for (index, scalar) in scalars.iter().enumerate() {
            self.sql(if index > 0 { ", " } else { "" });
            self.scalar(scalar);
        }
    }

    fn scalar(&mut self, scalar: &Scalar) {
        match scalar {
            Scalar::Text(text) => self.value(Value::Text(text.clone())),
            Scalar::Integer(integer) => self.value(Value::Integer(*integer)),
            // SQLite parses it from the same digits as in the metadata, so that both are rounded in the same way.
            Scalar::Real(real) if real.is_finite() => {
                self.sql("json_extract(?, '$')");
                self.condition.values.push(Value::Text(serde_json::Value::from(*real).to_string()));
            }
            // JSON has no infinite number, so nothing equals it. For a boolean, the type is sufficient.
            Scalar::Real(_) | Scalar::Bool(_) => self.value(Value::Null),
        }
    }

    /// Compiles whether a text begins with `prefix`: it lies between the prefix and the next text that does not begin with it.
    fn prefix(&mut self, expression: &str, prefix: &str) {
        self.sql(&format!("{expression} >= "));
        self.value(Value::Text(prefix.to_owned()));
        if let Some(end) = prefix_upper_bound(prefix) {
            self.sql(&format!(" and {expression} < "));
            self.value(Value::Text(end));
        }
    }
}

/// Returns the smallest text, by code points, that is greater than every text with this prefix, or `None` if there is none.
pub(crate) fn prefix_upper_bound(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

fn types(scalar: &Scalar) -> &'static str {
    match scalar {
        Scalar::Text(_) => "= 'text'",
        Scalar::Integer(_) | Scalar::Real(_) => "in ('integer', 'real')",
        Scalar::Bool(true) => "= 'true'",
        Scalar::Bool(false) => "= 'false'",
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
