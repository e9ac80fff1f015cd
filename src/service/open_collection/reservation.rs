//! The reservation of a request for the passages that it embeds itself.

use std::sync::Arc;

use super::OpenCollection;
use crate::embed::Tokens;
use crate::store::PendingPassage;

/// Passages that a request embeds itself. Dropping it hands what is left to the worker.
pub(crate) struct Reservation {
    collection: Arc<OpenCollection>,
    /// The passages.
    pub(crate) passages: Vec<PendingPassage>,
    /// The tokens of each, unless some are not known.
    pub(crate) tokens: Option<Vec<Tokens>>,
}

impl Reservation {
    /// Keeps the worker off `passages`, until it is dropped.
    pub(crate) fn of(collection: &Arc<OpenCollection>, passages: Vec<PendingPassage>, tokens: Option<Vec<Tokens>>) -> Self {
        debug_assert!(tokens.as_ref().is_none_or(|tokens| tokens.len() == passages.len()));
        collection.reserved.reserve(&passages);
        Self { collection: Arc::clone(collection), passages, tokens }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.collection.reserved.release(&self.passages);
        // Also after success: the worker looks, finds nothing to embed, and saves the index when that is due.
        self.collection.wake.notify_one();
    }
}
