//! What the service asks of the catalog: names of collections, keys, jobs, classifiers, and which request created what.
//!
//! Calls block. Every change is durable when its call returns, and is made as a whole or not at all. Where several servers share a
//! catalog, a change fails with `StoreError::CatalogChanged` if this one does not know the catalog as it is, and a job's with
//! `StoreError::JobElsewhere` if it is another server's.

use std::time::Instant;

use super::postgres::PostgresCatalog;
use crate::domain::{
    Alias, ClassifierName, Collection, CollectionId, CollectionName, Embedding, Job, JobFailure, JobFilter, JobId, JobProgress,
    JobStatus, JobType, KeyId, Language, Metadata, Page, RequestKey,
};
use crate::store::{
    Catalog, ClassifierText, FinishedTraining, StoreError, StoredClassifier, StoredKey, WholeCatalog, WholeClassifier,
};

/// Declares the operations, which each catalog has under the same names.
macro_rules! catalog_storage {
    ($($(#[doc = $doc:literal])+ fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        /// The catalog of a server.
        pub trait CatalogStorage: Send + Sync {
            $($(#[doc = $doc])+ fn $name(&self, $($argument: $type),*) -> Result<$answer, StoreError>;)+

            /// From `time` on, statements that run for more than a moment are ended.
            fn end_by(&self, time: Instant);

            /// The catalog in the data directory, if it is that.
            fn embedded(&self) -> Option<&Catalog> {
                None
            }

            /// The catalog on a database server, if it is that: other servers change it, too.
            fn shared(&self) -> Option<&PostgresCatalog> {
                None
            }
        }

        impl CatalogStorage for Catalog {
            $(fn $name(&self, $($argument: $type),*) -> Result<$answer, StoreError> { Self::$name(self, $($argument),*) })+

            fn end_by(&self, time: Instant) {
                Self::end_by(self, time);
            }

            fn embedded(&self) -> Option<&Catalog> {
                Some(self)
            }
        }

        impl CatalogStorage for PostgresCatalog {
            $(fn $name(&self, $($argument: $type),*) -> Result<$answer, StoreError> { Self::$name(self, $($argument),*) })+

            fn end_by(&self, time: Instant) {
                Self::end_by(self, time);
            }

            fn shared(&self) -> Option<&PostgresCatalog> {
                Some(self)
            }
        }
    };
}

catalog_storage! {
    /// Adds a collection, and with a request records that this request created it. `StoreError::CollectionExists` if the name is taken.
    fn create_once(collection: &Collection, request: Option<&RequestKey>) -> ();

    /// The id of what this request created earlier. If the same key was used for another request: `StoreError::KeyReused`.
    fn created_before(request: &RequestKey, now_ms: i64) -> Option<String>;

    /// Stores changes to a collection: description, search width, default languages. Returns whether it existed.
    fn update(collection: &Collection) -> bool;

    /// Lists collections in the order of their names, at most `page.limit` rows.
    fn list(page: &Page<CollectionName>) -> Vec<Collection>;

    /// Removes a collection, with its aliases, and returns it. A database server drops its documents at once; a folder stays for the
    /// caller to delete.
    fn delete(name: &CollectionName) -> Option<Collection>;

    /// All aliases, in the order of their names.
    fn aliases() -> Vec<Alias>;

    /// Points `name` to a collection, instead of any previous one. `StoreError::CollectionExists` if it is the name of a collection.
    fn set_alias(name: &CollectionName, collection: &CollectionId) -> ();

    /// Removes an alias; returns whether it existed.
    fn delete_alias(name: &CollectionName) -> bool;

    /// Adds a key.
    fn add_key(stored: &StoredKey) -> ();

    /// All keys, in the order of their ids.
    fn keys() -> Vec<StoredKey>;

    /// Removes a key; returns whether it existed.
    fn remove_key(id: &KeyId) -> bool;

    /// Adds a job.
    fn create_job(job: &Job) -> ();

    /// Adds a job, unless this request was accepted before: then it returns that job's id. If the same key was used for another
    /// request: `StoreError::KeyReused`.
    fn create_job_once(new: &Job, request: &RequestKey) -> Option<JobId>;

    /// The job that this request created earlier. If the same key was used for another request: `StoreError::KeyReused`.
    fn job_created_before(request: &RequestKey, now_ms: i64) -> Option<JobId>;

    /// Finds a job.
    fn job(id: &JobId) -> Option<Job>;

    /// Lists jobs, newest first, at most `page.limit`.
    fn jobs(filter: &JobFilter, page: &Page<JobId>) -> Vec<Job>;

    /// The number of jobs of each type and status, without zeros.
    fn job_counts() -> Vec<(JobType, JobStatus, u64)>;

    /// The unfinished jobs, in the order of arrival.
    fn unfinished_jobs() -> Vec<Job>;

    /// Records that a job runs; keeps the first time that it did.
    fn start_job(id: &JobId, now_ms: i64) -> ();

    /// Records a job's progress.
    fn record_progress(id: &JobId, progress: &JobProgress, details: &Metadata) -> ();

    /// Records that a job should stop. Does nothing to a finished one.
    fn request_cancel(id: &JobId) -> ();

    /// Records how a job ended: one of the finished states.
    fn finish_job(id: &JobId, status: JobStatus, error: Option<&JobFailure>, now_ms: i64) -> ();

    /// Deletes finished jobs beyond the `kept_max` that finished last, and those that finished before `before_ms`. Returns their ids.
    fn prune_jobs(kept_max: usize, before_ms: i64) -> Vec<JobId>;

    /// Adds a classifier with its texts; returns whether the name was free. Checks nothing else. With a request, records that this
    /// request created it.
    fn create_classifier(row: &StoredClassifier, texts: &[ClassifierText], request: Option<&RequestKey>) -> bool;

    /// Finds a classifier by its name.
    fn classifier(name: &ClassifierName) -> Option<StoredClassifier>;

    /// Finds a classifier by its id.
    fn classifier_by_id(id: &str) -> Option<StoredClassifier>;

    /// Lists classifiers in the order of their names, at most `page.limit` rows.
    fn classifiers(page: &Page<ClassifierName>) -> Vec<StoredClassifier>;

    /// The number of classifiers.
    fn classifier_count() -> usize;

    /// Reads everything that a classifier needs for predictions.
    fn whole_classifier(id: &str) -> Option<WholeClassifier>;

    /// The texts of a classifier, in their order, each with its key.
    fn classifier_texts(id: &str) -> Vec<(i64, ClassifierText)>;

    /// Stores the languages and embeddings of a classifier's texts, by their keys. Deleted texts are skipped.
    fn embed_classifier_texts(embedded: &[(i64, Option<Language>, Embedding)]) -> ();

    /// Records that a job trains a classifier again; returns whether it exists and no other job does.
    fn begin_retraining(id: &str, job: &JobId) -> bool;

    /// Replaces the previous training with a new one; returns whether the classifier still waits for this training.
    fn finish_training(done: &FinishedTraining) -> bool;

    /// Records that a training job failed. A trained classifier stays as it was, with the error beside it.
    fn fail_training(job: &JobId, error: &JobFailure) -> ();

    /// The jobs that train classifiers, for the first time or again.
    fn trainings() -> Vec<JobId>;

    /// Removes a classifier and returns it.
    fn delete_classifier(name: &ClassifierName) -> Option<StoredClassifier>;

    /// Adds what another catalog has, all or nothing; the documents of its collections are here already. Keys that are here stay as
    /// they are. `StoreError::CollectionExists` if the name of a collection is taken, or that of an alias by a collection;
    /// `StoreError::AliasExists` if an alias has the name.
    fn take_in(whole: &WholeCatalog) -> ();

    /// Adds a classifier of another catalog as it is there; returns whether the name was free.
    fn take_in_classifier(whole: &WholeClassifier) -> bool;
}
