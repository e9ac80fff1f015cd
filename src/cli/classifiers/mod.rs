//! `dragoman classifiers`: trains, lists, shows, evaluates, applies and deletes classifiers, and predicts labels.

mod answers;
mod examples;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::client::{Call, Client};
use super::confirm::ConfirmArgs;
use super::error::{CliError, Outcome};
use super::files::{Input, answer_each, is_blank, texts_or_lines};
use super::jobs;
use super::listing::{self, ListColumn};
use super::output::{Column, Output, count, format_cell, time};
use super::request_body::{any_whole_number, finite_number, json_filter, json_object, request_members};
use crate::domain::{ClassifierKind, ClassifierName, CollectionName};
use examples::ExampleLines;

const TEXTS_PER_REQUEST: usize = 256;

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Lists all classifiers.
    List,
    /// Shows a classifier in full.
    Show {
        /// Name of the classifier.
        classifier: ClassifierName,
    },
    /// Creates a classifier and waits until it is trained.
    Train(Box<TrainArgs>),
    /// Retrains a classifier on the current labels and waits; until then, it predicts as before.
    Retrain {
        /// Name of the classifier.
        classifier: ClassifierName,
        /// Prints the job without waiting for it to finish.
        #[arg(long)]
        detach: bool,
    },
    /// Predicts the labels of texts, given as arguments or one per line on standard input.
    Predict(PredictArgs),
    /// Evaluates a classifier with labeled documents (as a job) or labeled texts.
    Evaluate(EvaluateArgs),
    /// Writes predicted labels into the documents of a collection, as a job.
    Apply(ApplyArgs),
    /// Deletes a classifier.
    Delete {
        /// Name of the classifier.
        classifier: ClassifierName,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

/// Labeled documents, or a file of labeled texts.
#[derive(Debug, Args)]
pub struct LabeledArgs {
    /// Collection with the labeled documents.
    #[arg(long, short, value_name = "NAME", requires = "field")]
    pub collection: Option<CollectionName>,
    /// Metadata path of the labels.
    #[arg(long, value_name = "FIELD", requires = "collection")]
    pub field: Option<String>,
    /// Uses only documents that match this filter, such as {"field": "split", "eq": "train"}.
    #[arg(long, short, value_name = "JSON", value_parser = json_filter, requires = "collection")]
    pub filter: Option<Map<String, Value>>,
    /// File of labeled texts instead of documents, one per line: LABEL, tab, TEXT, or JSON as in the API; - for standard input.
    #[arg(long, short, value_name = "FILE", conflicts_with = "collection")]
    pub examples: Option<PathBuf>,
}

#[derive(Debug, Args, Serialize)]
pub struct TrainArgs {
    /// Name of the classifier.
    #[serde(rename = "name")]
    pub classifier: ClassifierName,
    /// Kind of classifier.
    #[arg(long, short, value_enum)]
    pub kind: ClassifierKind,
    #[command(flatten)]
    #[serde(skip)]
    pub labeled: LabeledArgs,
    /// A label of a prototype classifier with a description, such as "sports=matches, goals and players"; repeat the option for
    /// more labels or descriptions.
    #[arg(long, short, value_name = "LABEL[=TEXT]")]
    #[serde(skip)]
    pub label: Vec<String>,
    /// Allows any number of labels per text.
    #[arg(long)]
    pub multi_label: bool,
    /// Makes no prediction below this probability.
    #[arg(long, value_name = "PROBABILITY", value_parser = finite_number)]
    pub threshold: Option<f64>,
    /// Description of the classifier.
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Additional members of the request body, as in the API documentation, such as {"mlp": {"runs": 1}}.
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    #[serde(skip)]
    pub settings: Option<Map<String, Value>>,
    /// Prints the classifier without waiting for training to finish.
    #[arg(long)]
    #[serde(skip)]
    pub detach: bool,
}

#[derive(Debug, Args, Serialize)]
pub struct ClassifierArgs {
    /// Name of the classifier.
    #[serde(skip)]
    pub classifier: ClassifierName,
    /// Makes no prediction below this probability.
    #[arg(long, value_name = "PROBABILITY", value_parser = finite_number)]
    pub threshold: Option<f64>,
}

#[derive(Debug, Args, Serialize)]
pub struct PredictArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub target: ClassifierArgs,
    /// The texts; if omitted, reads one text per line from standard input.
    #[serde(skip)]
    pub texts: Vec<String>,
    /// Number of nearest labeled passages to show for each text.
    #[arg(long, value_name = "COUNT", value_parser = any_whole_number::<u64>)]
    pub explain: Option<u64>,
}

#[derive(Debug, Args)]
pub struct EvaluateArgs {
    #[command(flatten)]
    pub target: ClassifierArgs,
    #[command(flatten)]
    pub labeled: LabeledArgs,
}

#[derive(Debug, Args, Serialize)]
pub struct ApplyArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub target: ClassifierArgs,
    /// Name of the collection.
    pub collection: CollectionName,
    /// Metadata path to write the label to.
    #[arg(long, value_name = "FIELD")]
    pub field: String,
    /// Metadata path to write the probability of the label to.
    #[arg(long, value_name = "FIELD")]
    pub probability_field: Option<String>,
    /// Labels only documents that match this filter.
    #[arg(long, short, value_name = "JSON", value_parser = json_filter)]
    pub filter: Option<Map<String, Value>>,
    /// Prints the job without waiting for it to finish.
    #[arg(long)]
    #[serde(skip)]
    pub detach: bool,
}

