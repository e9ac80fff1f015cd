//! Every type of job, a line each.

use std::collections::HashSet;
use std::marker::PhantomData;

use super::duplicates::DuplicatesJob;
use super::import::ImportJob;
use super::kind::{AnyJobKind, Named, Reading};
use super::mine::MineJob;
use super::reembed::ReembedJob;
use super::restore::RestoreJob;
use super::snapshot::SnapshotJob;
use crate::domain::{CollectionId, Job, JobType};
use crate::service::classifiers::{ClassifyJob, EvaluateJob, TrainJob};

macro_rules! job_types {
    ($($variant:ident: $job:ty,)+) => {
        $(impl Named for $job {
            const TYPE: JobType = JobType::$variant;
        })+

        /// The type of this name.
        pub(super) fn kind_of(name: JobType) -> &'static dyn AnyJobKind {
            match name {
                $(JobType::$variant => &Reading::<$job>(PhantomData),)+
            }
        }
    };
}

/// The collections that these jobs make, in folders of their own.
pub(crate) fn made_by(jobs: &[Job]) -> HashSet<CollectionId> {
    jobs.iter().filter_map(|job| kind_of(job.kind).makes(&job.id, &job.request)).collect()
}

job_types! {
    Import: ImportJob,
    Snapshot: SnapshotJob,
    Restore: RestoreJob,
    Train: TrainJob,
    Classify: ClassifyJob,
    Evaluate: EvaluateJob,
    Mine: MineJob,
    Duplicates: DuplicatesJob,
    Reembed: ReembedJob,
}
