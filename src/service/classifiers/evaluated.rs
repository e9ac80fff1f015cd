//! Compares predicted with expected labels, and computes scores in total, per label and per language.

use std::collections::HashMap;

use super::error::ClassifierError;
use super::fitting::BINS;
use super::trained::{LabelScores, TrainedClassifier};
use crate::classify::evaluate::LanguageReport;
use crate::classify::{ClassCounts, LabelNames, evaluate_classes, evaluate_labels, evaluate_languages, majority, reliability};
use crate::domain::{ConfusionCell, Evaluation, LabelEvaluation, Language, LanguageEvaluation, MajorityLabel};

/// The predictions so far. A million take about 150 MB.
#[derive(Default)]
pub(super) struct EvaluatedPredictions {
    /// Labels, indexed by their number.
    labels: Vec<String>,
    numbers: HashMap<String, u32>,
    expected: Vec<Vec<u32>>,
    answered: Vec<Option<Vec<u32>>>,
    languages: Vec<Option<Language>>,
    /// For each text with a most likely label: its probability, and whether it is correct.
    confidences: Vec<(f32, bool)>,
}

impl EvaluatedPredictions {
    pub(super) fn len(&self) -> usize {
        self.expected.len()
    }

    pub(super) fn add(&mut self, known: (Vec<String>, Option<Language>), predicted: Option<Vec<String>>, scored: &LabelScores) {
        let (expected, language) = known;
        self.confidences.extend(scored.ranked.first().map(|(label, share)| (share.clamp(0.0, 1.0), expected.contains(label))));
        let expected = self.label_numbers(expected);
        self.expected.push(expected);
        let predicted = predicted.map(|labels| self.label_numbers(labels));
        self.answered.push(predicted);
        self.languages.push(language);
    }

    pub(super) fn evaluation(mut self, trained: &TrainedClassifier) -> Result<Evaluation, ClassifierError> {
        // Renumbers the labels in order of name, including labels without any example.
        let names = LabelNames::of(trained.labels.iter().map(str::to_owned).chain(self.labels.iter().cloned()));
        let sorted: Vec<u32> = self.labels.iter().filter_map(|label| names.number(label)).collect();
        for set in self.expected.iter_mut().chain(self.answered.iter_mut().flatten()) {
            set.iter_mut().for_each(|number| *number = sorted[*number as usize]);
            set.sort_unstable();
        }
        if !trained.definition.multi_label {
            return self.classes(&names, trained.report.trained_in);
        }
        let evaluate = |expected: &[Vec<u32>], answered: &[_]| evaluate_labels(expected, answered, names.len());
        let found = evaluate_languages(&self.expected, &self.answered, &self.languages, None, evaluate)?;
        Ok(label_evaluation(&names, found))
    }

    fn label_numbers(&mut self, labels: Vec<String>) -> Vec<u32> {
        let number = |label: String| {
            *self.numbers.entry(label).or_insert_with_key(|label| {
                self.labels.push(label.clone());
                self.labels.len() as u32 - 1
            })
        };
        labels.into_iter().map(number).collect()
    }

    fn classes(&self, names: &LabelNames, trained_in: Option<Language>) -> Result<Evaluation, ClassifierError> {
        let expected: Vec<u32> = self.expected.iter().filter_map(|labels| labels.first().copied()).collect();
        let answered: Vec<Option<u32>> = self.answered.iter().map(|predicted| predicted.as_ref()?.first().copied()).collect();
        let evaluate = |expected: &[u32], answered: &[_]| evaluate_classes(expected, answered, names.len());
        let found = evaluate_languages(&expected, &answered, &self.languages, trained_in, evaluate)?;
        let majority = majority(&expected).map(|class| {
            let count = expected.iter().filter(|label| **label == class).count();
            let label = names.name(class).unwrap_or_default().to_owned();
            MajorityLabel { label, accuracy: count as f64 / expected.len() as f64 }
        });
        let calibration = Some(reliability(self.confidences.iter().copied(), BINS)?);
        Ok(Evaluation { majority, calibration, ..label_evaluation(names, found) })
    }
}

/// Converts a report to the form that results show, without majority and calibration, which only single-label predictions have.
fn label_evaluation(names: &LabelNames, found: LanguageReport) -> Evaluation {
    let name = |number: u32| names.name(number).unwrap_or_default().to_owned();
    let confusion = found.all.confusion.into_iter().map(|((expected, answered), count)| ConfusionCell {
        expected: name(expected),
        answered: answered.map(name),
        count,
    });
    let languages = found.languages.into_iter();
    let languages = languages.map(|(language, report)| LanguageEvaluation { language, scores: report.scores });
    let mut languages: Vec<LanguageEvaluation> = languages.collect();
    languages.sort_by_key(|language| std::cmp::Reverse(language.scores.examples));
    Evaluation {
        all: found.all.scores,
        majority: None,
        labels: label_scores(names, &found.all.classes),
        confusion: confusion.collect(),
        languages,
        transfer: found.transfer,
        calibration: None,
    }
}

/// Scores the labels that were expected or predicted at least once, sorted by name.
fn label_scores(names: &LabelNames, counts: &[ClassCounts]) -> Vec<LabelEvaluation> {
    let seen = names.iter().zip(counts).filter(|(_, counts)| counts.occurs());
    let score = seen.map(|(label, counts)| LabelEvaluation {
        label: label.to_owned(),
        precision: counts.precision(),
        recall: counts.recall(),
        f1: counts.f1(),
        support: counts.support,
        answered: counts.answered,
    });
    score.collect()
}
