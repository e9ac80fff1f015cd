//! The request to create a classifier, and its validation.

use serde::Deserialize;
use utoipa::ToSchema;

use super::check_probability;
use super::labels::{self, LabelInput, LabeledDocumentsInput, LabeledTextInput};
use crate::domain::singles::singles;
use crate::domain::{
    ClassifierDefinition, ClassifierKind, ClassifierName, Code, KnnSettings, Limits, MlpSettings, NewClassifier,
};
use crate::http::error::{ApiError, Checks, invalid};
use crate::service::json::{some_object, some_objects};

/// Maximum length of a description, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 4096;

/// A classifier to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateClassifierRequest {
    /// The name: 1 to 64 ASCII letters, digits, `-`, `_` and `.`, beginning with a letter or digit.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
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
    let invalid = |pointer: &str, detail: String| ApiError::at(Code::InvalidRequest, pointer, detail);
    let mut checks = Checks::default();
    let name = checks.add(ClassifierName::parse(&body.name).map_err(|error| invalid("/name", error.to_string())));
    let mut refuse = |pointer: &str, detail: String| checks.add::<()>(Err(invalid(pointer, detail)));
    let bytes = body.description.as_ref().map_or(0, String::len);
    if bytes > DESCRIPTION_BYTES_MAX {
        refuse("/description", format!("must have at most {DESCRIPTION_BYTES_MAX} bytes, got {bytes}"));
    }
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
    let threshold = checks.add(check_probability("/threshold", body.threshold));
    let source = checks.add(body.source.map(|source| labels::parse_labeled_documents(source, "/source", limits)).transpose());
    let (knn, mlp) = (checks.add(check_knn(body.knn.unwrap_or_default())), checks.add(check_mlp(body.mlp.unwrap_or_default())));
    let examples = body.examples.map(|examples| labels::parse_labeled_texts(examples, "/examples", body.multi_label, limits));
    let examples = checks.add(examples.transpose());
    let labels = checks.add(body.labels.map(|labels| labels::parse_described_labels(labels, limits)).transpose());
    let (Some(name), Some(threshold), Some(source), Some(knn), Some(mlp)) = (name, threshold, source, knn, mlp) else {
        return Err(checks.refusal());
    };
    checks.end()?;
    let (examples, labels) = (examples.flatten().unwrap_or_default(), labels.flatten().unwrap_or_default());
    let (description, multi_label) = (body.description, body.multi_label);
    let definition = ClassifierDefinition { kind, description, multi_label, threshold, source, knn, mlp };
    Ok(NewClassifier { name, definition, examples, labels })
}

fn check_knn(options: KnnSettings) -> Result<KnnSettings, ApiError> {
    let invalid = |member: &str, detail: String| invalid(format!("/knn/{member}"), detail);
    if !(1..=1_000).contains(&options.neighbors) {
        return invalid("neighbors", format!("must be an integer from 1 to 1000, got {}", options.neighbors));
    }
    if let Some(got) = options.temperature
        && !(got > 0.0 && got <= 100.0)
    {
        return invalid("temperature", format!("must be a number above 0 and at most 100, got {got}"));
    }
    if !(-1.0..=1.0).contains(&options.score_min) {
        return invalid("score_min", format!("must be a number from -1 to 1, got {}", options.score_min));
    }
    Ok(options)
}

fn check_mlp(options: MlpSettings) -> Result<MlpSettings, ApiError> {
    let invalid = |member: &str, detail: String| invalid(format!("/mlp/{member}"), detail);
    let counts = [
        ("hidden", options.hidden, 4_096),
        ("batch", options.batch, 4_096),
        ("epochs_max", options.epochs_max, 10_000),
        ("patience", options.patience, usize::MAX),
        ("runs", options.runs, 100),
    ];
    for (member, got, max) in counts {
        if !(1..=max).contains(&got) {
            let bounds = if max == usize::MAX { "at least 1".to_owned() } else { format!("from 1 to {max}") };
            return invalid(member, format!("must be an integer {bounds}, got {got}"));
        }
    }
    if !(0.0..1.0).contains(&options.dropout) {
        return invalid("dropout", format!("must be a number from 0 to below 1, got {}", options.dropout));
    }
    if !(options.learning_rate > 0.0 && options.learning_rate <= 1.0) {
        return invalid("learning_rate", format!("must be a number above 0 and at most 1, got {}", options.learning_rate));
    }
    if !(0.0..=0.9).contains(&options.validation_share) {
        return invalid("validation_share", format!("must be a number from 0 to 0.9, got {}", options.validation_share));
    }
    Ok(options)
}
