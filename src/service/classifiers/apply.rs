//! The job that writes predicted labels into the documents of a collection, in the order of their ids.
//!
//! Each step commits the new metadata and the job's checkpoint in one transaction, so after a restart the job continues where
//! it stopped and counts nothing twice. If a document's text changes between reading and writing, the document is left alone
//! and counted as `changed`. If its metadata cannot hold the labels without losing another value, or becomes too large, it is
//! left alone and counted as `failed`.

use std::sync::Arc;

use futures::FutureExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::PAGE_BYTES;
use super::error::ClassifierError;
use super::planned::ClassifierJobPlan;
use super::texts::{embed_texts_patiently, inputs_from_documents};
use super::trained::{LabelScores, TrainedClassifier};
use crate::domain::{
    ClassifierName, Document, DocumentId, Job, JobId, JobType, JobUnit, LabeledDocuments, Metadata, MetadataPath, Page, Scope,
};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::{JobContext, JobError, JobKind, NewJob, checkpoint, new_job_id};
use crate::service::open_collection::OpenCollection;
use crate::service::state::{Service, State};
use crate::store::{Patched, SearchFilter, TextPatch};

/// Maximum number of documents per step. Bounds how long other writes wait.
const DOCUMENTS_PER_STEP: usize = 200;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Checkpoint {
    /// The last document read so far.
    after: Option<String>,
    #[serde(flatten)]
    counts: Counts,
}

pub(crate) struct ClassifyJob;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ClassifyPlan {
    #[serde(flatten)]
    documents: ClassifierJobPlan,
    probability_field: Option<MetadataPath>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ClassifyDetails {
    classifier: ClassifierName,
    /// `None` before anything is written.
    #[serde(flatten)]
    counts: Option<Counts>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    documents: u64,
    labeled: u64,
    abstained: u64,
    changed: u64,
    failed: u64,
}

impl Service {
    /// Accepts a job that writes predicted labels into the field of `documents`, and their probabilities into another field.
    pub async fn apply_classifier(
        &self,
        name: &ClassifierName,
        documents: LabeledDocuments,
        probability_field: Option<MetadataPath>,
        threshold: Option<f32>,
    ) -> Result<Job, Error> {
        let trained = self.trained(name).await?;
        let collection = self.state.collection(&documents.collection)?;
        self.state.check_embedded(&collection)?;
        drop(self.state.label_source(&trained, false)?);
        let written = [Some(&documents.field), probability_field.as_ref()];
        check_not_own_labels(&self.state, &trained, &collection, written)?;
        let permit = self.job_permit()?;
        let LabeledDocuments { field, filter, .. } = documents;
        let only = SearchFilter::from(filter.clone());
        let count = move |collection: &Arc<OpenCollection>| Ok(collection.store.count_matching(&only, usize::MAX)? as u64);
        let total = collection.run(count).await?;
        let (classifier, collection_id) = (trained.id.clone(), collection.row.id.clone());
        let documents = ClassifierJobPlan { classifier, name: name.clone(), collection_id, filter, field, threshold };
        let request = ClassifyPlan { documents, probability_field };
        let details = request.details(None);
        let (name, follows) = (Some(collection.row.name.clone()), Some(collection));
        let new = NewJob { id: new_job_id()?, collection: name, request, details, total, folder: None, follows };
        self.submit_job::<ClassifyJob>(permit, new).await
    }
}

/// Refuses to overwrite the labels that a classifier learns from.
fn check_not_own_labels(
    state: &State,
    trained: &TrainedClassifier,
    collection: &OpenCollection,
    written: [Option<&MetadataPath>; 2],
) -> Result<(), Error> {
    let Some(source) = &trained.definition.source else { return Ok(()) };
    let own = state.collection(&source.collection).ok().is_some_and(|own| own.row.id == collection.row.id);
    let overlaps =
        |path: &MetadataPath| path.keys().starts_with(source.field.keys()) || source.field.keys().starts_with(path.keys());
    match written.into_iter().flatten().find(|path| own && overlaps(path)) {
        Some(field) => {
            let collection = collection.row.name.as_str().to_owned();
            Err(ClassifierError::OwnLabels { field: field.to_string(), collection }.into())
        }
        None => Ok(()),
    }
}

impl JobKind for ClassifyJob {
    const TYPE: JobType = JobType::Classify;
    const SCOPE: Scope = Scope::Write;
    const UNIT: JobUnit = JobUnit::Documents;
    type Request = ClassifyPlan;
    type Details = ClassifyDetails;

