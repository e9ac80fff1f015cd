//! Creates and retrains classifiers.

use std::sync::Arc;

use super::error::ClassifierError;
use super::examples;
use super::persisted::read_definition;
use super::training::{TrainDetails, TrainJob, TrainPlan};
use crate::domain::{
    Classifier, ClassifierDefinition, ClassifierKind, ClassifierName, ClassifierRecord, CollectionName, Job, JobId, LabeledText,
    NewClassifier, RequestKey,
};
use crate::new_id::new_uuid;
use crate::service::error::Error;
use crate::service::jobs::{NewJob, new_job_id, stored};
use crate::service::open_collection::OpenCollection;
use crate::service::state::{Service, State};
use crate::storage::CatalogPart;
use crate::store::system_clock as now_ms;
use crate::store::{ClassifierText, StoredClassifier, TrainingProgress};

impl Service {
    /// Accepts a new classifier and the job that trains it. Both are durable when this returns. A repeated request returns the
    /// classifier that the first one created, in its current state.
    pub async fn create_classifier(&self, new: NewClassifier, request: Option<RequestKey>) -> Result<Classifier, Error> {
        self.check_running()?;
        if let Some(request) = request.clone()
            && let Some(before) = self.state.run(move |state| state.classifier_created_before(&request)).await?
        {
            return self.view_classifier(before);
        }
        let source = self.check_new(&new).await?;
        let permit = self.job_permit()?;
        let job = new_job_id()?;
        let (row, texts) = self.new_row(new, job.clone())?;
        let (training, _) = training_job(&row, job, source, texts.len()).into_job();
        // Only one of several concurrent requests with the same key is executed. The change runs to its end even if the caller
        // goes away.
        let accepted = self.state.with_names_locked(move |state| {
            let _reserved = state.jobs.reserve(&training.id);
            let before = state.change_catalog(CatalogPart::Classifiers, || {
                let before = request.as_ref().map(|request| state.classifier_created_before(request)).transpose()?.flatten();
                if before.is_some() {
                    return Ok(before);
                }
                state.check_emergency_space()?;
                state.check_classifier_room(1)?;
                if !state.catalog.create_classifier(&row, &texts, &training, request.as_ref())? {
                    return Err(ClassifierError::Exists { name: row.record.name.clone() }.into());
                }
                Ok(None)
            })?;
            if before.is_none() {
                state.enqueue_new(&training, permit);
            }
            Ok(before.unwrap_or(row))
        });
        self.view_classifier(accepted.await?)
    }

    /// Refuses a definition that can never be trained. Returns the collection that it learns from.
    async fn check_new(&self, new: &NewClassifier) -> Result<Option<SourceNames>, Error> {
        let definition = &new.definition;
        let refuse = |problem: String| Err(ClassifierError::TrainingSet { problem }.into());
        if definition.kind == ClassifierKind::Prototype {
            let labels: std::collections::BTreeSet<&str> = new.labels.iter().map(|label| label.name.as_str()).collect();
            if labels.len() < 2 {
                return refuse(format!("a prototype classifier must have at least two labels, got {}", labels.len()));
            }
            for example in &new.examples {
                if let Some(label) = example.labels.iter().find(|label| !labels.contains(label.as_str())) {
                    let item = examples::example_name(&example.text);
                    return Err(ClassifierError::UnknownLabel { name: new.name.clone(), label: label.clone(), item }.into());
                }
            }
        } else if definition.source.is_none() {
            let mut labels: Vec<&str> = new.examples.iter().flat_map(|example| &example.labels).map(String::as_str).collect();
            labels.sort_unstable();
            labels.dedup();
            if let Err(problem) = examples::check_labels(definition, new.examples.len(), &labels) {
                return refuse(problem);
            }
        }
        self.check_labels_of(definition).await
    }

    /// Refuses a collection whose labels cannot be learned from. Returns its names.
    async fn check_labels_of(&self, definition: &ClassifierDefinition) -> Result<Option<SourceNames>, Error> {
        let Some(source) = definition.source.clone() else { return Ok(None) };
        let collection = self.state.collection(&source.collection)?;
        self.state.check_embedded(&collection)?;
        let names = SourceNames { own: collection.row.name.clone(), in_definition: source.collection.clone() };
        let definition = definition.clone();
        let check =
            move |collection: &Arc<OpenCollection>| examples::check_source(collection.store.as_ref(), &source, &definition);
        collection.run(check).await?;
        Ok(Some(names))
    }

