//! Checks jobs regularly when several servers share a catalog: takes over the jobs of servers that are gone, stops jobs that
//! were canceled through another server, and drops jobs that another server has taken over. Also runs jobs of this server that
//! are missing from its memory, because the database's response was lost when they were stored or taken over.

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::watch;

use super::kind::JobKind as _;
use super::{JOBS_DIR, with_kind};
use crate::domain::{JobId, JobType, with_causes};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::folders::AtPath;
use crate::service::state::{Service, State, after_pause};
use crate::storage::{JobOwnership, PostgresCatalog, TakenOverJobs};

/// Pause between two checks.
const PAUSE: Duration = Duration::from_secs(1);

/// Checks the jobs until the server stops. Between checks it does not keep the service alive.
pub(crate) async fn run(state: Weak<State>, mut stop_announced: watch::Receiver<bool>) {
    let mut failures = 0u32;
    while let Some(state) = after_pause(&state, &mut stop_announced, PAUSE).await {
        match check_jobs(Service { state }).await {
            Ok(()) => failures = 0,
            Err(error) => {
                failures += 1;
                if failures.is_power_of_two() {
                    tracing::warn!(failures, error = with_causes(&error), "cannot check the jobs of other servers; trying again");
                }
            }
        }
    }
}

async fn check_jobs(service: Service) -> Result<(), Error> {
    // A job that is taken over may need a collection that is not in this server's memory yet.
    service.sync_catalog().await?;
    blocking(move || service.reconcile_jobs()).await
}

impl Service {
    fn reconcile_jobs(&self) -> Result<(), Error> {
        let state = &self.state;
        let Some(catalog) = state.catalog.shared() else { return Ok(()) };
        let TakenOverJobs { jobs, server_died } = state.take_over_orphaned_jobs(catalog)?;
        if server_died {
            state.open_collections().iter().for_each(|collection| collection.take_over_pending_work());
        }
        state.jobs.add_taken_over(jobs);
        self.resume_taken_over();
        for (id, ownership) in catalog.job_ownership(&state.jobs.unfinished())? {
            match ownership {
                JobOwnership::Own => (),
                JobOwnership::Lost => state.jobs.stop_lost(&id),
                JobOwnership::Canceled => state.cancel(&id)?,
            }
        }
        self.resume_unknown(catalog)?;
        for (id, folder) in state.jobs.drain_folders() {
            match catalog.job(&id) {
                Ok(None) => drop(folder),
                Ok(Some(_)) => folder.retain(),
                Err(_) => state.jobs.keep_folder(&id, folder),
            }
        }
        Ok(())
    }

    /// Resumes the jobs of this server that are missing from its memory.
    fn resume_unknown(&self, catalog: &PostgresCatalog) -> Result<(), Error> {
        let jobs = &self.state.jobs;
        for job in catalog.own_jobs_except(&jobs.known())? {
            self.check_running()?;
            // It may have been accepted, and may even have ended, while the catalog was read.
            if jobs.known().contains(&job.id) || ownership(catalog, &job.id)?.is_none_or(|owner| owner == JobOwnership::Lost) {
                continue;
            }
            tracing::warn!(job = %job.id, kind = job.kind.name(), "resuming a job of this server that it did not know");
            if let Err(error) = self.resume(&job) {
                tracing::warn!(job = %job.id, error = with_causes(&error), "cannot resume a job; trying again");
            }
        }
        Ok(())
    }

    /// Resumes the jobs that were taken over. If an earlier run of such a job is still running here, stops that first,
    /// because another server had the job in the meantime.
    fn resume_taken_over(&self) {
        for job in self.state.jobs.drain_taken_over() {
            let resumed = match self.state.jobs.find(&job.id) {
                Some(_) => {
                    self.state.jobs.stop_lost(&job.id);
                    false
                }
                None => self
                    .resume(&job)
                    .inspect_err(|error| {
                        tracing::warn!(job = %job.id, error = with_causes(error), "cannot take over a job; trying again");
                    })
                    .is_ok(),
            };
            match resumed {
                true => tracing::info!(job = %job.id, kind = job.kind.name(), "took over a job of a server that is gone"),
                false => self.state.jobs.add_taken_over(vec![job]),
            }
        }
    }
}

impl State {
    /// Takes over the jobs of servers that are gone. A job that needs files waits for a server that has them, and a
    /// re-embedding waits for a server with its model. Both can be canceled in the meantime. Blocks.
    pub(super) fn take_over_orphaned_jobs(&self, catalog: &PostgresCatalog) -> Result<TakenOverJobs, Error> {
        let with_files: Vec<JobType> =
            JobType::ALL.iter().copied().filter(|kind| with_kind!(kind, J => J::NEEDS_FILES)).collect();
        let folder = self.data_dir.join(JOBS_DIR);
        let entries = std::fs::read_dir(&folder).at(&folder)?;
        let id = |entry: std::fs::DirEntry| JobId::parse(entry.file_name().to_str()?).ok();
        let files_here: Vec<JobId> = entries.filter_map(|entry| id(entry.ok()?)).collect();
        Ok(catalog.take_over_orphaned_jobs(&with_files, &files_here, &self.embedder.model().fingerprint)?)
    }

    /// Whether a job still belongs to this server. Blocks.
    pub(super) fn owns(&self, job: &JobId) -> Result<bool, Error> {
        let Some(catalog) = self.catalog.shared() else { return Ok(true) };
        Ok(ownership(catalog, job)?.is_none_or(|owner| owner != JobOwnership::Lost))
    }
}

/// Returns what this server must do with a job. `None` if the job has ended. Blocks.
fn ownership(catalog: &PostgresCatalog, job: &JobId) -> Result<Option<JobOwnership>, Error> {
    Ok(catalog.job_ownership(std::slice::from_ref(job))?.pop().map(|(_, ownership)| ownership))
}