    /// Labels the documents, starting at the last checkpoint.
    async fn run(context: &JobContext, plan: ClassifyPlan) -> Result<(), JobError> {
        let collection = context.collection(&plan.documents.collection_id)?;
        let plan = &plan;
        let label = |collection| async move { label_all(context, &collection, plan).await }.boxed();
        context.work_on(collection, "a labeling job waits for the storage", label).await
    }

    fn at_checkpoint(state: &State, id: &JobId, plan: &ClassifyPlan) -> Result<Option<(u64, ClassifyDetails)>, Error> {
        let Some(collection) = state.collection_by_id(&plan.documents.collection_id.0) else { return Ok(None) };
        let done = checkpoint::read::<Checkpoint>(&collection, id)?;
        Ok(done.map(|done| (done.counts.documents, plan.details(Some(done.counts)))))
    }

    fn finish(state: &State, id: &JobId, plan: &ClassifyPlan) {
        state.delete_checkpoints(id, &plan.documents.collection_id);
    }
}

async fn label_all(context: &JobContext, collection: &Arc<OpenCollection>, plan: &ClassifyPlan) -> Result<(), JobError> {
    context.state()?.check_embedded(collection)?;
    let (reading, id, filter) = (Arc::clone(collection), context.job.id.clone(), plan.document_filter());
    let (done, total) = blocking(move || {
        let total = reading.with_store(|store| store.count_matching(&filter, usize::MAX))? as u64;
        Ok((checkpoint::read::<Checkpoint>(&reading, &id)?, total))
    })
    .await?;
    let mut done = done.unwrap_or_default();
    context.measure(done.counts.documents, total.max(done.counts.documents));
    loop {
        context.check()?;
        // Reads the classifier again at each step, because a deleted one must stop writing. Holds the service for one step
        // only, so that the job does not keep a stopping service alive.
        let trained = plan.documents.classifier(&context.state()?).await?;
        let more = step(context, collection, plan, &trained, &mut done).await?;
        // Documents may have been added since.
        context.set_total(total.max(done.counts.documents));
        context.progress(done.counts.documents, &plan.details(Some(done.counts))).await?;
        if !more {
            let (last, job) = (Arc::clone(collection), context.job.id.clone());
            return Ok(blocking(move || last.check_last_checkpoint(&job)).await?);
        }
    }
}

/// Labels the next documents. Returns whether there may be more.
async fn step(
    context: &JobContext,
    collection: &Arc<OpenCollection>,
    plan: &ClassifyPlan,
    trained: &Arc<TrainedClassifier>,
    done: &mut Checkpoint,
) -> Result<bool, JobError> {
    if let Some(source) = trained.definition.source.as_ref().filter(|_| trained.is_live()) {
        let source = context.state()?.collection(&source.collection)?;
        context.wait_until_recovered(&source).await?;
    }
    // The collection may have switched to another model since the last step, or the classifier's alias to this collection.
    context.state()?.check_embedded(collection)?;
    let written = [Some(&plan.documents.field), plan.probability_field.as_ref()];
    check_not_own_labels(&*context.state()?, trained, collection, written)?;
    let label_source = context.state()?.label_source(trained, false)?;
    let (reading, filter, after) = (Arc::clone(collection), plan.document_filter(), done.after.clone());
    let (page, next_page) = blocking(move || {
        let page = Page { limit: DOCUMENTS_PER_STEP, after: after.map(|id| DocumentId::parse(&id)).transpose()? };
        reading.with_store(|store| store.embedded_documents(&filter, &page, PAGE_BYTES))
    })
    .await?;
    let Some(last) = page.last().map(|labeled| labeled.document.id.clone()) else { return Ok(false) };
    let documents: Vec<Document> = page.iter().map(|labeled| labeled.document.clone()).collect();
    let embed = |texts| embed_texts_patiently(context, texts);
    let inputs = inputs_from_documents(&collection.row.name, page, embed).await?;
    let (classifier, threshold) = (Arc::clone(trained), plan.documents.threshold);
    let predictions = blocking(move || {
        let mut neighbor_source = classifier.neighbor_source(&label_source, inputs.len())?;
        let scored = classifier.score(&mut neighbor_source, &inputs.iter().collect::<Vec<_>>())?;
        let prediction =
            |scored: &LabelScores| (classifier.decide(scored, threshold), scored.ranked.first().map(|(_, share)| *share));
        Ok(scored.iter().map(prediction).collect::<Vec<_>>())
    })
    .await?;
    let abstained: Vec<bool> = predictions.iter().map(|(labels, _)| labels.is_none()).collect();
    let state = context.state()?;
    let patches = documents.into_iter().zip(predictions).map(|(document, (labels, share))| {
        let metadata = plan.patch(&document, labels, share, trained.definition.multi_label);
        let patch = state.limits.metadata_patch(metadata);
        TextPatch { id: document.id, title: document.title, text: document.text, patch }
    });
    let patches: Vec<TextPatch> = patches.collect();
    let (writing, id, before) = (Arc::clone(collection), context.job.id.clone(), done.clone());
    let (record, next) = checkpoint::following(move |outcomes: &[Patched]| before.after_step(&last, &abstained, outcomes));
    blocking(move || writing.write_for_job(|store| store.patch_for_job(&id, patches, record))).await?;
    *done = next.recv().expect("what is committed has a checkpoint");
    Ok(next_page.is_some())
}

impl Checkpoint {
    fn after_step(&self, last: &DocumentId, abstained: &[bool], outcomes: &[Patched]) -> Self {
        let mut next = Self { after: Some(last.as_str().to_owned()), ..self.clone() };
        let counts = &mut next.counts;
        counts.documents += outcomes.len() as u64;
        for (abstained, outcome) in abstained.iter().zip(outcomes) {
            match outcome {
                Patched::Done if *abstained => counts.abstained += 1,
                Patched::Done => counts.labeled += 1,
                Patched::Conflict => counts.changed += 1,
                Patched::TooLarge | Patched::Blocked => counts.failed += 1,
            }
        }
        next
    }
}

impl ClassifyPlan {
    fn details(&self, counts: Option<Counts>) -> ClassifyDetails {
        ClassifyDetails { classifier: self.documents.name.clone(), counts }
    }

