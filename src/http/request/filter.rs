//! Filters: a tree of JSON objects with one operator each, parsed into the domain's conditions and converted back.
//!
//! Anything invalid is refused with its path inside the filter, never skipped.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::domain::json::kind;
use crate::domain::{Code, DistinctJson, Field, Filter, Limits, Relation, Scalar, ScalarList, Test, timestamps};
use crate::http::error::ApiError;
use crate::http::request::filter_fields::{OPERATORS, operators_of, scalar};
use crate::http::request::values::present;
use crate::service::json::{Object, describe_json_error, pointer, pointer_token, shorten, some_object, some_objects};

/// Maximum values in all lists of one filter together.
pub const VALUES_MAX: usize = 10_000;

/// One node of a filter: `and`, `or` or `not` with further nodes, or a `field` with exactly one operator.
///
/// Every condition is true or false. A missing value, or a value of another type than the one given, matches no operator except
/// `ne` and `exists`. `ne` and `not` are exact negations, so they also hold for documents without the value. At most 16 levels
/// deep, 100 conditions, and 10000 values in all lists.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(no_recursion)]
pub struct FilterNode {
    /// All of these must hold; an empty list always holds. Excludes the other members.
    #[serde(default, deserialize_with = "some_objects")]
    pub and: Option<Vec<FilterNode>>,
    /// At least one of these must hold; an empty list never holds. Excludes the other members.
    #[serde(default, deserialize_with = "some_objects")]
    pub or: Option<Vec<FilterNode>>,
    /// This must not hold. Excludes the other members.
    #[serde(default, deserialize_with = "some_object")]
    #[schema(value_type = Option<FilterNode>)]
    pub not: Option<Box<FilterNode>>,
    /// What the operator tests: `id`, `language`, `created_at` or `updated_at`, which are the document's own, or a metadata
    /// value, as keys from the outermost to the innermost, joined by dots. Escape a dot or a backslash within a key with a
    /// backslash. The prefix `metadata.` is optional unless the path is one of the four names.
    #[schema(examples("year", "author.name", "language", "metadata.language"))]
    pub field: Option<String>,
    /// The value equals this string, number or boolean. Numbers are compared by value; values of different types are never
    /// equal. Times are RFC 3339 and compared to the millisecond.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Value, required = false, examples(2020, "Ada", true))]
    pub eq: Option<Value>,
    /// The value does not equal this, or is missing.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Value, required = false, examples("draft"))]
    pub ne: Option<Value>,
    /// The value equals one of these; an empty list never holds.
    #[serde(default, rename = "in", deserialize_with = "present")]
    #[schema(value_type = Option<Vec<Value>>)]
    pub one_of: Option<Value>,
    /// The value is an array with an element that equals one of these. For metadata only.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Vec<Value>>)]
    pub any: Option<Value>,
    /// The value is greater than this number or string. Strings are ordered by code points.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Value, required = false, examples(2019))]
    pub gt: Option<Value>,
    /// The value is greater than or equal to this number or string.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Value, required = false, examples(2020, "2026-01-31T00:00:00Z"))]
    pub gte: Option<Value>,
    /// The value is less than this number or string.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Value, required = false, examples(2030))]
    pub lt: Option<Value>,
    /// The value is less than or equal to this number or string.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Value, required = false, examples(2029))]
    pub lte: Option<Value>,
    /// Whether the value exists; null counts as missing. For metadata and `language`.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<bool>)]
    pub exists: Option<Value>,
    /// The value is a string that begins with this. For metadata and `id`.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub prefix: Option<Value>,
}

