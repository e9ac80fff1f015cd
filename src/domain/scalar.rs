//! The values that a field is compared with. A long list is sorted once, because a boost looks every candidate up in it.

use std::ops::Deref;
use std::sync::OnceLock;

use serde::Serialize;
use serde_json::Value;

use super::metadata::whole;

/// Up to this many values, comparing each is faster than a binary search.
const ONE_BY_ONE_MAX: usize = 16;

/// A value that can be compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A string.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// A boolean.
    Bool(bool),
}

/// Values in the order given.
#[derive(Debug, Clone, Default)]
pub struct ScalarList {
    values: Vec<Scalar>,
    /// The positions of the values, sorted by their keys, from the first look-up in a long list on.
    sorted: OnceLock<Vec<u32>>,
}

/// A value in a form in which equal values are the same: 1.0 and 1 are the same integer.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ValueKey<'v> {
    Text(&'v str),
    Bool(bool),
    Integer(i64),
    /// The bits of a number that is no integer of 64 bits.
    Real(u64),
}

impl ScalarList {
    /// Whether one of the values has this key.
    pub(super) fn has(&self, key: &ValueKey<'_>) -> bool {
        let key_of = |index: u32| ValueKey::of(&self.values[index as usize]);
        if self.values.len() <= ONE_BY_ONE_MAX {
            return self.values.iter().any(|value| ValueKey::of(value) == *key);
        }
        let sort = || {
            let mut positions: Vec<u32> = (0..self.values.len() as u32).collect();
            positions.sort_unstable_by(|a, b| key_of(*a).cmp(&key_of(*b)));
            positions
        };
        self.sorted.get_or_init(sort).binary_search_by(|index| key_of(*index).cmp(key)).is_ok()
    }
}

impl<'v> ValueKey<'v> {
    fn of(scalar: &'v Scalar) -> Self {
        match scalar {
            Scalar::Text(text) => Self::Text(text),
            Scalar::Integer(integer) => Self::Integer(*integer),
            Scalar::Real(real) => Self::of_real(*real),
            Scalar::Bool(truth) => Self::Bool(*truth),
        }
    }

    /// `None` for a value that equals no scalar.
    pub(super) fn of_json(value: &'v Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text)),
            Value::Number(number) => number.as_i64().map(Self::Integer).or_else(|| number.as_f64().map(Self::of_real)),
            Value::Bool(truth) => Some(Self::Bool(*truth)),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    fn of_real(real: f64) -> Self {
        whole(real).map_or(Self::Real(real.to_bits()), Self::Integer)
    }
}

impl From<Vec<Scalar>> for ScalarList {
    fn from(values: Vec<Scalar>) -> Self {
        Self { values, sorted: OnceLock::new() }
    }
}

impl FromIterator<Scalar> for ScalarList {
    fn from_iter<I: IntoIterator<Item = Scalar>>(values: I) -> Self {
        Vec::from_iter(values).into()
    }
}

impl Deref for ScalarList {
    type Target = [Scalar];

    fn deref(&self) -> &[Scalar] {
        &self.values
    }
}

impl PartialEq for ScalarList {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_has_the_same_values_as_a_short_one() {
        let values = r#"[0, -0.0, 1, 1.0, 1.5, -1, true, false, "1", "true", "", 9223372036854775807, 9223372036854775808,
            9223372036854775808.0, -9223372036854775808, -9.223372036854775808e18, 9007199254740993, 9007199254740992.0, 1e300]"#;
        let values: Vec<Value> = serde_json::from_str(values).unwrap();
        let scalar = |value: &Value| match value {
            Value::String(text) => Scalar::Text(text.clone()),
            Value::Bool(truth) => Scalar::Bool(*truth),
            value => value.as_i64().map_or_else(|| Scalar::Real(value.as_f64().unwrap()), Scalar::Integer),
        };
        let others = (0..=ONE_BY_ONE_MAX).map(|number| Scalar::Text(format!("other {number}")));
        for (value, wanted) in values.iter().flat_map(|value| values.iter().map(move |wanted| (value, wanted))) {
            let (short, long) =
                (ScalarList::from(vec![scalar(wanted)]), others.clone().chain([scalar(wanted)]).collect::<ScalarList>());
            let key = ValueKey::of_json(value).unwrap();
            assert_eq!(long.has(&key), short.has(&key), "{value} {wanted}");
        }
        assert_eq!(ValueKey::of_json(&Value::Null), None);
    }
}
