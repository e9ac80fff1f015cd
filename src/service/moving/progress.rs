//! How far a move is, and what it has moved.

use serde::Serialize;

use crate::domain::CollectionName;

/// What is done with a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Its documents are copied.
    Copying,
    /// Both are read and compared.
    Comparing,
}

/// How far a move is with a collection.
#[derive(Debug, Clone, Copy)]
pub struct Step<'s> {
    /// The collection.
    pub collection: &'s CollectionName,
    /// What is done with it.
    pub phase: Phase,
    /// Documents done.
    pub done: u64,
    /// About how many there are.
    pub total: u64,
}

/// What was moved, or is the same in both places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// The collections, by name.
    pub collections: Vec<MovedCollection>,
    /// How many aliases.
    pub aliases: usize,
    /// How many classifiers.
    pub classifiers: usize,
    /// How many keys.
    pub keys: usize,
    /// How many unfinished jobs stayed behind.
    pub jobs_left: usize,
}

/// A collection that is the same in both places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MovedCollection {
    /// Its name.
    pub name: String,
    /// How many documents it has.
    pub documents: u64,
    /// How many passages these have.
    pub passages: u64,
    /// SHA-256 over all that was moved of its documents, in hexadecimal digits.
    pub checksum: String,
}

/// Is told each step.
pub type Progress<'p> = &'p mut dyn FnMut(Step<'_>);
