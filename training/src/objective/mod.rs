//! Objectives: tensors in, loss out; no model, no files.

/// Sentence-level contrastive objective (EMS, eq. 8 and 9).
pub mod contrastive;
/// Cross-lingual token reconstruction (EMS, eq. 6 and 7).
pub mod xtr;
