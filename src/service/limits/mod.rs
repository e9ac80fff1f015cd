//! Limits over all requests: their memory, and the fair shares of callers.

pub mod budget;
pub mod shares;
