//! Compares predicted with expected labels, and computes scores in total, per label and per language.

use std::collections::{BTreeMap, HashMap};

use super::error::ClassifierError;
use super::fitting::BINS;
use super::trained::{LabelScores, TrainedClassifier};
use crate::classify::{ClassCounts, LabelNames, evaluate_labels, evaluate_languages, majority, reliability};
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

    pub(super) fn add(&mut self, known: (Vec<String>, Option<Language>), answer: Option<Vec<String>>, scored: &LabelScores) {
        let (expected, language) = known;
        self.confidences.extend(scored.ranked.first().map(|(label, share)| (share.clamp(0.0, 1.0), expected.contains(label))));
        let expected = self.label_numbers(expected);
        self.expected.push(expected);
        let answer = answer.map(|labels| self.label_numbers(labels));
        self.answered.push(answer);
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
        match trained.definition.multi_label {
            true => self.label_sets(&names),
            false => self.classes(&names, trained.report.trained_in),
        }
    }

    fn label_numbers(&mut self, labels: Vec<String>) -> Vec<u32> {
        let number = |label: String| match self.numbers.get(&label) {
            Some(number) => *number,
            None => {
                let number = self.labels.len() as u32;
                self.labels.push(label.clone());
                self.numbers.insert(label, number);
                number
            }
        };
        labels.into_iter().map(number).collect()
    }

    fn classes(&self, names: &LabelNames, trained_in: Option<Language>) -> Result<Evaluation, ClassifierError> {
        let expected: Vec<u32> = self.expected.iter().filter_map(|labels| labels.first().copied()).collect();
        let answered: Vec<Option<u32>> = self.answered.iter().map(|answer| answer.as_ref()?.first().copied()).collect();
        let found = evaluate_languages(&expected, &answered, names.len(), &self.languages, trained_in)?;
        let calibration = reliability(self.confidences.iter().copied(), BINS)?;
        let name = |number: u32| names.name(number).unwrap_or_default().to_owned();
        let confusion = found.all.confusion.iter().map(|(&(expected, answered), &count)| ConfusionCell {
            expected: name(expected),
            answered: answered.map(name),
            count,
        });
        let majority_label = majority(&expected).map(|class| {
            let count = expected.iter().filter(|one| **one == class).count();
            MajorityLabel { label: name(class), accuracy: count as f64 / expected.len() as f64 }
        });
        let languages = found.languages.into_iter();
        let languages = languages.map(|(language, report)| LanguageEvaluation { language, scores: report.scores });
        Ok(Evaluation {
            all: found.all.scores,
            majority: majority_label,
            labels: label_scores(names, &found.all.classes),
            confusion: confusion.collect(),
            languages: by_size(languages.collect()),
            transfer: found.transfer,
            calibration: Some(calibration),
        })
    }

    fn label_sets(&self, names: &LabelNames) -> Result<Evaluation, ClassifierError> {
        let (expected, answered) = (&self.expected, &self.answered);
        let all = evaluate_labels(expected, answered, names.len())?;
        let mut by_language: BTreeMap<Option<Language>, Vec<usize>> = BTreeMap::new();
        for (index, language) in self.languages.iter().enumerate() {
            by_language.entry(*language).or_default().push(index);
        }
        let mut languages = Vec::with_capacity(by_language.len());
        for (language, indices) in by_language {
            let expected: Vec<_> = indices.iter().map(|index| expected[*index].clone()).collect();
            let answered: Vec<_> = indices.iter().map(|index| answered[*index].clone()).collect();
            let scores = evaluate_labels(&expected, &answered, names.len())?.scores;
            languages.push(LanguageEvaluation { language, scores });
        }
        Ok(Evaluation {
            labels: label_scores(names, &all.labels),
            all: all.scores,
            majority: None,
            confusion: Vec::new(),
            languages: by_size(languages),
            transfer: None,
            calibration: None,
        })
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

/// Sorts languages by their number of examples, most first.
fn by_size(mut languages: Vec<LanguageEvaluation>) -> Vec<LanguageEvaluation> {
    languages.sort_by_key(|language| std::cmp::Reverse(language.scores.examples));
    languages
}
