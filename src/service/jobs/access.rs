//! Who may see and cancel a job.

use crate::domain::{CollectionName, KeyId, Scope};

/// Which keys may access a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobAccess {
    /// The scope that a key needs to start and cancel such a job.
    pub scope: Scope,
    /// What the job reveals. A key may see the job only if it may access all of that.
    pub visibility: JobVisibility,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobVisibility {
    /// Nothing about any collection, so every key may see it.
    Server,
    /// Something about each of these collections. A restricted key may see the job if it may access all of them.
    Collections(Vec<CollectionName>),
    /// Something about each of these collections, and texts of the request. Among restricted keys, only the caller's own may
    /// see the job.
    Texts {
        collections: Vec<CollectionName>,
        /// The key of the caller, if it has one.
        caller: Option<KeyId>,
    },
    /// More than a restricted key may access, so only unrestricted keys may see it.
    Everything,
}

impl JobVisibility {
    /// Returns the visibility of a job about one collection. `None` stands for a job about several collections or none.
    pub(crate) fn for_collection(collection: Option<&CollectionName>) -> Self {
        collection.map_or(Self::Everything, |only| Self::Collections(vec![only.clone()]))
    }
}
