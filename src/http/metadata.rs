//! Metadata of a document on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain;

/// A JSON object of the caller's own: at most 64 KiB as JSON and 8 levels deep, unless configured otherwise.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(value_type = std::collections::HashMap<String, Value>)]
pub struct Metadata(pub domain::Metadata);