/// Parses the member `filter` of a request. Without it, every document matches.
pub fn parse(filter: Option<DistinctJson>, limits: &Limits) -> Result<Filter, ApiError> {
    let Some(DistinctJson(filter)) = filter else { return Ok(Filter::default()) };
    let max = limits.filter_depth_max;
    // Checked before parsing, which takes far more stack per level. A node in a list adds two levels, and a value at most two.
    if nests_deeper(&filter, max.saturating_mul(2).saturating_add(2)) {
        return Err(ApiError::at(Code::InvalidFilter, "/filter", too_deep(max)));
    }
    if let Some((at, name)) = unnamed_field(&filter, "/filter") {
        let detail = format!("unknown field `{name}`; a condition names its field: {{\"field\": {name:?}, \"eq\": …}}");
        return Err(ApiError::at(Code::InvalidFilter, at, shorten(detail)));
    }
    let Object(node) = serde_path_to_error::deserialize(filter).map_err(|error| {
        let at = format!("/filter{}", pointer(error.path()));
        ApiError::at(Code::InvalidFilter, at, describe_json_error(error.inner()))
    })?;
    Reader { limits, conditions: 0, values: 0 }.node(node, "/filter", 1)
}

/// The first member of a node without any member of a filter, with its place. It is probably the name of the field to test.
fn unnamed_field<'a>(node: &'a Value, at: &str) -> Option<(String, &'a str)> {
    let members = node.as_object()?;
    let is_known = |name: &String| ["and", "or", "not", "field"].contains(&&**name) || OPERATORS.contains(&&**name);
    members.iter().find_map(|(name, value)| {
        let at = format!("{at}/{}", pointer_token(name));
        match (name.as_str(), value) {
            ("and" | "or", Value::Array(nodes)) => {
                nodes.iter().enumerate().find_map(|(index, node)| unnamed_field(node, &format!("{at}/{index}")))
            }
            ("not", node) => unnamed_field(node, &at),
            _ => (!members.keys().any(is_known)).then_some((at, name.as_str())),
        }
    })
}

fn too_deep(max: usize) -> String {
    format!("a filter may be at most {max} levels deep (filter_depth_max)")
}

/// Whether arrays and objects are nested more than `levels` deep.
fn nests_deeper(value: &Value, levels: usize) -> bool {
    let mut inner: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(elements) => Box::new(elements.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => return false,
    };
    levels == 0 || inner.any(|value| nests_deeper(value, levels - 1))
}

/// Writes a filter in the form that `parse` reads. Equal filters give equal text.
pub fn print(filter: &Filter) -> Value {
    let all = |filters: &[Filter]| filters.iter().map(print).collect::<Vec<_>>();
    match filter {
        Filter::And(filters) => json!({"and": all(filters)}),
        Filter::Or(filters) => json!({"or": all(filters)}),
        Filter::Not(filter) => json!({"not": print(filter)}),
        Filter::Field(field, test) => {
            let value = |scalar: &Scalar| print_scalar(field, scalar);
            let values = |scalars: &[Scalar]| Value::Array(scalars.iter().map(value).collect());
            let (operator, value) = match test {
                Test::Eq(scalar) => ("eq", value(scalar)),
                Test::Ne(scalar) => ("ne", value(scalar)),
                Test::In(scalars) => ("in", values(scalars)),
                Test::Any(scalars) => ("any", values(scalars)),
                Test::Compare(relation, scalar) => (relation.name(), value(scalar)),
                Test::Exists(expected) => ("exists", Value::Bool(*expected)),
                Test::Prefix(prefix) => ("prefix", Value::String(prefix.clone())),
            };
            let members = [("field".to_owned(), Value::String(field.to_string())), (operator.to_owned(), value)];
            Value::Object(Map::from_iter(members))
        }
    }
}

fn print_scalar(field: &Field, scalar: &Scalar) -> Value {
    match (field, scalar) {
        (Field::CreatedAt | Field::UpdatedAt, Scalar::Integer(ms)) => json!(timestamps::rfc3339(*ms)),
        (_, Scalar::Text(text)) => json!(text),
        (_, Scalar::Integer(integer)) => json!(integer),
        (_, Scalar::Real(real)) => json!(real),
        (_, Scalar::Bool(truth)) => json!(truth),
    }
}

/// Parses one filter and counts its conditions.
struct Reader<'a> {
    limits: &'a Limits,
    conditions: usize,
    values: usize,
}

