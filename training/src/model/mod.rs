//! The EMS encoder and the heads that only training needs.

/// Self-attention.
pub mod attention;
/// The dual encoder's one side.
pub mod encoder;
/// XTR's reconstruction head and the contrastive projection.
pub mod heads;
/// Named tensors.
pub mod parameters;
