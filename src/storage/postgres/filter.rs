//! Compiles a `SearchFilter` to a condition on `documents d` in the SQL of PostgreSQL. The only caller input that becomes text
//! of a statement is the path of a declared metadata index, and that is quoted.
//!
//! A condition may be null instead of false, so that an index can answer it, but never below a `not`.

use super::escape::{escape, scalar_json};
use super::session::Parameter;
use crate::domain::{Field, Filter, MetadataPath, Scalar, Test};
use crate::store::SearchFilter;

/// A condition with the values of its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    pub(super) sql: String,
    values: Vec<Operand>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Text(String),
    Texts(Vec<String>),
    Integer(i64),
    Integers(Vec<i64>),
}

impl Operand {
    fn parameter(&self) -> Parameter<'_> {
        match self {
            Self::Text(text) => text,
            Self::Texts(texts) => texts,
            Self::Integer(integer) => integer,
            Self::Integers(integers) => integers,
        }
    }
}

impl Condition {
    /// Returns the values of its parameters, which come first in a statement.
    pub(super) fn parameters(&self) -> Vec<Parameter<'_>> {
        self.values.iter().map(Operand::parameter).collect()
    }

    /// Returns the number of the first parameter after its own.
    pub(super) fn next(&self) -> usize {
        self.values.len() + 1
    }

    pub(super) fn matches_everything(&self) -> bool {
        self.sql == "true"
    }

    /// Adds a text to the statement. Returns its placeholder.
    pub(super) fn text(&mut self, text: &str) -> String {
        self.value(Operand::Text(escape(text).into_owned()))
    }

    /// Adds a number to the statement. Returns its placeholder.
    pub(super) fn integer(&mut self, integer: i64) -> String {
        self.value(Operand::Integer(integer))
    }

    /// Adds a list of numbers to the statement. Returns its placeholder.
    pub(super) fn integers(&mut self, integers: Vec<i64>) -> String {
        self.value(Operand::Integers(integers))
    }

    /// Adds the keys of a path to the statement. Returns the operators that lead from metadata to the value at the path.
    pub(super) fn keys(&mut self, path: &MetadataPath) -> String {
        path.keys().iter().map(|key| format!(" -> {}", self.text(key))).collect()
    }

    fn value(&mut self, value: Operand) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }
}

/// Compiles a filter. An empty filter matches every document; expired ones are already left out by the table expression. The
/// paths in `indexes` may have indexes.
pub(super) fn compile(filter: &SearchFilter, indexes: &[MetadataPath]) -> Condition {
    let condition = Condition { sql: "true".to_owned(), values: Vec::new() };
    let mut compiler = Compiler { condition, indexes, is_negated: false };
    if !filter.languages.is_empty() {
        let codes = filter.languages.iter().map(|language| language.code().to_owned()).collect();
        let codes = compiler.condition.value(Operand::Texts(codes));
        compiler.condition.sql.push_str(&format!(" and d.language = any({codes})"));
    }
    if filter.filter != Filter::default() {
        let sql = compiler.filter(&filter.filter);
        compiler.condition.sql.push_str(&format!(" and {sql}"));
    }
    compiler.condition
}

/// Returns the expressions of a path's two indexes: the value, and the value if it is a number. Returns `None` for a path that
/// cannot have an index.
pub(super) fn index_expressions(path: &MetadataPath, column: &str) -> Option<[String; 2]> {
    if !path.is_indexable() {
        return None;
    }
    let keys: String = path.keys().iter().map(|key| format!(" -> '{}'", escape(key).replace('\'', "''"))).collect();
    let value = format!("({column}{keys})");
    let number = number_expression(&value);
    Some([value, number])
}

fn number_expression(value: &str) -> String {
    format!("(case when jsonb_typeof{value} = 'number' then {value} end)")
}

struct Compiler<'i> {
    condition: Condition,
    indexes: &'i [MetadataPath],
    /// Whether the current condition is below a `not`.
    is_negated: bool,
}

