//! Writing labels into the documents of a collection: a job that goes through them in the order of their ids.
//!
//! Each step is one transaction of metadata and the job's checkpoint, so a restart goes on behind the last one and counts
//! nothing twice. A document whose text changes between reading and writing is left as it is and counted as such.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::ClassifierError;
use super::persisted_filter;
use super::texts::of_documents_patiently;
use super::trained::{Scored, Trained};
use super::training::wait_for_index;
use crate::domain::{
    ApplyRequest, ClassifierName, CollectionId, CollectionName, Document, DocumentId, DocumentPatch, Filter, Job, JobId, JobUnit,
    Limits, Metadata, MetadataPath, Scope, TitleChange,
};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::{JobAccess, JobContext, JobError, JobKind, JobReach, NewJob, new_job_id};
use crate::service::open_collection::OpenCollection;
use crate::service::state::{Service, State};
use crate::store::{Patched, SearchFilter, TextPatch};

/// Documents of one step: bounds how long other writes wait.
const DOCUMENTS_PER_STEP: usize = 200;

/// How far the job came.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Checkpoint {
    /// The last document that was looked at.
    after: Option<String>,
    #[serde(flatten)]
    counts: Counts,
}

/// Writes a classifier's labels into documents.
pub(crate) struct ClassifyJob;

/// What writing labels needs to run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ClassifyPlan {
    /// The classifier's id.
    classifier: String,
    name: ClassifierName,
    collection_id: CollectionId,
    #[serde(with = "persisted_filter::as_json")]
    filter: Filter,
    #[serde(with = "persisted_filter::path_as_keys")]
    field: MetadataPath,
    #[serde(default, with = "persisted_filter::optional_path_as_keys")]
    probability_field: Option<MetadataPath>,
    threshold: Option<f32>,
}

/// What writing labels tells.
#[derive(Debug, Serialize)]
pub(crate) struct ClassifyDetails {
    classifier: ClassifierName,
    /// `None` before anything is written.
    #[serde(flatten)]
    counts: Option<Counts>,
}

/// What became of the documents so far.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    documents: u64,
    labeled: u64,
    abstained: u64,
    changed: u64,
    failed: u64,
}

impl Service {
    /// Accepts a job that writes the labels of documents into their metadata.
    pub async fn apply_classifier(&self, name: &ClassifierName, request: ApplyRequest) -> Result<Job, Error> {
        let trained = self.trained(name).await?;
        let collection = self.state.collection(&request.collection)?;
        self.state.check_embedded(&collection)?;
        let surroundings = self.state.surroundings(&trained, false)?;
        if let Some(source) = &trained.definition.source {
            let own = self.state.collection(&source.collection).ok().is_some_and(|own| own.row.id == collection.row.id);
            let written = [Some(&request.field), request.probability_field.as_ref()];
            let overlaps = |path: &MetadataPath| {
                path.keys().starts_with(source.field.keys()) || source.field.keys().starts_with(path.keys())
            };
            if let Some(field) = written.into_iter().flatten().find(|path| own && overlaps(path)) {
                let collection = request.collection.as_str().to_owned();
                return Err(ClassifierError::OwnLabels { field: field.to_string(), collection }.into());
            }
        }
        drop(surroundings);
        let place = self.job_place()?;
        let ApplyRequest { collection: asked, filter, field, probability_field, threshold } = request;
        let only = SearchFilter { languages: Vec::new(), filter: filter.clone() };
        let count = move |collection: &Arc<OpenCollection>| Ok(collection.store.count_matching(&only, usize::MAX)? as u64);
        let total = collection.run(count).await?;
        let request = ClassifyPlan {
            classifier: trained.id.clone(),
            name: name.clone(),
            collection_id: collection.row.id.clone(),
            filter,
            field,
            probability_field,
            threshold,
        };
        let details = ClassifyDetails { classifier: name.clone(), counts: None };
        let (id, unit) = (new_job_id()?, JobUnit::Documents);
        let new: NewJob<ClassifyJob> = NewJob { id, collection: Some(asked), request, details, total, unit };
        self.submit_job(place, new).await
    }
}

