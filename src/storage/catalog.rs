//! The interface of the catalog: names of collections, keys, jobs, classifiers, and which request created what.
//!
//! Calls block. Every change is atomic, and durable when its call returns. If several servers share a catalog, a change fails
//! with `StoreError::CatalogChanged` if this server does not know the catalog's current state. A change of a job fails with
//! `StoreError::JobTakenOver` if the job belongs to another server.

use std::time::Instant;

use super::postgres::PostgresCatalog;
use crate::domain::{
    Alias, ClassifierName, Collection, CollectionId, CollectionName, Embedding, Job, JobFailure, JobFilter, JobId, JobProgress,
    JobStatus, JobType, KeyId, Language, Metadata, Page, RequestKey,
};
use crate::store::{
    Catalog, CatalogContents, ClassifierContents, ClassifierText, FinishedTraining, StoreError, StoredClassifier, StoredKey,
};

/// Declares the operations. Each catalog implements them under the same names.
macro_rules! catalog_storage {
    ($($(#[doc = $doc:literal])+ fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        /// The catalog of a server.
        pub trait CatalogStorage: Send + Sync {
            $($(#[doc = $doc])+ fn $name(&self, $($argument: $type),*) -> Result<$answer, StoreError>;)+

            /// After `time`, ends statements that run for more than a moment.
            fn interrupt_after(&self, time: Instant);

            /// Returns the catalog in the data directory, if this is one.
            fn embedded(&self) -> Option<&Catalog> {
                None
            }

            /// Returns the catalog on a database server, if this is one. Other servers change it, too.
            fn shared(&self) -> Option<&PostgresCatalog> {
                None
            }
        }

        impl CatalogStorage for Catalog {
            $(fn $name(&self, $($argument: $type),*) -> Result<$answer, StoreError> { Self::$name(self, $($argument),*) })+

            fn interrupt_after(&self, time: Instant) {
                Self::interrupt_after(self, time);
            }

            fn embedded(&self) -> Option<&Catalog> {
                Some(self)
            }
        }

        impl CatalogStorage for PostgresCatalog {
            $(fn $name(&self, $($argument: $type),*) -> Result<$answer, StoreError> { Self::$name(self, $($argument),*) })+

            fn interrupt_after(&self, time: Instant) {
                Self::interrupt_after(self, time);
            }

            fn shared(&self) -> Option<&PostgresCatalog> {
                Some(self)
            }
        }
    };
}

catalog_storage! {
    /// Adds a collection. With a request, records that this request created it. Fails with `StoreError::CollectionExists` if
    /// the name is taken.
    fn create(collection: &Collection, request: Option<&RequestKey>) -> ();

    /// Returns the id of what this request created earlier. Fails with `StoreError::KeyReused` if the same key was used for
    /// another request.
    fn find_created_by(request: &RequestKey, now_ms: i64) -> Option<String>;

    /// Stores changes to a collection: its description, search width and default languages. Returns whether the collection
    /// existed.
    fn update(collection: &Collection) -> bool;

    /// Lists at most `page.limit` collections, sorted by name.
    fn list(page: &Page<CollectionName>) -> Vec<Collection>;

    /// Removes a collection, with its aliases, and returns it. A database server drops its documents immediately; a folder
    /// stays for the caller to delete.
    fn delete(name: &CollectionName) -> Option<Collection>;

    /// Returns all aliases, sorted by name.
    fn aliases() -> Vec<Alias>;

    /// Points `name` to a collection, replacing any previous target. Fails with `StoreError::CollectionExists` if it is the
    /// name of a collection.
    fn set_alias(name: &CollectionName, collection: &CollectionId) -> ();

    /// Removes an alias. Returns whether it existed.
    fn delete_alias(name: &CollectionName) -> bool;

    /// Adds a key.
    fn add_key(stored: &StoredKey) -> ();

    /// Returns all keys, sorted by id.
    fn keys() -> Vec<StoredKey>;

    /// Removes a key. Returns whether it existed.
    fn remove_key(id: &KeyId) -> bool;

    /// Adds a job.
    fn create_job(job: &Job) -> ();

    /// Adds a job, unless this request was accepted before; then returns the id of that job. Fails with `StoreError::KeyReused`
    /// if the same key was used for another request.
    fn create_job_once(new: &Job, request: &RequestKey) -> Option<JobId>;

    /// Returns the job that this request created earlier. Fails with `StoreError::KeyReused` if the same key was used for
    /// another request.
    fn find_job_created_by(request: &RequestKey, now_ms: i64) -> Option<JobId>;

    /// Finds a job.
    fn job(id: &JobId) -> Option<Job>;

    /// Lists at most `page.limit` jobs, newest first.
    fn jobs(filter: &JobFilter, page: &Page<JobId>) -> Vec<Job>;

    /// Returns the number of jobs of each type and status that has any.
    fn job_counts() -> Vec<(JobType, JobStatus, u64)>;

    /// Returns the unfinished jobs in the order in which they were accepted.
    fn unfinished_jobs() -> Vec<Job>;

    /// Records that a job is running. If it ran before, keeps its first start time.
    fn start_job(id: &JobId, now_ms: i64) -> ();

    /// Records a job's progress.
    fn record_progress(id: &JobId, progress: &JobProgress, details: &Metadata) -> ();

    /// Records that a job should stop. Does nothing to a finished one.
    fn request_cancel(id: &JobId) -> ();

    /// Records how a job ended. `status` must be one of the finished ones.
    fn finish_job(id: &JobId, status: JobStatus, error: Option<&JobFailure>, now_ms: i64) -> ();

    /// Keeps the `kept_max` jobs that finished last, unless they finished before `before_ms`, and deletes all other finished
    /// jobs. Returns the ids of deleted jobs.
    fn prune_jobs(kept_max: usize, before_ms: i64) -> Vec<JobId>;

    /// Adds a classifier with its texts. Returns whether the name was free. Checks nothing else. With a request, records that
    /// this request created it.
    fn create_classifier(row: &StoredClassifier, texts: &[ClassifierText], request: Option<&RequestKey>) -> bool;

    /// Finds a classifier by its name.
    fn classifier(name: &ClassifierName) -> Option<StoredClassifier>;

    /// Finds a classifier by its id.
    fn classifier_by_id(id: &str) -> Option<StoredClassifier>;

    /// Lists at most `page.limit` classifiers, sorted by name.
    fn classifiers(page: &Page<ClassifierName>) -> Vec<StoredClassifier>;

    /// Returns the number of classifiers.
    fn classifier_count() -> usize;

    /// Reads everything that a classifier needs for predictions.
    fn classifier_contents(id: &str) -> Option<ClassifierContents>;

    /// Returns the texts of a classifier in order, each with its key.
    fn classifier_texts(id: &str) -> Vec<(i64, ClassifierText)>;

    /// Stores the languages and embeddings of a classifier's texts, by their keys. Deleted texts are skipped.
    fn embed_classifier_texts(embedded: &[(i64, Option<Language>, Embedding)]) -> ();

    /// Records that a job retrains a classifier. Returns false if the classifier does not exist, or if another job is training
    /// it.
    fn begin_retraining(id: &str, job: &JobId) -> bool;

    /// Replaces the result of the previous training. Returns whether the classifier was still waiting for this training.
    fn finish_training(done: &FinishedTraining) -> bool;

    /// Records that a training job failed. A classifier that was trained before stays as it was, and the error is stored beside
    /// it.
    fn fail_training(job: &JobId, error: &JobFailure) -> ();

    /// Returns the jobs that train or retrain classifiers, without those that another living server may be about to create.
    fn trainings() -> Vec<JobId>;

    /// Removes a classifier and returns it.
    fn delete_classifier(name: &ClassifierName) -> Option<StoredClassifier>;

    /// Adds the content of another catalog, all or nothing. The documents of its collections must already be here. Keys that
    /// already exist here stay as they are. Fails with `StoreError::CollectionExists` if a collection here has the name of a
    /// new collection or alias, and with `StoreError::AliasExists` if an alias here has the name of a new collection.
    fn import_contents(contents: &CatalogContents) -> ();

    /// Adds a classifier of another catalog unchanged. Returns whether the name was free.
    fn import_classifier(contents: &ClassifierContents) -> bool;
}
