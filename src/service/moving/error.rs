//! Why a server's data was not moved.

use crate::domain::{CollectionName, DocumentId, JobId, JobType};
use crate::service::error::Error;
use crate::store::StoreError;

/// Why a server's data was not moved, or differs between the two locations.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// `which` is "source" or "target", here and in the other variants.
    #[error("a server uses the {which}: stop it first")]
    InUse { which: &'static str, source: StoreError },
    #[error("cannot open the {which}")]
    Open { which: &'static str, source: Box<Error> },
    #[error(
        "jobs are not moved, and the source has {count} that are not finished, such as {} {id}: start its server and let them end, or \
         leave them with --leave-jobs",
        kind.name()
    )]
    UnfinishedJobs { count: usize, kind: JobType, id: JobId },
    #[error("the target already has {what} {name}; nothing there was changed")]
    NameTaken { what: &'static str, name: String },
    #[error(
        "the target has documents of collection {name} under {id}, but its catalog does not list them, and they are not from an earlier move"
    )]
    UnknownDocuments { name: CollectionName, id: String },
    #[error("cannot access the catalog of the {which}")]
    Catalog { which: &'static str, source: StoreError },
    #[error("cannot access collection {name} of the {which}")]
    Collection { which: &'static str, name: CollectionName, source: StoreError },
    #[error("cannot remove what an earlier move left of collection {name} in the target")]
    Remove { name: CollectionName, source: std::io::Error },
    #[error("collection {name} differs between source and target: document {document} {problem}")]
    DocumentDiffers { name: CollectionName, document: DocumentId, problem: &'static str },
    #[error("collection {name} differs between source and target: {problem}")]
    CollectionDiffers { name: CollectionName, problem: &'static str },
    #[error("{what} {name} differs between source and target")]
    CatalogDiffers { what: &'static str, name: String },
}
