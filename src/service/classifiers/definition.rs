//! What the catalog keeps of a classifier as JSON: what it is to be, and what its training found.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::ClassifierError;
use super::kept_filter;
use crate::domain::{
    ClassifierDefinition, ClassifierKind, CollectionName, KnnSettings, LabeledDocuments, Language, Metadata, MlpSettings,
    NeighborWeight, TrainingReport,
};

#[derive(Serialize, Deserialize)]
struct KeptDefinition {
    kind: String,
    description: Option<String>,
    multi_label: bool,
    threshold: Option<f32>,
    source: Option<KeptSource>,
    knn: KeptKnn,
    mlp: KeptMlp,
}

#[derive(Serialize, Deserialize)]
struct KeptSource {
    collection: String,
    field: Value,
    filter: Value,
}

#[derive(Serialize, Deserialize)]
struct KeptKnn {
    neighbors: usize,
    weight: String,
    temperature: Option<f32>,
    score_min: f32,
}

#[derive(Serialize, Deserialize)]
struct KeptMlp {
    hidden: usize,
    relu: bool,
    dropout: f32,
    learning_rate: f32,
    batch: usize,
    epochs_max: usize,
    patience: usize,
    runs: usize,
    seed: u64,
    validation_share: f64,
}

#[derive(Serialize, Deserialize)]
struct KeptReport {
    examples: usize,
    left_out: usize,
    labels: Vec<(String, usize)>,
    languages: Vec<(Option<String>, usize)>,
    validation_examples: usize,
    validation_quality: Option<f64>,
    calibration_error: Option<f64>,
    temperature: Option<f32>,
    run_qualities: Vec<f64>,
}

/// Writes what a classifier is to be.
pub(super) fn write_definition(definition: &ClassifierDefinition) -> Result<Metadata, ClassifierError> {
    let ClassifierDefinition { kind, description, multi_label, threshold, source, knn, mlp } = definition.clone();
    object(KeptDefinition {
        kind: kind.name().to_owned(),
        description,
        multi_label,
        threshold,
        source: source.map(|source| KeptSource {
            collection: source.collection.as_str().to_owned(),
            field: source.field.keys().into(),
            filter: kept_filter::write(&source.filter),
        }),
        knn: KeptKnn {
            neighbors: knn.neighbors,
            weight: knn.weight.name().to_owned(),
            temperature: knn.temperature,
            score_min: knn.score_min,
        },
        mlp: KeptMlp {
            hidden: mlp.hidden,
            relu: mlp.relu,
            dropout: mlp.dropout,
            learning_rate: mlp.learning_rate,
            batch: mlp.batch,
            epochs_max: mlp.epochs_max,
            patience: mlp.patience,
            runs: mlp.runs,
            seed: mlp.seed,
            validation_share: mlp.validation_share,
        },
    })
}

/// Reads what `write_definition` wrote.
pub(super) fn read_definition(kept: &Metadata) -> Result<ClassifierDefinition, ClassifierError> {
    let kept: KeptDefinition = from_object(kept)?;
    let (knn, mlp) = (kept.knn, kept.mlp);
    Ok(ClassifierDefinition {
        kind: ClassifierKind::parse(&kept.kind).ok_or_else(|| damaged("its kind is unknown"))?,
        description: kept.description,
        multi_label: kept.multi_label,
        threshold: kept.threshold,
        source: kept.source.map(read_source).transpose()?,
        knn: KnnSettings {
            neighbors: knn.neighbors,
            weight: NeighborWeight::parse(&knn.weight).ok_or_else(|| damaged("its weight is unknown"))?,
            temperature: knn.temperature,
            score_min: knn.score_min,
        },
        mlp: MlpSettings {
            hidden: mlp.hidden,
            relu: mlp.relu,
            dropout: mlp.dropout,
            learning_rate: mlp.learning_rate,
            batch: mlp.batch,
            epochs_max: mlp.epochs_max,
            patience: mlp.patience,
            runs: mlp.runs,
            seed: mlp.seed,
            validation_share: mlp.validation_share,
        },
    })
}

fn read_source(kept: KeptSource) -> Result<LabeledDocuments, ClassifierError> {
    Ok(LabeledDocuments {
        collection: CollectionName::parse(&kept.collection).map_err(|_| damaged("its collection has no valid name"))?,
        field: kept_filter::read_path(&kept.field).ok_or_else(|| damaged("its field is no path"))?,
        filter: kept_filter::read(&kept.filter).ok_or_else(|| damaged("its filter is none"))?,
    })
}

/// Writes what training found.
pub(super) fn write_report(report: &TrainingReport) -> Result<Metadata, ClassifierError> {
    let report = report.clone();
    object(KeptReport {
        examples: report.examples,
        left_out: report.left_out,
        labels: report.labels,
        languages: report
            .languages
            .into_iter()
            .map(|(language, examples)| (language.map(|language| language.code().to_owned()), examples))
            .collect(),
        validation_examples: report.validation_examples,
        validation_quality: report.validation_quality,
        calibration_error: report.calibration_error,
        temperature: report.temperature,
        run_qualities: report.run_qualities,
    })
}

/// Reads what `write_report` wrote.
pub(super) fn read_report(kept: &Metadata) -> Result<TrainingReport, ClassifierError> {
    let kept: KeptReport = from_object(kept)?;
    let language = |(code, examples): (Option<String>, usize)| (code.and_then(|code| Language::parse(&code)), examples);
    Ok(TrainingReport {
        examples: kept.examples,
        left_out: kept.left_out,
        labels: kept.labels,
        languages: kept.languages.into_iter().map(language).collect(),
        validation_examples: kept.validation_examples,
        validation_quality: kept.validation_quality,
        calibration_error: kept.calibration_error,
        temperature: kept.temperature,
        run_qualities: kept.run_qualities,
    })
}

fn object(kept: impl Serialize) -> Result<Metadata, ClassifierError> {
    match serde_json::to_value(kept) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(damaged("it is no JSON object")),
        Err(error) => Err(damaged(&error.to_string())),
    }
}

fn from_object<T: serde::de::DeserializeOwned>(kept: &Metadata) -> Result<T, ClassifierError> {
    T::deserialize(Value::Object(kept.clone())).map_err(|error| damaged(&error.to_string()))
}

/// An error of a row that this program did not write so.
pub(super) fn damaged(problem: &str) -> ClassifierError {
    ClassifierError::Kept { problem: problem.to_owned() }
}
