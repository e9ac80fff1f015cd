//! Evaluation of multi-label predictions. All numbers are shares, 0 to 1.

use super::evaluate::{ClassCounts, ClassReport, Confusion, macro_f1, share};
use super::{ClassifyError, Targets};
use crate::domain::EvaluationScores;

/// Evaluates the predicted labels of each example, without repetitions; `None` is an abstention. All labels are below `labels`.
///
/// An empty set of labels is a prediction. An abstention is never correct; in precision, recall and F1 it counts as an empty
/// set, so it lowers recall, but not precision. Where no label is expected or predicted, these three are 1: no label is wrong or
/// missing.
pub fn evaluate_labels(
    expected: &[Vec<u32>],
    answered: &[Option<Vec<u32>>],
    labels: usize,
) -> Result<ClassReport, ClassifyError> {
    if expected.len() != answered.len() {
        return Err(ClassifyError::Length { what: "answers", expected: expected.len(), got: answered.len() });
    }
    let predicted: Vec<Vec<u32>> = answered.iter().map(|answer| answer.clone().unwrap_or_default()).collect();
    Targets::LabelSets(expected).check(labels)?;
    Targets::LabelSets(&predicted).check(labels)?;
    let mut counts = vec![ClassCounts::default(); labels];
    let mut exact = 0;
    for ((expected, predicted), answer) in expected.iter().zip(&predicted).zip(answered) {
        expected.iter().for_each(|label| counts[*label as usize].support += 1);
        predicted.iter().for_each(|label| counts[*label as usize].answered += 1);
        let common = predicted.iter().filter(|label| expected.contains(label));
        let common = common.inspect(|label| counts[**label as usize].correct += 1).count();
        exact += usize::from(answer.is_some() && common == expected.len() && common == predicted.len());
    }
    let all = counts.iter().fold(ClassCounts::default(), |all, label| ClassCounts {
        support: all.support + label.support,
        answered: all.answered + label.answered,
        correct: all.correct + label.correct,
    });
    let measure = |value: f64| if all.occurs() { value } else { 1.0 };
    let scores = EvaluationScores {
        examples: expected.len(),
        abstained: answered.iter().filter(|answer| answer.is_none()).count(),
        accuracy: share(exact, expected.len()),
        macro_f1: measure(macro_f1(&counts)),
        micro_precision: Some(measure(all.precision())),
        micro_recall: Some(measure(all.recall())),
        micro_f1: Some(measure(all.f1())),
    };
    Ok(ClassReport { scores, classes: counts, confusion: Confusion::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::evaluate::tests::near;

    #[test]
    fn scores_match_a_hand_calculation() {
        let expected = [vec![0, 1], vec![1], vec![], vec![0], vec![2, 0]];
        let answered = [Some(vec![1, 0]), Some(vec![1, 2]), Some(vec![]), None, Some(vec![0])];
        let ClassReport { scores, classes: labels, .. } = evaluate_labels(&expected, &answered, 4).unwrap();
        // 5 predicted, 4 of them correct, and 6 expected. Label 0: 2 correct, 2 predicted, 3 expected: 4/5. Label 1: 2, 2, 2:
        // 1. Label 2: 0, 1, 1: 0. Label 3 does not occur.
        assert_eq!((scores.examples, scores.abstained), (5, 1));
        near(scores.micro_precision.unwrap(), 4.0 / 5.0);
        near(scores.micro_recall.unwrap(), 4.0 / 6.0);
        near(scores.micro_f1.unwrap(), 8.0 / 11.0);
        near(scores.macro_f1, (0.8 + 1.0 + 0.0) / 3.0);
        // The first and the third example.
        near(scores.accuracy, 2.0 / 5.0);
        near(labels[0].recall(), 2.0 / 3.0);
        assert_eq!((labels[2].support, labels[2].answered), (1, 1));
    }

    #[test]
    fn examples_that_rightly_have_no_label_score_one() {
        let scores = evaluate_labels(&[vec![], vec![]], &[Some(vec![]), Some(vec![])], 3).unwrap().scores;
        assert_eq!((scores.accuracy, scores.macro_f1), (1.0, 1.0));
        assert_eq!((scores.micro_precision, scores.micro_recall, scores.micro_f1), (Some(1.0), Some(1.0), Some(1.0)));
        let wrong = evaluate_labels(&[vec![]], &[Some(vec![2])], 3).unwrap().scores;
        assert_eq!((wrong.accuracy, wrong.macro_f1, wrong.micro_f1), (0.0, 0.0, Some(0.0)));
    }

    #[test]
    fn mismatched_lengths_and_invalid_labels_are_refused() {
        let judge = |expected: &[Vec<u32>], answered: &[Option<Vec<u32>>]| evaluate_labels(expected, answered, 2).unwrap_err();
        assert_eq!(judge(&[vec![]], &[]), ClassifyError::Length { what: "answers", expected: 1, got: 0 });
        assert_eq!(judge(&[vec![2]], &[None]), ClassifyError::Label { example: 0, got: 2, labels: 2 });
        assert_eq!(judge(&[vec![1]], &[Some(vec![1, 1])]), ClassifyError::Repeated { example: 0, label: 1 });
    }
}
