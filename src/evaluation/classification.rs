//! Zero-shot cross-lingual classification: EMS (2024), section V-E, table XI (MLDoc) and section V-F, tables XII and XIII (CLS
//! and its second version), and the topics of SIB-200, which is not in EMS.
//!
//! A network with one hidden layer (`crate::classify::mlp`) is trained on embeddings of one language and tested in the others.
//! This is LASER's protocol for MLDoc, which EMS follows, without the second hidden layer. Accuracies are means of five runs
//! with different seeds. `labeled` documents the file formats: `sib200.xx.tsv`; `XX.train.1000`, `XX.dev` and `XX.test`;
//! `XX.PRODUCT.train` and `XX.PRODUCT.test` with the products `books`, `dvd`, `music` and, for the second version, `all`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::domain::{Language, MlpSettings};
use serde::{Deserialize, Serialize};

use super::encoder::{Embeddings, SentenceEncoder};
use super::error::EvaluationError;
use super::labeled::{self, Example, Labeled};
use super::retrieval::mean;
use crate::classify::knn::highest;
use crate::classify::{LabelNames, Split, Targets, Training, evaluate_classes, majority};
use crate::parallel::parallelism;

/// The data set whose accuracies are reported next to P@1.
pub const SIB200: &str = "sib200";
const MLDOC: &str = "mldoc";
/// Products of CLS; `all` is the second version, which mixes them.
const PRODUCTS: [&str; 4] = ["books", "dvd", "music", "all"];

/// What to evaluate.
#[derive(Debug, Clone)]
pub struct Options {
    /// Training languages, each evaluated separately.
    pub from: Vec<Language>,
    /// The split of SIB-200 to test on.
    pub sib200_part: String,
}

/// The results, in percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassificationReport {
    /// By data set: `sib200`, `mldoc`, `cls/PRODUCT`; one entry per training language.
    pub sets: BTreeMap<String, Vec<Transfer>>,
}

/// Accuracies of classifiers trained in one language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// The training language.
    pub from: String,
    /// Number of runs with different seeds.
    pub runs: usize,
    /// In the training language. If this is SIB-200's dev split or CLS, the same texts were used for early stopping.
    pub own: Option<Accuracy>,
    /// In each other language.
    pub languages: BTreeMap<String, Accuracy>,
    /// Mean over the other languages.
    pub mean: f64,
    /// Mean over the other languages of the majority baseline.
    pub majority_mean: f64,
}

/// Accuracy in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Mean of the runs.
    pub mean: f64,
    /// Sample standard deviation of the runs.
    pub deviation: f64,
    /// Accuracy of always predicting the most frequent class of the train split.
    pub majority: f64,
}

impl Default for Options {
    fn default() -> Self {
        let english = Language::all().filter(|language| language.code() == super::flores::ENGLISH);
        Self { from: english.collect(), sib200_part: "dev".to_owned() }
    }
}

/// Evaluates every data set that has files in `folder`. Returns `None` if none has.
pub fn measure(
    folder: &Path,
    options: &Options,
    encoder: &mut dyn SentenceEncoder,
) -> Result<Option<ClassificationReport>, EvaluationError> {
    let mut sets = BTreeMap::new();
    for (name, set) in read_sets(folder, &options.sib200_part)? {
        let transfers = transfers(folder, &name, &set, &options.from, encoder)?;
        sets.insert(name, transfers);
    }
    Ok((!sets.is_empty()).then_some(ClassificationReport { sets }))
}

/// Reads every data set that has files in `folder`, by name.
pub fn read_sets(folder: &Path, sib200_part: &str) -> Result<BTreeMap<String, Labeled>, EvaluationError> {
    let mut sets = BTreeMap::new();
    sets.insert(SIB200.to_owned(), labeled::read_sib200(folder, sib200_part)?);
    sets.insert(MLDOC.to_owned(), labeled::read_mldoc(folder)?);
    for product in PRODUCTS {
        sets.insert(format!("cls/{product}"), labeled::read_cls(folder, product)?);
    }
    sets.retain(|_, set| !set.is_empty());
    Ok(sets)
}

impl ClassificationReport {
    /// Results on SIB-200 for the first training language.
    pub fn sib200(&self) -> Option<&Transfer> {
        self.sets.get(SIB200)?.first()
    }
}

/// Embedded texts and their labels.
pub struct Embedded<'a> {
    /// An embedding per text.
    pub embeddings: Embeddings,
    /// A label per text.
    pub labels: Vec<&'a str>,
}

impl<'a> Embedded<'a> {
    /// Embeds the texts of examples.
    pub fn new(examples: &'a [Example], encoder: &mut dyn SentenceEncoder) -> Result<Self, EvaluationError> {
        let texts: Vec<String> = examples.iter().map(|example| example.text.clone()).collect();
        let labels = examples.iter().map(|example| example.label.as_str()).collect();
        Ok(Self { embeddings: encoder.encode(&texts)?, labels })
    }
}

