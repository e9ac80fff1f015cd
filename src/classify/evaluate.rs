//! Evaluation of single-label predictions: per class, per language, and the loss in accuracy from the training
//! language to the others. All numbers are shares, 0 to 1.

use std::collections::BTreeMap;

use super::ClassifyError;
use crate::domain::{EvaluationScores, Language, LanguageGap, TransferGap};

/// The confusion matrix: the number of examples by expected class and prediction, where `None` is an abstention.
pub type Confusion = BTreeMap<(u32, Option<u32>), usize>;

/// Counts of one class, and the measures that follow from them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClassCounts {
    /// Number of examples of this class.
    pub support: usize,
    /// Number of predictions of this class.
    pub answered: usize,
    /// Number of correct predictions of this class.
    pub correct: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClassReport {
    pub scores: EvaluationScores,
    /// By the number of the class or label.
    pub classes: Vec<ClassCounts>,
    /// Empty for multi-label predictions.
    pub confusion: Confusion,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LanguageReport {
    pub all: ClassReport,
    /// By language; `None` stands for examples of unknown language.
    pub languages: BTreeMap<Option<Language>, ClassReport>,
    /// The loss in accuracy from the training language to the others, if it and at least one other language have examples.
    pub transfer: Option<TransferGap>,
}

/// Evaluates one prediction per example; `None` is an abstention. All classes are below `classes`.
pub fn evaluate_classes(expected: &[u32], answered: &[Option<u32>], classes: usize) -> Result<ClassReport, ClassifyError> {
    check(expected, answered, classes)?;
    let mut confusion = Confusion::new();
    expected.iter().zip(answered).for_each(|(expected, answered)| *confusion.entry((*expected, *answered)).or_default() += 1);
    Ok(ClassReport::of(confusion, classes))
}

/// Evaluates all examples and those of each language. `evaluate` takes the expected labels of some examples, and the predictions.
/// `trained_in` is the training language, if there was only one.
pub fn evaluate_languages<E: Clone, A: Clone>(
    expected: &[E],
    answered: &[A],
    languages: &[Option<Language>],
    trained_in: Option<Language>,
    evaluate: impl Fn(&[E], &[A]) -> Result<ClassReport, ClassifyError>,
) -> Result<LanguageReport, ClassifyError> {
    let all = evaluate(expected, answered)?;
    if languages.len() != expected.len() {
        return Err(ClassifyError::Length { what: "languages", expected: expected.len(), got: languages.len() });
    }
    let mut examples: BTreeMap<Option<Language>, Vec<usize>> = BTreeMap::new();
    languages.iter().enumerate().for_each(|(example, language)| examples.entry(*language).or_default().push(example));
    let mut reports = BTreeMap::new();
    for (language, examples) in examples {
        let expected: Vec<E> = examples.iter().map(|example| expected[*example].clone()).collect();
        let answered: Vec<A> = examples.iter().map(|example| answered[*example].clone()).collect();
        reports.insert(language, evaluate(&expected, &answered)?);
    }
    let transfer = trained_in.and_then(|from| transfer_gap(from, &reports));
    Ok(LanguageReport { all, languages: reports, transfer })
}

/// Returns the most frequent class, or the lowest in a tie. Always predicting it is the baseline.
pub fn majority(classes: &[u32]) -> Option<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    classes.iter().for_each(|class| *counts.entry(*class).or_default() += 1);
    counts.into_iter().min_by_key(|(class, count)| (std::cmp::Reverse(*count), *class)).map(|(class, _)| class)
}

impl ClassReport {
    fn of(confusion: Confusion, classes: usize) -> Self {
        let mut counts = vec![ClassCounts::default(); classes];
        let (mut examples, mut abstained) = (0, 0);
        for (&(expected, answered), &count) in &confusion {
            examples += count;
            counts[expected as usize].support += count;
            match answered {
                None => abstained += count,
                Some(answered) => counts[answered as usize].answered += count,
            }
            if answered == Some(expected) {
                counts[expected as usize].correct += count;
            }
        }
        let correct: usize = counts.iter().map(|class| class.correct).sum();
        let scores = EvaluationScores {
            examples,
            abstained,
            accuracy: share(correct, examples),
            macro_f1: macro_f1(&counts),
            micro_precision: None,
            micro_recall: None,
            micro_f1: None,
        };
        Self { scores, classes: counts, confusion }
    }
}

