//! The damage found in a collection since the server started.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::domain::{Damage, DocumentId};

/// Maximum number of damaged places recorded per collection: enough to see what happened, and little memory.
pub(crate) const PLACES_MAX: usize = 100;

/// The damage found in a collection since the server started.
#[derive(Default)]
pub(crate) struct FoundDamage {
    places: Mutex<BTreeMap<Place, Damage>>,
}

/// A table and a row. An empty table name and row 0 stand for the file as a whole.
pub(crate) type Place = (&'static str, i64);

impl FoundDamage {
    pub(crate) fn all(&self) -> Vec<Damage> {
        self.places.lock().values().cloned().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.lock().is_empty()
    }

    /// Removes the damage of documents that were replaced or deleted.
    pub(crate) fn remove_documents(&self, ids: &[DocumentId]) {
        let mut places = self.places.lock();
        if !places.is_empty() {
            places.retain(|_, damage| damage.document.as_ref().is_none_or(|id| !ids.contains(id)));
        }
    }

    /// Removes the damage of documents whose rows were deleted.
    pub(crate) fn remove_rows(&self, rows: &[i64]) {
        let mut places = self.places.lock();
        if !places.is_empty() {
            places.retain(|(table, row), _| *table != "documents" || !rows.contains(row));
        }
    }

    /// Adds damage. Returns whether it is new.
    pub(crate) fn add(&self, place: Place, damage: &Damage) -> bool {
        let mut places = self.places.lock();
        if places.contains_key(&place) || places.len() >= PLACES_MAX {
            return false;
        }
        places.insert(place, damage.clone()).is_none()
    }
}
