//! Classifiers: training data, settings, requests and predictions.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;
use utoipa::ToSchema;

use super::ids::text_id;
use super::metadata::plain_number;
use super::names::names;
use super::{CollectionName, DocumentId, Filter, InvalidId, JobFailure, JobId, KnnSettings, Language, MetadataPath, MlpSettings};

text_id! {
    /// A classifier's name, which its paths in the API contain. It follows the rules for collection names.
    ClassifierName, |text| match CollectionName::parse(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(InvalidId { what: "classifier name", ..error }),
    }
}

/// `knn`: the nearest labeled passages vote. `mlp`: a network with one hidden layer on the embedding, trained in seconds; works
/// best with dozens of examples per label or more. `prototype`: the label whose name or descriptions are nearest; needs no
/// examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[cfg_attr(feature = "server", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
#[schema(as = ClassifierKindName)]
pub enum ClassifierKind {
    /// The nearest labeled passages vote.
    Knn,
    /// A network with one hidden layer.
    Mlp,
    /// The label whose descriptions are nearest.
    Prototype,
}

/// `training`: a job trains it. `ready`: it can predict. `failed`: its training failed or was canceled. `outdated`: it was
/// trained on embeddings of a model other than the loaded one; train it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ClassifierStateName)]
#[expect(missing_docs, reason = "the text above says what the variants are")]
pub enum ClassifierState {
    Training,
    Ready,
    Failed,
    Outdated,
}

/// Documents of a collection that have labels in their metadata.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabeledDocuments {
    /// The collection, by its name or an alias.
    pub collection: CollectionName,
    /// Path of the labels.
    pub field: MetadataPath,
    /// Only documents that match.
    pub filter: Filter,
}

/// A text with its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct LabeledText {
    /// The text.
    pub text: String,
    /// Its labels, each once; exactly one unless the classifier has `multi_label`.
    pub labels: Vec<String>,
    /// The language given by the caller; `None` means detect it.
    pub language: Option<Language>,
}

/// A label and its descriptions.
#[derive(Debug, Clone, PartialEq)]
pub struct DescribedLabel {
    /// The label.
    pub name: String,
    /// Its descriptions, in any language; without any, the name serves as the description.
    pub descriptions: Vec<String>,
}

/// The definition of a classifier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassifierDefinition {
    /// How it decides.
    pub kind: ClassifierKind,
    /// What it is for, in the caller's words.
    pub description: Option<String>,
    /// Whether a text has any number of labels instead of exactly one.
    pub multi_label: bool,
    /// Below this probability it abstains, or leaves the label out of a set; `None` means the default of its kind.
    pub threshold: Option<f32>,
    /// The documents it learns from; `None` if it learns from texts of the request.
    pub source: Option<LabeledDocuments>,
    /// For `ClassifierKind::Knn`.
    pub knn: KnnSettings,
    /// For `ClassifierKind::Mlp`.
    pub mlp: MlpSettings,
}

/// A classifier to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewClassifier {
    /// The name.
    pub name: ClassifierName,
    /// Its definition.
    pub definition: ClassifierDefinition,
    /// Labeled texts of the request.
    pub examples: Vec<LabeledText>,
    /// The labels of a `ClassifierKind::Prototype`.
    pub labels: Vec<DescribedLabel>,
}

/// The results of training.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TrainingInfo)]
pub struct TrainingReport {
    /// Labeled examples, including those held out.
    pub examples: usize,
    /// Labeled documents that were left out because they were not embedded yet.
    pub left_out: usize,
    /// The labels with their examples, by name.
    pub labels: Vec<LabelExamples>,
    /// The languages of the examples, most examples first.
    pub languages: Vec<LanguageExamples>,
    /// The training language, for the transfer gap of evaluations: the language of at least nine in ten examples; omitted if
    /// there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub trained_in: Option<Language>,
    /// Examples used for validation: for `mlp` the held-out ones; for `knn` labeled examples, each predicted from the others
    /// (leave-one-out); for `prototype` all.
    pub validation_examples: usize,
    /// The quality on these, 0 to 1: accuracy, or for an `mlp` with `multi_label` the micro-F1. Omitted without validation
    /// examples.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub validation_quality: Option<f64>,
    /// The expected calibration error on these; omitted without validation examples, and with `multi_label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub calibration_error: Option<f64>,
    /// The temperature that calibrates scores into probabilities; omitted if none was fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// The quality of each run of an `mlp`, in the order of the seeds; shows how much the results vary by chance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_qualities: Vec<f64>,
}

/// A label and its number of examples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabelExamples {
    /// The label.
    pub label: String,
    /// How many examples have it.
    pub examples: usize,
}