fn transfers(
    folder: &Path,
    name: &str,
    set: &Labeled,
    from: &[Language],
    encoder: &mut dyn SentenceEncoder,
) -> Result<Vec<Transfer>, EvaluationError> {
    let refuse = |problem: String| EvaluationError::Content { path: folder.to_owned(), problem: format!("{name}: {problem}") };
    let mut tests = BTreeMap::new();
    for (language, parts) in set {
        tests.insert(*language, Embedded::new(&parts.test, encoder)?);
    }
    let mut transfers = Vec::new();
    for language in from {
        let parts = set.get(language).filter(|parts| !parts.train.is_empty() && !parts.dev.is_empty());
        let parts = parts.ok_or_else(|| refuse(format!("expected a train and a dev split of {language}, got none")))?;
        let (train, dev) = (Embedded::new(&parts.train, encoder)?, Embedded::new(&parts.dev, encoder)?);
        transfers.push(transfer(*language, &train, &dev, &tests).map_err(|error| match error {
            EvaluationError::Unusable { problem } => refuse(problem),
            other => other,
        })?);
    }
    Ok(transfers)
}

/// Trains on one language with early stopping on its dev split, and tests on all of `tests`.
pub fn transfer(
    from: Language,
    train: &Embedded<'_>,
    dev: &Embedded<'_>,
    tests: &BTreeMap<Language, Embedded<'_>>,
) -> Result<Transfer, EvaluationError> {
    let classes = LabelNames::of(train.labels.iter().map(|label| (*label).to_owned()));
    let mut numbers = label_numbers(&classes, "the training part", &train.labels)?;
    let majority = majority(&numbers).unwrap_or_default();
    let learned = numbers.len() as u32;
    numbers.extend(label_numbers(&classes, "the dev part", &dev.labels)?);
    let split = Split { train: (0..learned).collect(), validation: (learned..numbers.len() as u32).collect() };
    let training = Training {
        embeddings: &[train.embeddings.values(), dev.embeddings.values()].concat(),
        dimension: train.embeddings.dimension(),
        targets: Targets::Classes(&numbers),
        labels: classes.len(),
        split: &split,
        parameters: &MlpSettings::default(),
        threads: parallelism(),
    };
    let runs = training.train(&|| false)?.runs;
    let mut languages = BTreeMap::new();
    for (language, test) in tests {
        let expected = label_numbers(&classes, language.name(), &test.labels)?;
        let accuracy = |predictions: &[Option<u32>]| {
            Ok::<_, EvaluationError>(100.0 * evaluate_classes(&expected, predictions, classes.len())?.scores.accuracy)
        };
        let mut accuracies = Vec::with_capacity(runs.len());
        for run in &runs {
            let logits = run.mlp.logits(test.embeddings.values())?;
            let predictions: Vec<Option<u32>> = logits.chunks_exact(classes.len()).map(highest).collect();
            accuracies.push(accuracy(&predictions)?);
        }
        let always = accuracy(&vec![Some(majority); expected.len()])?;
        languages.insert(language.code().to_owned(), Accuracy::of(&accuracies, always));
    }
    let own = languages.remove(from.code());
    Ok(Transfer {
        from: from.code().to_owned(),
        runs: runs.len(),
        own,
        mean: mean(languages.values().map(|accuracy| accuracy.mean)),
        majority_mean: mean(languages.values().map(|accuracy| accuracy.majority)),
        languages,
    })
}

impl Accuracy {
    fn of(runs: &[f64], majority: f64) -> Self {
        let average = mean(runs.iter().copied());
        let squares: f64 = runs.iter().map(|run| (run - average).powi(2)).sum();
        let deviation = if runs.len() > 1 { (squares / (runs.len() - 1) as f64).sqrt() } else { 0.0 };
        Self { mean: average, deviation, majority }
    }
}

/// Returns the numbers of labels among `names`, the labels of the train split.
pub(super) fn label_numbers(names: &LabelNames, part: &str, labels: &[&str]) -> Result<Vec<u32>, EvaluationError> {
    let number = |label: &&str| {
        names.number(label).ok_or_else(|| {
            let known = names.iter().collect::<Vec<_>>().join(", ");
            EvaluationError::Unusable { problem: format!("{part}: expected one of the labels {known}, got {label}") }
        })
    };
    labels.iter().map(number).collect()
}

impl fmt::Display for ClassificationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, transfers)) in self.sets.iter().enumerate() {
            for (transfer_number, transfer) in transfers.iter().enumerate() {
                if number + transfer_number > 0 {
                    writeln!(f)?;
                }
                transfer.table(name, f)?;
            }
        }
        Ok(())
    }
}

