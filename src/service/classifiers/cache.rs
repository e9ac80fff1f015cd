//! Keeps recently used classifiers in memory.

use std::sync::Arc;

use parking_lot::Mutex;

use super::trained::TrainedClassifier;

/// Classifiers in memory, the most recently used last.
#[derive(Default)]
pub(crate) struct ClassifierCache(pub(super) Mutex<Vec<Arc<TrainedClassifier>>>);
