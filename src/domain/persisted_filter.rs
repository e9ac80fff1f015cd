//! The JSON form of filters in the catalog, where classifiers and the requests of jobs contain them: an array that begins with
//! the filter's kind. The API uses another form.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::{Field, Filter, MetadataPath, Relation, Scalar, ScalarList, Test};

impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(&Value::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("no filter"))
    }
}

fn write(filter: &Filter) -> Value {
    let all = |filters: &[Filter]| filters.iter().map(write).collect::<Vec<_>>();
    match filter {
        Filter::And(filters) => json!(["and", all(filters)]),
        Filter::Or(filters) => json!(["or", all(filters)]),
        Filter::Not(filter) => json!(["not", write(filter)]),
        Filter::Field(field, test) => {
            let (operator, value) = match test {
                Test::Eq(value) => ("eq", scalar(value)),
                Test::Ne(value) => ("ne", scalar(value)),
                Test::In(values) => ("in", values.iter().map(scalar).collect()),
                Test::Any(values) => ("any", values.iter().map(scalar).collect()),
                Test::Compare(relation, value) => (relation.name(), scalar(value)),
                Test::Exists(expected) => ("exists", json!(expected)),
                Test::Prefix(prefix) => ("prefix", json!(prefix)),
            };
            json!(["field", written_field(field), operator, value])
        }
    }
}

/// Reads the output of `write`.
fn read(value: &Value) -> Option<Filter> {
    let all = |value: &Value| value.as_array()?.iter().map(read).collect::<Option<Vec<_>>>();
    let parts = value.as_array()?;
    Some(match (parts.first()?.as_str()?, parts.get(1)?) {
        ("and", filters) => Filter::And(all(filters)?),
        ("or", filters) => Filter::Or(all(filters)?),
        ("not", filter) => Filter::Not(Box::new(read(filter)?)),
        ("field", field) => {
            let value = parts.get(3)?;
            let values = || value.as_array()?.iter().map(read_scalar).collect::<Option<ScalarList>>();
            let test = match parts.get(2)?.as_str()? {
                "eq" => Test::Eq(read_scalar(value)?),
                "ne" => Test::Ne(read_scalar(value)?),
                "in" => Test::In(values()?),
                "any" => Test::Any(values()?),
                "exists" => Test::Exists(value.as_bool()?),
                "prefix" => Test::Prefix(value.as_str()?.to_owned()),
                relation => Test::Compare(Relation::parse(relation)?, read_scalar(value)?),
            };
            Filter::Field(read_field(field)?, test)
        }
        _ => return None,
    })
}

/// The document's own fields are written as names, metadata paths as arrays of keys.
fn written_field(field: &Field) -> Value {
    match field {
        Field::Metadata(path) => json!(path),
        own => json!(own.to_string()),
    }
}

fn read_field(value: &Value) -> Option<Field> {
    match value.as_str() {
        Some(own) => Field::parse(own).ok().filter(|field| !matches!(field, Field::Metadata(_))),
        None => MetadataPath::deserialize(value).ok().map(Field::Metadata),
    }
}

fn scalar(scalar: &Scalar) -> Value {
    match scalar {
        Scalar::Text(text) => json!({"text": text}),
        Scalar::Integer(integer) => json!({"integer": integer}),
        Scalar::Real(real) => json!({"real": real.to_bits()}),
        Scalar::Bool(truth) => json!({"bool": truth}),
    }
}

fn read_scalar(value: &Value) -> Option<Scalar> {
    let (kind, value) = value.as_object()?.iter().next()?;
    Some(match kind.as_str() {
        "text" => Scalar::Text(value.as_str()?.to_owned()),
        "integer" => Scalar::Integer(value.as_i64()?),
        "real" => Scalar::Real(f64::from_bits(value.as_u64()?)),
        "bool" => Scalar::Bool(value.as_bool()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_filter_round_trips() {
        let path =
            |keys: &[&str]| Field::Metadata(MetadataPath::new(keys.iter().map(|key| (*key).to_owned()).collect()).unwrap());
        let text = |text: &str| Scalar::Text(text.to_owned());
        let fields = [
            Filter::Field(Field::Id, Test::Prefix("é".to_owned())),
            Filter::Field(Field::Language, Test::In(vec![text("fr"), text("ja")].into())),
            Filter::Field(Field::CreatedAt, Test::Compare(Relation::Gte, Scalar::Integer(i64::MIN))),
            Filter::Field(Field::UpdatedAt, Test::Compare(Relation::Lt, Scalar::Integer(7))),
            Filter::Field(path(&["id"]), Test::Eq(Scalar::Real(0.1 + 0.2))),
            Filter::Field(path(&["a.b", "c\\"]), Test::Ne(Scalar::Bool(false))),
            Filter::Field(path(&["tags"]), Test::Any(vec![text("x"), Scalar::Integer(1)].into())),
            Filter::Field(path(&["x"]), Test::Exists(false)),
        ];
        let filter = Filter::And(vec![Filter::Or(fields.to_vec()), Filter::Not(Box::default())]);
        let persisted = serde_json::from_str(&write(&filter).to_string()).unwrap();
        assert_eq!(read(&persisted), Some(filter));
    }

    #[test]
    fn invalid_persisted_filters_are_refused() {
        for text in
            ["null", "[]", r#"["xor", []]"#, r#"["field", "title", "eq", {"text": "a"}]"#, r#"["field", [], "exists", true]"#]
        {
            assert_eq!(read(&serde_json::from_str(text).unwrap()), None, "{text}");
        }
    }
}
