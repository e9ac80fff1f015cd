//! What the catalog keeps of a classifier as JSON: what it is to be, and what its training found.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::ClassifierError;
use super::persisted_filter;
use crate::domain::{
    ClassifierDefinition, ClassifierKind, CollectionName, KnnSettings, LabeledDocuments, Metadata, MlpSettings, TrainingReport,
};

#[derive(Serialize, Deserialize)]
struct KeptDefinition {
    kind: ClassifierKind,
    description: Option<String>,
    multi_label: bool,
    threshold: Option<f32>,
    source: Option<KeptSource>,
    knn: KnnSettings,
    mlp: MlpSettings,
}

#[derive(Serialize, Deserialize)]
struct KeptSource {
    collection: String,
    field: Value,
    filter: Value,
}

/// Writes what a classifier is to be.
pub(super) fn write_definition(definition: &ClassifierDefinition) -> Result<Metadata, ClassifierError> {
    let ClassifierDefinition { kind, description, multi_label, threshold, source, knn, mlp } = definition.clone();
    let source = source.map(|source| KeptSource {
        collection: source.collection.as_str().to_owned(),
        field: source.field.keys().into(),
        filter: persisted_filter::write(&source.filter),
    });
    object(KeptDefinition { kind, description, multi_label, threshold, source, knn, mlp })
}

/// Reads what `write_definition` wrote, or an earlier version.
pub(super) fn read_definition(kept: &Metadata) -> Result<ClassifierDefinition, ClassifierError> {
    let mut kept = kept.clone();
    read_earlier(&mut kept);
    let KeptDefinition { kind, description, multi_label, threshold, source, knn, mlp } = from_object(kept)?;
    let source = source.map(read_source).transpose()?;
    Ok(ClassifierDefinition { kind, description, multi_label, threshold, source, knn, mlp })
}

/// An earlier version had `relu`, true or false, where there is `activation` today.
fn read_earlier(kept: &mut Metadata) {
    let Some(mlp) = kept.get_mut("mlp").and_then(Value::as_object_mut) else { return };
    if let Some(Value::Bool(relu)) = mlp.remove("relu") {
        let activation = if relu { "relu" } else { "tanh" };
        mlp.insert("activation".to_owned(), activation.into());
    }
}

fn read_source(kept: KeptSource) -> Result<LabeledDocuments, ClassifierError> {
    Ok(LabeledDocuments {
        collection: CollectionName::parse(&kept.collection).map_err(|_| damaged("its collection's name is not valid"))?,
        field: persisted_filter::read_path(&kept.field).ok_or_else(|| damaged("its field is not a path"))?,
        filter: persisted_filter::read(&kept.filter).ok_or_else(|| damaged("its filter is not valid"))?,
    })
}

/// Writes what training found.
pub(super) fn write_report(report: &TrainingReport) -> Result<Metadata, ClassifierError> {
    object(report)
}

/// Reads what `write_report` wrote, or an earlier version, which had arrays in place of small objects and no `trained_in`.
pub(super) fn read_report(kept: &Metadata) -> Result<TrainingReport, ClassifierError> {
    let report: TrainingReport = from_object(kept.clone())?;
    Ok(TrainingReport { trained_in: report.language_of_training(), ..report })
}

fn object(kept: impl Serialize) -> Result<Metadata, ClassifierError> {
    match serde_json::to_value(kept) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(damaged("it is not a JSON object")),
        Err(error) => Err(damaged(&error.to_string())),
    }
}

fn from_object<T: serde::de::DeserializeOwned>(kept: Metadata) -> Result<T, ClassifierError> {
    T::deserialize(Value::Object(kept)).map_err(|error| damaged(&error.to_string()))
}

/// An error of a row that this program did not write so.
pub(super) fn damaged(problem: &str) -> ClassifierError {
    ClassifierError::Kept { problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{Activation, LabelExamples, Language, LanguageExamples, NeighborWeight};

    fn kept(value: Value) -> Metadata {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_an_earlier_version_wrote_is_read() {
        let definition = read_definition(&kept(json!({
            "kind": "mlp",
            "description": null,
            "multi_label": false,
            "threshold": null,
            "source": null,
            "knn": {"neighbors": 3, "weight": "equal", "temperature": null, "score_min": -1.0},
            "mlp": {
                "hidden": 8, "relu": true, "dropout": 0.0, "learning_rate": 0.02, "batch": 8, "epochs_max": 20, "patience": 5,
                "runs": 1, "seed": 7, "validation_share": 0.2,
            },
        })))
        .unwrap();
        assert_eq!((definition.knn.neighbors, definition.knn.weight), (3, NeighborWeight::Equal));
        assert_eq!((definition.mlp.activation, definition.mlp.seed), (Activation::Relu, 7));
        assert_eq!(read_definition(&write_definition(&definition).unwrap()).unwrap(), definition);
        let report = read_report(&kept(json!({
            "examples": 10,
            "left_out": 1,
            "labels": [["weather", 10]],
            "languages": [["en", 9], [null, 1]],
            "validation_examples": 0,
            "validation_quality": null,
            "calibration_error": null,
            "temperature": null,
            "run_qualities": [],
        })))
        .unwrap();
        let english = Language::parse("en");
        assert_eq!(report.trained_in, english);
        assert_eq!(report.labels, [LabelExamples { label: "weather".to_owned(), examples: 10 }]);
        assert_eq!(report.languages[0], LanguageExamples { language: english, examples: 9 });
        assert_eq!(read_report(&write_report(&report).unwrap()).unwrap(), report);
    }
}
