//! Evaluates a classifier on labeled texts or documents. A small set is evaluated within the request, a whole collection in a
//! job.
//!
//! A job writes only its result, so it starts over after a restart. It evaluates the classifier as it was when the job
//! began, even if the classifier is retrained in the meantime.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::PAGE_BYTES;
use super::embedded_text::PredictionInput;
use super::error::ClassifierError;
use super::evaluated::EvaluatedPredictions;
use super::examples::example_name;
use super::neighbor_source::{NeighborSource, labeled_filter};
use super::persisted::{damaged_row, read_evaluation};
use super::planned::ClassifierJobPlan;
use super::texts::{embed_texts, embed_texts_patiently, inputs_from_documents};
use super::trained::TrainedClassifier;
use crate::domain::{
    ClassifierName, CollectionName, DocumentId, Evaluation, EvaluationSet, Job, JobId, JobStatus, JobType, JobUnit,
    LabeledDocuments, LabeledText, Page, Scope, labels_at,
};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::folders::{AtPath, create_dir_durably, read_file, replace_durably};
use crate::service::jobs::{JobContext, JobError, JobKind, JobVisibility, NewJob, new_job_id};
use crate::service::limits::budget::RequestMemory;
use crate::service::open_collection::OpenCollection;
use crate::service::state::Service;
use crate::store::EmbeddedDocument;

/// Maximum number of labeled documents evaluated within a request. Bounds its time.
const SYNC_DOCUMENTS_MAX: usize = 20_000;
/// How many of them may still be waiting for their embedding.
const SYNC_PENDING_MAX: usize = 1_000;
/// Maximum number of labeled documents that a job evaluates. Bounds its memory.
const JOB_DOCUMENTS_MAX: usize = 1_000_000;
const DOCUMENTS_PER_STEP: usize = 500;
const RESULT: &str = "evaluation.json";

#[derive(Default)]
struct TestSet {
    inputs: Vec<PredictionInput>,
    expected: Vec<Vec<String>>,
    /// How error messages refer to each text.
    names: Vec<String>,
}

pub(crate) struct EvaluateJob;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EvaluatePlan {
    #[serde(flatten)]
    documents: ClassifierJobPlan,
    /// The collections whose labels the result shows, by the names in the classifier and the catalog. Only keys with access to
    /// all of them may see the job. `None` in jobs of earlier versions.
    collections: Option<Vec<CollectionName>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct EvaluateDetails {
    classifier: ClassifierName,
    #[serde(flatten)]
    result: Option<EvaluateResult>,
}

#[derive(Debug, Serialize)]
pub(crate) struct EvaluateResult {
    version: u64,
    examples: usize,
    accuracy: f64,
    macro_f1: f64,
}

impl Service {
    /// Evaluates a classifier. A document is never evidence for itself: a `knn` on the same collection leaves each document out
    /// when it predicts that document.
    pub async fn evaluate(&self, name: &ClassifierName, set: EvaluationSet, threshold: Option<f32>) -> Result<Evaluation, Error> {
        let trained = self.trained(name).await?;
        let label_source = self.state.label_source(&trained, false)?;
        let known = match set {
            EvaluationSet::Texts(texts) => self.known_texts(texts).await?,
            EvaluationSet::Documents(documents) => self.known_documents(&trained, documents).await?,
        };
        if known.inputs.is_empty() {
            return Err(no_labels_error().into());
        }
        blocking(move || {
            let mut evaluated = EvaluatedPredictions::default();
            let mut neighbor_source = trained.neighbor_source(&label_source, known.inputs.len())?;
            evaluate_answers(&trained, (&mut neighbor_source, threshold), known, &mut evaluated)?;
            Ok(evaluated.evaluation(&trained)?)
        })
        .await
    }