impl JobKind for ClassifyJob {
    type Request = ClassifyPlan;
    type Details = ClassifyDetails;

    fn access(_: &ClassifyPlan, collection: Option<&CollectionName>) -> JobAccess {
        JobAccess { scope: Scope::Write, reach: JobReach::of(collection) }
    }

    /// Goes through the documents, from the last checkpoint on.
    async fn run(context: &JobContext, plan: ClassifyPlan) -> Result<(), JobError> {
        let collection = planned_collection(context, &plan.collection_id)?;
        match label_all(context, &collection, &plan).await {
            Err(JobError::Failed(_)) if collection.is_deleted() => Err(collection_gone(context).into()),
            other => other,
        }
    }

    fn finish(state: &State, id: &JobId, plan: &ClassifyPlan) {
        state.forget_checkpoints(id, &plan.collection_id);
    }
}

/// The collection with this id, which the job was accepted with.
pub(super) fn planned_collection(context: &JobContext, id: &CollectionId) -> Result<Arc<OpenCollection>, JobError> {
    Ok(context.state()?.collection_by_id(&id.0).ok_or_else(|| collection_gone(context))?)
}

/// The error of a job whose collection was deleted.
pub(super) fn collection_gone(context: &JobContext) -> Error {
    match context.live.collection.clone() {
        Some(name) => Error::CollectionNotFound { name },
        None => Error::JobState { id: context.live.id.clone(), problem: "it does not name a collection" },
    }
}

/// The classifier with this id as it is now, in memory.
pub(super) async fn planned_classifier(state: &Arc<State>, id: &str, name: &ClassifierName) -> Result<Arc<Trained>, Error> {
    let (reading, id, name) = (Arc::clone(state), id.to_owned(), name.clone());
    blocking(move || {
        let row = reading.catalog.classifier_by_id(&id)?.ok_or(ClassifierError::NotFound { name })?;
        reading.trained(row)
    })
    .await
}

async fn label_all(context: &JobContext, collection: &Arc<OpenCollection>, plan: &ClassifyPlan) -> Result<(), JobError> {
    context.state()?.check_embedded(collection)?;
    let (of, id, filter) = (Arc::clone(collection), context.live.id.clone(), plan.only());
    let (kept, total) =
        blocking(move || Ok((of.store.job_checkpoint(&id)?, of.store.count_matching(&filter, usize::MAX)? as u64))).await?;
    let broken = |_| Error::JobState { id: context.live.id.clone(), problem: "its checkpoint cannot be read" };
    let mut done: Checkpoint = kept.map(|kept| serde_json::from_str(&kept)).transpose().map_err(broken)?.unwrap_or_default();
    context.measure(done.counts.documents, total.max(done.counts.documents));
    loop {
        context.check()?;
        // Read anew: a classifier that was deleted writes no more.
        // The service is held for one step only, so that one that goes away takes the job with it.
        let trained = planned_classifier(&context.state()?, &plan.classifier, &plan.name).await?;
        let more = step(context, collection, plan, &trained, &mut done).await?;
        let details = ClassifyDetails { classifier: plan.name.clone(), counts: Some(done.counts) };
        context.progress(done.counts.documents, &details).await?;
        if !more {
            return Ok(());
        }
    }
}

