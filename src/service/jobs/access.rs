//! Who may do what with a job.

use crate::domain::{CollectionName, KeyId, Scope};

/// What a key must allow for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobAccess {
    /// The scope that starting such a job needs, and canceling it.
    pub scope: Scope,
    /// What the job shows: a key must reach all of it to see the job.
    pub reach: JobReach,
}

/// What a job shows of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobReach {
    /// Nothing of any collection: every key may see it.
    Server,
    /// Something of each of these collections: a restricted key must reach all of them.
    Collections(Vec<CollectionName>),
    /// Something of each of these collections, and texts that came with the request. Among the keys that are restricted to some
    /// collections only the sender's may see it.
    Texts {
        /// The collections.
        collections: Vec<CollectionName>,
        /// The key of the sender, if it has one.
        sender: Option<KeyId>,
    },
    /// More than a restricted key reaches.
    Everything,
}

impl JobReach {
    /// The reach of a job about this collection, or about none or several.
    pub(crate) fn of(collection: Option<&CollectionName>) -> Self {
        collection.map_or(Self::Everything, |only| Self::Collections(vec![only.clone()]))
    }
}