    /// Accepts a job that evaluates a classifier on all labeled documents of a collection.
    pub async fn start_evaluation(
        &self,
        name: &ClassifierName,
        documents: LabeledDocuments,
        threshold: Option<f32>,
    ) -> Result<Job, Error> {
        let trained = self.trained(name).await?;
        let collection = self.state.collection(&documents.collection)?;
        self.state.check_embedded(&collection)?;
        drop(self.state.label_source(&trained, false)?);
        let permit = self.job_permit()?;
        let filter = labeled_filter(&documents);
        let count =
            move |collection: &Arc<OpenCollection>| Ok(collection.store.count_matching(&filter, JOB_DOCUMENTS_MAX + 1)?);
        let total = collection.run(count).await?;
        if total == 0 {
            return Err(no_labels_error().into());
        }
        if total > JOB_DOCUMENTS_MAX {
            let problem = format!("an evaluation may use at most {JOB_DOCUMENTS_MAX} labeled documents; narrow the filter");
            return Err(ClassifierError::EvaluationSet { problem }.into());
        }
        let own_name = collection.row.name.clone();
        // An alias is not resolved, because it may lead elsewhere than when the classifier was trained.
        let learned = trained.definition.source.as_ref().map(|source| source.collection.clone());
        let sources: Vec<CollectionName> = learned.into_iter().chain([own_name.clone()]).collect();
        let (classifier, collection_id) = (trained.id.clone(), collection.row.id.clone());
        let LabeledDocuments { filter, field, .. } = documents;
        let documents = ClassifierJobPlan { classifier, name: name.clone(), collection_id, filter, field, threshold };
        let request = EvaluatePlan { documents, collections: Some(sources) };
        let details = EvaluateDetails { classifier: name.clone(), result: None };
        let (id, total, follows) = (new_job_id()?, total as u64, Some(collection));
        let new = NewJob { id, collection: Some(own_name), request, details, total, folder: None, follows };
        self.submit_job::<EvaluateJob>(permit, new).await
    }

    /// Returns the result of a job that `start_evaluation` accepted.
    pub async fn evaluation_of_job(&self, id: &JobId) -> Result<Evaluation, Error> {
        let job = self.get_job(id).await?;
        if job.kind != JobType::Evaluate || job.status != JobStatus::Succeeded {
            let (kind, status) = (job.kind.name(), job.status.name());
            return Err(ClassifierError::NoEvaluation { id: id.clone(), kind, status }.into());
        }
        let path = self.state.job_dir(id).join(RESULT);
        blocking(move || {
            let text = read_file(&path).at(&path)?;
            Ok(read_evaluation(&text)?)
        })
        .await
    }

    async fn known_texts(&self, texts: Vec<LabeledText>) -> Result<TestSet, Error> {
        let bodies = texts.iter().map(|labeled| labeled.text.clone().into()).collect();
        let embedded = embed_texts(&self.state, bodies).await?;
        let names = texts.iter().map(|labeled| example_name(&labeled.text)).collect();
        let inputs = texts.iter().zip(embedded);
        let inputs = inputs.map(|(text, (detected, embedding))| PredictionInput::of_text(text.language.or(detected), embedding));
        let inputs = inputs.collect();
        Ok(TestSet { inputs, names, expected: texts.into_iter().map(|labeled| labeled.labels).collect() })
    }

    async fn known_documents(&self, trained: &Arc<TrainedClassifier>, documents: LabeledDocuments) -> Result<TestSet, Error> {
        let collection = self.state.collection(&documents.collection)?;
        self.state.check_embedded(&collection)?;
        let (filter, multi_label) = (labeled_filter(&documents), trained.definition.multi_label);
        let memory = RequestMemory::current();
        let read = move |collection: &Arc<OpenCollection>| {
            let too_many = |problem: String| ClassifierError::EvaluationSet {
                problem: format!("{problem}; start it as a job, or narrow the filter"),
            };
            let (mut known, mut expected, mut waiting) = (Vec::new(), Vec::new(), 0);
            let mut page = Page { limit: DOCUMENTS_PER_STEP, after: None };
            loop {
                let (found, next) = collection.store.embedded_documents(&filter, &page, PAGE_BYTES)?;
                let (labeled, labels) = retain_labeled(found, &documents, multi_label)?;
                waiting += labeled.iter().filter(|found| found.embedding.is_none()).count();
                memory.add_answer(labeled.iter().map(|found| found.document.text.len() as u64).sum())?;
                known.extend(labeled);
                expected.extend(labels);
                if known.len() > SYNC_DOCUMENTS_MAX {
                    let problem = format!("at most {SYNC_DOCUMENTS_MAX} labeled documents can be evaluated at once");
                    return Err(too_many(problem).into());
                }
                if waiting > SYNC_PENDING_MAX {
                    let problem = format!("more than {SYNC_PENDING_MAX} of the documents wait for their embedding");
                    return Err(too_many(problem).into());
                }
                if next.is_none() {
                    return Ok((known, expected));
                }
                page.after = next;
            }
        };
        let (found, expected) = collection.run(read).await?;
        let names = found.iter().map(|labeled| format!("document {}", labeled.document.id)).collect();
        let embed = |texts| embed_texts(&self.state, texts);
        Ok(TestSet { inputs: inputs_from_documents(&collection.row.name, found, embed).await?, expected, names })
    }
}

impl JobKind for EvaluateJob {
    const TYPE: JobType = JobType::Evaluate;
    const SCOPE: Scope = Scope::Write;
    const UNIT: JobUnit = JobUnit::Documents;
    type Request = EvaluatePlan;
    type Details = EvaluateDetails;

