//! Classifiers: what they learn from, what they are asked, and what they answer.

use super::{CollectionName, DocumentId, Filter, InvalidId, JobFailure, JobId, Language, Metadata, MetadataPath};

/// A classifier's name: the path key of the API, of the same form as a collection's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassifierName(String);

impl ClassifierName {
    /// Accepts what a collection may be named.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        match CollectionName::parse(text) {
            Ok(name) => Ok(Self(name.as_str().to_owned())),
            Err(error) => Err(InvalidId { what: "classifier name", ..error }),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ClassifierName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a classifier decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassifierKind {
    /// The nearest labeled passages vote.
    Knn,
    /// A network with one hidden layer on the embedding.
    Mlp,
    /// The nearest label, by what is said of each.
    Prototype,
}

/// Where a classifier is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassifierState {
    /// It learns; nothing can be asked yet.
    Training,
    /// It answers.
    Ready,
    /// Its training came to no end.
    Failed,
    /// It learned on embeddings of another model than the one that is loaded now.
    Outdated,
}

/// Documents of a collection that have labels in their metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct LabeledDocuments {
    /// The collection, by its name or an alias.
    pub collection: CollectionName,
    /// Where the labels are.
    pub field: MetadataPath,
    /// Only documents where this holds.
    pub filter: Filter,
}

/// A text and what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct LabeledText {
    /// The text.
    pub text: String,
    /// Its labels, each once; exactly one where a text has one.
    pub labels: Vec<String>,
    /// The caller's word on the language; `None` means detect it.
    pub language: Option<Language>,
}

/// A label and what is said of it.
#[derive(Debug, Clone, PartialEq)]
pub struct DescribedLabel {
    /// The label.
    pub name: String,
    /// What is said of it, in any languages; without any the name speaks for itself.
    pub descriptions: Vec<String>,
}

/// What a neighbor's vote counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighborWeight {
    /// All the same.
    Equal,
    /// Its score.
    Score,
    /// e to the power of its score over the temperature.
    Softmax,
}

/// How neighbors vote.
#[derive(Debug, Clone, PartialEq)]
pub struct KnnSettings {
    /// Passages that vote at most.
    pub neighbors: usize,
    /// What a vote counts.
    pub weight: NeighborWeight,
    /// Of the softmax; `None` means the one that fits the labeled documents best.
    pub temperature: Option<f32>,
    /// Passages with a lower score do not vote.
    pub score_min: f32,
}

/// How a network is trained.
#[derive(Debug, Clone, PartialEq)]
pub struct MlpSettings {
    /// Hidden values.
    pub hidden: usize,
    /// Whether they are the positive part instead of the hyperbolic tangent.
    pub relu: bool,
    /// The share of values that is left out of each step.
    pub dropout: f32,
    /// Of Adam.
    pub learning_rate: f32,
    /// Examples in a step.
    pub batch: usize,
    /// Times through the examples at most.
    pub epochs_max: usize,
    /// Times through the examples without a better validation part before training ends.
    pub patience: usize,
    /// Trainings that differ in the seed, of which the best is kept.
    pub runs: usize,
    /// Of the first run; each other has the next. Also decides which examples are set apart.
    pub seed: u64,
    /// The share of the examples that is set apart to stop by, to choose by and to calibrate by.
    pub validation_share: f64,
}

/// What a classifier is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifierDefinition {
    /// How it decides.
    pub kind: ClassifierKind,
    /// What it is for, in the caller's words.
    pub description: Option<String>,
    /// Whether a text has any number of labels instead of exactly one.
    pub multi_label: bool,
    /// Below this probability it abstains, or leaves the label out of a set; `None` means the kind's own.
    pub threshold: Option<f32>,
    /// Whose labels it learns from, if not from texts of the request.
    pub source: Option<LabeledDocuments>,
    /// For `ClassifierKind::Knn`.
    pub knn: KnnSettings,
    /// For `ClassifierKind::Mlp`.
    pub mlp: MlpSettings,
}

