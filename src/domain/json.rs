//! What several types need to read JSON: the names of its types and the places of errors for messages, and 32-bit numbers.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The name of a value's type.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Describes an error in a line of JSON. Leaves out serde's "line 1", because the message names the line of the file.
pub fn error_in_line(error: &serde_json::Error) -> String {
    error.to_string().replacen(" at line 1 column", " at column", 1)
}

/// A type with 32-bit numbers, and the same type with `Single` in their place.
pub trait Singles {
    /// What it is read as.
    type Read;
    /// Returns the numbers that were read.
    fn of(read: Self::Read) -> Self;
}

/// A 32-bit number that is read as a 64-bit one. serde_json would refuse numbers beyond 32 bits with an error that does not name
/// the limits, and takes about twice as long to read an `f32` exactly.
#[derive(Deserialize)]
pub struct Single(f64);

impl Singles for f32 {
    type Read = Single;
    fn of(Single(number): Single) -> Self {
        number as Self
    }
}

impl<T: Singles> Singles for Option<T> {
    type Read = Option<T::Read>;
    fn of(read: Self::Read) -> Self {
        read.map(T::of)
    }
}

impl<T: Singles> Singles for Vec<T> {
    type Read = Vec<T::Read>;
    fn of(read: Self::Read) -> Self {
        read.into_iter().map(T::of).collect()
    }
}

/// Reads 32-bit numbers. Numbers out of range become infinite, which the check of the field refuses.
pub fn singles<'de, T: Singles<Read: Deserialize<'de>>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::Read::deserialize(deserializer).map(T::of)
}