impl ClassCounts {
    /// Precision: the share of correct predictions among the predictions of this class; 0 without any.
    pub fn precision(&self) -> f64 {
        share(self.correct, self.answered)
    }

    /// Recall: the share of examples of this class that were predicted correctly; 0 without any. An abstention counts as a
    /// miss.
    pub fn recall(&self) -> f64 {
        share(self.correct, self.support)
    }

    /// The harmonic mean of precision and recall; 0 if both are 0.
    pub fn f1(&self) -> f64 {
        share(2 * self.correct, self.answered + self.support)
    }

    /// Whether the class is expected or predicted at least once.
    pub fn occurs(&self) -> bool {
        self.support + self.answered > 0
    }
}

/// Computes how a classifier trained in one language performs in the others. `own` and `mean` are the values with the same
/// names in the evaluation in `training` (EMS, 2024, tables XI to XIII), as shares.
fn transfer_gap(from: Language, languages: &BTreeMap<Option<Language>, ClassReport>) -> Option<TransferGap> {
    let own = languages.get(&Some(from))?.scores.accuracy;
    let others = languages.iter().filter_map(|(language, report)| language.map(|language| (language, report.scores.accuracy)));
    let others: Vec<(Language, f64)> = others.filter(|(language, _)| *language != from).collect();
    let mean = others.iter().map(|(_, accuracy)| accuracy).sum::<f64>() / others.len() as f64;
    let gaps = others.iter().map(|(language, accuracy)| LanguageGap { language: *language, gap: own - accuracy }).collect();
    (!others.is_empty()).then_some(TransferGap { from, own, mean, gap: own - mean, gaps })
}