impl Reader<'_> {
    fn node(&mut self, mut node: FilterNode, pointer: &str, depth: usize) -> Result<Filter, ApiError> {
        let invalid = |detail: String| Err(ApiError::at(Code::InvalidFilter, pointer, detail));
        let max = self.limits.filter_depth_max;
        if depth > max {
            return invalid(too_deep(max));
        }
        let mut operators = node.operators();
        match (node.and, node.or, node.not, node.field, operators.len()) {
            (Some(nodes), None, None, None, 0) => Ok(Filter::And(self.nodes(nodes, &format!("{pointer}/and"), depth)?)),
            (None, Some(nodes), None, None, 0) => Ok(Filter::Or(self.nodes(nodes, &format!("{pointer}/or"), depth)?)),
            (None, None, Some(node), None, 0) => {
                Ok(Filter::Not(Box::new(self.node(*node, &format!("{pointer}/not"), depth + 1)?)))
            }
            (None, None, None, Some(field), 1) => {
                let (operator, value) = operators.remove(0);
                self.condition(&field, operator, value, pointer)
            }
            (None, None, None, Some(_), 0) => invalid(format!("a field needs an operator, one of {}", OPERATORS.join(", "))),
            (None, None, None, Some(_), _) => {
                let got = names(&operators).join(" and ");
                invalid(format!("a field takes exactly one operator, got {got}; combine conditions with and"))
            }
            (None, None, None, None, 0) => invalid(
                r#"a node needs and, or, not, or field with an operator; it is empty. {"and": []} matches every document"#
                    .to_owned(),
            ),
            (None, None, None, None, _) => invalid(format!("{} needs a field", names(&operators).join(" and "))),
            (and, or, not, field, _) => {
                let given = [("and", and.is_some()), ("or", or.is_some()), ("not", not.is_some()), ("field", field.is_some())];
                let given = given.into_iter().filter_map(|(name, is_given)| is_given.then_some(name)).chain(names(&operators));
                let got = given.collect::<Vec<_>>().join(", ");
                invalid(format!("a node takes only one of and, or, not, and field with an operator, got {got}"))
            }
        }
    }

    /// Parses the nodes of `and` or `or`. An empty list counts as a condition: many of them are as much work.
    fn nodes(&mut self, nodes: Vec<FilterNode>, pointer: &str, depth: usize) -> Result<Vec<Filter>, ApiError> {
        if nodes.is_empty() {
            self.count(pointer)?;
        }
        let read = |(index, node)| self.node(node, &format!("{pointer}/{index}"), depth + 1);
        nodes.into_iter().enumerate().map(read).collect()
    }

    fn count(&mut self, pointer: &str) -> Result<(), ApiError> {
        self.conditions += 1;
        let max = self.limits.filter_conditions_max;
        if self.conditions > max {
            let detail = format!("a filter may have at most {max} conditions (filter_conditions_max)");
            return Err(ApiError::at(Code::InvalidFilter, pointer, detail));
        }
        Ok(())
    }

    fn condition(&mut self, field: &str, operator: &'static str, value: Value, pointer: &str) -> Result<Filter, ApiError> {
        self.count(pointer)?;
        let refuse = |member: &str, detail: String| ApiError::at(Code::InvalidFilter, format!("{pointer}/{member}"), detail);
        let field = Field::parse(field).map_err(|detail| refuse("field", detail))?;
        let allowed = operators_of(&field);
        if !allowed.contains(&operator) {
            let detail = format!("does not work on {field}, which supports {}", allowed.join(", "));
            return Err(refuse(operator, detail));
        }
        let several = if operator == "eq" && value.is_array() { "; in takes several values" } else { "" };
        let operand = |value: &Value| scalar(&field, value).map_err(|detail| refuse(operator, detail + several));
        let ordered = |relation| match operand(&value)? {
            Scalar::Bool(_) => Err(refuse(operator, "must be a string or a number, got a boolean".to_owned())),
            scalar => Ok(Test::Compare(relation, scalar)),
        };
        let test = match operator {
            "eq" => Test::Eq(operand(&value)?),
            "ne" => Test::Ne(operand(&value)?),
            "in" => Test::In(self.list(&field, &value, operator, pointer)?),
            "any" => Test::Any(self.list(&field, &value, operator, pointer)?),
            "gt" => ordered(Relation::Gt)?,
            "gte" => ordered(Relation::Gte)?,
            "lt" => ordered(Relation::Lt)?,
            "lte" => ordered(Relation::Lte)?,
            "exists" => {
                Test::Exists(value.as_bool().ok_or_else(|| refuse(operator, format!("must be a boolean, got {}", kind(&value))))?)
            }
            _ => match value {
                Value::String(prefix) => Test::Prefix(prefix),
                other => return Err(refuse(operator, format!("must be a string, got {}", kind(&other)))),
            },
        };
        Ok(Filter::Field(field, test))
    }

    fn list(&mut self, field: &Field, value: &Value, operator: &str, pointer: &str) -> Result<ScalarList, ApiError> {
        let refuse = |at: String, detail: String| Err(ApiError::at(Code::InvalidFilter, at, detail));
        let Value::Array(values) = value else {
            return refuse(format!("{pointer}/{operator}"), format!("must be an array, got {}", kind(value)));
        };
        self.values = self.values.saturating_add(values.len());
        if self.values > VALUES_MAX {
            let detail = format!("the lists of a filter may hold at most {VALUES_MAX} values together");
            return refuse(format!("{pointer}/{operator}"), detail);
        }
        let read = |(index, value)| {
            let at = format!("{pointer}/{operator}/{index}");
            scalar(field, value).map_err(|detail| ApiError::at(Code::InvalidFilter, at, detail))
        };
        values.iter().enumerate().map(read).collect()
    }
}

