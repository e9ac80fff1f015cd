//! Reads and writes the JSON that the catalog stores for a job: its request and its details.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::domain::{JobId, Metadata};
use crate::service::error::Error;

/// Converts a value to a JSON object. `None` becomes an empty one.
pub(crate) fn write(value: &impl Serialize) -> Metadata {
    match serde_json::to_value(value) {
        Ok(Value::Object(members)) => members,
        // Serializing text, numbers and lists of them to JSON cannot fail.
        _ => Metadata::new(),
    }
}

pub(crate) fn read<T: DeserializeOwned>(id: &JobId, request: &Metadata) -> Result<T, Error> {
    T::deserialize(request).map_err(|_| Error::JobState { id: id.clone(), problem: "its request is damaged" })
}
