//! Limits that all requests share: memory and places.

pub mod budget;
pub mod shares;