impl Compiler<'_> {
    fn filter(&mut self, filter: &Filter) -> String {
        match filter {
            Filter::And(filters) => self.joined(filters, " and ", "true"),
            Filter::Or(filters) => self.joined(filters, " or ", "false"),
            Filter::Not(filter) => self.negated(|compiler| compiler.filter(filter)),
            Filter::Field(field, Test::Ne(scalar)) => {
                let test = Test::Eq(scalar.clone());
                self.negated(|compiler| compiler.field(field, &test))
            }
            Filter::Field(field, Test::Exists(false)) => self.negated(|compiler| compiler.field(field, &Test::Exists(true))),
            Filter::Field(field, test) => self.field(field, test),
        }
    }

    fn negated(&mut self, inner: impl FnOnce(&mut Self) -> String) -> String {
        let outer = std::mem::replace(&mut self.is_negated, true);
        let sql = inner(self);
        self.is_negated = outer;
        format!("not ({sql})")
    }

    fn joined(&mut self, filters: &[Filter], word: &str, empty: &str) -> String {
        let each: Vec<String> = filters.iter().map(|filter| self.filter(filter)).collect();
        format!("({})", if each.is_empty() { empty.to_owned() } else { each.join(word) })
    }

    /// Compiles a test, which may be null instead of false.
    fn field(&mut self, field: &Field, test: &Test) -> String {
        let sql = match field {
            Field::Metadata(path) => self.metadata(path, test),
            Field::Id => self.text_column_test("d.id", test),
            Field::Language => self.text_column_test("d.language", test),
            Field::CreatedAt => self.time_column_test("d.created_at_ms", test),
            Field::UpdatedAt => self.time_column_test("d.updated_at_ms", test),
        };
        if self.is_negated { format!("coalesce({sql}, false)") } else { format!("({sql})") }
    }

    fn text_column_test(&mut self, column: &str, test: &Test) -> String {
        match test {
            Test::Eq(Scalar::Text(text)) => format!("{column} = {}", self.condition.text(text)),
            Test::In(scalars) => {
                let texts = scalars.iter().filter_map(|scalar| match scalar {
                    Scalar::Text(text) => Some(escape(text).into_owned()),
                    _ => None,
                });
                let texts = self.condition.value(Operand::Texts(texts.collect()));
                format!("{column} = any({texts})")
            }
            Test::Compare(relation, Scalar::Text(text)) => format!("{column} {} {}", relation.sign(), self.condition.text(text)),
            Test::Exists(_) => format!("{column} is not null"),
            Test::Prefix(prefix) => format!("starts_with({column}, {})", self.condition.text(prefix)),
            Test::Eq(_) | Test::Ne(_) | Test::Compare(..) | Test::Any(_) => "false".to_owned(),
        }
    }

    fn time_column_test(&mut self, column: &str, test: &Test) -> String {
        match test {
            Test::Eq(scalar) => self.time(column, "=", scalar),
            Test::Compare(relation, scalar) => self.time(column, relation.sign(), scalar),
            Test::In(scalars) => {
                let each: Vec<String> = scalars.iter().map(|scalar| self.time(column, "=", scalar)).collect();
                if each.is_empty() { "false".to_owned() } else { format!("({})", each.join(" or ")) }
            }
            Test::Exists(_) => "true".to_owned(),
            Test::Ne(_) | Test::Any(_) | Test::Prefix(_) => "false".to_owned(),
        }
    }

    fn time(&mut self, column: &str, sign: &str, to: &Scalar) -> String {
        match to {
            Scalar::Integer(integer) => format!("{column} {sign} {}", self.condition.value(Operand::Integer(*integer))),
            Scalar::Real(_) => match scalar_json(to) {
                Some(decimal) => format!("{column}::numeric {sign} {}::numeric", self.condition.value(Operand::Text(decimal))),
                None => "false".to_owned(),
            },
            Scalar::Text(_) | Scalar::Bool(_) => "false".to_owned(),
        }
    }

    fn metadata(&mut self, path: &MetadataPath, test: &Test) -> String {
        let known = index_expressions(path, "d.fields").filter(|_| self.indexes.contains(path));
        let [value, number] = known.unwrap_or_else(|| {
            let value = format!("(d.fields{})", self.condition.keys(path));
            let number = number_expression(&value);
            [value, number]
        });
        match test {
            Test::Eq(to) => match scalar_json(to) {
                Some(json) => format!("{value} = {}::jsonb", self.condition.value(Operand::Text(json))),
                None => "false".to_owned(),
            },
            Test::In(scalars) => {
                let scalars = self.condition.value(Operand::Texts(scalars.iter().filter_map(scalar_json).collect()));
                format!("{value} = any({scalars}::jsonb[])")
            }
            Test::Any(scalars) => {
                // An array contains a one-element array if it has that element. Values that are not arrays contain none.
                let arrays = scalars.iter().filter_map(scalar_json).map(|scalar| format!("[{scalar}]")).collect();
                let arrays = self.condition.value(Operand::Texts(arrays));
                format!("{value} @> any({arrays}::jsonb[])")
            }
            Test::Compare(relation, Scalar::Text(text)) => {
                let (expression, to) = (text_expression(&value), self.condition.text(text));
                format!("jsonb_typeof{value} = 'string' and {expression} {} {to}", relation.sign())
            }
            Test::Compare(relation, to) => match (scalar_json(to), to) {
                (None, _) => "false".to_owned(),
                (Some(json), Scalar::Bool(_)) => {
                    let to = self.condition.value(Operand::Text(json));
                    format!("jsonb_typeof{value} = 'boolean' and {value} {} {to}::jsonb", relation.sign())
                }
                (Some(json), _) => format!("{number} {} {}::jsonb", relation.sign(), self.condition.value(Operand::Text(json))),
            },
            Test::Prefix(prefix) => {
                let (expression, prefix) = (text_expression(&value), self.condition.text(prefix));
                format!("jsonb_typeof{value} = 'string' and starts_with({expression}, {prefix})")
            }
            Test::Ne(_) | Test::Exists(_) => format!("jsonb_typeof{value} <> 'null'"),
        }
    }
}

/// Returns the text of a string value, compared by code points.
fn text_expression(value: &str) -> String {
    format!("({value} #>> '{{}}') collate \"C\"")
}
