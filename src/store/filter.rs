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
    let mut compiler = Compiler { values: Vec::new(), indexes };
    let mut sql = if *filter == SearchFilter::default() { LIVE_BY_INDEX } else { LIVE }.to_owned();
    if !filter.languages.is_empty() {
        let codes: Vec<_> = filter.languages.iter().map(|language| compiler.text(language.code())).collect();
        sql.push_str(&format!(" and d.language is not null and d.language in ({})", codes.join(", ")));
    }
    if filter.filter != Filter::default() {
        sql.push_str(&format!(" and {}", compiler.filter(&filter.filter)));
    }
    Condition { sql, values: compiler.values }
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

/// Compiles parts of a filter to SQL, and collects the values of their parameters in the order of the text.
struct Compiler<'i> {
    values: Vec<Value>,
    indexes: &'i [MetadataPath],
}

impl Compiler<'_> {
    /// Adds a value. Returns its placeholder.
    fn value(&mut self, value: Value) -> &'static str {
        self.values.push(value);
        "?"
    }

    fn text(&mut self, text: &str) -> &'static str {
        self.value(Value::Text(text.to_owned()))
    }

    fn filter(&mut self, filter: &Filter) -> String {
        match filter {
            Filter::And(filters) => self.joined(filters, " and ", "true"),
            Filter::Or(filters) => self.joined(filters, " or ", "false"),
            Filter::Not(filter) => format!("not {}", self.filter(filter)),
            Filter::Field(Field::Metadata(path), test) => self.metadata(path, test),
            Filter::Field(field, test) => self.test_field(field, test),
        }
    }

    fn joined(&mut self, filters: &[Filter], word: &str, empty: &str) -> String {
        let each: Vec<String> = filters.iter().map(|filter| self.filter(filter)).collect();
        format!("({})", if each.is_empty() { empty.to_owned() } else { each.join(word) })
    }

    /// Compiles a test of one of the document's own fields. Only the language can be null.
    fn test_field(&mut self, field: &Field, test: &Test) -> String {
        let (column, is_text) = match field {
            Field::Id => ("d.id", true),
            Field::Language => ("d.language", true),
            Field::CreatedAt => ("d.created_at_ms", false),
            Field::UpdatedAt | Field::Metadata(_) => ("d.updated_at_ms", false),
        };
        let fits = |scalar: &Scalar| matches!(scalar, Scalar::Text(_)) == is_text && !matches!(scalar, Scalar::Bool(_));
        match test {
            Test::Eq(scalar) if fits(scalar) => format!("{column} is {}", self.scalar(scalar)),
            Test::Ne(scalar) => format!("not ({})", self.test_field(field, &Test::Eq(scalar.clone()))),
            Test::In(scalars) => {
                let fitting = self.scalars(scalars.iter().filter(|scalar| fits(scalar)));
                format!("({column} is not null and {column} in ({fitting}))")
            }
            Test::Compare(relation, scalar) if fits(scalar) => {
                format!("({column} is not null and {column} {} {})", relation.sign(), self.scalar(scalar))
            }
            Test::Exists(expected) => format!("{column} is {}null", if *expected { "not " } else { "" }),
            Test::Prefix(prefix) if is_text => format!("({column} is not null and {})", self.prefix(column, prefix)),
            Test::Eq(_) | Test::Compare(..) | Test::Prefix(_) | Test::Any(_) => "false".to_owned(),
        }
    }

    fn metadata(&mut self, path: &MetadataPath, test: &Test) -> String {
        let (not, test) = match test {
            Test::Ne(scalar) => ("not ", Test::Eq(scalar.clone())),
            Test::Exists(false) => ("not ", Test::Exists(true)),
            other => ("", other.clone()),
        };
        let indexed = index_expression(path, "d.metadata").filter(|_| self.indexes.contains(path));
        let candidates = indexed.map(|expression| self.candidates(&expression, &test)).unwrap_or_default();
        let (tables, conditions, values, last) = walk(path);
        self.values.extend(values);
        format!("{not}({candidates}exists (select 1 from {tables} where {conditions} and {}))", self.test(&last, &test))
    }

    /// Compiles a test of the value in the row `row` of `json_each`.
    fn test(&mut self, row: &str, test: &Test) -> String {
        match test {
            Test::Eq(scalar) => self.among(row, std::slice::from_ref(scalar)),
            Test::In(scalars) => self.among(row, scalars),
            Test::Any(scalars) => {
                let elements = format!("json_each(case when {row}.type = 'array' then {row}.value end) e");
                format!("exists (select 1 from {elements} where {})", self.among("e", scalars))
            }
            Test::Compare(relation, scalar) => {
                format!("{row}.type {} and {row}.atom {} {}", types(scalar), relation.sign(), self.scalar(scalar))
            }
            Test::Prefix(prefix) => format!("{row}.type = 'text' and {}", self.prefix(&format!("{row}.atom"), prefix)),
            Test::Ne(_) | Test::Exists(_) => format!("{row}.type <> 'null'"),
        }
    }

    /// Compiles whether the value equals one of `scalars`.
    fn among(&mut self, row: &str, scalars: &[Scalar]) -> String {
        let texts = self.scalars(scalars.iter().filter(|scalar| matches!(scalar, Scalar::Text(_))));
        let numbers = self.scalars(scalars.iter().filter(|scalar| matches!(scalar, Scalar::Integer(_) | Scalar::Real(_))));
        let mut sql = "(false".to_owned();
        for (types, values) in [("= 'text'", texts), ("in ('integer', 'real')", numbers)] {
            if !values.is_empty() {
                sql.push_str(&format!(" or ({row}.type {types} and {row}.atom in ({values}))"));
            }
        }
        // Uses each only once, because a long chain would be too deep an expression for SQLite.
        for truth in [false, true] {
            if scalars.contains(&Scalar::Bool(truth)) {
                sql.push_str(&format!(" or {row}.type = '{truth}'"));
            }
        }
        sql + ")"
    }

    /// Returns a condition that an index can answer and that holds whenever `test` does, followed by "and". Empty if there is
    /// none.
    fn candidates(&mut self, expression: &str, test: &Test) -> String {
        let condition = match test {
            Test::Eq(scalar) => format!("{expression} = {}", self.candidate(scalar)),
            Test::In(scalars) if !scalars.is_empty() => {
                let each: Vec<_> = scalars.iter().map(|scalar| self.candidate(scalar)).collect();
                format!("{expression} in ({})", each.join(", "))
            }
            Test::Compare(relation, scalar) => {
                // SQLite orders every number before every text.
                let bound = match (relation, scalar) {
                    (Relation::Gt | Relation::Gte, Scalar::Integer(_) | Scalar::Real(_)) => format!(" and {expression} < ''"),
                    (Relation::Lt | Relation::Lte, Scalar::Text(_)) => format!(" and {expression} >= ''"),
                    _ => String::new(),
                };
                format!("{expression} {} {}{bound}", relation.sign(), self.candidate(scalar))
            }
            Test::Prefix(prefix) => self.prefix(expression, prefix),
            Test::In(_) | Test::Any(_) | Test::Ne(_) | Test::Exists(_) => return String::new(),
        };
        condition + " and "
    }

    /// Adds a value in the form that `json_extract` returns.
    fn candidate(&mut self, scalar: &Scalar) -> &'static str {
        match scalar {
            Scalar::Bool(truth) => self.value(Value::Integer(i64::from(*truth))),
            other => self.scalar(other),
        }
    }

    fn scalars<'s>(&mut self, scalars: impl Iterator<Item = &'s Scalar>) -> String {
        scalars.map(|scalar| self.scalar(scalar)).collect::<Vec<_>>().join(", ")
    }

    fn scalar(&mut self, scalar: &Scalar) -> &'static str {
        match scalar {
            Scalar::Text(text) => self.text(text),
            Scalar::Integer(integer) => self.value(Value::Integer(*integer)),
            // SQLite parses it from the same digits as in the metadata, so that both are rounded in the same way.
            Scalar::Real(real) if real.is_finite() => {
                self.text(&serde_json::Value::from(*real).to_string());
                "json_extract(?, '$')"
            }
            // JSON has no infinite number, so nothing equals it. For a boolean, the type is sufficient.
            Scalar::Real(_) | Scalar::Bool(_) => self.value(Value::Null),
        }
    }

    /// Compiles whether a text begins with `prefix`: it lies between the prefix and the next text that does not begin with it.
    fn prefix(&mut self, expression: &str, prefix: &str) -> String {
        let from = format!("{expression} >= {}", self.text(prefix));
        match prefix_upper_bound(prefix) {
            Some(end) => format!("{from} and {expression} < {}", self.text(&end)),
            None => from,
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
mod tests {
    use rusqlite::params_from_iter;

    use super::super::queries::tests::query_plan;
    use super::*;

    fn path(keys: &[&str]) -> MetadataPath {
        MetadataPath::new(keys.iter().map(|&key| key.to_owned()).collect()).unwrap()
    }

    #[test]
    fn filters_on_a_declared_path_use_its_index() {
        let declared = [path(&["year"]), path(&["author's", "name"])];
        let text = |text: &str| Scalar::Text(text.to_owned());
        let check = |keys: &[&str], test: Test, expect: bool| {
            let filter = Filter::Field(Field::Metadata(path(keys)), test);
            let condition = compile(&filter.clone().into(), &declared);
            let sql = format!("select 1 from documents d where {}", condition.sql);
            let plan = query_plan(&declared, &sql, params_from_iter(condition.values));
            assert_eq!(plan.contains("USING INDEX by_path_"), expect, "{filter:?}\n{plan}");
        };
        check(&["year"], Test::Eq(Scalar::Integer(2020)), true);
        check(&["year"], Test::Eq(Scalar::Real(0.5)), true);
        check(&["year"], Test::In(vec![Scalar::Integer(1), text("x"), Scalar::Bool(true)].into()), true);
        check(&["year"], Test::Compare(Relation::Gte, Scalar::Integer(2020)), true);
        check(&["author's", "name"], Test::Prefix("A".to_owned()), true);
        check(&["author's", "name"], Test::Compare(Relation::Lt, text("x")), true);
        check(&["year"], Test::Any(vec![Scalar::Integer(1)].into()), false);
        check(&["other"], Test::Eq(Scalar::Integer(1)), false);
    }

    #[test]
    fn a_path_that_sqlite_cannot_express_exactly_is_not_indexed() {
        for keys in [["a\"b", "c"], ["a\\b", "c"], ["c", "a\0b"], ["\n", "c"]] {
            assert_eq!(index_expression(&path(&keys), "metadata"), None, "{keys:?}");
        }
    }
}
