//! Jobs: work that outlives its request and a restart of the server.

use serde::Serialize;
use utoipa::ToSchema;

use super::ids::{is_uuid, text_id};
use super::names::names;
use super::{Code, CollectionName, Metadata, timestamps};

text_id! {
    /// A job's id: a UUIDv7 in lower case with hyphens, so that later jobs sort after earlier ones.
    JobId, |text| is_uuid("job id", text)
}

macro_rules! named {
    ($(#[$about:meta])+ $type:ident { $($(#[$doc:meta])+ $variant:ident = $name:literal,)+ }) => {
        // Before the attributes that it reads.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        $(#[$about])+
        pub enum $type { $($(#[$doc])+ $variant,)+ }

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
        /// Places the documents of a collection on a plane.
        Project = "project",
    }
}

named! {
    /// `queued`: it waits for its turn. `running`: it is at work, and resumes after a restart of the server. `succeeded`: it has
    /// finished. `failed`: it stopped at an error. `canceled`: it stopped on request.
    #[schema(as = JobStatusName)]
    JobStatus {
        /// It waits for its turn.
        Queued = "queued",
        /// It is at work; after a restart of the server it resumes.
        Running = "running",
        /// It has finished.
        Succeeded = "succeeded",
        /// It stopped at an error.
        Failed = "failed",
        /// It stopped on request.
        Canceled = "canceled",
    }
}

named! {
    /// The unit of a job's progress.
    #[schema(as = JobUnitName)]
    JobUnit {
        /// Bytes.
        Bytes = "bytes",
        /// Collections.
        Collections = "collections",
        /// Documents.
        Documents = "documents",
        /// Steps of a computation.
        Steps = "steps",
        /// Sentences, each once for every pass over it.
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
    /// Units in all.
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

/// What a job's type has to tell. An import: `lines`, `created`, `updated`, `failed`. A snapshot: `snapshot`, its id, and
/// `skipped`, collections that were deleted meanwhile. A restore:
/// `snapshot` and `collections`, the names that it makes. Mining: `memory_bytes` and `disk_bytes` that it needs, about;
/// `first_sentences`, `first_different` and the same of `second`; then `proposed` pairs, `threshold`, with known pairs
/// `known_pairs`, `judged`, `precision`, `recall`, `f1`; `pairs`, `gone` (left out: deleted meanwhile), `first_truncated`,
/// `second_truncated`. Duplicates: `memory_bytes`, `disk_bytes`, `passages`, `documents` or `sentences` by what is compared, `different`, `clusters`, `members`, `refused_pairs`. A training:
/// `classifier`, its name. Labels that are written: `classifier`, `documents`, `labeled`, `abstained`, `changed` (left as they were because
/// their text changed meanwhile) and `failed`. An evaluation: `classifier`, and at its end `version`, `examples`, `accuracy`, `macro_f1`.
/// Re-embedding: `from_model`, `to_model` and their fingerprints, `memory_bytes` and `disk_bytes` that it needs, about; `passages` made so
/// far, and `not_embedded`, those that the model failed on, which are tried again after the end. A projection: `center`, `documents`, the
/// points it has, `sampled`, whether there are more, `memory_bytes` and `disk_bytes`, about; while it works `phase`, then how long each took.
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
    /// The collection that it concerns; omitted if there is none or several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub collection: Option<CollectionName>,
    /// What its type was asked to do.
    #[serde(skip)]
    pub request: Metadata,
    /// Its progress.
    pub progress: JobProgress,
    /// Details of its type, such as the counts of an import.
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
    /// When it first ran; omitted while it waits.
    #[serde(rename = "started_at", skip_serializing_if = "Option::is_none", serialize_with = "timestamps::serialize_some")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at_ms: Option<i64>,
    /// When it ended; omitted until then.
    #[serde(rename = "finished_at", skip_serializing_if = "Option::is_none", serialize_with = "timestamps::serialize_some")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at_ms: Option<i64>,
}

/// Filters of a list of jobs; `None` means any.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobFilter {
    /// The type.
    pub kind: Option<JobType>,
    /// The status.
    pub status: Option<JobStatus>,
    /// The collections that they concern.
    pub collections: Option<Vec<CollectionName>>,
}
