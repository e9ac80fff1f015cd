//! Reads and writes the JSON that the catalog stores for a classifier: its definition and its training report.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::ClassifierError;
use crate::domain::{ClassifierDefinition, Metadata, TrainingReport};

pub(super) fn write_definition(definition: &ClassifierDefinition) -> Result<Metadata, ClassifierError> {
    object(definition)
}

/// Reads what `write_definition` wrote, in this version or an earlier one.
pub(super) fn read_definition(row: &Metadata) -> Result<ClassifierDefinition, ClassifierError> {
    let mut row = row.clone();
    read_earlier(&mut row);
    from_object(row)
}

/// Converts the boolean `relu` of earlier versions to today's `activation`.
fn read_earlier(row: &mut Metadata) {
    let Some(mlp) = row.get_mut("mlp").and_then(Value::as_object_mut) else { return };
    if let Some(Value::Bool(relu)) = mlp.remove("relu") {
        let activation = if relu { "relu" } else { "tanh" };
        mlp.insert("activation".to_owned(), activation.into());
    }
}

pub(super) fn write_report(report: &TrainingReport) -> Result<Metadata, ClassifierError> {
    object(report)
}

/// Reads what `write_report` wrote, in this version or an earlier one. Earlier versions wrote arrays in place of small objects,
/// and no `trained_in`.
pub(super) fn read_report(row: &Metadata) -> Result<TrainingReport, ClassifierError> {
    let report: TrainingReport = from_object(row.clone())?;
    Ok(TrainingReport { trained_in: report.language_of_training(), ..report })
}

fn object(row: impl Serialize) -> Result<Metadata, ClassifierError> {
    match serde_json::to_value(row) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(damaged_row("it is not a JSON object")),
        Err(error) => Err(damaged_row(&error.to_string())),
    }
}

fn from_object<T: DeserializeOwned>(row: Metadata) -> Result<T, ClassifierError> {
    T::deserialize(Value::Object(row)).map_err(|error| damaged_row(&error.to_string()))
}

/// The error of a row that this program cannot have written.
pub(super) fn damaged_row(problem: &str) -> ClassifierError {
    ClassifierError::Damaged { problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{Activation, LabelExamples, Language, LanguageExamples, NeighborWeight};

    fn row(value: Value) -> Metadata {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn json_of_an_earlier_version_is_read() {
        let definition = read_definition(&row(json!({
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
        let report = read_report(&row(json!({
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
