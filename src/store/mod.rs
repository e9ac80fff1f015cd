//! The store: SQLite databases, which are the source of truth. `catalog.sqlite` has the collections, and
//! `collections/<uuid>/documents.sqlite` has the documents, passages and embeddings of one collection. No SQLite type leaves
//! this module.

pub mod catalog;
pub mod documents;
pub mod error;

mod aliases;
mod caller;
mod catalog_import;
mod catalog_session;
mod catalog_storage;
mod changes;
mod check;
mod checksum;
mod classifier_records;
mod classifiers;
mod clock;
mod collections;
mod connection;
mod copies;
mod corpus;
mod deadline;
mod directory_lock;
mod document_records;
mod expired;
mod expiry;
mod facets;
mod filter;
mod foreign;
mod foreign_import;
mod hits;
mod idempotency_records;
mod jobs;
mod json_path;
mod keys;
mod lexical;
mod log;
mod matching;
mod metadata_indexes;
mod migrate;
mod mutations;
mod open_databases;
mod passage_set;
mod passage_tokens;
mod queries;
mod read_only;
mod readers;
mod records;
mod rows;
mod snapshot_metadata;
mod sqlite_session;
mod swap;
mod term_rows;
mod upsert;
mod value_counts;
mod write_rules;
mod write_transaction;
mod writer;

pub use crate::domain::SearchFilter;
pub(crate) use aliases::read_aliases;
pub use caller::with_caller;
pub(crate) use caller::{has_caller, is_caller_gone};
pub use catalog::Catalog;
pub(crate) use catalog::{FOLLOWING_JOBS, following_jobs};
pub use catalog_import::CatalogContents;
pub(crate) use catalog_session::{CatalogSession, CatalogValue, Columns, RowConsumer, catalog_json, columns};
pub use catalog_storage::{CatalogPart, CatalogStorage};
pub(crate) use catalog_storage::{CatalogWork, Within};
pub use classifier_records::{
    ClassifierContents, ClassifierText, FinishedTraining, StoredClassifier, TextEmbedding, TrainingProgress,
};
pub use clock::{Clock, system_clock};
pub(crate) use collections::{delete_collection, read_collections, update_collection};
pub use corpus::{DocumentAttributes, DocumentEmbeddings, EmbeddedDocument, PassageText};
pub use directory_lock::DirectoryLock;
pub use documents::DocumentStore;
pub use error::StoreError;
pub(crate) use error::file_limit_note;
pub use expired::Expired;
pub(crate) use expiry::NextExpiry;
pub(crate) use filter::prefix_upper_bound;
pub use foreign::{DatabaseKind, check_foreign, check_head, has_documents};
pub use foreign_import::import_foreign;
pub use idempotency_records::Idempotent;
pub(crate) use idempotency_records::{ANSWERS_MAX, KEPT_MS as RECORDS_KEPT_MS, replayed};
pub(crate) use jobs::{JOB_COLUMNS, read_job};
pub use keys::StoredKey;
pub use open_databases::{OpenDatabases, StoreOptions};
pub use passage_set::{PassageSet, RequiredPassages};
pub use passage_tokens::TokenChanges;
pub(crate) use queries::CUTTING_RULES;
pub use records::{
    Change, CopiedDocument, CopiedPassage, Deleted, DocumentKey, DocumentRecord, Excerpt, HitSizes, PassageDocument,
    PassageParts, PassageRecord, PassageRow, PendingPassage, PreparedDocument, Upserted,
};
pub(crate) use rows::{corrupt_document, corrupt_passage, document_id, from_sql, language, passage_range, to_sql};
pub use snapshot_metadata::{Replacement, SnapshotMetadata};
pub use swap::Revision;
pub(crate) use swap::SwapState;
pub use term_rows::TermsOf;
pub use write_rules::{BatchChange, ChangedBatch, PatchOutcome, Patched, ResplitText, TextPatch};
pub(crate) use write_rules::{
    CHANGED_PER_TRANSACTION, FoundDocument, PatchTransaction, StoredDocument, StoredPassage, check_precondition,
    clear_earlier_pending, patch, patch_found, patch_texts,
};