/// A language and its number of examples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LanguageExamples {
    /// ISO 639-1 code; omitted for examples whose language was not recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub language: Option<Language>,
    /// How many examples are in this language.
    pub examples: usize,
}

impl TrainingReport {
    /// The value for `trained_in`: the language of at least nine in ten examples.
    pub fn language_of_training(&self) -> Option<Language> {
        let largest = self.languages.iter().find(|accuracy| accuracy.language.is_some())?;
        largest.language.filter(|_| largest.examples * 10 >= self.examples * 9)
    }
}

/// A classifier as the API shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Classifier {
    /// Its record in the catalog.
    pub record: ClassifierRecord,
    /// Its state.
    pub state: ClassifierState,
    /// Its definition.
    pub definition: ClassifierDefinition,
    /// The results of training, once it has finished.
    pub report: Option<TrainingReport>,
}

/// The catalog's record of a classifier, without its definition and its training results.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifierRecord {
    /// The name.
    pub name: ClassifierName,
    /// The job of its last successful training, or of its first one.
    pub job: JobId,
    /// The job that trains it again; until that ends, the previous version makes the predictions.
    pub next_job: Option<JobId>,
    /// Number of trainings that have finished.
    pub version: u64,
    /// Why its last training failed.
    pub error: Option<JobFailure>,
    /// The model whose embeddings it uses.
    pub model: String,
    /// That model's fingerprint.
    pub model_fingerprint: String,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Milliseconds since the Unix epoch.
    pub trained_at_ms: Option<i64>,
}

/// Options of a prediction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PredictOptions {
    /// Replaces the classifier's own threshold.
    pub threshold: Option<f32>,
    /// How many labels to return with their probabilities.
    pub scores: usize,
    /// How many labeled passages to return as an explanation.
    pub explain: usize,
}

/// What to predict the labels of.
#[derive(Debug, Clone, PartialEq)]
pub enum PredictItems {
    /// Texts.
    Texts(Vec<String>),
    /// Stored documents.
    Documents {
        /// Their collection.
        collection: CollectionName,
        /// Their ids.
        ids: Vec<DocumentId>,
    },
}

/// The prediction for one text.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = PredictionInfo)]
pub struct Prediction {
    /// The document's id; omitted for a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub id: Option<DocumentId>,
    /// ISO 639-1 code of the language; omitted if none was recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub language: Option<Language>,
    /// The labels: one, or with `multi_label` any number; none if it abstained.
    pub labels: Vec<String>,
    /// Whether it abstained: no label is likely enough, or no neighbor voted.
    pub abstained: bool,
    /// The most likely labels, most likely first.
    pub scores: Vec<LabelProbability>,
    /// With `explain`, labeled passages, nearest first: for a `knn` those that voted; for the other kinds those near the text,
    /// for a `prototype` also the descriptions of its labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub neighbors: Vec<LabeledNeighborText>,
}

/// A label and its probability.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct LabelProbability {
    /// The label.
    pub label: String,
    /// 0 to 1; the probabilities of all labels sum to 1, except with `multi_label`.
    #[schema(minimum = 0, maximum = 1)]
    pub probability: f32,
}

/// A labeled passage near a text.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = LabeledNeighborInfo)]
pub struct LabeledNeighborText {
    /// Id of its document; omitted for a text that was sent with the classifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub id: Option<DocumentId>,
    /// The passage.
    pub text: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// ISO 639-1 code of its language; omitted if none was recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub language: Option<Language>,
    /// Cosine similarity with the text, -1 to 1.
    #[schema(minimum = -1, maximum = 1)]
    pub score: f32,
}

/// What a classifier is evaluated with.
#[derive(Debug, Clone, PartialEq)]
pub enum EvaluationSet {
    /// Labeled texts.
    Texts(Vec<LabeledText>),
    /// Labeled documents.
    Documents(LabeledDocuments),
}

names!(ClassifierKind { Knn = "knn", Mlp = "mlp", Prototype = "prototype" });

/// A label in the form that classifiers compare: trimmed and with composed characters (Unicode's normalization form C), so that
/// two spellings that look alike are one label. Classifiers of earlier versions keep the labels that they learned. Retraining
/// normalizes labels that come from a collection, but not labels stored with texts.
pub fn normalized_label(text: &str) -> String {
    text.trim().nfc().collect()
}

