//! The damage found in a collection since the server started.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::domain::{Damage, DocumentId};

/// Maximum number of damaged rows recorded per collection: enough to see what happened, and little memory.
pub(crate) const DAMAGE_MAX: usize = 100;

/// The damage found in a collection since the server started.
#[derive(Default)]
pub(crate) struct FoundDamage {
    by_row: Mutex<BTreeMap<DamageKey, Damage>>,
}

/// A table and a row. An empty table name and row 0 stand for the file as a whole.
pub(crate) type DamageKey = (&'static str, i64);

impl FoundDamage {
    pub(crate) fn all(&self) -> Vec<Damage> {
        self.by_row.lock().values().cloned().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_row.lock().is_empty()
    }

    /// Removes the damage of documents that were replaced or deleted.
    pub(crate) fn remove_documents(&self, ids: &[DocumentId]) {
        let mut found = self.by_row.lock();
        if !found.is_empty() {
            found.retain(|_, damage| damage.document.as_ref().is_none_or(|id| !ids.contains(id)));
        }
    }

    /// Removes the damage of documents whose rows were deleted.
    pub(crate) fn remove_rows(&self, rows: &[i64]) {
        let mut found = self.by_row.lock();
        if !found.is_empty() {
            found.retain(|(table, row), _| *table != "documents" || !rows.contains(row));
        }
    }

    /// Adds damage. Returns whether it is new.
    pub(crate) fn add(&self, key: DamageKey, damage: &Damage) -> bool {
        let mut found = self.by_row.lock();
        if found.contains_key(&key) || found.len() >= DAMAGE_MAX {
            return false;
        }
        found.insert(key, damage.clone()).is_none()
    }
}