/// A classifier to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewClassifier {
    /// The name.
    pub name: ClassifierName,
    /// What it is to be.
    pub definition: ClassifierDefinition,
    /// Labeled texts of the request.
    pub examples: Vec<LabeledText>,
    /// The labels of a `ClassifierKind::Prototype`.
    pub labels: Vec<DescribedLabel>,
}

/// What training found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrainingReport {
    /// Labeled examples, those set apart included.
    pub examples: usize,
    /// Labeled documents that have no embedding yet, and were left out.
    pub left_out: usize,
    /// Each label with its examples, by name.
    pub labels: Vec<(String, usize)>,
    /// Each language of the examples, most examples first; `None` stands for those without a known one.
    pub languages: Vec<(Option<Language>, usize)>,
    /// Examples that were set apart.
    pub validation_examples: usize,
    /// How well it does on those: accuracy for one class, micro-F1 for label sets.
    pub validation_quality: Option<f64>,
    /// The expected calibration error on those, once calibrated.
    pub calibration_error: Option<f64>,
    /// What scores are divided by.
    pub temperature: Option<f32>,
    /// Each run's quality on what was set apart, in the order of the seeds.
    pub run_qualities: Vec<f64>,
}

impl TrainingReport {
    /// The language that was trained in: that of at least nine in ten examples.
    pub fn trained_in(&self) -> Option<Language> {
        let (language, examples) = self.languages.iter().find(|(language, _)| language.is_some())?;
        language.filter(|_| examples * 10 >= self.examples * 9)
    }
}

/// A classifier as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Classifier {
    /// The name.
    pub name: ClassifierName,
    /// Where it is.
    pub state: ClassifierState,
    /// The job that trained it as it is, or trains it for the first time.
    pub job: JobId,
    /// The job that trains it again; until its end it answers as before.
    pub next_job: Option<JobId>,
    /// How often its training came to an end.
    pub version: u64,
    /// What it is to be.
    pub definition: ClassifierDefinition,
    /// What training found, once it is over.
    pub report: Option<TrainingReport>,
    /// Why its last training failed.
    pub error: Option<JobFailure>,
    /// The model whose embeddings it takes.
    pub model: String,
    /// That model's fingerprint.
    pub model_fingerprint: String,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Milliseconds since the Unix epoch.
    pub trained_at_ms: Option<i64>,
}

/// What is asked of a classifier besides the labels themselves.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PredictOptions {
    /// In place of the classifier's own threshold.
    pub threshold: Option<f32>,
    /// Labels whose probabilities are told.
    pub scores: usize,
    /// Labeled passages near the text that are told.
    pub explain: usize,
}

/// What to tell the labels of.
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

/// A labeled passage near a text.
#[derive(Debug, Clone, PartialEq)]
pub struct LabeledNeighborText {
    /// The document that it is of, when it is of one.
    pub document: Option<DocumentId>,
    /// The passage.
    pub text: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// Its language.
    pub language: Option<Language>,
    /// Its cosine with the text.
    pub score: f32,
}

/// What a classifier says of one text.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The document, when one was asked about.
    pub document: Option<DocumentId>,
    /// The language of the text.
    pub language: Option<Language>,
    /// The labels; `None` is an abstention.
    pub labels: Option<Vec<String>>,
    /// The most likely labels with their probabilities, the most likely first.
    pub scores: Vec<(String, f32)>,
    /// Labeled passages near the text, nearest first.
    pub neighbors: Vec<LabeledNeighborText>,
}

/// What a classifier is judged by.
#[derive(Debug, Clone, PartialEq)]
pub enum EvaluationSet {
    /// Labeled texts.
    Texts(Vec<LabeledText>),
    /// Labeled documents.
    Documents(LabeledDocuments),
}

/// Labels to be written into documents.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplyRequest {
    /// Into whose documents.
    pub collection: CollectionName,
    /// Only where this holds.
    pub filter: Filter,
    /// Where the label goes.
    pub field: MetadataPath,
    /// Where the probability of the label goes, if anywhere.
    pub probability_field: Option<MetadataPath>,
    /// In place of the classifier's own threshold.
    pub threshold: Option<f32>,
}