/// The labels in a document's metadata at `field`, which has this value: a string, a number, a boolean, or for `multi_label` also
/// an array of these. Equal numbers are one label, as in a filter. `None` if the value is missing or null.
pub fn labels_at(field: &MetadataPath, value: Option<&Value>, multi_label: bool) -> Result<Option<Vec<String>>, String> {
    let parse_label = |value: &Value| match value {
        Value::String(text) if text.trim().is_empty() => Err("is a blank string".to_owned()),
        Value::String(text) => Ok(normalized_label(text)),
        Value::Number(number) => Ok(plain_number(number).to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Null => Err("holds null".to_owned()),
        Value::Array(_) => Err("is an array".to_owned()),
        Value::Object(_) => Err("is an object".to_owned()),
    };
    let expected =
        if multi_label { "a string, a number, a boolean, or an array of these" } else { "a string, a number or a boolean" };
    let refuse = |problem: String| format!("{field} {problem}, expected {expected}");
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(values)) if multi_label => {
            let mut labels = values.iter().map(parse_label).collect::<Result<Vec<_>, _>>().map_err(refuse)?;
            labels.sort_unstable();
            labels.dedup();
            Ok(Some(labels))
        }
        Some(value) => Ok(Some(vec![parse_label(value).map_err(refuse)?])),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(metadata: serde_json::Value, multi_label: bool, expect: Result<Option<&[&str]>, &str>) {
        let field = MetadataPath::parse("a.b").unwrap();
        let found = labels_at(&field, field.find(metadata.as_object().unwrap()), multi_label);
        let expect = expect.map(|labels| labels.map(|labels| labels.iter().map(|label| (*label).to_owned()).collect()));
        match (found, expect) {
            (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
            (found, expect) => assert_eq!(found, expect.map_err(str::to_owned), "{metadata}"),
        }
    }

    #[test]
    fn labels_are_scalars_or_arrays_of_scalars() {
        check(json!({"a": {"b": "x"}}), false, Ok(Some(&["x"])));
        check(json!({"a": {"b": 5}}), false, Ok(Some(&["5"])));
        check(json!({"a": {"b": true}}), true, Ok(Some(&["true"])));
        check(json!({"a": {"b": ["y", "x", "y"]}}), true, Ok(Some(&["x", "y"])));
        check(json!({"a": {"b": []}}), true, Ok(Some(&[])));
        check(json!({"a": {"b": null}}), false, Ok(None));
        check(json!({"a": 1}), false, Ok(None));
        check(json!({"a": {"b": ["x"]}}), false, Err("a.b is an array, expected a string"));
        check(json!({"a": {"b": [["x"]]}}), true, Err("is an array"));
        check(json!({"a": {"b": {}}}), true, Err("is an object"));
        check(json!({"a": {"b": " "}}), true, Err("is a blank string"));
    }

    #[test]
    fn labels_that_look_alike_are_one_label() {
        check(json!({"a": {"b": "weather \n"}}), false, Ok(Some(&["weather"])));
        check(json!({"a": {"b": ["\u{a0}caf\u{e9}", "cafe\u{301}", "Caf\u{e9}"]}}), true, Ok(Some(&["Caf\u{e9}", "caf\u{e9}"])));
        check(json!({"a": {"b": "two  words"}}), false, Ok(Some(&["two  words"])));
    }

    #[test]
    fn equal_numbers_are_one_label() {
        check(json!({"a": {"b": 5.0}}), false, Ok(Some(&["5"])));
        check(json!({"a": {"b": -0.0}}), false, Ok(Some(&["0"])));
        check(json!({"a": {"b": [5, 5.0, 5e0, 5.5]}}), true, Ok(Some(&["5", "5.5"])));
        let smallest = json!([i64::MIN, -9_223_372_036_854_775_808.0]);
        check(json!({"a": {"b": smallest}}), true, Ok(Some(&["-9223372036854775808"])));
        check(json!({"a": {"b": [u64::MAX]}}), true, Ok(Some(&["18446744073709551615"])));
        let label = |written: &str| plain_number(&serde_json::from_str(written).unwrap()).to_string();
        assert_eq!(label("1e20"), label("100000000000000000000"));
    }

    #[test]
    fn the_training_language_is_that_of_nearly_all_examples() {
        let report = |counts: &[(&str, usize)]| TrainingReport {
            examples: counts.iter().map(|(_, count)| count).sum(),
            languages: counts
                .iter()
                .map(|(code, count)| LanguageExamples { language: Language::parse(code), examples: *count })
                .collect(),
            ..TrainingReport::default()
        };
        assert_eq!(report(&[("en", 9), ("", 1)]).language_of_training(), Language::parse("en"));
        assert_eq!(report(&[("en", 8), ("de", 2)]).language_of_training(), None);
        assert_eq!(report(&[("", 2)]).language_of_training(), None);
    }
}