/// Labels the next documents; says whether there may be more.
async fn step(
    context: &JobContext,
    collection: &Arc<OpenCollection>,
    plan: &ClassifyPlan,
    trained: &Arc<Trained>,
    done: &mut Checkpoint,
) -> Result<bool, JobError> {
    if let Some(source) = trained.definition.source.as_ref().filter(|_| trained.is_live()) {
        let source = context.state()?.collection(&source.collection)?;
        wait_for_index(context, &source).await?;
    }
    // The collection may get another model meanwhile.
    context.state()?.check_embedded(collection)?;
    let surroundings = context.state()?.surroundings(trained, false)?;
    let (of, filter, after) = (Arc::clone(collection), plan.only(), done.after.clone());
    let page = blocking(move || {
        let after = after.map(|id| DocumentId::parse(&id)).transpose()?;
        Ok(of.store.embedded_documents(&filter, after.as_ref(), DOCUMENTS_PER_STEP)?)
    })
    .await?;
    let Some(last) = page.last().map(|one| one.document.id.clone()) else { return Ok(false) };
    let full = page.len() == DOCUMENTS_PER_STEP;
    let documents: Vec<Document> = page.iter().map(|one| one.document.clone()).collect();
    let asked = of_documents_patiently(context, page).await?;
    let (judging, threshold) = (Arc::clone(trained), plan.threshold);
    let answers = blocking(move || {
        let mut neighbor_source = judging.neighbor_source(&surroundings, asked.len())?;
        let scored = judging.score(&mut neighbor_source, &asked.iter().collect::<Vec<_>>())?;
        let answer = |scored: &Scored| (judging.decide(scored, threshold), scored.ranked.first().map(|(_, share)| *share));
        Ok(scored.iter().map(answer).collect::<Vec<_>>())
    })
    .await?;
    let abstained: Vec<bool> = answers.iter().map(|(labels, _)| labels.is_none()).collect();
    let state = context.state()?;
    let patches = documents.into_iter().zip(answers).map(|(document, (labels, share))| {
        let metadata = plan.patch(&document, labels, share, trained.definition.multi_label);
        let patch = patch(metadata, &state.limits);
        TextPatch { id: document.id, title: document.title, text: document.text, patch }
    });
    let patches: Vec<TextPatch> = patches.collect();
    let (of, id, before) = (Arc::clone(collection), context.live.id.clone(), done.clone());
    let next = move |outcomes: &[Patched]| before.after_step(&last, &abstained, outcomes);
    let counted = next.clone();
    let outcomes = blocking(move || {
        let checkpoint = move |outcomes: &[Patched]| json!(counted(outcomes)).to_string();
        Ok(of.store.patch_for_job(&id, patches, Box::new(checkpoint))?)
    })
    .await?;
    *done = next(&outcomes);
    Ok(full)
}

fn patch(metadata: Metadata, limits: &Limits) -> DocumentPatch {
    DocumentPatch {
        title: TitleChange::Keep,
        metadata,
        language: None,
        metadata_bytes_max: limits.metadata_bytes_max,
        metadata_depth_max: limits.metadata_depth_max,
    }
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
                Patched::Overtaken => counts.changed += 1,
                Patched::TooLarge => counts.failed += 1,
            }
        }
        next
    }
}

impl ClassifyPlan {
    fn only(&self) -> SearchFilter {
        SearchFilter { languages: Vec::new(), filter: self.filter.clone() }
    }

    /// What changes of a document's metadata. An abstention removes what an earlier job may have written.
    fn patch(&self, document: &Document, labels: Option<Vec<String>>, share: Option<f32>, multi_label: bool) -> Metadata {
        let mut patch = Metadata::new();
        let mut set = |path: &MetadataPath, value: Option<Value>| match value {
            Some(value) => put(&mut patch, path.keys(), value),
            None if path.find(&document.metadata).is_some() => put(&mut patch, path.keys(), Value::Null),
            None => (),
        };
        let share = share.filter(|_| labels.is_some());
        let value = labels.and_then(|labels| match multi_label {
            true => Some(json!(labels)),
            false => labels.into_iter().next().map(Value::from),
        });
        set(&self.field, value);
        if let Some(path) = &self.probability_field {
            // Four digits: more would say more than the calibration does.
            set(path, share.map(|share| json!((f64::from(share) * 1e4).round() / 1e4)));
        }
        patch
    }
}

/// Sets a value behind a path, over whatever is there.
fn put(object: &mut Metadata, keys: &[String], value: Value) {
    match keys {
        [] => (),
        [last] => {
            object.insert(last.clone(), value);
        }
        [first, rest @ ..] => {
            let inner = object.entry(first.clone()).or_insert_with(|| Value::Object(Metadata::new()));
            if !inner.is_object() {
                *inner = Value::Object(Metadata::new());
            }
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}
