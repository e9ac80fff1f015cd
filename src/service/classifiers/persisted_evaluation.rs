//! Reads and writes the file with the result of an evaluation job: the JSON that the API shows.

use serde_json::{Value, json};

use super::definition::damaged_row;
use super::error::ClassifierError;
use crate::domain::Evaluation;

pub(super) fn write(evaluation: &Evaluation) -> Result<Vec<u8>, ClassifierError> {
    serde_json::to_vec(evaluation).map_err(|_| damaged_row("an evaluation cannot be written"))
}

/// Reads what `write` wrote, in this version or an earlier one.
pub(super) fn read(text: &[u8]) -> Result<Evaluation, ClassifierError> {
    let broken = |_| damaged_row("an evaluation cannot be read");
    let mut kept: Value = serde_json::from_slice(text).map_err(broken)?;
    read_earlier(&mut kept);
    serde_json::from_value(kept).map_err(broken)
}

/// Converts the JSON of earlier versions to today's form. They wrote `micro` as an array of three, and no `gap`. They also
/// wrote arrays in place of small objects, but serde reads both.
fn read_earlier(kept: &mut Value) {
    kept.get_mut("all").into_iter().for_each(split_micro);
    let languages = kept.get_mut("languages").and_then(Value::as_array_mut);
    languages.into_iter().flatten().filter_map(|language| language.get_mut(1)).for_each(split_micro);
    let Some(transfer) = kept.get_mut("transfer").and_then(Value::as_object_mut) else { return };
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
    use crate::domain::{
        Calibration, CalibrationBin, ConfusionCell, EvaluationScores, LabelEvaluation, Language, LanguageEvaluation, LanguageGap,
        MajorityLabel, TransferGap,
    };

    fn scores(accuracy: f64, micro: Option<(f64, f64, f64)>) -> EvaluationScores {
        EvaluationScores {
            examples: 4,
            abstained: 1,
            accuracy,
            macro_f1: 0.25,
            micro_precision: micro.map(|(precision, _, _)| precision),
            micro_recall: micro.map(|(_, recall, _)| recall),
            micro_f1: micro.map(|(_, _, f1)| f1),
        }
    }

    fn evaluation() -> Evaluation {
        let [english, japanese] = ["en", "ja"].map(|code| Language::parse(code).unwrap());
        Evaluation {
            all: scores(0.5, Some((0.5, 0.25, 0.75))),
            majority: Some(MajorityLabel { label: "погода".to_owned(), accuracy: 0.5 }),
            labels: vec![LabelEvaluation {
                label: "погода".to_owned(),
                precision: 1.0,
                recall: 0.5,
                f1: 0.625,
                support: 2,
                answered: 1,
            }],
            confusion: vec![ConfusionCell { expected: "a".to_owned(), answered: None, count: 1 }],
            languages: vec![
                LanguageEvaluation { language: Some(japanese), scores: scores(0.75, Some((1.0, 0.5, 0.625))) },
                LanguageEvaluation { language: None, scores: scores(0.0, None) },
            ],
            transfer: Some(TransferGap {
                from: english,
                own: 0.75,
                mean: 0.5,
                gap: 0.25,
                gaps: vec![LanguageGap { language: japanese, gap: 0.25 }],
            }),
            calibration: Some(Calibration {
                expected_error: 0.125,
                bins: vec![CalibrationBin { examples: 4, confidence: 0.5, accuracy: 0.25 }],
            }),
        }
    }

    #[test]
    fn an_evaluation_round_trips() {
        let evaluation = evaluation();
        assert_eq!(read(&write(&evaluation).unwrap()).unwrap(), evaluation);
        let bare = Evaluation { majority: None, confusion: Vec::new(), transfer: None, calibration: None, ..evaluation };
        assert_eq!(read(&write(&bare).unwrap()).unwrap(), bare);
        assert!(read(b"{}").is_err());
    }

    #[test]
    fn json_of_an_earlier_version_is_read() {
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
        assert_eq!(read(earlier.to_string().as_bytes()).unwrap(), evaluation());
    }
}
