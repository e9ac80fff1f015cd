//! `dragoman eval classification`: the papers' protocol on the server's embeddings, or a comparison of several methods: the
//! server's classifiers, called through its API, and the same network trained locally on the same embeddings.

use std::fmt;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use super::data::{DataArgs, no_data, to_cli_error};
use super::encoder::{ServerEncoder, batches};
use super::scratch::Scratch;
use crate::cli::client::{Call, Client};
use crate::cli::error::CliError;
use crate::domain::Language;
use crate::evaluation::Report;
use crate::evaluation::classification::{Options, measure, read_sets};
use crate::evaluation::comparison::{Comparison, Predictions, RUNS, SEED, Task, VALIDATION_SHARE};

#[derive(Debug, Args)]
pub struct ClassificationArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Training languages, each evaluated separately.
    #[arg(long, value_name = "CODE,…", value_delimiter = ',', default_value = "en", value_parser = Language::from_tag)]
    pub train_language: Vec<Language>,
    /// The split of SIB-200 to test on.
    #[arg(long, default_value = "dev", value_parser = ["dev", "test"])]
    pub sib200_part: String,
    /// Methods to compare, besides the baseline that always predicts the most frequent label. If omitted, follows the papers'
    /// protocol: a network trained locally with early stopping on the dev split, mean of five runs.
    #[arg(long, value_enum, value_name = "KIND,…", value_delimiter = ',')]
    pub kind: Vec<Kind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// The server's classifier: a vote of the nearest labeled texts.
    Knn,
    /// The server's classifier: a network with one hidden layer.
    Mlp,
    /// The same network, trained locally on the server's embeddings with the same settings.
    Offline,
}

/// Comparisons for each data set and training language.
#[derive(Debug, Serialize)]
struct Comparisons {
    comparisons: Vec<NamedComparison>,
}

#[derive(Debug, Serialize)]
struct NamedComparison {
    set: String,
    #[serde(flatten)]
    comparison: Comparison,
}

pub fn run(client: &Client, args: ClassificationArgs) -> Result<(), CliError> {
    if args.kind.is_empty() {
        let options = Options { from: args.train_language, sib200_part: args.sib200_part };
        let classification =
            measure(&args.data.data, &options, &mut ServerEncoder::new(client, &args.data)).map_err(to_cli_error)?;
        if classification.is_none() {
            return Err(no_data(&args.data.data));
        }
        return args.data.write_report(client, &Report { classification, ..Report::default() });
    }
    let mut kinds = args.kind;
    kinds.sort_unstable();
    kinds.dedup();
    let sets = read_sets(&args.data.data, &args.sib200_part).map_err(to_cli_error)?;
    if sets.is_empty() {
        return Err(no_data(&args.data.data));
    }
    // Classifiers use the loaded model.
    args.data.check_model(client)?;
    let mut comparisons = Vec::new();
    for (set, labeled) in &sets {
        for from in &args.train_language {
            let task = Task::new(labeled, *from).map_err(to_cli_error)?;
            let mut comparison = task.comparison().map_err(to_cli_error)?;
            for kind in &kinds {
                let predictions = match kind {
                    Kind::Knn | Kind::Mlp => predict_on_server(client, &task, *kind)?,
                    Kind::Offline => task.predict_locally(&mut ServerEncoder::new(client, &args.data)).map_err(to_cli_error)?,
                };
                comparison.methods.insert(kind.name(), task.evaluate(&predictions).map_err(to_cli_error)?);
            }
            comparisons.push(NamedComparison { set: set.clone(), comparison });
        }
    }
    args.data.write_report(client, &Comparisons { comparisons })
}

impl Kind {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Trains a classifier on the server with the train split, predicts the test splits, and deletes it.
fn predict_on_server(client: &Client, task: &Task<'_>, kind: Kind) -> Result<Predictions, CliError> {
    let from = task.from.code();
    let example = |example: &crate::evaluation::labeled::Example| json!({ "text": example.text, "labels": [example.label], "language": from });
    let mut body = json!({ "kind": kind.name(), "examples": task.train.iter().map(example).collect::<Vec<_>>() });
    if kind == Kind::Mlp {
        body["mlp"] = json!({ "validation_share": VALIDATION_SHARE, "runs": RUNS, "seed": SEED });
    }
    let classifier = Scratch::classifier(client, &kind.name(), body)?;
    let mut predictions = Predictions::new();
    for (language, test) in &task.tests {
        let texts: Vec<String> = test.iter().map(|example| example.text.clone()).collect();
        let mut predicted = Vec::with_capacity(texts.len());
        for numbers in batches(&texts) {
            let count = numbers.len();
            let body = json!({ "texts": texts[numbers], "scores": 0 });
            let call = Call::post(&["classifiers", &classifier.name, "predict"]).repeatable();
            let predictions = client.rows(&call.json(body), "predictions", count, "one prediction per text")?;
            for prediction in &predictions {
                predicted.push(label(prediction).map(|label| task.class(label)).transpose().map_err(to_cli_error)?);
            }
        }
        predictions.insert(*language, predicted);
    }
    Ok(predictions)
}

/// Returns the predicted label, or `None` if the classifier abstained.
fn label(prediction: &Value) -> Option<&str> {
    prediction["labels"].get(0)?.as_str()
}

impl fmt::Display for Comparisons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, NamedComparison { set, comparison }) in self.comparisons.iter().enumerate() {
            let apart = if number > 0 { "\n" } else { "" };
            write!(f, "{apart}{set}, {comparison}")?;
        }
        Ok(())
    }
}
