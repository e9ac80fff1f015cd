//! Limits over all requests: memory, and what callers hold at once.

pub mod budget;
pub mod shares;