pub fn run(action: Action, client: &Client) -> Result<Outcome, CliError> {
    match action {
        Action::List => list(client)?,
        Action::Show { classifier } => return jobs::show(&client.output, &get(client, classifier.as_str())?),
        Action::Train(args) => return train(client, *args),
        Action::Retrain { classifier, detach } => return retrain(client, classifier.as_str(), detach),
        Action::Predict(args) => predict(client, args)?,
        Action::Evaluate(args) => return evaluate(client, args),
        Action::Apply(args) => return apply(client, &args),
        Action::Delete { classifier, confirm } => {
            confirm.delete(client, &["classifiers", classifier.as_str()], &format!("classifier {classifier}"))?;
        }
    }
    Ok(Outcome::Done)
}

fn get(client: &Client, name: &str) -> Result<Value, CliError> {
    client.send(&Call::get(&["classifiers", name]))
}

fn list(client: &Client) -> Result<(), CliError> {
    let length = |labels: &Value| labels.as_array().map_or_else(String::new, |labels| labels.len().to_string());
    let columns: [ListColumn; 7] = [
        (Column::Text("NAME"), "/name", format_cell),
        (Column::Text("KIND"), "/kind", format_cell),
        (Column::Text("STATE"), "/state", format_cell),
        (Column::Number("LABELS"), "/training/labels", length),
        (Column::Number("EXAMPLES"), "/training/examples", count),
        (Column::Number("QUALITY"), "/training/validation_quality", answers::percent),
        (Column::Text("CREATED"), "/created_at", time),
    ];
    listing::list(client, &Call::get(&["classifiers"]), "classifiers", &columns)
}

/// Returns the request members for the labeled data, and the lines of its file. `documents` is the request's name for labeled
/// documents.
fn labeled_members(args: LabeledArgs, documents: &str, output: &Output) -> Result<(Map<String, Value>, ExampleLines), CliError> {
    let (mut members, mut lines) = (Map::new(), ExampleLines::default());
    if args.collection.is_some() {
        let source = request_members(&json!({"collection": args.collection, "field": args.field, "filter": args.filter}));
        members.insert(documents.to_owned(), source.into());
    }
    if let Some(path) = args.examples {
        let (texts, read) = examples::read(Input::open(Some(&path), output)?)?;
        members.insert("examples".to_owned(), texts.into());
        lines = read;
    }
    Ok((members, lines))
}

fn train(client: &Client, args: TrainArgs) -> Result<Outcome, CliError> {
    let name = args.classifier.as_str().to_owned();
    let given = request_members(&args);
    let mut body = args.settings.unwrap_or_default();
    let (labeled, lines) = labeled_members(args.labeled, "source", &client.output)?;
    body.extend(labeled);
    body.extend(given);
    body.extend((!args.label.is_empty()).then(|| ("labels".to_owned(), examples::group_descriptions(&args.label))));
    let call = Call::post(&["classifiers"]).json(body);
    let made = client.send(&call).map_err(|error| lines.located(error))?;
    if args.detach {
        return jobs::show(&client.output, &made);
    }
    let job = jobs::get(client, &format_cell(&made["job"]))?;
    wait_for_training(client, &name, job)
}

/// Waits for training to finish and shows the classifier.
fn wait_for_training(client: &Client, name: &str, job: Value) -> Result<Outcome, CliError> {
    jobs::wait(client, job)?;
    jobs::show(&client.output, &get(client, name)?)
}

fn retrain(client: &Client, name: &str, detach: bool) -> Result<Outcome, CliError> {
    let job = client.send(&Call::post(&["classifiers", name, "train"]))?;
    if detach {
        return jobs::show(&client.output, &job);
    }
    wait_for_training(client, name, job)
}

fn predict(client: &Client, mut args: PredictArgs) -> Result<(), CliError> {
    let texts = texts_or_lines(std::mem::take(&mut args.texts), None, &client.output)?;
    let ask = |texts: &[&String]| {
        let mut body = Map::from_iter([("texts".to_owned(), json!(texts))]);
        body.extend(request_members(&args));
        let call = Call::post(&["classifiers", args.target.classifier.as_str(), "predict"]).repeatable();
        client.rows(&call.json(body), "predictions", texts.len(), "one prediction per text")
    };
    let show = |text: &String, prediction| answers::prediction(&client.output, text, prediction);
    answer_each(texts, TEXTS_PER_REQUEST, |text| is_blank(text), ask, show)
}

fn evaluate(client: &Client, args: EvaluateArgs) -> Result<Outcome, CliError> {
    let name = args.target.classifier.as_str();
    let as_job = args.labeled.collection.is_some();
    let (mut body, lines) = labeled_members(args.labeled, "documents", &client.output)?;
    body.extend(request_members(&args.target));
    let evaluation = if as_job {
        let call = Call::post(&["classifiers", name, "evaluations"]).json(body);
        let job = jobs::wait(client, client.send(&call)?)?;
        client.send(&Call::get(&["jobs", &format_cell(&job["id"]), "evaluation"]))?
    } else {
        let call = Call::post(&["classifiers", name, "evaluate"]).repeatable();
        client.send(&call.json(body)).map_err(|error| lines.located(error))?
    };
    if client.output.json {
        client.output.object(&evaluation)?;
    } else {
        answers::evaluation(&client.output, &evaluation)?;
    }
    Ok(Outcome::Done)
}

fn apply(client: &Client, args: &ApplyArgs) -> Result<Outcome, CliError> {
    let call = Call::post(&["classifiers", args.target.classifier.as_str(), "apply"]);
    let job = client.send(&call.json(request_members(&args)))?;
    if !args.detach {
        client.output.note(&format!("job {} writes the labels; it continues if you stop this command", format_cell(&job["id"])));
    }
    jobs::follow(client, job, args.detach)
}
