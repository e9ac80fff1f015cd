//! Reads the JSON that is stored of a classifier, written by this version or an earlier one: its definition and its training
//! report in the catalog, and the result of an evaluation job in a file, which has the JSON that the API shows.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::ClassifierError;
use crate::domain::{ClassifierDefinition, Evaluation, Metadata, TrainingReport};

/// Reads a definition. Earlier versions had a boolean `relu` in place of `activation`.
pub(super) fn read_definition(row: &Metadata) -> Result<ClassifierDefinition, ClassifierError> {
    let mut row = row.clone();
    if let Some(mlp) = row.get_mut("mlp").and_then(Value::as_object_mut)
        && let Some(Value::Bool(relu)) = mlp.remove("relu")
    {
        let activation = if relu { "relu" } else { "tanh" };
        mlp.insert("activation".to_owned(), activation.into());
    }
    from_object(row)
}

/// Reads a training report. Earlier versions wrote arrays in place of small objects, and no `trained_in`.
pub(super) fn read_report(row: &Metadata) -> Result<TrainingReport, ClassifierError> {
    let report: TrainingReport = from_object(row.clone())?;
    Ok(TrainingReport { trained_in: report.language_of_training(), ..report })
}

fn from_object<T: DeserializeOwned>(row: Metadata) -> Result<T, ClassifierError> {
    T::deserialize(Value::Object(row)).map_err(|error| damaged_row(&error.to_string()))
}

/// The error for a row that this program cannot have written.
pub(super) fn damaged_row(problem: &str) -> ClassifierError {
    ClassifierError::Damaged { problem: problem.to_owned() }
}

/// Reads an evaluation.
pub(super) fn read_evaluation(text: &[u8]) -> Result<Evaluation, ClassifierError> {
    let broken = |_| damaged_row("an evaluation cannot be read");
    let mut evaluation: Value = serde_json::from_slice(text).map_err(broken)?;
    read_earlier(&mut evaluation);
    serde_json::from_value(evaluation).map_err(broken)
}

/// Converts the JSON of earlier versions to today's form. They wrote `micro` as an array of three, and no `gap`. They also
/// wrote arrays in place of small objects, but serde reads both.
fn read_earlier(evaluation: &mut Value) {
    evaluation.get_mut("all").into_iter().for_each(split_micro);
    let languages = evaluation.get_mut("languages").and_then(Value::as_array_mut);
    languages.into_iter().flatten().filter_map(|language| language.get_mut(1)).for_each(split_micro);
    let Some(transfer) = evaluation.get_mut("transfer").and_then(Value::as_object_mut) else { return };
    let share = |name: &str| transfer.get(name).and_then(Value::as_f64);
    if let (Some(own), Some(mean), None) = (share("own"), share("mean"), share("gap")) {
        transfer.insert("gap".to_owned(), json!(own - mean));
    }
}

fn split_micro(scores: &mut Value) {
    let Some(scores) = scores.as_object_mut() else { return };
    if let Some(Value::Array(micro)) = scores.remove("micro") {
        let names = ["micro_precision", "micro_recall", "micro_f1"];
        scores.extend(names.into_iter().map(str::to_owned).zip(micro));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Activation, LabelExamples, Language, LanguageExamples, NeighborWeight};
    use crate::service::jobs::stored;

    fn row(value: Value) -> Metadata {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_definition_and_a_report_of_an_earlier_version_are_read() {
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
        assert_eq!(read_definition(&stored::write(&definition)).unwrap(), definition);
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
        assert_eq!(read_report(&stored::write(&report)).unwrap(), report);
    }

    /// An evaluation as this version writes it.
    fn evaluation() -> Value {
        let scores = |accuracy: f64| json!({"examples": 4, "abstained": 1, "accuracy": accuracy, "macro_f1": 0.25});
        let with_micro = |accuracy: f64, [precision, recall, f1]: [f64; 3]| {
            let mut scores = scores(accuracy);
            (scores["micro_precision"], scores["micro_recall"], scores["micro_f1"]) =
                (json!(precision), json!(recall), json!(f1));
            scores
        };
        json!({
            "all": with_micro(0.5, [0.5, 0.25, 0.75]),
            "majority": {"label": "погода", "accuracy": 0.5},
            "labels": [{"label": "погода", "precision": 1.0, "recall": 0.5, "f1": 0.625, "support": 2, "answered": 1}],
            "confusion": [{"expected": "a", "count": 1}],
            "languages": [{"language": "ja", "scores": with_micro(0.75, [1.0, 0.5, 0.625])}, {"scores": scores(0.0)}],
            "transfer": {"from": "en", "own": 0.75, "mean": 0.5, "gap": 0.25, "gaps": [{"language": "ja", "gap": 0.25}]},
            "calibration": {"expected_error": 0.125, "bins": [{"examples": 4, "confidence": 0.5, "accuracy": 0.25}]},
        })
    }

    fn check_evaluation(stored: &Value, expect: &Value) {
        assert_eq!(json!(read_evaluation(stored.to_string().as_bytes()).unwrap()), *expect);
    }

    #[test]
    fn an_evaluation_round_trips() {
        check_evaluation(&evaluation(), &evaluation());
        let mut bare = evaluation();
        bare.as_object_mut().unwrap().retain(|name, _| ["all", "labels", "languages"].contains(&name.as_str()));
        check_evaluation(&bare, &bare);
        assert!(read_evaluation(b"{}").is_err());
    }

    #[test]
    fn an_evaluation_of_an_earlier_version_is_read() {
        let scores = |accuracy: f64, micro: Value| json!({"examples": 4, "abstained": 1, "accuracy": accuracy, "macro_f1": 0.25, "micro": micro});
        let earlier = json!({
            "all": scores(0.5, json!([0.5, 0.25, 0.75])),
            "majority": ["погода", 0.5],
            "labels": [{"label": "погода", "precision": 1.0, "recall": 0.5, "f1": 0.625, "support": 2, "answered": 1}],
            "confusion": [["a", null, 1]],
            "languages": [["ja", scores(0.75, json!([1.0, 0.5, 0.625]))], [null, scores(0.0, Value::Null)]],
            "transfer": {"from": "en", "own": 0.75, "mean": 0.5, "gaps": [["ja", 0.25]]},
            "calibration": [0.125, [[4, 0.5, 0.25]]],
        });
        check_evaluation(&earlier, &evaluation());
    }
}