    fn document_filter(&self) -> SearchFilter {
        self.documents.filter.clone().into()
    }

    /// The patch of a document's metadata. If the classifier abstains, the patch removes any labels that an earlier job wrote.
    fn patch(&self, document: &Document, labels: Option<Vec<String>>, share: Option<f32>, multi_label: bool) -> Metadata {
        let mut patch = Metadata::new();
        let mut set = |path: &MetadataPath, value: Option<Value>| match value {
            Some(value) => set_at_path(&mut patch, path.keys(), value),
            None if path.find(&document.metadata).is_some() => set_at_path(&mut patch, path.keys(), Value::Null),
            None => (),
        };
        let share = share.filter(|_| labels.is_some());
        let value = labels.and_then(|labels| match multi_label {
            true => Some(json!(labels)),
            false => labels.into_iter().next().map(Value::from),
        });
        set(&self.documents.field, value);
        if let Some(path) = &self.probability_field {
            // Four digits, because the calibration is no more precise than that.
            set(path, share.map(|share| json!((f64::from(share) * 1e4).round() / 1e4)));
        }
        patch
    }
}

fn set_at_path(object: &mut Metadata, keys: &[String], value: Value) {
    match keys {
        [] => (),
        [last] => {
            object.insert(last.clone(), value);
        }
        [first, rest @ ..] => {
            // The paths of a patch do not overlap, so what is there is an object.
            if let Value::Object(inner) = object.entry(first.clone()).or_insert_with(|| Value::Object(Metadata::new())) {
                set_at_path(inner, rest, value);
            }
        }
    }
}
