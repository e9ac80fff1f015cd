//! Jobs: work that outlives the request that asked for it, and the restart of the server.

use serde::Serialize;
use utoipa::ToSchema;

use super::ids::is_uuid;
use super::names::names;
use super::{Code, CollectionName, InvalidId, Metadata};

/// A job's id: a UUIDv7, so that later jobs sort after earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(String);

impl JobId {
    /// Accepts a UUID in lower case with hyphens.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        is_uuid("job id", text)?;
        Ok(Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for JobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
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
        /// Stores the documents of a file that was sent.
        Import = "import",
        /// Copies collections into an archive.
        Snapshot = "snapshot",
        /// Makes collections of an archive.
        Restore = "restore",
        /// Trains a classifier.
        Train = "train",
        /// Writes a classifier's labels into documents.
        Classify = "classify",
        /// Judges a classifier.
        Evaluate = "evaluate",
        /// Finds translation pairs.
        Mine = "mine",
        /// Finds clusters of near-duplicates and translations.
        Duplicates = "duplicates",
        /// Embeds a collection anew with the server's model.
        Reembed = "reembed",
        /// Places the documents of a collection on a plane.
        Project = "project",
    }
}

named! {
    /// `queued`: it waits for its turn. `running`: it works, after a restart of the server again. `succeeded`: all that was asked is
    /// done. `failed`: it stopped at an error. `canceled`: it stopped because somebody asked.
    #[schema(as = JobStatusName)]
    JobStatus {
        /// It waits for its turn.
        Queued = "queued",
        /// It works; after a restart of the server it goes on.
        Running = "running",
        /// It did all that was asked.
        Succeeded = "succeeded",
        /// It stopped at an error.
        Failed = "failed",
        /// It stopped because somebody asked it to.
        Canceled = "canceled",
    }
}

named! {
    /// What a job's progress counts.
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
    /// Whether nothing more will happen.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Canceled)
    }
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[schema(as = JobProgressInfo)]
pub struct JobProgress {
    /// Done.
    pub done: u64,
    /// To be done in all.
    pub total: u64,
    /// What is counted.
    pub unit: JobUnit,
    /// Units per second since the job was started; omitted while nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0)]
    pub rate: Option<f64>,
    /// Seconds until it is done at that rate; omitted while nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0)]
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
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = std::collections::HashMap<String, serde_json::Value>)]
pub struct JobDetails(pub Metadata);

/// Why a job failed.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFailure {
    /// The kind of error.
    pub code: Code,
    /// For people.
    pub detail: String,
}

/// A job as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The id.
    pub id: JobId,
    /// What it does.
    pub kind: JobType,
    /// Where it is.
    pub status: JobStatus,
    /// The collection that it is about, when it is about one.
    pub collection: Option<CollectionName>,
    /// What the type needs to run.
    pub request: Metadata,
    /// What the type has to tell.
    pub details: Metadata,
    /// How far it is.
    pub progress: JobProgress,
    /// Why it failed.
    pub error: Option<JobFailure>,
    /// Whether somebody asked it to stop.
    pub cancel_requested: bool,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: Option<i64>,
    /// Milliseconds since the Unix epoch.
    pub finished_at_ms: Option<i64>,
}

/// Which jobs of a list; `None` means any.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobFilter {
    /// What they do.
    pub kind: Option<JobType>,
    /// Where they are.
    pub status: Option<JobStatus>,
    /// Which collections they are about.
    pub collections: Option<Vec<CollectionName>>,
}
