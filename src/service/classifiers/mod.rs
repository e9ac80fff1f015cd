//! Lists and deletes classifiers, and keeps recently used ones in memory. `creation` creates and retrains them, and `training`
//! is the job that does the training. `trained` predicts labels; for a `knn` it uses the neighbors that `neighbor_source`
//! finds. `predict`, `evaluate` and `apply` build on `trained`.
//!
//! A document is represented by the mean of its passages' embeddings. A classifier belongs to the model whose embeddings it
//! learned from. While another model is loaded, it can be listed and deleted, but it does not predict.

mod apply;
mod creation;
mod embedded_text;
mod error;
mod evaluate;
mod evaluated;
mod examples;
mod fitting;
mod neighbor_source;
mod persisted;
mod planned;
mod predict;
mod restored;
mod texts;
mod trained;
mod training;

use std::sync::Arc;

use super::error::Error;
use super::state::{Service, State};
use crate::service::open_collection::OpenCollection;
pub(super) use apply::ClassifyJob;
pub use error::ClassifierError;
pub(super) use evaluate::EvaluateJob;
use neighbor_source::LabelSource;
use persisted::{read_definition, read_report};
pub(super) use restored::check_restored;
pub(super) use trained::ClassifierCache;
use trained::TrainedClassifier;
pub(super) use training::TrainJob;

use crate::domain::{
    Classifier, ClassifierName, ClassifierRecord, ClassifierState, Code, CollectionModel, JobFailure, JobId, JobStatus, Page,
};
use crate::store::system_clock as now_ms;
use crate::store::{StoredClassifier, TrainingProgress};

/// Bytes of texts and metadata of the documents that are read at once. A single document may exceed it.
const PAGE_BYTES: u64 = 4 << 20;
/// Maximum number of classifiers in memory. The least recently used one is dropped first.
const HELD_MAX: usize = 16;

impl Service {
    pub async fn get_classifier(&self, name: &ClassifierName) -> Result<Classifier, Error> {
        let row = self.classifier_row(name).await?;
        self.view_classifier(row)
    }

    /// Lists classifiers by name. Also returns the last name on the page if there is a next page.
    pub async fn list_classifiers(&self, page: Page<ClassifierName>) -> Result<(Vec<Classifier>, Option<ClassifierName>), Error> {
        let one_more = page.with_one_more();
        let rows = self.state.run(move |state| Ok(state.catalog.classifiers(&one_more)?)).await?;
        let (rows, next) = page.take(rows, |row| &row.record.name);
        let views = rows.into_iter().map(|row| self.view_classifier(row)).collect::<Result<_, _>>()?;
        Ok((views, next))
    }

