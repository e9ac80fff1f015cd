//! Who may see and cancel a job.

use crate::domain::{CollectionName, KeyId, Scope};

/// What a key needs for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobAccess {
    /// The scope that starting and canceling such a job needs.
    pub scope: Scope,
    /// What the job shows: only keys that reach all of it see the job.
    pub reach: JobReach,
}

/// What a job shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobReach {
    /// Nothing of any collection: every key sees it.
    Server,
    /// Something of each of these collections: a restricted key sees it if it reaches all of them.
    Collections(Vec<CollectionName>),
    /// Something of each of these collections, and texts of the request. Of the restricted keys, only the caller's sees it.
    Texts {
        /// The collections.
        collections: Vec<CollectionName>,
        /// The key of the caller, if it has one.
        caller: Option<KeyId>,
    },
    /// More than a restricted key reaches: only unrestricted keys see it.
    Everything,
}

impl JobReach {
    /// The reach of a job about this collection, or about none or several.
    pub(crate) fn of(collection: Option<&CollectionName>) -> Self {
        collection.map_or(Self::Everything, |only| Self::Collections(vec![only.clone()]))
    }
}
