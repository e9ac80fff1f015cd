//! Reserves passages for the request that embeds them itself.

use std::sync::Arc;

use super::OpenCollection;
use crate::embed::Tokens;
use crate::store::PendingPassage;

/// Passages that a request embeds itself. When the reservation is dropped, the worker embeds the rest.
pub(crate) struct Reservation {
    collection: Arc<OpenCollection>,
    pub(crate) passages: Vec<PendingPassage>,
    /// The tokens of each passage, if all are known.
    pub(crate) tokens: Option<Vec<Tokens>>,
}

impl Reservation {
    /// Reserves `passages` until it is dropped.
    pub(crate) fn new(collection: &Arc<OpenCollection>, passages: Vec<PendingPassage>, tokens: Option<Vec<Tokens>>) -> Self {
        debug_assert!(tokens.as_ref().is_none_or(|tokens| tokens.len() == passages.len()));
        collection.reserved.reserve(&passages);
        Self { collection: Arc::clone(collection), passages, tokens }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.collection.reserved.release(&self.passages);
        // Done after success, too: the worker then finds nothing to embed, but saves the index if a save is due.
        self.collection.wake.notify_one();
    }
}
