//! The store: SQLite databases, which are the source of truth. `catalog.sqlite` has the collections, and
//! `collections/<uuid>/documents.sqlite` has the documents, passages and embeddings of one collection. No SQLite type leaves
//! this module.

pub mod catalog;
pub mod documents;
pub mod error;

mod aliases;
mod caller;
mod catalog_import;
mod check;
mod checkpoints;
mod checksum;
mod classifiers;
mod clock;
mod columns;
mod conditional;
mod connection;
mod copies;
mod deadline;
mod document_records;
mod expired;
mod expiry;
mod facets;
mod filter;
mod foreign;
mod foreign_import;
mod hits;
mod idempotency;
mod idempotency_records;
mod jobs;
mod keys;
mod labeled;
mod lexical;
mod log;
mod matching;
mod metadata_indexes;
mod migrate;
mod mutations;
mod open_databases;
mod passage_tokens;
mod patch;
mod projected;
mod queries;
mod read_only;
mod readers;
mod records;
mod rows;
mod sentences;
mod snapshot_metadata;
mod swap;
mod term_rows;
mod token_rows;
mod writer;

pub use crate::domain::SearchFilter;
pub use caller::with_caller;
pub use catalog::{Catalog, lock};
pub(crate) use catalog::{codes, read_collection};
pub use catalog_import::CatalogContents;
pub use classifiers::{ClassifierContents, ClassifierText, FinishedTraining, StoredClassifier, TrainingProgress};
pub(crate) use classifiers::{read_classifier, read_classifier_text};
pub use clock::{Clock, system_clock};
pub(crate) use columns::Columns;
pub use conditional::PatchOutcome;
pub use copies::Copied;
pub use documents::DocumentStore;
pub use error::StoreError;
pub use expired::Expired;
pub(crate) use expiry::NextExpiry;
pub(crate) use filter::prefix_upper_bound;
pub use foreign::{DatabaseKind, check_foreign, check_head, has_documents};
pub use foreign_import::ForeignImport;
pub use idempotency::Idempotent;
pub(crate) use idempotency_records::KEPT_MS as RECORDS_KEPT_MS;
pub(crate) use jobs::{parse_created_job, read_job};
pub use keys::StoredKey;
pub(crate) use keys::{names_json, read_key};
pub use labeled::{EmbeddedDocument, Patched, TextPatch};
pub use lexical::RequiredMatches;
pub use matching::{DeletedBatch, Matching, UpdatedBatch};
pub use open_databases::{OpenDatabases, StoreOptions};
pub use passage_tokens::{PassageTokens, PassageWords, TokenChanges};
pub use patch::ResplitText;
pub(crate) use patch::compute_patched_fields;
pub use projected::{DocumentAttributes, DocumentEmbeddings};
pub(crate) use queries::CUTTING_RULES;
pub use records::{
    Change, CopiedDocument, CopiedPassage, Deleted, DocumentKey, DocumentRecord, HitSizes, KeyedDocument, PassageDocument,
    PassageRecord, PassageRow, PendingPassage, PreparedDocument, Upserted,
};
pub(crate) use rows::passage_range;
pub use sentences::PassageText;
pub use snapshot_metadata::{Replacement, SnapshotMetadata};
pub use swap::{Revision, SwapState};
pub use term_rows::TermsOf;
