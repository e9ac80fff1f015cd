//! Jobs: work that outlives its request and a restart of the server.

use serde::Serialize;
use utoipa::ToSchema;

use super::ids::{check_uuid, text_id};
use super::names::names;
use super::{Code, CollectionName, Metadata, timestamps};

text_id! {
    /// A job's id: a UUIDv7 in lower case with hyphens, so that later jobs sort after earlier ones.
    JobId, |text| check_uuid("job id", text)
}

macro_rules! named {
    ($(#[$about:meta])+ $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)+ }) => {
        // The derives must precede the attributes that they read.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        $(#[$about])+
        pub enum $type { $($(#[$doc])* $variant,)+ }

        names!($type { $($variant = $name),+ });
    };
}

named! {
    /// What a job does.
    #[schema(as = JobTypeName)]
    JobType {
        /// Stores the documents of an uploaded file.
        Import = "import",
        /// Copies collections into an archive.
        Snapshot = "snapshot",
        /// Restores collections from an archive.
        Restore = "restore",
        /// Trains a classifier.
        Train = "train",
        /// Writes a classifier's labels into documents.
        Classify = "classify",
        /// Evaluates a classifier.
        Evaluate = "evaluate",
        /// Finds translation pairs.
        Mine = "mine",
        /// Finds clusters of near-duplicates and translations.
        Duplicates = "duplicates",
        /// Re-embeds a collection with the server's model.
        Reembed = "reembed",
        /// Projects the documents of a collection onto a plane.
        Project = "project",
    }
}

named! {
    /// `queued`: it waits for its turn. `running`: it runs, and resumes after a restart of the server. `succeeded`: it has
    /// finished. `failed`: it stopped at an error. `canceled`: it stopped on request.
    #[schema(as = JobStatusName)]
    #[expect(missing_docs, reason = "the text above says what the variants are")]
    JobStatus {
        Queued = "queued",
        Running = "running",
        Succeeded = "succeeded",
        Failed = "failed",
        Canceled = "canceled",
    }
}

named! {
    /// The unit of a job's progress.
    #[schema(as = JobUnitName)]
    #[expect(missing_docs, reason = "the names say what the units are")]
    JobUnit {
        Bytes = "bytes",
        Collections = "collections",
        Documents = "documents",
        Steps = "steps",
        /// Sentences; each counts once per pass over it.
        Sentences = "sentences",
    }
}

impl JobStatus {
    /// Whether the job has ended.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Canceled)
    }
}

/// The progress of a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[schema(as = JobProgressInfo)]
pub struct JobProgress {
    /// Units done.
    pub done: u64,
    /// Units in total.
    pub total: u64,
    /// The unit.
    pub unit: JobUnit,
    /// Units per second since the job started; omitted until known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub rate: Option<f64>,
    /// Estimated seconds until it finishes; omitted until known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub eta_s: Option<f64>,
}

/// Details that depend on the type of the job. `memory_bytes` and `disk_bytes` estimate what it needs. `import`: `lines`,
/// `created`, `updated`, `failed`. `snapshot`: `snapshot` (its id) and `skipped` (collections deleted meanwhile). `restore`:
/// `snapshot` and `collections` (the names that it creates). `mine`: `memory_bytes`, `disk_bytes`; `first_sentences`,
/// `first_different` and the same for `second`; then `proposed` pairs and `threshold`, with known pairs also `known_pairs`,
/// `judged` (the pairs that `precision` counts: all with `known_pairs_complete`, otherwise those with a sentence of a known
/// pair), `precision` (too high if other sentences have no translation), `recall` and `f1`; `pairs`, `gone` (pairs deleted
/// meanwhile), `first_truncated` and `second_truncated`. `duplicates`: `memory_bytes`, `disk_bytes`, `passages`, `documents` or
/// `sentences`, `different`, `clusters`, `members`, `refused_pairs`. `train`: `classifier` (its name). `classify`: `classifier`,
/// `documents`, `labeled`, `abstained`, `changed` (skipped: their text changed) and `failed`. `evaluate`: `classifier`, and at
/// the end `version`, `examples`, `accuracy`, `macro_f1`. `reembed`: `from_model`, `to_model` and their fingerprints,
/// `memory_bytes`, `disk_bytes`, `passages` (created so far) and `not_embedded` (retried after the job). `project`: `center`,
/// `documents`, `sampled` (whether the collection has more), `memory_bytes`, `disk_bytes`; while it runs `phase`, then how long
/// each phase took.
#[derive(Debug, ToSchema)]
#[schema(value_type = std::collections::HashMap<String, serde_json::Value>)]
pub struct JobDetails(pub Metadata);

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = JobProblem)]
pub struct JobFailure {
    /// The error code, from the same closed list as for requests.
    pub code: Code,
    /// What is wrong.
    pub detail: String,
}

/// A job: work that outlives its request and a restart of the server.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = JobInfo)]
pub struct Job {
    /// The id, a UUID.
    #[schema(value_type = String)]
    pub id: JobId,
    /// What it does.
    #[serde(rename = "type")]
    pub kind: JobType,
    /// Its status.
    pub status: JobStatus,
    /// The collection that it concerns; omitted if there are none or several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub collection: Option<CollectionName>,
    /// The job's request, in the form that its type defines.
    #[serde(skip)]
    pub request: Metadata,
    /// Its progress.
    pub progress: JobProgress,
    /// Details that depend on its type, such as the counts of an import.
    #[schema(value_type = JobDetails)]
    pub details: Metadata,
    /// Whether its cancellation was requested.
    pub cancel_requested: bool,
    /// Why it failed; omitted if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<JobFailure>,
    /// When it was accepted.
    // In milliseconds since the Unix epoch, like the other times.
    #[serde(rename = "created_at", serialize_with = "timestamps::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub created_at_ms: i64,
    /// When it first ran; omitted until then.
    #[serde(rename = "started_at", skip_serializing_if = "Option::is_none", serialize_with = "timestamps::serialize_some")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at_ms: Option<i64>,
    /// When it ended; omitted until then.
    #[serde(rename = "finished_at", skip_serializing_if = "Option::is_none", serialize_with = "timestamps::serialize_some")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at_ms: Option<i64>,
}

/// Filters for a list of jobs; `None` means any.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobFilter {
    /// The type.
    pub kind: Option<JobType>,
    /// The status.
    pub status: Option<JobStatus>,
    /// The collections that they concern.
    pub collections: Option<Vec<CollectionName>>,
}
