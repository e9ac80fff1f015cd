//! Arithmetic on vectors that the index and the ranking share.

pub mod signs;

pub use signs::Signs;
