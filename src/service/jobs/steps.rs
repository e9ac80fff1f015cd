//! Tracks the progress of a job that takes several steps, and the details that it collects on the way.

use std::time::Instant;

use super::context::{JobContext, JobError};
use crate::domain::Metadata;

/// Counts the work that a job has done.
pub(crate) struct Steps<'a> {
    pub(crate) context: &'a JobContext,
    done: u64,
    total: u64,
    details: Metadata,
    /// When the present phase began: at the start, with its name, or when the time of the last one was recorded.
    phase_begun: Instant,
}

impl<'a> Steps<'a> {
    /// Starts with nothing done and with the job's details.
    pub(crate) fn new(context: &'a JobContext) -> Self {
        let (progress, details) = context.job.progress();
        Self { context, done: 0, total: progress.total, details, phase_begun: Instant::now() }
    }

    pub(crate) fn add_total(&mut self, more: u64) {
        self.set_total(self.total + more);
    }

    pub(crate) fn set_total(&mut self, total: u64) {
        self.total = total;
        self.context.measure(self.done, total);
    }

    pub(crate) fn details(&mut self) -> &mut Metadata {
        &mut self.details
    }

    /// Fails if the job should stop.
    pub(crate) fn check(&self) -> Result<(), JobError> {
        self.context.check()
    }

    /// Adds to the work done, and publishes it.
    pub(crate) async fn count(&mut self, more: u64) -> Result<(), JobError> {
        self.done += more;
        self.context.progress(self.done, &self.details).await
    }

    /// Begins a phase. The details show its name until `record_time`.
    pub(crate) async fn begin_phase(&mut self, name: &str) -> Result<(), JobError> {
        self.check()?;
        self.details.insert("phase".to_owned(), name.into());
        self.count(0).await?;
        self.phase_begun = Instant::now();
        Ok(())
    }

    /// Ends a phase: records in the details how long it took.
    pub(crate) fn record_time(&mut self, name: &str) {
        self.details.remove("phase");
        let took_ms = u64::try_from(self.phase_begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.details.insert(name.to_owned(), took_ms.into());
        self.phase_begun = Instant::now();
    }

    /// Publishes that the whole total is done.
    pub(crate) async fn end(self) -> Result<(), JobError> {
        self.context.progress(self.context.job.progress().0.total, &self.details).await
    }
}
