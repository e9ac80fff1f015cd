//! Where a collection was found damaged since the server started.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::domain::{Damage, DocumentId};

/// Places remembered of one collection: enough to see what happened, and no more memory than that.
pub(crate) const PLACES_MAX: usize = 100;

/// Where a collection was found damaged since the server started.
#[derive(Default)]
pub(crate) struct FoundDamage {
    places: Mutex<BTreeMap<Place, Damage>>,
}

/// A table and a row; of the file as a whole no table, and row 0.
pub(crate) type Place = (&'static str, i64);

impl FoundDamage {
    /// All of it.
    pub(crate) fn all(&self) -> Vec<Damage> {
        self.places.lock().values().cloned().collect()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.lock().is_empty()
    }

    /// Forgets the damage of documents that were replaced or deleted.
    pub(crate) fn forget(&self, ids: &[DocumentId]) {
        let mut places = self.places.lock();
        if !places.is_empty() {
            places.retain(|_, damage| damage.document.as_ref().is_none_or(|id| !ids.contains(id)));
        }
    }

    /// Forgets the damage of documents whose rows were deleted.
    pub(crate) fn forget_rows(&self, rows: &[i64]) {
        let mut places = self.places.lock();
        if !places.is_empty() {
            places.retain(|(table, row), _| *table != "documents" || !rows.contains(row));
        }
    }

    /// Says whether it is new.
    pub(crate) fn add(&self, place: Place, damage: &Damage) -> bool {
        let mut places = self.places.lock();
        if places.contains_key(&place) || places.len() >= PLACES_MAX {
            return false;
        }
        places.insert(place, damage.clone()).is_none()
    }
}