impl ClassifierKind {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Knn, Self::Mlp, Self::Prototype];

    /// The name on the wire and in the catalog.
    pub fn name(self) -> &'static str {
        match self {
            Self::Knn => "knn",
            Self::Mlp => "mlp",
            Self::Prototype => "prototype",
        }
    }

    /// The one of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name() == name)
    }
}

impl NeighborWeight {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Equal, Self::Score, Self::Softmax];

    /// The name on the wire and in the catalog.
    pub fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Score => "score",
            Self::Softmax => "softmax",
        }
    }

    /// The one of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name() == name)
    }
}

/// The labels that a document's metadata has at `field`: a text, a number, a truth value, or for label sets also an array of
/// those. `None` when there is no value, or null.
pub fn labels_at(metadata: &Metadata, field: &MetadataPath, multi_label: bool) -> Result<Option<Vec<String>>, String> {
    use serde_json::Value;
    let one = |value: &Value| match value {
        Value::String(text) if text.trim().is_empty() => Err("is a blank text".to_owned()),
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Null => Err("holds null".to_owned()),
        Value::Array(_) => Err("is an array".to_owned()),
        Value::Object(_) => Err("is an object".to_owned()),
    };
    let expected =
        if multi_label { "a text, a number, true, false, or an array of those" } else { "a text, a number, true or false" };
    let refuse = |problem: String| format!("{field} {problem}, expected {expected}");
    match field.find(metadata) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(values)) if multi_label => {
            let mut labels = values.iter().map(one).collect::<Result<Vec<_>, _>>().map_err(refuse)?;
            labels.sort_unstable();
            labels.dedup();
            Ok(Some(labels))
        }
        Some(value) => Ok(Some(vec![one(value).map_err(refuse)?])),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(metadata: serde_json::Value, multi_label: bool, expect: Result<Option<&[&str]>, &str>) {
        let field = MetadataPath::parse("a.b").unwrap();
        let found = labels_at(metadata.as_object().unwrap(), &field, multi_label);
        let expect = expect.map(|labels| labels.map(|labels| labels.iter().map(|one| (*one).to_owned()).collect()));
        match (found, expect) {
            (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
            (found, expect) => assert_eq!(found, expect.map_err(str::to_owned), "{metadata}"),
        }
    }

    #[test]
    fn labels_are_scalars_or_sets_of_them() {
        check(json!({"a": {"b": "x"}}), false, Ok(Some(&["x"])));
        check(json!({"a": {"b": 5}}), false, Ok(Some(&["5"])));
        check(json!({"a": {"b": true}}), true, Ok(Some(&["true"])));
        check(json!({"a": {"b": ["y", "x", "y"]}}), true, Ok(Some(&["x", "y"])));
        check(json!({"a": {"b": []}}), true, Ok(Some(&[])));
        check(json!({"a": {"b": null}}), false, Ok(None));
        check(json!({"a": 1}), false, Ok(None));
        check(json!({"a": {"b": ["x"]}}), false, Err("a.b is an array, expected a text"));
        check(json!({"a": {"b": [["x"]]}}), true, Err("is an array"));
        check(json!({"a": {"b": {}}}), true, Err("is an object"));
        check(json!({"a": {"b": " "}}), true, Err("is a blank text"));
    }

    #[test]
    fn the_language_of_training_is_that_of_nearly_all_examples() {
        let report = |counts: &[(&str, usize)]| TrainingReport {
            examples: counts.iter().map(|(_, count)| count).sum(),
            languages: counts.iter().map(|(code, count)| (Language::parse(code), *count)).collect(),
            ..TrainingReport::default()
        };
        assert_eq!(report(&[("en", 9), ("", 1)]).trained_in(), Language::parse("en"));
        assert_eq!(report(&[("en", 8), ("de", 2)]).trained_in(), None);
        assert_eq!(report(&[("", 2)]).trained_in(), None);
    }
}
