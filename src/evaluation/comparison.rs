//! Compares classification methods: each is trained on the train split of one language and tested on the test splits of all.
//! The caller provides the predictions of each method. One method is implemented here: the network, trained the way a server
//! trains it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::classification::{Embedded, label_numbers};
use super::encoder::SentenceEncoder;
use super::error::EvaluationError;
use super::labeled::{Example, Labeled};
use super::retrieval::mean;
use crate::classify::knn::highest;
use crate::classify::{LabelNames, Targets, Training, evaluate_classes, majority, stratified_split};
use crate::domain::{Language, MlpSettings};
use crate::parallel::parallelism;

/// The baseline that always predicts the most frequent class of the train split.
const MAJORITY: &str = "majority";

/// The share of held-out examples; a server's default, like the other settings here.
pub const VALIDATION_SHARE: f64 = 0.2;
/// Seed of the split, and of the first run.
pub const SEED: u32 = 1;
/// Number of runs. The best one on the validation set is kept.
pub const RUNS: usize = 5;

/// The training and test data.
pub struct Task<'a> {
    /// The training language.
    pub from: Language,
    /// Its train split.
    pub train: &'a [Example],
    /// The test split of each language.
    pub tests: BTreeMap<Language, &'a [Example]>,
    classes: LabelNames,
}

/// The predicted class of each example of each test split. `None` is an abstention and counts as wrong.
pub type Predictions = BTreeMap<Language, Vec<Option<u32>>>;

/// Accuracies in percent, by method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The training language.
    pub from: String,
    /// By method.
    pub methods: BTreeMap<String, MethodAccuracy>,
}

/// Accuracies of one method, in percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MethodAccuracy {
    /// In the training language, if it has a test split.
    pub own: Option<f64>,
    /// In each other language.
    pub languages: BTreeMap<String, f64>,
    /// Mean over the other languages.
    pub mean: f64,
}

impl<'a> Task<'a> {
    /// Creates a task with the training language `from`. All labels of test splits must occur in the train split.
    pub fn new(set: &'a Labeled, from: Language) -> Result<Self, EvaluationError> {
        let train = set.get(&from).map_or(&[][..], |parts| parts.train.as_slice());
        if train.is_empty() {
            return Err(EvaluationError::Unusable { problem: format!("expected a train split of {from}, got none") });
        }
        let classes = LabelNames::of(train.iter().map(|example| example.label.clone()));
        let tests = set.iter().map(|(language, parts)| (*language, parts.test.as_slice())).collect();
        let task = Self { from, train, tests, classes };
        for (language, test) in &task.tests {
            label_numbers(&task.classes, language.name(), &labels_of(test))?;
        }
        Ok(task)
    }

    /// Starts a comparison that contains the majority baseline.
    pub fn comparison(&self) -> Result<Comparison, EvaluationError> {
        let mut comparison = Comparison { from: self.from.code().to_owned(), methods: BTreeMap::new() };
        let numbers = label_numbers(&self.classes, "the training part", &labels_of(self.train))?;
        let predictions = self.tests.iter().map(|(language, test)| (*language, vec![majority(&numbers); test.len()])).collect();
        comparison.methods.insert(MAJORITY.to_owned(), self.evaluate(&predictions)?);
        Ok(comparison)
    }

    /// Returns the class of a predicted label.
    pub fn class(&self, label: &str) -> Result<u32, EvaluationError> {
        Ok(label_numbers(&self.classes, "the answers", &[label])?[0])
    }

    /// Evaluates the predictions for each test split, in the order of its examples.
    pub fn evaluate(&self, predictions: &Predictions) -> Result<MethodAccuracy, EvaluationError> {
        let mut languages = BTreeMap::new();
        for (language, test) in &self.tests {
            let expected = label_numbers(&self.classes, language.name(), &labels_of(test))?;
            let predicted = predictions.get(language).map_or(&[][..], Vec::as_slice);
            let report = evaluate_classes(&expected, predicted, self.classes.len())?;
            languages.insert(language.code().to_owned(), 100.0 * report.scores.accuracy);
        }
        let own = languages.remove(self.from.code());
        Ok(MethodAccuracy { own, mean: mean(languages.values().copied()), languages })
    }

    /// Returns the predictions of a network trained locally on the embeddings of the train split. It holds out the same
    /// examples as a server, and keeps the best of the same runs.
    pub fn predict_locally(&self, encoder: &mut dyn SentenceEncoder) -> Result<Predictions, EvaluationError> {
        let train = Embedded::new(self.train, encoder)?;
        let numbers = label_numbers(&self.classes, "the training part", &train.labels)?;
        let split = stratified_split(&numbers, VALIDATION_SHARE, u64::from(SEED))?;
        let training = Training {
            embeddings: train.embeddings.values(),
            dimension: train.embeddings.dimension(),
            targets: Targets::Classes(&numbers),
            labels: self.classes.len(),
            split: &split,
            parameters: &MlpSettings { runs: RUNS, seed: SEED, ..MlpSettings::default() },
            threads: parallelism(),
        };
        let mlp = training.train(&|| false)?.into_best().mlp;
        let mut predictions = Predictions::new();
        for (language, test) in &self.tests {
            let logits = mlp.logits(Embedded::new(test, encoder)?.embeddings.values())?;
            predictions.insert(*language, logits.chunks_exact(self.classes.len()).map(highest).collect());
        }
        Ok(predictions)
    }
}

