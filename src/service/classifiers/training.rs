//! The training job. Embeds the texts of the request, reads the labeled documents of a collection, trains, and stores the
//! result.
//!
//! Embeddings of the request's texts are stored as they are computed, so a restarted job does not embed them again. The result
//! is stored in one transaction at the end; a job restarted before that trains again, with the same result. A retraining leaves
//! the classifier unchanged until then: if it moves the classifier to another model, the texts are embedded again, and those
//! embeddings are also stored only at the end.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::embedded_text::{EmbeddedText, embedded_texts};
use super::error::ClassifierError;
use super::examples::{Examples, examples_from_texts, read_labeled_examples, sorted_counts};
use super::fitting::{TrainingOutcome, calibrate_knn, calibration_error, fit_prototypes};
use super::neighbor_source::{LabelSource, threads};
use super::persisted::read_definition;
use super::texts::embed_texts_patiently;
use crate::classify::{LabelNames, Targets, Training, fit_temperature, strata_of_label_sets, stratified_split};
use crate::domain::{
    ClassifierDefinition, ClassifierKind, ClassifierName, CollectionName, Embedding, JobFailure, JobId, JobStatus, JobType,
    JobUnit, Language, Scope, TrainingReport,
};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::{JobContext, JobError, JobKind, JobVisibility, stored};
use crate::service::state::State;
use crate::store::system_clock as now_ms;
use crate::store::{FinishedTraining, StoredClassifier, TrainingProgress};

/// Number of texts that are embedded before their embeddings are stored.
const TEXTS_PER_STEP: usize = 128;

pub(crate) struct TrainJob;

/// What a training needs to run, in addition to the classifier's row.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TrainPlan {
    /// The classifier's id.
    pub(super) classifier: String,
    pub(super) name: ClassifierName,
    /// The collection that it learns from, as the classifier names it: by its own name or by an alias. `None` in jobs of
    /// earlier versions, and if it learns only from texts. There is no id, because a classifier belongs to a name: each
    /// training learns from the collection that has the name then.
    #[serde(default)]
    pub(super) source: Option<CollectionName>,
}

#[derive(Debug, Serialize)]
pub(crate) struct TrainDetails {
    pub(super) classifier: ClassifierName,
}

impl JobKind for TrainJob {
    const TYPE: JobType = JobType::Train;
    const SCOPE: Scope = Scope::Write;
    const UNIT: JobUnit = JobUnit::Steps;
    type Request = TrainPlan;
    type Details = TrainDetails;

    /// Every key may see a classifier that learned only from texts of the request, so every key may see its training. Otherwise
    /// those with access to the collection that the classifier's definition names.
    fn visibility(plan: &TrainPlan, collection: Option<&CollectionName>) -> JobVisibility {
        let learned = plan.source.as_ref().or(collection);
        learned.map_or(JobVisibility::Server, |learned| JobVisibility::Collections(vec![learned.clone()]))
    }

    async fn run(context: &JobContext, plan: TrainPlan) -> Result<(), JobError> {
        let row = row(context, plan).await?;
        let again = row.record.next_job.as_ref() == Some(&context.job.id);
        if row.record.job != context.job.id && !again {
            return Err(ClassifierError::NotFound { name: row.record.name }.into());
        }
        if row.progress == TrainingProgress::Ready && !again {
            // The result was stored before the last restart, but the job's end was not recorded.
            return Ok(());
        }
        if !again {
            context.state()?.check_classifier_model(&row)?;
        }
        let model = context.state()?.embedder.model().clone();
        let definition = read_definition(&row.definition)?;
        let (texts, embedded) = embed_all(context, &row, &definition).await?;
        let source = match &definition.source {
            None => None,
            Some(source) => {
                let state = context.state()?;
                // An alias in the definition may point to another collection by now. Jobs of earlier versions name no collection.
                let name = context.job.collection.as_ref().unwrap_or(&source.collection);
                let collection = state.collection(name)?;
                state.check_embedded(&collection)?;
                drop(state);
                context.wait_until_recovered(&collection).await?;
                Some((collection, source.clone()))
            }
        };
        let (working, dimension) = (context.clone(), model.dimension);
        let label_source = LabelSource { multi_label: definition.multi_label, source };
        let learned = blocking(move || fit(&working, &definition, &label_source, texts, dimension)).await;
        context.check()?;
        let TrainingOutcome { report, weights } = learned?;
        let (state, id, job) = (context.state()?, row.id.clone(), context.job.id.clone());
        let stored = blocking(move || {
            let done = FinishedTraining {
                id,
                job,
                model: model.name,
                model_fingerprint: model.fingerprint,
                dimension: model.dimension,
                report: stored::write(&report),
                weights,
                embedded,
                now_ms: now_ms(),
            };
            Ok(state.catalog.finish_training(&done)?)
        });
        if !stored.await? {
            return Err(ClassifierError::NotFound { name: row.record.name }.into());
        }
        tracing::info!(classifier = %row.record.name, "classifier trained");
        Ok(())
    }

