//! Formats predictions and evaluations of classifiers as text.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::cli::display::one_line;
use crate::cli::error::CliError;
use crate::cli::output::{Column, Output, count, format_cell, list_cell, score_cell};

/// The columns of a confusion matrix. A matrix of more labels is too wide for a terminal.
const NUMBERS: [&str; 12] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"];

/// Formats a share as a percentage; empty for a missing value.
pub fn percent(value: &Value) -> String {
    value.as_f64().map_or_else(String::new, |share| format!("{:.1}%", share * 100.0))
}

/// Writes a prediction: the labels, the probability of the most likely one, and the text; then its neighbors.
pub fn prediction(output: &Output, text: &str, mut prediction: Value) -> Result<(), CliError> {
    if output.json {
        prediction["text"] = json!(text);
        return output.object(&prediction);
    }
    let labels = match &prediction["labels"] {
        _ if prediction["abstained"] == true => "(abstains)".to_owned(),
        labels if *labels == json!([]) => "(none)".to_owned(),
        labels => list_cell(labels),
    };
    let sure = percent(&prediction["scores"][0]["probability"]);
    output.line(&format!("{labels}\t{sure}\t{}", one_line(text)))?;
    for neighbor in prediction["neighbors"].as_array().into_iter().flatten() {
        let (score, labels) = (score_cell(&neighbor["score"]), list_cell(&neighbor["labels"]));
        let (language, text) = (format_cell(&neighbor["language"]), format_cell(&neighbor["text"]));
        output.line(&format!("  {score}\t{language}\t{labels}\t{text}"))?;
    }
    Ok(())
}

/// Writes the quality of a classifier: overall, by label and by language, and its confusion matrix if that is small.
pub fn evaluation(output: &Output, evaluation: &Value) -> Result<(), CliError> {
    let all = &evaluation["all"];
    let members = [
        ("examples", count(&all["examples"])),
        ("abstained", count(&all["abstained"])),
        ("accuracy", percent(&all["accuracy"])),
        ("macro F1", percent(&all["macro_f1"])),
        ("micro F1", percent(&all["micro_f1"])),
        ("majority label", percent(&evaluation["majority"]["accuracy"])),
        ("calibration error", percent(&evaluation["calibration"]["expected_error"])),
        ("trained in", format_cell(&evaluation["transfer"]["from"])),
        ("there", percent(&evaluation["transfer"]["own"])),
        ("other languages", percent(&evaluation["transfer"]["mean"])),
    ];
    let known = members.into_iter().filter(|(_, value)| !value.is_empty());
    output.members(known.map(|(name, value)| (name.to_owned(), value)))?;
    output.line("")?;
    let labels = evaluation["labels"].as_array().into_iter().flatten().map(|label| {
        vec![
            format_cell(&label["label"]),
            percent(&label["precision"]),
            percent(&label["recall"]),
            percent(&label["f1"]),
            count(&label["support"]),
        ]
    });
    let columns = ["PRECISION", "RECALL", "F1", "EXAMPLES"].map(Column::Number);
    output.table(&[&[Column::Text("LABEL")], &columns[..]].concat(), labels)?;
    output.line("")?;
    let languages = evaluation["languages"].as_array().into_iter().flatten().map(|language| {
        let scores = &language["scores"];
        let code = language["language"].as_str().unwrap_or("none").to_owned();
        vec![code, percent(&scores["accuracy"]), percent(&scores["macro_f1"]), count(&scores["examples"])]
    });
    let columns = ["ACCURACY", "MACRO F1", "EXAMPLES"].map(Column::Number);
    output.table(&[&[Column::Text("LANG")], &columns[..]].concat(), languages)?;
    if evaluation["confusion"].as_array().is_none_or(Vec::is_empty) {
        return Ok(());
    }
    output.line("")?;
    match confusion_matrix(evaluation) {
        Some((columns, rows)) => {
            output.line("Confusion matrix: a row for each true label, a column for each predicted one.")?;
            output.table(&columns, rows)
        }
        None => output.line("The confusion matrix has too many labels to print; --json writes it."),
    }
}

/// Lays out the confusion matrix, with the numbers of the labels as columns, and a column for abstentions if there are any.
/// Returns `None` if there are too many labels.
fn confusion_matrix(evaluation: &Value) -> Option<(Vec<Column>, Vec<Vec<String>>)> {
    let labels: Vec<&str> = evaluation["labels"].as_array()?.iter().filter_map(|label| label["label"].as_str()).collect();
    let numbers = NUMBERS.get(..labels.len())?;
    let cell = |cell: &Value| {
        Some(((cell["expected"].as_str()?.to_owned(), cell["answered"].as_str().map(str::to_owned)), count(&cell["count"])))
    };
    let cells: HashMap<(String, Option<String>), String> = evaluation["confusion"].as_array()?.iter().filter_map(cell).collect();
    let abstains = cells.keys().any(|(_, answered)| answered.is_none());
    let answers = || labels.iter().copied().map(Some).chain(abstains.then_some(None));
    let row = |(number, expected): (&&str, &&str)| -> Vec<String> {
        let counted = answers().map(|answered| {
            let key = ((*expected).to_owned(), answered.map(str::to_owned));
            cells.get(&key).cloned().unwrap_or_else(|| "0".to_owned())
        });
        [format!("{number} {}", one_line(expected))].into_iter().chain(counted).collect()
    };
    let rows: Vec<Vec<String>> = numbers.iter().zip(&labels).map(row).collect();
    let columns = numbers.iter().copied().chain(abstains.then_some("NONE")).map(Column::Number);
    Some(([Column::Text("LABEL")].into_iter().chain(columns).collect(), rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluation(labels: usize) -> Value {
        let labels: Vec<Value> = (0..labels).map(|number| json!({"label": format!("label {number}")})).collect();
        json!({"labels": labels, "confusion": [
            {"expected": "label 0", "answered": "label 0", "count": 1200},
            {"expected": "label 0", "answered": "label 1", "count": 2},
            {"expected": "label 1", "count": 3},
        ]})
    }

    #[test]
    fn a_confusion_matrix_has_a_row_per_true_label_and_a_column_per_predicted_one() {
        let (columns, rows) = confusion_matrix(&evaluation(2)).unwrap();
        assert_eq!(rows, [["1 label 0", "1,200", "2", "0"], ["2 label 1", "0", "0", "3"]]);
        let names = columns.iter().map(|column| match column {
            Column::Text(name) | Column::Number(name) => *name,
        });
        assert_eq!(names.collect::<Vec<_>>(), ["LABEL", "1", "2", "NONE"]);
        let mut certain = evaluation(2);
        certain["confusion"].as_array_mut().unwrap().pop();
        assert_eq!(confusion_matrix(&certain).unwrap().1, [["1 label 0", "1,200", "2"], ["2 label 1", "0", "0"]]);
    }

    #[test]
    fn a_confusion_matrix_of_many_labels_is_not_laid_out() {
        assert!(confusion_matrix(&evaluation(12)).is_some());
        assert!(confusion_matrix(&evaluation(13)).is_none());
    }
}