/// Returns the mean F1 of the classes that occur; 0 if there are none.
pub(super) fn macro_f1(classes: &[ClassCounts]) -> f64 {
    let seen = classes.iter().filter(|class| class.occurs());
    let (sum, count) = seen.fold((0.0, 0), |(sum, count), class| (sum + class.f1(), count + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

pub(super) fn share(part: usize, of: usize) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

fn check(expected: &[u32], answered: &[Option<u32>], classes: usize) -> Result<(), ClassifyError> {
    if expected.len() != answered.len() {
        return Err(ClassifyError::Length { what: "answers", expected: expected.len(), got: answered.len() });
    }
    for (example, (class, predicted)) in expected.iter().zip(answered).enumerate() {
        if let Some(got) = [Some(*class), *predicted].into_iter().flatten().find(|class| *class as usize >= classes) {
            return Err(ClassifyError::Label { example, got, labels: classes });
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    pub(in crate::classify) fn near(got: f64, expect: f64) {
        assert!((got - expect).abs() < 1e-9, "{got} is not {expect}");
    }

    /// Expected 0 0 0 0 1 1 2 2; predicted 0 0 1 – 1 0 2 –; class 3 does not occur.
    const EXPECTED: [u32; 8] = [0, 0, 0, 0, 1, 1, 2, 2];
    const ANSWERED: [Option<u32>; 8] = [Some(0), Some(0), Some(1), None, Some(1), Some(0), Some(2), None];

    #[test]
    fn scores_match_a_hand_calculation() {
        let report = evaluate_classes(&EXPECTED, &ANSWERED, 4).unwrap();
        assert_eq!((report.scores.examples, report.scores.abstained), (8, 2));
        near(report.scores.accuracy, 4.0 / 8.0);
        // Class 0: 2 of 3 predicted, 2 of 4 expected, F1 4/7. Class 1: 1 of 2, 1 of 2, 1/2. Class 2: 1 of 1, 1 of 2, 2/3.
        let expect =
            [(2.0 / 3.0, 0.5, 4.0 / 7.0, 4, 3), (0.5, 0.5, 0.5, 2, 2), (1.0, 0.5, 2.0 / 3.0, 2, 1), (0.0, 0.0, 0.0, 0, 0)];
        for (score, (precision, recall, f1, support, answered)) in report.classes.iter().zip(expect) {
            near(score.precision(), precision);
            near(score.recall(), recall);
            near(score.f1(), f1);
            assert_eq!((score.support, score.answered), (support, answered));
        }
        near(report.scores.macro_f1, (4.0 / 7.0 + 0.5 + 2.0 / 3.0) / 3.0);
        let from_zero = [((0, None), 1), ((0, Some(0)), 2), ((0, Some(1)), 1)];
        let from_others = [((1, Some(0)), 1), ((1, Some(1)), 1), ((2, None), 1), ((2, Some(2)), 1)];
        assert_eq!(report.confusion, from_zero.into_iter().chain(from_others).collect::<Confusion>());
    }

    fn by_language(
        (expected, answered): (&[u32], &[Option<u32>]),
        classes: usize,
        languages: &[Option<Language>],
        trained_in: Option<Language>,
    ) -> Result<LanguageReport, ClassifyError> {
        let evaluate = |expected: &[u32], answered: &[Option<u32>]| evaluate_classes(expected, answered, classes);
        evaluate_languages(expected, answered, languages, trained_in, evaluate)
    }

    #[test]
    fn reports_accuracy_per_language_and_the_transfer_gap() {
        let [en, de, fr] = ["en", "de", "fr"].map(Language::parse);
        // English 2 of 2; German 0 of 2; French 1 of 2; unknown 1 of 2.
        let languages = [en, en, de, de, fr, fr, None, None];
        let report = by_language((&EXPECTED, &ANSWERED), 3, &languages, en).unwrap();
        near(report.languages[&en].scores.accuracy, 1.0);
        near(report.languages[&None].scores.accuracy, 0.5);
        assert_eq!(report.languages[&de].scores.abstained, 1);
        let transfer = report.transfer.unwrap();
        near(transfer.own, 1.0);
        near(transfer.mean, 0.25);
        near(transfer.gap, 0.75);
        let gaps: Vec<_> = transfer.gaps.iter().map(|gap| (Some(gap.language), gap.gap)).collect();
        assert_eq!(gaps, [(de, 1.0), (fr, 0.5)]);
        assert_eq!(report.all, evaluate_classes(&EXPECTED, &ANSWERED, 3).unwrap());
    }

    #[test]
    fn the_transfer_gap_needs_the_training_language_and_another() {
        let [en, de] = ["en", "de"].map(Language::parse);
        let transfer = |languages: [Option<Language>; 2], from| {
            by_language((&[0, 1], &[Some(0), Some(1)]), 2, &languages, from).unwrap().transfer
        };
        assert_eq!(transfer([en, en], en), None);
        assert_eq!(transfer([en, None], en), None);
        assert_eq!(transfer([de, de], en), None);
        assert_eq!(transfer([en, de], None), None);
        assert!(transfer([en, de], en).is_some());
    }

    #[test]
    fn empty_and_fully_abstained_evaluations_score_zero() {
        let empty = evaluate_classes(&[], &[], 2).unwrap().scores;
        assert_eq!((empty.accuracy, empty.macro_f1), (0.0, 0.0));
        let silent = evaluate_classes(&[0], &[None], 2).unwrap().scores;
        assert_eq!((silent.accuracy, silent.abstained), (0.0, 1));
    }

    #[test]
    fn mismatched_lengths_and_unknown_classes_are_refused() {
        let judge = |expected: &[u32], answered: &[Option<u32>]| evaluate_classes(expected, answered, 2).unwrap_err();
        assert_eq!(judge(&[0], &[]), ClassifyError::Length { what: "answers", expected: 1, got: 0 });
        assert_eq!(judge(&[0, 2], &[None, None]), ClassifyError::Label { example: 1, got: 2, labels: 2 });
        assert_eq!(judge(&[0], &[Some(5)]), ClassifyError::Label { example: 0, got: 5, labels: 2 });
        assert!(by_language((&[0], &[None]), 1, &[], None).is_err());
    }

    #[test]
    fn majority_ties_go_to_the_lowest_class() {
        assert_eq!((majority(&[2, 1, 1, 2, 0]), majority(&[])), (Some(1), None));
    }

    proptest! {
        #[test]
        fn counts_add_up(rows in prop::collection::vec((0_u32..5, prop::option::of(0_u32..5)), 0..100)) {
            let (expected, answered): (Vec<u32>, Vec<Option<u32>>) = rows.into_iter().unzip();
            let report = evaluate_classes(&expected, &answered, 5).unwrap();
            prop_assert_eq!(report.classes.iter().map(|class| class.support).sum::<usize>(), expected.len());
            let predicted: usize = report.classes.iter().map(|class| class.answered).sum();
            prop_assert_eq!(predicted + report.scores.abstained, expected.len());
            prop_assert_eq!(report.confusion.values().sum::<usize>(), expected.len());
            let weighted: f64 = report.classes.iter().map(|class| class.recall() * class.support as f64).sum();
            prop_assert!((weighted - report.scores.accuracy * expected.len() as f64).abs() < 1e-6);
        }
    }
}