fn labels_of(examples: &[Example]) -> Vec<&str> {
    examples.iter().map(|example| example.label.as_str()).collect()
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |code: &str| format!("{code} {}", Language::parse(code).map_or("", Language::name));
        writeln!(f, "trained in {}, accuracy in percent:\n", name(&self.from))?;
        let row = |f: &mut fmt::Formatter<'_>, title: &str, cell: &dyn Fn(&MethodAccuracy) -> Option<f64>| {
            write!(f, "| {title:21} |")?;
            for accuracy in self.methods.values() {
                match cell(accuracy) {
                    Some(value) => write!(f, " {value:>8.1} |")?,
                    None => write!(f, " {:>8} |", "-")?,
                }
            }
            writeln!(f)
        };
        write!(f, "| {:21} |", "language")?;
        self.methods.keys().try_for_each(|method| write!(f, " {method:>8} |"))?;
        write!(f, "\n|{:-<23}|", "")?;
        self.methods.keys().try_for_each(|_| write!(f, "---------:|"))?;
        writeln!(f)?;
        let languages = self.methods.values().next().map(|accuracy| &accuracy.languages).into_iter().flatten();
        row(f, &name(&self.from), &|accuracy| accuracy.own)?;
        for (code, _) in languages {
            row(f, &name(code), &|accuracy| accuracy.languages.get(code).copied())?;
        }
        row(f, "mean of the others", &|accuracy| Some(accuracy.mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::labeled::Parts;
    use crate::evaluation::test_encoders::AngleEncoder;

    fn examples(rows: &[(&str, &str)]) -> Vec<Example> {
        rows.iter().map(|(label, text)| Example { label: (*label).to_owned(), text: (*text).to_owned() }).collect()
    }

    fn language(code: &str) -> Language {
        Language::parse(code).unwrap()
    }

    /// The English train split has three texts about weather and one about sports.
    fn set() -> Labeled {
        let train = examples(&[("weather", "rain"), ("weather", "snow"), ("weather", "wind"), ("sports", "goal")]);
        let english = Parts { train, dev: Vec::new(), test: examples(&[("weather", "hail"), ("sports", "match")]) };
        let german = examples(&[("sports", "Tor"), ("sports", "Spiel"), ("weather", "Regen"), ("weather", "Schnee")]);
        let french = examples(&[("weather", "pluie")]);
        let parts = |test| Parts { test, ..Parts::default() };
        [(language("en"), english), (language("de"), parts(german)), (language("fr"), parts(french))].into()
    }

    #[test]
    fn accuracy_is_reported_by_language_beside_the_majority_class() {
        let set = set();
        let task = Task::new(&set, language("en")).unwrap();
        let predicted = |labels: &[&str]| -> Vec<Option<u32>> {
            labels.iter().map(|label| (!label.is_empty()).then(|| task.class(label).unwrap())).collect()
        };
        let predictions = [
            (language("en"), predicted(&["weather", "weather"])),
            // Three of four are correct; the last is an abstention.
            (language("de"), predicted(&["sports", "sports", "weather", ""])),
            (language("fr"), predicted(&["sports"])),
        ];
        let judged = task.evaluate(&predictions.into()).unwrap();
        assert_eq!((judged.own, judged.languages["de"], judged.languages["fr"], judged.mean), (Some(50.0), 75.0, 0.0, 37.5));
        let mut comparison = task.comparison().unwrap();
        // The majority class in English is weather: one of two, two of four, one of one.
        let always = &comparison.methods[MAJORITY];
        assert_eq!((always.own, always.languages["de"], always.languages["fr"], always.mean), (Some(50.0), 50.0, 100.0, 75.0));
        comparison.methods.insert("knn".to_owned(), judged);
        let text = comparison.to_string();
        for line in [
            "| language              |      knn | majority |",
            "| en English            |     50.0 |     50.0 |",
            "| de German             |     75.0 |     50.0 |",
            "| mean of the others    |     37.5 |     75.0 |",
        ] {
            assert!(text.lines().any(|got| got == line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn missing_splits_unknown_labels_and_missing_answers_are_refused() {
        let mut set = set();
        let error = |set: &Labeled, from: &str| Task::new(set, language(from)).err().unwrap().to_string();
        assert_eq!(error(&set, "de"), "expected a train split of de, got none");
        assert!(Task::new(&set, language("en")).unwrap().evaluate(&BTreeMap::new()).is_err());
        set.get_mut(&language("fr")).unwrap().test[0].label = "music".to_owned();
        assert_eq!(error(&set, "en"), "French: expected one of the labels sports, weather, got music");
    }

    #[test]
    fn the_network_transfers_separable_classes_to_another_language() {
        // Weather is around 0 degrees and sports around 90, ten of each; in German both are rotated by ten degrees.
        let angles = (0..20).map(|number| if number % 2 == 0 { ("weather", number - 10) } else { ("sports", number + 80) });
        let train = angles.map(|(label, angle)| Example { label: label.to_owned(), text: angle.to_string() }).collect();
        let test = examples(&[("sports", "100"), ("weather", "10")]);
        let parts = Parts { train, ..Parts::default() };
        let set = [(language("en"), parts), (language("de"), Parts { test, ..Parts::default() })].into();
        let mut task = Task::new(&set, language("en")).unwrap();
        task.tests.remove(&language("en"));
        let predictions = task.predict_locally(&mut AngleEncoder).unwrap();
        assert_eq!(task.evaluate(&predictions).unwrap().mean, 100.0);
    }
}