impl Transfer {
    fn table(&self, set: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |code: &str| format!("{code} {}", Language::parse(code).map_or("", Language::name));
        writeln!(f, "{set}, trained in {}, accuracy in percent:\n", name(&self.from))?;
        writeln!(f, "| language              | accuracy | deviation of {} runs | majority class |", self.runs)?;
        writeln!(f, "|-----------------------|---------:|--------------------:|---------------:|")?;
        let own = self.own.iter().map(|own| (&self.from, own));
        for (code, accuracy) in own.chain(&self.languages) {
            let (mean, deviation, majority) = (accuracy.mean, accuracy.deviation, accuracy.majority);
            writeln!(f, "| {:21} | {mean:>8.1} | {deviation:>19.2} | {majority:>14.1} |", name(code))?;
        }
        writeln!(f, "\n{}", self.summary(set))
    }

    /// The mean accuracy of each language, including the training language.
    pub fn all(&self) -> impl Iterator<Item = (&String, f64)> {
        let own = self.own.iter().map(|own| (&self.from, own));
        own.chain(&self.languages).map(|(code, accuracy)| (code, accuracy.mean))
    }

    /// Formats the means on one line.
    pub fn summary(&self, set: &str) -> String {
        let (from, count, mean, majority) = (&self.from, self.languages.len(), self.mean, self.majority_mean);
        format!("- {set}, trained in {from}, tested in {count} others: mean {mean:.2}; always the majority class {majority:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::test_encoders::{LetterEncoder, with_files};

    fn measure_files(files: &[(&str, String)]) -> Result<Option<ClassificationReport>, EvaluationError> {
        with_files(files, |folder| measure(folder, &Options::default(), &mut LetterEncoder(4)))
    }

    /// Texts about animals, which begin with a, and half as many each about books and cities; also in the dev split.
    fn english() -> String {
        let line = |part: &str, label: &str, text: &str| format!("{part}\t0\t{label}\t{text}\n");
        let part = |part: &str| {
            line(part, "animals", "ape")
                + &line(part, "animals", "ant")
                + &line(part, "books", "book")
                + &line(part, "cities", "city")
        };
        part("train").repeat(60) + &part("dev")
    }

    #[test]
    fn a_classifier_trained_in_english_is_tested_in_other_languages() {
        // French: all four have the same direction as in English. German: one of four has the direction of another class.
        let french = "dev\t0\tanimals\tane\ndev\t0\tanimals\tagneau\ndev\t0\tbooks\tbouquin\ndev\t0\tcities\tcité\n";
        let german =
            "dev\t0\tanimals\tAffe\ndev\t0\tbooks\tbuch\ndev\t0\tbooks\tband\ndev\t0\tcities\tberlin\n".replace("Affe", "affe");
        let files = [("sib200.en.tsv", english()), ("sib200.fr.tsv", french.to_owned()), ("sib200.de.tsv", german)];
        let report = measure_files(&files).unwrap().unwrap();
        let transfer = report.sib200().unwrap();
        assert_eq!((transfer.from.as_str(), transfer.runs), ("en", 5));
        // The majority class in English is animals: half of the English and French texts, a quarter of the German ones.
        assert_eq!(transfer.own, Some(Accuracy { mean: 100.0, deviation: 0.0, majority: 50.0 }));
        assert_eq!(transfer.languages["fr"], Accuracy { mean: 100.0, deviation: 0.0, majority: 50.0 });
        assert_eq!(transfer.languages["de"], Accuracy { mean: 75.0, deviation: 0.0, majority: 25.0 });
        assert_eq!((transfer.mean, transfer.majority_mean), (87.5, 37.5));
    }

    #[test]
    fn the_deviation_is_the_sample_standard_deviation() {
        // The mean is 80; the variance is (100 + 0 + 100) / 2 = 100, so the deviation is 10.
        assert_eq!(Accuracy::of(&[70.0, 80.0, 90.0], 50.0), Accuracy { mean: 80.0, deviation: 10.0, majority: 50.0 });
    }

    #[test]
    fn data_sets_are_reported_by_name() {
        let part = "ja\tape\nnein\tbook\n";
        let files = ["en.train.1000", "en.dev", "en.test", "en.dvd.train", "en.dvd.test", "fr.dvd.test"]
            .map(|name| (name, part.to_owned()));
        let report = measure_files(&files).unwrap().unwrap();
        assert_eq!(report.sets.keys().collect::<Vec<_>>(), ["cls/dvd", "mldoc"]);
        assert_eq!(report.sets["cls/dvd"][0].languages.len(), 1);
        assert!(report.to_string().contains("cls/dvd, trained in en English"), "{report}");
    }

    #[test]
    fn errors_name_missing_training_splits_and_unknown_labels() {
        let check = |files: &[(&str, String)], expect: &str| {
            let error = measure_files(files).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        let french = "dev\t0\tmusic\tair\n".to_owned();
        check(&[("sib200.fr.tsv", french.clone())], "sib200: expected a train and a dev split of en, got none");
        let expect = "sib200: French: expected one of the labels animals, books, cities, got music";
        check(&[("sib200.en.tsv", english()), ("sib200.fr.tsv", french)], expect);
    }
}