impl FilterNode {
    /// Takes the given operators with their values.
    fn operators(&mut self) -> Vec<(&'static str, Value)> {
        let values = [
            self.eq.take(),
            self.ne.take(),
            self.one_of.take(),
            self.any.take(),
            self.gt.take(),
            self.gte.take(),
            self.lt.take(),
            self.lte.take(),
            self.exists.take(),
            self.prefix.take(),
        ];
        OPERATORS.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

fn names(operators: &[(&'static str, Value)]) -> Vec<&'static str> {
    operators.iter().map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::MetadataPath;

    fn parse(filter: Option<Value>) -> Result<Filter, ApiError> {
        super::parse(filter.map(DistinctJson), &Limits::default())
    }

    fn field(text: &str, test: Test) -> Filter {
        Filter::Field(Field::parse(text).unwrap(), test)
    }

    fn check(filter: Value, expect: Filter) {
        assert_eq!(parse(Some(filter.clone())), Ok(expect), "{filter}");
    }

    fn refuse(filter: Value, pointer: &str, words: &str) {
        let error = parse(Some(filter.clone())).expect_err("must be refused");
        assert_eq!(error.code, Code::InvalidFilter, "{filter}");
        assert_eq!(error.errors[0].pointer.as_deref(), Some(pointer), "{filter}");
        assert!(error.detail.contains(words), "{filter}: {}", error.detail);
    }

    #[test]
    fn every_operator_is_parsed() {
        let text = |text: &str| Scalar::Text(text.to_owned());
        check(json!({"field": "year", "eq": 2020}), field("year", Test::Eq(Scalar::Integer(2020))));
        check(json!({"field": "price", "ne": 1.5}), field("price", Test::Ne(Scalar::Real(1.5))));
        check(
            json!({"field": "a", "in": [1, "x", true]}),
            field("a", Test::In(vec![Scalar::Integer(1), text("x"), Scalar::Bool(true)].into())),
        );
        check(json!({"field": "tags", "any": ["x"]}), field("tags", Test::Any(vec![text("x")].into())));
        check(json!({"field": "a", "gt": "x"}), field("a", Test::Compare(Relation::Gt, text("x"))));
        check(json!({"field": "a", "lte": 1}), field("a", Test::Compare(Relation::Lte, Scalar::Integer(1))));
        check(json!({"field": "a.b", "exists": false}), field("a.b", Test::Exists(false)));
        check(json!({"field": "id", "prefix": "fr-"}), field("id", Test::Prefix("fr-".to_owned())));
        check(json!({"field": "language", "in": ["fr"]}), field("language", Test::In(vec![text("fr")].into())));
        check(json!({"field": "metadata.language", "eq": "x"}), field("metadata.language", Test::Eq(text("x"))));
        let half_second = Test::Compare(Relation::Gte, Scalar::Integer(500));
        check(json!({"field": "created_at", "gte": "1970-01-01T01:00:00.5+01:00"}), field("created_at", half_second));
        let end = Test::Compare(Relation::Lt, Scalar::Integer(253_402_207_200_999));
        check(json!({"field": "created_at", "lt": "9999-12-31T23:59:59Z"}), field("created_at", end));
    }

    #[test]
    fn nested_filters_are_parsed() {
        let leaf = || field("a", Test::Exists(true));
        let node = json!({"field": "a", "exists": true});
        check(json!({"and": []}), Filter::And(Vec::new()));
        check(json!({"or": [node, {"not": node}]}), Filter::Or(vec![leaf(), Filter::Not(Box::new(leaf()))]));
        check(json!({"not": {"and": [{"or": []}]}}), Filter::Not(Box::new(Filter::And(vec![Filter::Or(Vec::new())]))));
        assert_eq!(parse(None), Ok(Filter::default()));
    }

    #[test]
    fn errors_point_to_the_invalid_part_of_the_filter() {
        refuse(json!({"and": [{"field": "a", "eq": 1}, {"field": "b", "greater": 2}]}), "/filter/and/1/greater", "`gte`");
        refuse(json!({"field": "a", "eq": [1]}), "/filter/eq", "got an array; in takes several values");
        refuse(json!({"a/b": 1}), "/filter/a~1b", r#"names its field: {"field": "a/b", "eq": …}"#);
        refuse(json!({"or": [{"field": "a", "eq": 1}, {"not": {"b": 1}}]}), "/filter/or/1/not/b", r#"{"field": "b", "eq": …}"#);
        refuse(json!({"field": "a", "eq": null}), "/filter/eq", "got null");
        refuse(json!({"or": [{"field": "a", "in": [1, null]}]}), "/filter/or/0/in/1", "got null");
        refuse(json!({"field": "a", "in": 1}), "/filter/in", "must be an array");
        refuse(json!({"field": "a", "gt": true}), "/filter/gt", "got a boolean");
        refuse(json!({"field": "a", "exists": "yes"}), "/filter/exists", "must be a boolean");
        refuse(json!({"field": "a", "prefix": 1}), "/filter/prefix", "must be a string");
        refuse(json!({"field": "language", "gt": "fr"}), "/filter/gt", "which supports eq, ne, in, exists");
        refuse(json!({"field": "language", "eq": "xx"}), "/filter/eq", "one of the 62");
        refuse(json!({"field": "language", "in": ["fr", "french"]}), "/filter/in/1", "BCP 47");
        refuse(json!({"field": "id", "eq": 3}), "/filter/eq", "must be a string");
        refuse(json!({"field": "created_at", "gte": "yesterday"}), "/filter/gte", "RFC 3339");
        refuse(json!({"field": "created_at", "gte": "2026-01-01T00:00:00+24:00"}), "/filter/gte", "RFC 3339");
        refuse(json!({"field": "created_at", "any": []}), "/filter/any", "does not work on created_at");
        refuse(json!({"not": {"field": r"a\b", "eq": 1}}), "/filter/not/field", "backslash");
        refuse(json!({"field": "a..b", "eq": 1}), "/filter/field", "single dots");
        refuse(json!({"field": "a"}), "/filter", "needs an operator");
        refuse(json!({"field": "a", "gte": 1, "lte": 2}), "/filter", "got gte and lte");
        refuse(json!({"eq": 1}), "/filter", "needs a field");
        refuse(json!({}), "/filter", r#"it is empty. {"and": []} matches every document"#);
        refuse(json!({"and": [], "or": []}), "/filter", "got and, or");
        refuse(json!({"and": [], "field": "a", "eq": 1}), "/filter", "got and, field, eq");
        refuse(json!([1]), "/filter", "expected an object");
        refuse(json!({"and": [["a"]]}), "/filter/and/0", "expected an object");
        refuse(json!({"not": ["a"]}), "/filter/not", "expected an object");
        refuse(json!({"and": 3}), "/filter/and", "expected an array");
    }

    #[test]
    fn filter_depth_conditions_and_values_are_bounded() {
        let deep = (0..Limits::default().filter_depth_max).fold(json!({"field": "a", "eq": 1}), |inner, _| json!({"not": inner}));
        assert_eq!(parse(Some(deep)).map_err(|error| error.code), Err(Code::InvalidFilter));
        // As deep as JSON may be: parsing it must not exhaust the stack.
        for operator in ["not", "and"] {
            let wrap = |inner: Value| if operator == "and" { json!({ operator: [inner] }) } else { json!({ operator: inner }) };
            let deepest = (0..120).fold(json!({"field": "a", "eq": 1}), |inner, _| wrap(inner));
            assert_eq!(parse(Some(deepest)).map_err(|error| error.code), Err(Code::InvalidFilter));
            let allowed = (1..Limits::default().filter_depth_max).fold(json!({"field": "a", "in": [1]}), |inner, _| wrap(inner));
            assert!(parse(Some(allowed)).is_ok());
        }
        let many = json!({"or": vec![json!({"field": "a", "eq": 1}); Limits::default().filter_conditions_max + 1]});
        assert_eq!(parse(Some(many)).map_err(|error| error.code), Err(Code::InvalidFilter));
        let long = json!({"field": "a", "in": vec![1; VALUES_MAX + 1]});
        refuse(long, "/filter/in", "at most 10000 values");
    }

    fn any_scalar() -> impl Strategy<Value = Scalar> {
        prop_oneof![
            any::<String>().prop_map(Scalar::Text),
            any::<i64>().prop_map(Scalar::Integer),
            // A whole number would be read back as an integer.
            any::<i32>().prop_map(|n| Scalar::Real(f64::from(n) + 0.5)),
            any::<bool>().prop_map(Scalar::Bool),
        ]
    }

    fn any_condition() -> impl Strategy<Value = Filter> {
        let ordered = prop_oneof![any::<String>().prop_map(Scalar::Text), any::<i64>().prop_map(Scalar::Integer)];
        let relation = prop_oneof![Just(Relation::Gt), Just(Relation::Gte), Just(Relation::Lt), Just(Relation::Lte)];
        let path = prop::collection::vec("[a-z.\\\\]{1,4}|id|metadata|language|.{1,3}", 1..4);
        let metadata = path.prop_map(|keys| Field::Metadata(MetadataPath::new(keys).unwrap()));
        let test = prop_oneof![
            any_scalar().prop_map(Test::Eq),
            any_scalar().prop_map(Test::Ne),
            prop::collection::vec(any_scalar(), 0..3).prop_map(|values| Test::In(values.into())),
            prop::collection::vec(any_scalar(), 0..3).prop_map(|values| Test::Any(values.into())),
            (relation, ordered).prop_map(|(relation, scalar)| Test::Compare(relation, scalar)),
            any::<bool>().prop_map(Test::Exists),
            any::<String>().prop_map(Test::Prefix),
        ];
        let time = (0i64..4_000_000_000_000).prop_map(|ms| Test::Compare(Relation::Lt, Scalar::Integer(ms)));
        prop_oneof![
            8 => (metadata, test).prop_map(|(field, test)| Filter::Field(field, test)),
            1 => any::<String>().prop_map(|id| Filter::Field(Field::Id, Test::Eq(Scalar::Text(id)))),
            1 => time.prop_map(|test| Filter::Field(Field::UpdatedAt, test)),
        ]
    }

    proptest! {
        #[test]
        fn printed_filters_are_parsed_back(filter in any_condition().prop_recursive(4, 16, 4, |inner| prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Filter::And),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Filter::Or),
            inner.prop_map(|filter| Filter::Not(Box::new(filter))),
        ])) {
            prop_assert_eq!(parse(Some(print(&filter))), Ok(filter));
        }
    }
}
