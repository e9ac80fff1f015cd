//! Writing labels into the documents of a collection: a job that goes through them in the order of their ids.
//!
//! Each step is one transaction of metadata and the job's checkpoint, so a restart goes on behind the last one and counts
//! nothing twice. A document whose text changes between reading and writing is left as it is and counted as such.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::ClassifierError;
use super::kept_filter;
use super::texts::of_documents_patiently;
use super::trained::{Scored, Trained};
use super::training::wait_for_index;
use crate::domain::{
    ApplyRequest, ClassifierName, Document, DocumentId, DocumentPatch, Filter, Job, JobType, JobUnit, Limits, Metadata,
    MetadataPath, TitleChange,
};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::{JobContext, JobError, NewJob, new_job_id};
use crate::service::runtime::OpenCollection;
use crate::service::state::{Service, State};
use crate::store::{Patched, SearchFilter, TextPatch};

/// Documents of one step: bounds how long other writes wait.
const DOCUMENTS_PER_STEP: usize = 200;

/// How far the job came.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Checkpoint {
    /// The last document that was looked at.
    after: Option<String>,
    documents: u64,
    labeled: u64,
    abstained: u64,
    changed: u64,
    failed: u64,
}

/// What is asked.
struct Apply {
    classifier: String,
    name: ClassifierName,
    collection: String,
    filter: Filter,
    field: MetadataPath,
    probability_field: Option<MetadataPath>,
    threshold: Option<f32>,
}

impl Service {
    /// Accepts a job that writes the labels of documents into their metadata.
    pub async fn apply_classifier(&self, name: &ClassifierName, request: ApplyRequest) -> Result<Job, Error> {
        let trained = self.trained(name).await?;
        let collection = self.collection(&request.collection)?;
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
        let total = self.on_collection(&collection, count).await?;
        let members = [
            ("classifier", json!(trained.id)),
            ("name", json!(name.as_str())),
            ("collection_id", json!(collection.row.id.0)),
            ("filter", kept_filter::write(&filter)),
            ("field", json!(field.keys())),
            ("probability_field", json!(probability_field.as_ref().map(MetadataPath::keys))),
            ("threshold", json!(threshold)),
        ];
        let request: Metadata = members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let details = Metadata::from_iter([("classifier".to_owned(), name.as_str().into())]);
        let (id, kind, unit) = (new_job_id()?, JobType::Classify, JobUnit::Documents);
        self.submit_job(place, NewJob { id, kind, collection: Some(asked), request, details, total, unit }).await
    }
}

/// Goes through the documents, from the last checkpoint on.
pub(crate) async fn run(context: &JobContext) -> Result<(), JobError> {
    let apply = Apply::of(context)?;
    let gone = || collection_gone(context);
    let collection = planned_collection(context, &apply.collection)?;
    let ended = label_all(context, &collection, &apply).await;
    match ended {
        Err(JobError::Failed(_)) if collection.is_deleted() => Err(gone().into()),
        other => other,
    }
}

