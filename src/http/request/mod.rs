//! Parsing requests: path, parameters and body, and what many requests have in common.

pub(super) mod body;
mod body_scan;
pub mod body_schemas;
pub mod cursor;
pub mod extract;
pub mod filter;
mod filter_fields;
pub mod preconditions;
pub mod values;
