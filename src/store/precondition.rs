//! Checks the version that a write requires, for both engines.

use super::StoreError;
use crate::domain::{DocumentId, Precondition, Sequence};

/// Fails with `StoreError::PreconditionFailed` unless the precondition holds for a document whose version is `current`.
pub(crate) fn check_precondition(
    id: &DocumentId,
    current: Option<Sequence>,
    precondition: &Precondition,
) -> Result<(), StoreError> {
    if precondition.holds(current) {
        return Ok(());
    }
    let names_none = matches!(precondition, Precondition::Version(versions) if versions.is_empty());
    Err(StoreError::PreconditionFailed { id: id.clone(), current, names_none })
}
