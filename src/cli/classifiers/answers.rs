//! Formats predictions and evaluations of classifiers as text.

use serde_json::{Value, json};

use crate::cli::error::CliError;
use crate::cli::output::{Column, Output, count, format_cell};

/// Formats a share as a percentage; empty for a missing value.
pub fn percent(value: &Value) -> String {
    value.as_f64().map_or_else(String::new, |share| format!("{:.1} %", share * 100.0))
}

/// Writes a prediction: the labels, the probability of the most likely one, and the text; then its neighbors.
pub fn prediction(output: &Output, text: &str, prediction: &Value) -> Result<(), CliError> {
    if output.json {
        let mut object = prediction.clone();
        object["text"] = json!(text);
        return output.object(&object);
    }
    let labels = match prediction["labels"].as_array() {
        _ if prediction["abstained"] == true => "(abstains)".to_owned(),
        Some(labels) if labels.is_empty() => "(none)".to_owned(),
        labels => labels.into_iter().flatten().map(format_cell).collect::<Vec<_>>().join(", "),
    };
    let sure = percent(&prediction["scores"][0]["probability"]);
    output.line(&format!("{labels}\t{sure}\t{}", format_cell(&json!(text))))?;
    for neighbor in prediction["neighbors"].as_array().into_iter().flatten() {
        let labels: Vec<String> = neighbor["labels"].as_array().into_iter().flatten().map(format_cell).collect();
        let score = neighbor["score"].as_f64().unwrap_or_default();
        let (language, text) = (format_cell(&neighbor["language"]), format_cell(&neighbor["text"]));
        output.line(&format!("  {score:.4}\t{language}\t{}\t{text}", labels.join(", ")))?;
    }
    Ok(())
}

/// Writes the quality of a classifier: overall, by label and by language.
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
    output.table(&[&[Column::Text("LANG")], &columns[..]].concat(), languages)
}