    fn new_row(&self, new: NewClassifier, job: JobId) -> Result<(StoredClassifier, Vec<ClassifierText>), Error> {
        let (model, NewClassifier { name, definition, examples, labels }) = (self.model(), new);
        let row = StoredClassifier {
            id: new_uuid().to_string(),
            record: ClassifierRecord {
                name,
                job,
                next_job: None,
                version: 0,
                model: model.name.clone(),
                model_fingerprint: model.fingerprint.clone(),
                error: None,
                created_at_ms: now_ms(),
                trained_at_ms: None,
            },
            progress: TrainingProgress::Training,
            dimension: model.dimension,
            definition: stored::write(&definition),
            report: None,
        };
        let descriptions = labels.into_iter().flat_map(|label| {
            let said = if label.descriptions.is_empty() { vec![label.name.clone()] } else { label.descriptions };
            said.into_iter().map(move |text| (true, LabeledText { text, labels: vec![label.name.clone()], language: None }))
        });
        let examples = examples.into_iter().map(|example| (false, example));
        let texts = descriptions.chain(examples).map(|(description, text)| {
            let LabeledText { text, labels, language } = text;
            ClassifierText { description, text, labels, language, embedding: None }
        });
        Ok((row, texts.collect()))
    }

    /// Accepts a job that retrains a classifier on the current labels and for the loaded model. Until the job succeeds, the
    /// classifier predicts as before.
    pub async fn retrain_classifier(&self, name: &ClassifierName) -> Result<Job, Error> {
        self.check_running()?;
        let row = self.classifier_row(name).await?;
        if let Some(job) =
            row.record.next_job.as_ref().or((row.progress == TrainingProgress::Training).then_some(&row.record.job))
        {
            return Err(
                ClassifierError::NotReady { name: row.record.name, problem: format!("job {job} is still training it") }.into()
            );
        }
        let definition = read_definition(&row.definition)?;
        let source = self.check_labels_of(&definition).await?;
        let permit = self.job_permit()?;
        let id = new_job_id()?;
        self.state
            .run(move |state| {
                state.check_directory()?;
                let texts = state.catalog.classifier_texts(&row.id)?.len();
                let (training, _) = training_job(&row, id, source, texts).into_job();
                let _reserved = state.jobs.reserve(&training.id);
                if !state.catalog.begin_retraining(&row.id, &training)? {
                    let problem = "it was changed at the same moment; try again".to_owned();
                    return Err(ClassifierError::NotReady { name: row.record.name, problem }.into());
                }
                state.enqueue_new(&training, permit);
                Ok(training)
            })
            .await
    }
}

impl State {
    /// Returns the classifier that an earlier request with this key created. Blocks.
    fn classifier_created_before(&self, request: &RequestKey) -> Result<Option<StoredClassifier>, Error> {
        let Some(id) = self.catalog.find_created_by(request, now_ms())? else { return Ok(None) };
        let found = self.catalog.classifier_by_id(&id)?;
        Ok(Some(found.ok_or_else(|| Error::CreatedAndGone { key: request.key().to_owned() })?))
    }
}

/// The names of the collection that a classifier learns from.
struct SourceNames {
    own: CollectionName,
    /// The collection's own name, or an alias.
    in_definition: CollectionName,
}

/// Builds the job that trains a classifier with this many texts and from this collection, if any.
fn training_job(row: &StoredClassifier, id: JobId, source: Option<SourceNames>, texts: usize) -> NewJob<TrainJob> {
    let (collection, source) = source.map(|source| (source.own, source.in_definition)).unzip();
    NewJob {
        id,
        collection,
        request: TrainPlan { classifier: row.id.clone(), name: row.record.name.clone(), source },
        details: TrainDetails { classifier: row.record.name.clone() },
        total: texts as u64 + 1,
        folder: None,
        follows: None,
    }
}
