//! Counts in how many documents each value occurs, in limited memory. If the distinct values do not fit, they are divided into
//! parts by their hashes, and each part is counted by itself.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::mem::size_of;

use serde_json::Value;

use crate::domain::metadata::plain_number;
use crate::domain::{DocumentCount, FacetValue, Scalar};

/// Factor by which the number of parts grows if a part does not fit.
const GROWTH: u64 = 8;

/// A value that can be counted. Equal numbers are the same value, however they are written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum CountedValue {
    Bool(bool),
    Integer(i64),
    /// The bits of a number that is not an `Integer`.
    Real(u64),
    Text(String),
}

/// Counts documents by value.
pub(super) struct ValueCounts {
    limit: usize,
    bytes_max: usize,
    /// The values of the current part. `None` if they did not fit.
    counts: Option<HashMap<CountedValue, DocumentCount>>,
    bytes: usize,
    hasher: RandomState,
    part: u64,
    parts: u64,
    /// The most frequent values of the parts that are finished.
    best: Vec<(CountedValue, u64)>,
}

impl CountedValue {
    /// Returns the value of JSON that is a text, a number or a boolean.
    pub(super) fn of(json: Value) -> Option<Self> {
        match json {
            Value::Bool(value) => Some(Self::Bool(value)),
            Value::String(text) => Some(Self::Text(text)),
            Value::Number(number) => match plain_number(&number).as_i64() {
                Some(integer) => Some(Self::Integer(integer)),
                None => number.as_f64().map(|real| Self::Real(real.to_bits())),
            },
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    fn bytes(&self) -> usize {
        let text = if let Self::Text(text) = self { text.capacity() } else { 0 };
        size_of::<(Self, DocumentCount)>() + text
    }

    fn number(&self) -> f64 {
        match self {
            Self::Integer(integer) => *integer as f64,
            Self::Real(bits) => f64::from_bits(*bits),
            Self::Bool(_) | Self::Text(_) => 0.0,
        }
    }

    /// The order of values that are equally frequent.
    fn order(&self, other: &Self) -> Ordering {
        let kind = |value: &Self| match value {
            Self::Bool(false) => 0,
            Self::Integer(_) | Self::Real(_) => 1,
            Self::Text(_) => 2,
            Self::Bool(true) => 3,
        };
        let is_real = |value: &Self| matches!(value, Self::Real(_));
        kind(self).cmp(&kind(other)).then_with(|| match (self, other) {
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Integer(one), Self::Integer(other)) => one.cmp(other),
            // As 64-bit floating-point numbers, the greatest integers equal a real number that is not one of them.
            _ => self.number().total_cmp(&other.number()).then(is_real(self).cmp(&is_real(other))),
        })
    }
}

impl From<CountedValue> for Scalar {
    fn from(value: CountedValue) -> Self {
        match value {
            CountedValue::Bool(value) => Self::Bool(value),
            CountedValue::Integer(integer) => Self::Integer(integer),
            CountedValue::Real(bits) => Self::Real(f64::from_bits(bits)),
            CountedValue::Text(text) => Self::Text(text),
        }
    }
}

impl ValueCounts {
    /// Looks for the `limit` most frequent values, with at most about `bytes_max` bytes of them in memory.
    pub(super) fn new(limit: usize, bytes_max: usize) -> Self {
        let counts = Some(HashMap::new());
        Self { limit, bytes_max, counts, bytes: 0, hasher: RandomState::new(), part: 0, parts: 1, best: Vec::new() }
    }

    /// Adds a value of a document. All values of a document must be added one after the other; equal ones count once.
    pub(super) fn add(&mut self, document: i64, value: CountedValue) {
        let Some(counts) = &mut self.counts else { return };
        if self.parts > 1 && self.hasher.hash_one(&value) % self.parts != self.part {
            return;
        }
        let bytes = value.bytes();
        let count = counts.entry(value).or_insert_with(|| {
            self.bytes += bytes;
            DocumentCount::default()
        });
        count.add(document);
        if self.bytes > self.bytes_max && counts.len() > 1 {
            self.counts = None;
        }
    }

    /// Ends a scan of all documents. Returns whether all documents must be added once more, to count another part of the values,
    /// which may take `bytes_max` bytes.
    pub(super) fn next_part(&mut self, bytes_max: usize) -> bool {
        match self.counts.take() {
            Some(counts) => {
                self.best.extend(counts.into_iter().map(|(value, count)| (value, count.documents)));
                self.best.sort_unstable_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then_with(|| a.order(b)));
                self.best.truncate(self.limit);
                self.part += 1;
            }
            None => (self.part, self.parts, self.best) = (0, self.parts * GROWTH, Vec::new()),
        }
        (self.counts, self.bytes, self.bytes_max) = (Some(HashMap::new()), 0, bytes_max);
        self.part < self.parts
    }

    /// Returns the most frequent values of all parts, most documents first.
    pub(super) fn into_values(self) -> Vec<FacetValue> {
        self.best.into_iter().map(|(value, documents)| FacetValue { value: value.into(), documents }).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Counts the values of each document as a scan does. Returns the values with their counts, and the number of scans.
    fn count(documents: &[Vec<Value>], limit: usize, bytes_max: usize) -> (Vec<(Value, u64)>, usize) {
        let (mut counts, mut scans) = (ValueCounts::new(limit, bytes_max), 0);
        loop {
            scans += 1;
            for (document, values) in (0..).zip(documents) {
                values.iter().cloned().filter_map(CountedValue::of).for_each(|value| counts.add(document, value));
            }
            if !counts.next_part(bytes_max) {
                let values = counts.into_values().into_iter();
                return (values.map(|value| (serde_json::to_value(value.value).unwrap(), value.documents)).collect(), scans);
            }
        }
    }

    #[test]
    fn the_order_of_great_numbers_is_total() {
        let great: Vec<_> =
            (0..40).map(|n| vec![json!(i64::MAX - n)]).chain([vec![json!(9_223_372_036_854_775_808_u64)]]).collect();
        let (found, _) = count(&great, 50, 1_000_000);
        let integers: Vec<i64> = found.iter().map_while(|(value, _)| value.as_i64()).collect();
        assert!(integers.is_sorted() && integers.len() == 40, "{found:?}");
        assert_eq!(found.last().unwrap().0.as_f64(), Some(9_223_372_036_854_775_808.0));
    }

    proptest! {
        #[test]
        fn values_that_do_not_fit_are_counted_in_parts(
            documents in prop::collection::vec(prop::collection::vec(0..60_u32, 0..4), 0..200),
            limit in 1..70_usize,
        ) {
            let documents: Vec<Vec<Value>> =
                documents.into_iter().map(|values| values.into_iter().map(|value| json!(value.to_string())).collect()).collect();
            let (at_once, scans) = count(&documents, limit, 1_000_000);
            prop_assert_eq!(scans, 1);
            let (parts, scans) = count(&documents, limit, 500);
            prop_assert_eq!(&at_once, &parts);
            prop_assert!(at_once.len() < 20 || scans > 1);
        }
    }
}
