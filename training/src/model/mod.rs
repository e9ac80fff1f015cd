//! The EMS encoder and the heads that only training needs.

/// Self-attention.
pub mod attention;
/// The sentence encoder.
pub mod encoder;
/// The head that predicts tokens, and projections.
pub mod heads;
/// Named tensors.
pub mod parameters;
