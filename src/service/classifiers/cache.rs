//! The classifiers in memory.

use std::sync::Arc;

use parking_lot::Mutex;

use super::trained::Trained;

/// Classifiers in memory, the most recently asked last.
#[derive(Default)]
pub(crate) struct HeldClassifiers(pub(super) Mutex<Vec<Arc<Trained>>>);