    fn is_done(state: &State, id: &JobId, plan: &TrainPlan) -> Result<bool, Error> {
        let found = state.catalog.classifier_by_id(&plan.classifier)?;
        Ok(found.is_some_and(|row| row.record.job == *id && row.progress == TrainingProgress::Ready))
    }

    fn record_end(state: &State, id: &JobId, status: JobStatus, error: Option<&JobFailure>) -> Result<(), Error> {
        state.end_training(id, status, error)
    }
}

async fn row(context: &JobContext, plan: TrainPlan) -> Result<StoredClassifier, JobError> {
    let TrainPlan { classifier: id, name, .. } = plan;
    let found = context.state()?.run(move |state| Ok(state.catalog.classifier_by_id(&id)?)).await?;
    found.ok_or_else(|| ClassifierError::NotFound { name }.into())
}

/// All texts with their embeddings, and the embeddings that are stored only at the end.
type Embedded = (Vec<EmbeddedText>, Vec<(i64, Option<Language>, Embedding)>);

/// Embeds the request's texts that have no embedding by the loaded model yet.
async fn embed_all(
    context: &JobContext,
    row: &StoredClassifier,
    definition: &ClassifierDefinition,
) -> Result<Embedded, JobError> {
    let (reading, id) = (context.state()?, row.id.clone());
    let store_at_once = row.record.model_fingerprint == reading.embedder.model().fingerprint;
    let mut texts = blocking(move || Ok(reading.catalog.classifier_texts(&id)?)).await?;
    if !store_at_once {
        texts.iter_mut().for_each(|(_, text)| text.embedding = None);
    }
    let mut at_the_end = Vec::new();
    let epochs = match definition.kind {
        ClassifierKind::Mlp => definition.mlp.runs.saturating_mul(definition.mlp.epochs_max),
        ClassifierKind::Knn | ClassifierKind::Prototype => 1,
    };
    let done = texts.iter().filter(|(_, text)| text.embedding.is_some()).count();
    context.measure(done as u64, (texts.len() + epochs) as u64);
    let mut done = done as u64;
    let waiting: Vec<usize> = (0..texts.len()).filter(|index| texts[*index].1.embedding.is_none()).collect();
    for indexes in waiting.chunks(TEXTS_PER_STEP) {
        context.check()?;
        let part = indexes.iter().map(|index| texts[*index].1.text.clone().into()).collect();
        let embedded = embed_texts_patiently(context, part).await?;
        let mut stored = Vec::with_capacity(indexes.len());
        for (index, (detected, embedding)) in indexes.iter().zip(embedded) {
            let (key, text) = &mut texts[*index];
            let language: Option<Language> = text.language.or(detected);
            text.language = language;
            text.embedding = Some(embedding.clone());
            stored.push((*key, language, embedding));
        }
        // Holds the service for one step only, so that the job does not keep a stopping service alive.
        let state = context.state()?;
        match store_at_once {
            true => state.run(move |state| Ok(state.catalog.embed_classifier_texts(&stored)?)).await?,
            false => at_the_end.extend(stored),
        }
        done += indexes.len() as u64;
        context.set_done(done);
    }
    Ok((embedded_texts(texts.into_iter().map(|(_, text)| text))?, at_the_end))
}