/// The collection with this id, which the job was accepted with.
pub(super) fn planned_collection(context: &JobContext, id: &str) -> Result<Arc<OpenCollection>, JobError> {
    let state = context.state()?;
    let open = state.open.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    let found = open.values().find(|collection| collection.row.id.0 == id).cloned();
    Ok(found.ok_or_else(|| collection_gone(context))?)
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

async fn label_all(context: &JobContext, collection: &Arc<OpenCollection>, apply: &Apply) -> Result<(), JobError> {
    context.state()?.check_embedded(collection)?;
    let (of, id, filter) = (Arc::clone(collection), context.live.id.clone(), apply.only());
    let (kept, total) =
        blocking(move || Ok((of.store.job_checkpoint(&id)?, of.store.count_matching(&filter, usize::MAX)? as u64))).await?;
    let broken = |_| Error::JobState { id: context.live.id.clone(), problem: "its checkpoint cannot be read" };
    let mut done: Checkpoint = kept.map(|kept| serde_json::from_str(&kept)).transpose().map_err(broken)?.unwrap_or_default();
    context.measure(done.documents, total.max(done.documents));
    loop {
        context.check()?;
        // Read anew: a classifier that was deleted writes no more.
        // The service is held for one step only, so that one that goes away takes the job with it.
        let trained = planned_classifier(&context.state()?, &apply.classifier, &apply.name).await?;
        let more = step(context, collection, apply, &trained, &mut done).await?;
        context.progress(done.documents, done.details(&apply.name)).await?;
        if !more {
            return Ok(());
        }
    }
}

/// Labels the next documents; says whether there may be more.
async fn step(
    context: &JobContext,
    collection: &Arc<OpenCollection>,
    apply: &Apply,
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
    let (of, filter, after) = (Arc::clone(collection), apply.only(), done.after.clone());
    let page = blocking(move || {
        let after = after.map(|id| DocumentId::parse(&id)).transpose()?;
        Ok(of.store.embedded_documents(&filter, after.as_ref(), DOCUMENTS_PER_STEP)?)
    })
    .await?;
    let Some(last) = page.last().map(|one| one.document.id.clone()) else { return Ok(false) };
    let full = page.len() == DOCUMENTS_PER_STEP;
    let documents: Vec<Document> = page.iter().map(|one| one.document.clone()).collect();
    let asked = of_documents_patiently(context, page).await?;
    let (judging, threshold) = (Arc::clone(trained), apply.threshold);
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
        let metadata = apply.patch(&document, labels, share, trained.definition.multi_label);
        let patch = patch(metadata, &state.limits);
        TextPatch { id: document.id, title: document.title, text: document.text, patch }
    });
    let patches: Vec<TextPatch> = patches.collect();
    let (of, id, before) = (Arc::clone(collection), context.live.id.clone(), done.clone());
    let next = move |outcomes: &[Patched]| before.after_step(&last, &abstained, outcomes);
    let counted = next.clone();
    let outcomes = blocking(move || {
        let checkpoint = move |outcomes: &[Patched]| json!(counted(outcomes)).to_string();
        Ok(of.store.patch_for_job(&id, patches, checkpoint)?)
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
        next.documents += outcomes.len() as u64;
        for (abstained, outcome) in abstained.iter().zip(outcomes) {
            match outcome {
                Patched::Done if *abstained => next.abstained += 1,
                Patched::Done => next.labeled += 1,
                Patched::Overtaken => next.changed += 1,
                Patched::TooLarge => next.failed += 1,
            }
        }
        next
    }

    fn details(&self, name: &ClassifierName) -> Metadata {
        let counts = [
            ("documents", self.documents),
            ("labeled", self.labeled),
            ("abstained", self.abstained),
            ("changed", self.changed),
            ("failed", self.failed),
        ];
        let name = [("classifier".to_owned(), Value::from(name.as_str()))];
        name.into_iter().chain(counts.map(|(name, count)| (name.to_owned(), count.into()))).collect()
    }
}

impl Apply {
    fn of(context: &JobContext) -> Result<Self, Error> {
        let request = &context.live.request;
        let broken = || Error::JobState { id: context.live.id.clone(), problem: "its request cannot be read" };
        let text = |name: &str| request.get(name).and_then(Value::as_str).map(str::to_owned).ok_or_else(broken);
        let member = |name: &str| request.get(name).filter(|value| !value.is_null());
        let path = |value: &Value| kept_filter::read_path(value).ok_or_else(broken);
        Ok(Self {
            classifier: text("classifier")?,
            name: ClassifierName::parse(&text("name")?)?,
            collection: text("collection_id")?,
            filter: member("filter").and_then(kept_filter::read).ok_or_else(broken)?,
            field: path(member("field").ok_or_else(broken)?)?,
            probability_field: member("probability_field").map(path).transpose()?,
            threshold: member("threshold").and_then(Value::as_f64).map(|threshold| threshold as f32),
        })
    }

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