    /// Deletes a classifier and cancels its training. A job that writes its labels stops at its next step; running predictions
    /// finish.
    pub async fn delete_classifier(&self, name: &ClassifierName) -> Result<(), Error> {
        self.check_running()?;
        let wanted = name.clone();
        let deleted = self.state.run(move |state| {
            state.check_directory()?;
            Ok(state.catalog.delete_classifier(&wanted)?)
        });
        let row = deleted.await?;
        let row = row.ok_or_else(|| ClassifierError::NotFound { name: name.clone() })?;
        self.state.classifiers.0.lock().retain(|held| held.id != row.id);
        tracing::info!(classifier = %name, "classifier deleted");
        let first = (row.progress == TrainingProgress::Training).then_some(&row.record.job);
        for job in first.into_iter().chain(&row.record.next_job) {
            match self.cancel_job(job).await {
                Ok(_) | Err(Error::JobFinished { .. } | Error::JobNotFound { .. }) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn classifier_row(&self, name: &ClassifierName) -> Result<StoredClassifier, Error> {
        let wanted = name.clone();
        let found = self.state.run(move |state| Ok(state.catalog.classifier(&wanted)?)).await?;
        Ok(found.ok_or_else(|| ClassifierError::NotFound { name: name.clone() })?)
    }

    fn view_classifier(&self, row: StoredClassifier) -> Result<Classifier, Error> {
        let current = row.record.model_fingerprint == self.model().fingerprint;
        Ok(Classifier {
            state: match row.progress {
                TrainingProgress::Training => ClassifierState::Training,
                TrainingProgress::Failed if row.record.next_job.is_some() => ClassifierState::Training,
                TrainingProgress::Failed => ClassifierState::Failed,
                TrainingProgress::Ready if current => ClassifierState::Ready,
                TrainingProgress::Ready => ClassifierState::Outdated,
            },
            definition: read_definition(&row.definition)?,
            report: row.report.as_ref().map(read_report).transpose()?,
            record: row.record,
        })
    }

    /// Returns a ready classifier, reading it into memory if needed.
    async fn trained(&self, name: &ClassifierName) -> Result<Arc<TrainedClassifier>, Error> {
        self.check_running()?;
        let row = self.classifier_row(name).await?;
        self.state.run(move |state| state.trained(row)).await
    }
}

impl State {
    /// Refuses a classifier of another model than the loaded one.
    fn check_classifier_model(&self, row: &StoredClassifier) -> Result<(), Error> {
        let loaded = self.embedder.model();
        if row.record.model_fingerprint == loaded.fingerprint {
            return Ok(());
        }
        let ClassifierRecord { name, model, model_fingerprint, .. } = row.record.clone();
        let expected = CollectionModel { name: model, fingerprint: model_fingerprint };
        Err(ClassifierError::Model { name, expected, loaded: loaded.into() }.into())
    }

    /// Reads a classifier into memory, unless it is there. Blocks.
    fn trained(&self, row: StoredClassifier) -> Result<Arc<TrainedClassifier>, Error> {
        let problem = match (row.progress, &row.record.next_job) {
            (TrainingProgress::Ready, _) => None,
            (TrainingProgress::Training, _) => Some(format!("job {} is still training it", row.record.job)),
            (TrainingProgress::Failed, Some(job)) => Some(format!("job {job} is still training it")),
            (TrainingProgress::Failed, None) => {
                Some(format!("its training failed: {}", row.record.error.as_ref().map_or("", |error| &error.detail)))
            }
        };
        if let Some(problem) = problem {
            return Err(ClassifierError::NotReady { name: row.record.name, problem }.into());
        }
        self.check_classifier_model(&row)?;
        {
            let mut held = self.classifiers.0.lock();
            if let Some(index) =
                held.iter().position(|classifier| classifier.id == row.id && classifier.version == row.record.version)
            {
                let found = held.remove(index);
                held.push(Arc::clone(&found));
                return Ok(found);
            }
        }
        // Reads everything in one transaction, because a retraining may replace it at any moment.
        let contents = self.catalog.classifier_contents(&row.id)?.ok_or(ClassifierError::NotFound { name: row.record.name })?;
        self.check_classifier_model(&contents.row)?;
        let trained = Arc::new(TrainedClassifier::assemble(contents)?);
        let mut held = self.classifiers.0.lock();
        held.retain(|classifier| classifier.id != trained.id);
        held.push(Arc::clone(&trained));
        if held.len() > HELD_MAX {
            held.remove(0);
        }
        Ok(trained)
    }

    /// Returns where the labels of neighbors come from. A `knn` on a collection needs it to predict, and any kind to explain
    /// predictions.
    fn label_source(&self, trained: &TrainedClassifier, explain: bool) -> Result<LabelSource, Error> {
        let multi_label = trained.definition.multi_label;
        let wanted = trained.definition.source.clone().filter(|_| explain || trained.is_live());
        let Some(source) = wanted else { return Ok(LabelSource { multi_label, source: None }) };
        let collection = self.collection(&source.collection)?;
        self.check_embedded(&collection)?;
        collection.check_ready()?;
        Ok(LabelSource { multi_label, source: Some((collection, source)) })
    }

    /// Refuses a collection whose embeddings were not made by the loaded model.
    fn check_embedded(&self, collection: &OpenCollection) -> Result<(), Error> {
        collection.check_model(self.embedder.model())?;
        match collection.row.model {
            Some(_) => Ok(()),
            None => Err(Error::NoModel { collection: collection.row.name.clone(), dimension: collection.row.dimension }),
        }
    }

    /// Records how a training and its job ended. If the classifier was trained before, it stays ready. Blocks.
    fn end_training(&self, job: &JobId, status: JobStatus, error: Option<&JobFailure>) -> Result<(), Error> {
        let detail = "its training was canceled".to_owned();
        let canceled = JobFailure { code: Code::ClassifierNotReady, detail };
        let failure = if status == JobStatus::Canceled { Some(&canceled) } else { error };
        match failure {
            Some(failure) => self.catalog.finish_failed_training(job, status, failure, now_ms())?,
            None => self.catalog.finish_job(job, status, None, now_ms())?,
        }
        Ok(())
    }

    /// Records a failure for each training without a job. Only earlier versions, which accepted the job after the classifier, can
    /// have left one. Jobs in `unfinished` continue. Blocks.
    pub(super) fn fail_abandoned_trainings(&self, unfinished: &[JobId]) -> Result<(), Error> {
        let detail = "the server stopped before it accepted the training".to_owned();
        let failure = JobFailure { code: Code::Unavailable, detail };
        for job in self.catalog.trainings()?.iter().filter(|job| !unfinished.contains(job)) {
            self.catalog.fail_training(job, &failure)?;
        }
        Ok(())
    }
}