    fn visibility(plan: &EvaluatePlan, collection: Option<&CollectionName>) -> JobVisibility {
        match (&plan.collections, collection) {
            (Some(named), Some(evaluated)) => JobVisibility::Collections(named.iter().chain([evaluated]).cloned().collect()),
            _ => JobVisibility::Everything,
        }
    }

    /// Evaluates from the beginning.
    async fn run(context: &JobContext, plan: EvaluatePlan) -> Result<(), JobError> {
        let collection = context.collection(&plan.documents.collection_id)?;
        let evaluated = evaluate_all(context, &collection, plan.documents).await;
        evaluated.map_err(|error| error.or_deleted(&collection))
    }
}

async fn evaluate_all(
    context: &JobContext,
    collection: &Arc<OpenCollection>,
    planned: ClassifierJobPlan,
) -> Result<(), JobError> {
    let trained = planned.classifier(&context.state()?).await?;
    let name = context.collection_name()?.clone();
    let documents = LabeledDocuments { collection: name, field: planned.field.clone(), filter: planned.filter.clone() };
    let live = trained.definition.source.as_ref().filter(|_| trained.is_live());
    if let Some(source) = live {
        let source = context.state()?.collection(&source.collection)?;
        context.wait_until_recovered(&source).await?;
    }
    let label_source = context.state()?.label_source(&trained, false)?;
    let (reading, filter) = (Arc::clone(collection), labeled_filter(&documents));
    let count = move || reading.with_store(|store| store.count_matching(&filter, JOB_DOCUMENTS_MAX));
    let total = blocking(count).await? as u64;
    context.measure(0, total);
    let (mut evaluated, mut page, mut read) =
        (EvaluatedPredictions::default(), Page { limit: DOCUMENTS_PER_STEP, after: None }, 0);
    loop {
        context.check()?;
        // Holds the service for one step only, so that the job does not keep a stopping service alive.
        context.state()?.check_embedded(collection)?;
        check_still_exists(context, collection, &planned).await?;
        let (reading, documents, multi_label) = (Arc::clone(collection), documents.clone(), trained.definition.multi_label);
        let labeled = blocking(move || {
            let filter = labeled_filter(&documents);
            let (found, next) = reading.with_store(|store| store.embedded_documents(&filter, &page, PAGE_BYTES))?;
            Ok((next, found.len(), retain_labeled(found, &documents, multi_label)?))
        });
        let (next, count, (found, expected)): (Option<DocumentId>, usize, _) = labeled.await?;
        let names = found.iter().map(|labeled| format!("document {}", labeled.document.id)).collect();
        let embed = |texts| embed_texts_patiently(context, texts);
        let inputs = inputs_from_documents(&collection.row.name, found, embed).await?;
        let (evaluator, near, threshold) = (Arc::clone(&trained), label_source.clone(), planned.threshold);
        evaluated = blocking(move || {
            let mut neighbor_source = evaluator.neighbor_source(&near, inputs.len())?;
            evaluate_answers(&evaluator, (&mut neighbor_source, threshold), TestSet { inputs, expected, names }, &mut evaluated)?;
            Ok(evaluated)
        })
        .await?;
        read += count;
        context.set_done(read as u64);
        if next.is_none() || evaluated.len() >= JOB_DOCUMENTS_MAX {
            break;
        }
        page = Page { limit: DOCUMENTS_PER_STEP, after: next };
    }
    check_still_exists(context, collection, &planned).await?;
    if evaluated.len() == 0 {
        return Err(no_labels_error().into());
    }
    write_result(context, &trained, evaluated).await
}

/// Fails if the classifier or the collection was deleted in the meantime.
async fn check_still_exists(
    context: &JobContext,
    collection: &OpenCollection,
    planned: &ClassifierJobPlan,
) -> Result<(), JobError> {
    if collection.is_deleted() {
        return Err(collection.not_found().into());
    }
    let id = planned.classifier.clone();
    match context.state()?.run(move |state| Ok(state.catalog.classifier_by_id(&id)?)).await? {
        Some(_) => Ok(()),
        None => Err(ClassifierError::NotFound { name: planned.name.clone() }.into()),
    }
}

/// Writes the result durably, and copies its main numbers into the job's details.
async fn write_result(
    context: &JobContext,
    trained: &Arc<TrainedClassifier>,
    evaluated: EvaluatedPredictions,
) -> Result<(), JobError> {
    let (folder, evaluator) = (context.state()?.job_dir(&context.job.id), Arc::clone(trained));
    let evaluation = blocking(move || {
        let evaluation = evaluated.evaluation(&evaluator)?;
        let (partial, complete) = (folder.join("evaluation.partial"), folder.join(RESULT));
        let text = serde_json::to_vec(&evaluation).map_err(|_| damaged_row("an evaluation cannot be written"))?;
        create_dir_durably(&folder).and_then(|()| replace_durably(&partial, &complete, &text)).at(&complete)?;
        Ok(evaluation)
    });
    let all = evaluation.await?.all;
    let (version, examples) = (trained.version, all.examples);
    let result = EvaluateResult { version, examples, accuracy: all.accuracy, macro_f1: all.macro_f1 };
    let details = EvaluateDetails { classifier: trained.name.clone(), result: Some(result) };
    let (progress, _) = context.job.progress();
    context.progress(progress.done, &details).await
}

/// Picks the documents that have labels and returns them with those labels, without what the evaluation does not need. Blocks.
fn retain_labeled(
    found: Vec<EmbeddedDocument>,
    documents: &LabeledDocuments,
    multi_label: bool,
) -> Result<(Vec<EmbeddedDocument>, Vec<Vec<String>>), Error> {
    let mut known = Vec::with_capacity(found.len());
    for mut labeled in found {
        let labels = labels_at(&documents.field, documents.field.find(&labeled.document.metadata), multi_label);
        let no_label =
            |problem: String| ClassifierError::EvaluationSet { problem: format!("document {}: {problem}", labeled.document.id) };
        if let Some(labels) = labels.map_err(no_label)? {
            labeled.document.metadata.clear();
            if labeled.embedding.is_some() {
                labeled.document.text = String::new();
            }
            known.push((labeled, labels));
        }
    }
    Ok(known.into_iter().unzip())
}

fn evaluate_answers(
    trained: &TrainedClassifier,
    (neighbor_source, threshold): (&mut Option<NeighborSource<'_>>, Option<f32>),
    known: TestSet,
    evaluated: &mut EvaluatedPredictions,
) -> Result<(), Error> {
    let TestSet { inputs, expected, names } = known;
    if !trained.is_live() {
        // A live `knn` may predict any label that its collection has. The other kinds can only predict labels they were trained
        // on, so they refuse a test set with other labels.
        let unknown = expected.iter().zip(&names).find_map(|(labels, item)| {
            let label = labels.iter().find(|label| trained.labels.number(label).is_none())?;
            Some((label.clone(), item.clone()))
        });
        if let Some((label, item)) = unknown {
            return Err(ClassifierError::UnknownLabel { name: trained.name.clone(), label, item }.into());
        }
    }
    let scored = trained.score(neighbor_source, &inputs.iter().collect::<Vec<_>>())?;
    for ((input, expected), scored) in inputs.iter().zip(expected).zip(&scored) {
        evaluated.add((expected, input.language), trained.decide(scored, threshold), scored);
    }
    Ok(())
}

fn no_labels_error() -> ClassifierError {
    ClassifierError::EvaluationSet { problem: "there are no labeled examples to evaluate with".to_owned() }
}