/// Trains. Blocks.
fn fit(
    context: &JobContext,
    definition: &ClassifierDefinition,
    label_source: &LabelSource,
    texts: Vec<EmbeddedText>,
    dimension: usize,
) -> Result<TrainingOutcome, Error> {
    let examples = match &label_source.source {
        Some((collection, source)) => read_labeled_examples(collection, source, definition, || context.check().is_err())?,
        None => examples_from_texts(&texts),
    };
    match definition.kind {
        ClassifierKind::Mlp => {
            examples.check(definition)?;
            fit_mlp(context, definition, &examples, dimension)
        }
        ClassifierKind::Knn => {
            examples.check(definition)?;
            calibrate_knn(definition, label_source, &texts, &examples)
        }
        ClassifierKind::Prototype => fit_prototypes(&texts, examples),
    }
}

fn fit_mlp(
    context: &JobContext,
    definition: &ClassifierDefinition,
    examples: &Examples,
    dimension: usize,
) -> Result<TrainingOutcome, Error> {
    let settings = &definition.mlp;
    let names = LabelNames::of(examples.rows.iter().flat_map(|row| row.labels.iter().cloned()));
    let sets = examples.numbers(&names);
    let classes: Vec<u32> = sets.iter().filter_map(|set| set.first().copied()).collect();
    let (targets, strata) = match definition.multi_label {
        true => (Targets::LabelSets(&sets), strata_of_label_sets(&sets)),
        false => (Targets::Classes(&classes), classes.clone()),
    };
    let split = stratified_split(&strata, settings.validation_share, u64::from(settings.seed))?;
    let embeddings: Vec<f32> = examples.rows.iter().flat_map(|row| row.embedding.as_slice().iter().copied()).collect();
    let (labels, threads) = (names.len(), threads());
    let training = Training { embeddings: &embeddings, dimension, targets, labels, split: &split, parameters: settings, threads };
    let (before, _) = context.job.progress();
    let done = AtomicU64::new(before.done);
    let trained = training.train(&|| {
        context.set_done(done.fetch_add(1, Ordering::Relaxed) + 1);
        context.check().is_err()
    });
    let trained = trained?;
    let run_qualities =
        trained.runs.iter().filter_map(|run| run.best_epoch.validation.map(|validated| validated.quality)).collect();
    let best = trained.into_best();
    let apart: Vec<f32> =
        split.validation.iter().flat_map(|row| examples.rows[*row as usize].embedding.as_slice().iter().copied()).collect();
    let logits = best.mlp.logits(&apart)?;
    let apart_sets: Vec<Vec<u32>> = split.validation.iter().map(|row| sets[*row as usize].clone()).collect();
    let apart_classes: Vec<u32> = apart_sets.iter().filter_map(|set| set.first().copied()).collect();
    let apart_targets = if definition.multi_label { Targets::LabelSets(&apart_sets) } else { Targets::Classes(&apart_classes) };
    let fit = fit_temperature(&logits, apart_targets, labels)?;
    let mut mlp = best.mlp;
    if let Some(temperature) = fit {
        mlp = mlp.with_temperature(temperature)?;
    }
    let probabilities = mlp.probabilities(&apart)?;
    let report = TrainingReport {
        validation_examples: split.validation.len(),
        validation_quality: best.best_epoch.validation.map(|validated| validated.quality),
        calibration_error: if definition.multi_label { None } else { calibration_error(&probabilities, &apart_classes, labels)? },
        temperature: Some(mlp.temperature()),
        run_qualities,
        ..examples.report()
    };
    debug_assert_eq!(report.labels.len(), names.len(), "{:?}", sorted_counts(&examples.rows));
    Ok(TrainingOutcome { report, weights: Some(mlp.to_bytes()) })
}
