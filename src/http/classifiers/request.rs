//! The request to create a classifier, and its validation.

use serde::Deserialize;
use utoipa::ToSchema;

use super::check_threshold;
use super::labels::{self, LabelInput, LabeledDocumentsInput, LabeledTextInput};
use crate::domain::json::singles;
use crate::domain::{ClassifierDefinition, ClassifierKind, ClassifierName, KnnSettings, Limits, MlpSettings, NewClassifier};
use crate::http::error::{ApiError, Checks, invalid};
use crate::http::request::values::{check_description, check_integer, check_number, check_parsed};
use crate::service::json::{some_object, some_objects};

/// A classifier to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateClassifierRequest {
    /// The name: 1 to 64 ASCII letters, digits, `-`, `_` and `.`, beginning with a letter or digit.
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// How it decides.
    pub kind: ClassifierKind,
    /// A description of what it is for; at most 4096 bytes.
    #[schema(max_length = 4096)]
    pub description: Option<String>,
    /// Whether a text has any number of labels instead of exactly one. Not for `prototype`.
    #[serde(default)]
    #[schema(default = false)]
    pub multi_label: bool,
    /// Below this probability the classifier abstains, from 0 to 1; 0 by default. With `multi_label`, labels of at least this
    /// probability are returned; 0.5 by default.
    #[schema(minimum = 0, maximum = 1)]
    #[serde(default, deserialize_with = "singles")]
    pub threshold: Option<f32>,
    /// Learns from labeled documents. A `knn` classifier reads them for every prediction, so new labels take effect at once;
    /// the others learn the labels that exist at training time. Excludes `examples`.
    #[serde(default, deserialize_with = "some_object")]
    pub source: Option<LabeledDocumentsInput>,
    /// Learns from these texts, at most 10000. Excludes `source`. A `prototype` does not learn from them; they only calibrate
    /// its probabilities.
    #[serde(default, deserialize_with = "some_objects")]
    #[schema(max_items = 10000)]
    pub examples: Option<Vec<LabeledTextInput>>,
    /// The labels of a `prototype`, at least two.
    #[serde(default, deserialize_with = "some_objects")]
    #[schema(max_items = 1000)]
    pub labels: Option<Vec<LabelInput>>,
    /// Settings of a `knn`.
    #[serde(default, deserialize_with = "some_object")]
    pub knn: Option<KnnSettings>,
    /// Settings of an `mlp`.
    #[serde(default, deserialize_with = "some_object")]
    pub mlp: Option<MlpSettings>,
}

/// Validates the request alone, without stored data.
pub fn check(body: CreateClassifierRequest, limits: &Limits) -> Result<NewClassifier, ApiError> {
    let mut checks = Checks::default();
    let name = checks.add(check_parsed("/name", ClassifierName::parse(&body.name)));
    checks.add(check_description(body.description.as_deref()));
    let mut refuse = |pointer: &str, detail: String| checks.add::<()>(invalid(pointer, detail));
    let kind = body.kind;
    let is_prototype = kind == ClassifierKind::Prototype;
    if body.multi_label && is_prototype {
        refuse("/multi_label", "must be false for kind prototype, which predicts a single label".to_owned());
    }
    match (&body.source, &body.examples) {
        (Some(_), Some(_)) => drop(refuse("/examples", "must be left out with source: give one of them".to_owned())),
        (None, None) if !is_prototype => {
            refuse("", format!("a classifier of kind {} needs source or examples", kind.name()));
        }
        _ => (),
    }
    for (pointer, given, wanted) in [
        ("/labels", body.labels.is_some(), ClassifierKind::Prototype),
        ("/knn", body.knn.is_some(), ClassifierKind::Knn),
        ("/mlp", body.mlp.is_some(), ClassifierKind::Mlp),
    ] {
        if given && kind != wanted {
            refuse(pointer, format!("works with kind {} only, must be left out for kind {}", wanted.name(), kind.name()));
        }
    }
    if is_prototype && body.labels.is_none() {
        refuse("", "a classifier of kind prototype needs labels".to_owned());
    }
    let threshold = checks.add_or_default(check_threshold(body.threshold));
    let source = body.source.map(|source| labels::parse_labeled_documents(source, "/source", limits));
    let source = checks.add_or_default(source.transpose());
    let knn = checks.add_or_default(check_knn(body.knn.unwrap_or_default()));
    let mlp = checks.add_or_default(check_mlp(body.mlp.unwrap_or_default()));
    let examples = body.examples.map(|examples| labels::parse_examples(examples, body.multi_label, limits));
    let examples = checks.add_or_default(examples.transpose()).unwrap_or_default();
    let labels = body.labels.map(|labels| labels::parse_described_labels(labels, limits));
    let labels = checks.add_or_default(labels.transpose()).unwrap_or_default();
    let name = checks.end_with(name)?;
    let (description, multi_label) = (body.description, body.multi_label);
    let definition = ClassifierDefinition { kind, description, multi_label, threshold, source, knn, mlp };
    Ok(NewClassifier { name, definition, examples, labels })
}

fn check_knn(options: KnnSettings) -> Result<KnnSettings, ApiError> {
    check_integer("/knn/neighbors", options.neighbors, 1..=1_000)?;
    if let Some(got) = options.temperature
        && !(got > 0.0 && got <= 100.0)
    {
        return invalid("/knn/temperature", format!("must be a number above 0 and at most 100, got {got}"));
    }
    check_number("/knn/score_min", options.score_min, -1.0..=1.0)?;
    Ok(options)
}

fn check_mlp(options: MlpSettings) -> Result<MlpSettings, ApiError> {
    options.hidden.map(|got| check_integer("/mlp/hidden", got, 1..=4_096)).transpose()?;
    check_integer("/mlp/batch", options.batch, 1..=4_096)?;
    check_integer("/mlp/epochs_max", options.epochs_max, 1..=10_000)?;
    if options.patience == 0 {
        return invalid("/mlp/patience", "must be an integer at least 1, got 0");
    }
    check_integer("/mlp/runs", options.runs, 1..=100)?;
    if !(0.0..1.0).contains(&options.dropout) {
        return invalid("/mlp/dropout", format!("must be a number from 0 to below 1, got {}", options.dropout));
    }
    if !(options.learning_rate > 0.0 && options.learning_rate <= 1.0) {
        return invalid("/mlp/learning_rate", format!("must be a number above 0 and at most 1, got {}", options.learning_rate));
    }
    check_number("/mlp/validation_share", options.validation_share, 0.0..=0.9)?;
    Ok(options)
}
