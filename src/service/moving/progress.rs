//! The progress of a move, and what it has moved.

use serde::Serialize;

use crate::domain::CollectionName;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Copying,
    /// Both copies are being read and compared.
    Comparing,
}

/// How far the move of a collection is.
#[derive(Debug, Clone, Copy)]
pub struct Step<'s> {
    pub collection: &'s CollectionName,
    pub phase: Phase,
    pub done: u64,
    /// Approximate number of documents.
    pub total: u64,
}

/// What was moved, or found to be the same in both locations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MoveSummary {
    /// The collections, sorted by name.
    pub collections: Vec<MovedCollection>,
    pub aliases: usize,
    pub classifiers: usize,
    pub keys: usize,
    /// Number of unfinished jobs that stayed behind.
    pub jobs_left: usize,
}

/// A collection that is the same in both locations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MovedCollection {
    pub name: String,
    pub documents: u64,
    pub passages: u64,
    /// SHA-256 of everything that was moved of its documents, in hexadecimal digits.
    pub checksum: String,
}

/// Called after each step.
pub type Progress<'p> = &'p mut dyn FnMut(Step<'_>);
