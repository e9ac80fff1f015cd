//! The JSON of jobs in the catalog: their requests and their details.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::domain::{JobId, Metadata};
use crate::service::error::Error;

/// A value as a JSON object; an empty one for `None`.
pub(crate) fn write(value: &impl Serialize) -> Metadata {
    match serde_json::to_value(value) {
        Ok(Value::Object(members)) => members,
        // Text, numbers and lists of them can always be written as JSON.
        _ => Metadata::new(),
    }
}

/// Reads a job's request as its type.
pub(crate) fn read<T: DeserializeOwned>(id: &JobId, request: &Metadata) -> Result<T, Error> {
    T::deserialize(request).map_err(|_| Error::JobState { id: id.clone(), problem: "its request is damaged" })
}
