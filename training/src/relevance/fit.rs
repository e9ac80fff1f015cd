//! Two small fits: the proportions that rank the correct candidates high, and the scale that turns scores into probabilities.

use dragoman::domain::RelevanceWeights;
use dragoman::ranking::Evidence;

use super::Levels;
use super::evidence::{RankedQuestion, SearchKind};

/// Number of weights.
const FEATURES: usize = 5;
/// Steps of gradient ascent; far more than so few parameters need.
const STEPS: usize = 3_000;
const RATE: f64 = 0.05;
/// Regularization of the proportions, so that uninformative evidence gets no weight.
const SHRINKAGE: f64 = 1e-4;
/// Weight of a question's highest-scoring wrong passage in the scale fit; its random wrong passages share the rest.
const CLOSEST_SHARE: f64 = 0.2;

/// Factors by which a proportion is changed to raise the correct candidates, the coarsest first.
const FACTORS: [f64; 5] = [2.0, 1.5, 1.2, 1.1, 1.05];
/// A change counts if the mean reciprocal rank gains more than this.
const GAIN_MIN: f64 = 1e-5;

type Features = [f64; FEATURES];

/// Fits the weights on `questions`.
pub fn weights(questions: &[RankedQuestion]) -> RelevanceWeights {
    let direction = ranking_highest(questions, proportions(questions));
    let (scale, bias) = scale_and_offset(questions, &direction);
    let [dense, late, lexical, translated, tokens] = direction.map(|weight| (weight * scale) as f32);
    RelevanceWeights { dense, late, lexical, translated, tokens, bias: bias as f32 }
}

/// Mean reciprocal rank of the correct candidate, 0 beyond rank ten, in percent, for searches of one kind.
pub fn mrr_at_10(questions: &[RankedQuestion], kind: SearchKind, weights: &RelevanceWeights) -> f64 {
    let counted: Vec<&RankedQuestion> = questions.iter().filter(|question| question.kind == kind).collect();
    let reciprocal = |question: &RankedQuestion| {
        let scores: Vec<f32> = question.candidates.iter().map(|evidence| evidence.relevance(weights)).collect();
        let own = scores[question.answer];
        reciprocal_rank(scores.iter().enumerate().filter(|(number, score)| *number != question.answer && **score >= own).count())
    };
    100.0 * counted.iter().map(|question| reciprocal(question)).sum::<f64>() / counted.len().max(1) as f64
}

/// The distribution of the relevance of correct and other passages.
pub fn levels(questions: &[RankedQuestion], weights: &RelevanceWeights) -> Levels {
    let relevance = |evidence: &Evidence| evidence.relevance(weights);
    let wrong = |question: &RankedQuestion| {
        let wrong = question.candidates.iter().enumerate().filter(|(number, _)| *number != question.answer);
        wrong.map(|(_, evidence)| relevance(evidence)).max_by(f32::total_cmp)
    };
    let right: Vec<f32> = questions.iter().map(|question| relevance(&question.candidates[question.answer])).collect();
    let closest = questions.iter().filter_map(wrong).collect();
    let others = questions.iter().flat_map(|question| &question.others).map(relevance).collect();
    Levels {
        right: [reached_by(0.5, right.clone()), reached_by(0.9, right)],
        closest: reached_by(0.5, closest),
        other: reached_by(0.5, others),
    }
}

/// The value that `share` of the values reach or exceed; 0 without values.
fn reached_by(share: f64, mut values: Vec<f32>) -> f32 {
    values.sort_by(|a, b| b.total_cmp(a));
    let rank = (share * values.len() as f64) as usize;
    values.get(rank.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

fn features(evidence: &Evidence) -> Features {
    let length = (1.0 + evidence.tokens as f64).ln();
    [evidence.dense.into(), evidence.late.unwrap_or(0.0).into(), evidence.lexical.into(), evidence.translated.into(), length]
}

fn dot(a: &Features, b: &Features) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The weights for which a softmax over the candidates gives the correct ones the most probability. Each kind of search has the
/// same total weight.
fn proportions(questions: &[RankedQuestion]) -> Features {
    let share = SearchKind::ALL.map(|kind| {
        let of_kind = questions.iter().filter(|question| question.kind == kind).count();
        1.0 / (SearchKind::ALL.len() * of_kind.max(1)) as f64
    });
    let rows: Vec<(Vec<Features>, usize, f64)> = questions
        .iter()
        .map(|question| (question.candidates.iter().map(features).collect(), question.answer, share[question.kind as usize]))
        .collect();
    let gradient = |weights: &Features| {
        let mut gradient = weights.map(|weight| -SHRINKAGE * weight);
        for (candidates, answer, share) in &rows {
            let scores: Vec<f64> = candidates.iter().map(|candidate| dot(weights, candidate)).collect();
            let highest = scores.iter().copied().fold(f64::MIN, f64::max);
            let odds: Vec<f64> = scores.iter().map(|score| (score - highest).exp()).collect();
            let total: f64 = odds.iter().sum();
            for (number, (candidate, odds)) in candidates.iter().zip(odds).enumerate() {
                let error = share * (f64::from(u8::from(number == *answer)) - odds / total);
                gradient.iter_mut().zip(candidate).for_each(|(gradient, value)| *gradient += error * value);
            }
        }
        gradient
    };
    // Evidence never counts against a passage, so if two kinds of evidence are redundant, one of them may get no weight.
    let minimum = [0.0, 0.0, 0.0, 0.0, f64::MIN];
    ascend([5.0, 5.0, 5.0, 5.0, 0.0], minimum, gradient)
}

/// Changes one proportion at a time, as long as that raises the mean reciprocal rank of the correct candidates (coordinate
/// ascent; Metzler and Croft, "Linear feature-based models for information retrieval", 2007, section 4). For some questions no
/// evidence points to the correct candidate, and these dominate the likelihood, which therefore favors evidence that is never far
/// off. The rank favors evidence that is often right. Each kind of search has the same total weight.
fn ranking_highest(questions: &[RankedQuestion], mut direction: Features) -> Features {
    let groups = SearchKind::ALL.map(|kind| {
        let of_kind = questions.iter().filter(|question| question.kind == kind);
        of_kind.map(|question| (question.candidates.iter().map(features).collect(), question.answer)).collect::<Vec<_>>()
    });
    let measure = |direction: &Features| groups.iter().map(|group| mean_reciprocal_rank(group, direction)).sum::<f64>();
    let mut best = measure(&direction);
    for factor in FACTORS {
        let mut changed = true;
        while changed {
            changed = false;
            for (proportion, by) in (0..FEATURES).flat_map(|proportion| [(proportion, factor), (proportion, 1.0 / factor)]) {
                let mut other = direction;
                other[proportion] *= by;
                let reached = measure(&other);
                if reached > best + GAIN_MIN {
                    (best, direction, changed) = (reached, other, true);
                }
            }
        }
    }
    direction
}

/// The mean of 1/rank of the correct candidates, 0 beyond rank ten.
fn mean_reciprocal_rank(group: &[(Vec<Features>, usize)], direction: &Features) -> f64 {
    let reciprocal = |(candidates, answer): &(Vec<Features>, usize)| {
        let own = dot(direction, &candidates[*answer]);
        let before = candidates.iter().enumerate().filter(|(number, other)| number != answer && dot(direction, other) >= own);
        reciprocal_rank(before.count())
    };
    group.iter().map(reciprocal).sum::<f64>() / group.len().max(1) as f64
}

/// The reciprocal of the rank of a candidate behind `others` others, 0 beyond rank ten.
fn reciprocal_rank(others: usize) -> f64 {
    if others < 10 { 1.0 / (others + 1) as f64 } else { 0.0 }
}

/// The scale of the score and its offset, for which the logistic function gives the probability that a passage is correct,
/// given one wrong passage per correct one.
fn scale_and_offset(questions: &[RankedQuestion], direction: &Features) -> (f64, f64) {
    let score = |evidence: &Evidence| dot(direction, &features(evidence));
    // [score, whether it is correct, its weight]
    let mut rows: Vec<(f64, f64, f64)> = Vec::new();
    for question in questions {
        rows.push((score(&question.candidates[question.answer]), 1.0, 1.0));
        let wrong = question.candidates.iter().enumerate().filter(|(number, _)| *number != question.answer);
        let closest = wrong.map(|(_, evidence)| score(evidence)).max_by(f64::total_cmp);
        let any_share = if question.others.is_empty() { 0.0 } else { 1.0 - CLOSEST_SHARE };
        rows.extend(closest.map(|closest| (closest, 0.0, 1.0 - any_share)));
        rows.extend(question.others.iter().map(|other| (score(other), 0.0, any_share / question.others.len() as f64)));
    }
    let mean = rows.iter().map(|(score, ..)| score).sum::<f64>() / rows.len().max(1) as f64;
    let count = rows.len().max(1) as f64;
    let gradient = |weights: &[f64; 2]| {
        let mut gradient = [0.0; 2];
        for (score, right, counts) in &rows {
            let likely = 1.0 / (1.0 + (-(weights[0] * (score - mean) + weights[1])).exp());
            let error = counts * (right - likely) / count;
            gradient[0] += error * (score - mean);
            gradient[1] += error;
        }
        gradient
    };
    let [scale, offset] = ascend([1.0, 0.0], [f64::MIN; 2], gradient);
    (scale, offset - scale * mean)
}

/// Gradient ascent with a separate rate for each number (Adam; Kingma and Ba, 2015); no number falls below its minimum.
fn ascend<const N: usize>(mut weights: [f64; N], minimum: [f64; N], gradient: impl Fn(&[f64; N]) -> [f64; N]) -> [f64; N] {
    let (mut first, mut second) = ([0.0; N], [0.0; N]);
    for step in 1..=STEPS {
        let rate = RATE * (1.0 - step as f64 / (STEPS + 1) as f64);
        for (number, slope) in gradient(&weights).into_iter().enumerate() {
            first[number] = 0.9 * first[number] + 0.1 * slope;
            second[number] = 0.999 * second[number] + 0.001 * slope * slope;
            let corrected = (second[number] / (1.0 - 0.999_f64.powi(step as i32))).sqrt() + 1e-12;
            weights[number] += rate * first[number] / (1.0 - 0.9_f64.powi(step as i32)) / corrected;
            weights[number] = weights[number].max(minimum[number]);
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reached_by_returns_the_value_that_a_share_reaches() {
        let values: Vec<f32> = (1..=10).map(|n| n as f32).collect();
        assert_eq!((reached_by(0.5, values.clone()), reached_by(0.9, values), reached_by(0.5, Vec::new())), (5.0, 1.0, 0.0));
    }

    /// Questions whose correct passage is nearly always identified by late interaction, and by nothing else.
    fn questions() -> Vec<RankedQuestion> {
        let noise = |n: usize| (n * 7_919 % 101) as f32 / 101.0;
        let question = |n: usize| {
            let other = |k: usize| Evidence {
                dense: noise(n + k),
                late: Some(0.2 + 0.3 * noise(n * 3 + k)),
                lexical: noise(n * 5 + k) * 0.1,
                translated: 0.0,
                tokens: 10 + (n * k) % 30,
            };
            let mut candidates: Vec<Evidence> = (1..9).map(other).collect();
            candidates[n % 8].late = Some(0.45 + 0.2 * noise(n));
            RankedQuestion {
                kind: SearchKind::ALL[n % 3],
                held_out: false,
                candidates,
                answer: n % 8,
                others: vec![other(50), other(70)],
            }
        };
        (0..200).map(question).collect()
    }

    #[test]
    fn informative_evidence_gets_the_weight_and_separates_right_from_wrong() {
        let questions = questions();
        let fitted = weights(&questions);
        let RelevanceWeights { dense, late, .. } = fitted;
        assert!(late > 10.0 && dense.abs() < late / 10.0, "{fitted:?}");
        let flat = RelevanceWeights { dense: 1.0, late: 0.0, lexical: 0.0, translated: 0.0, tokens: 0.0, bias: 0.0 };
        assert!(
            mrr_at_10(&questions, SearchKind::SameLanguage, &fitted) > 85.0
                && mrr_at_10(&questions, SearchKind::SameLanguage, &flat) < 60.0
        );
        let right = questions.iter().map(|question| question.candidates[question.answer].relevance(&fitted)).sum::<f32>() / 200.0;
        let wrong =
            questions.iter().flat_map(|question| &question.others).map(|other| other.relevance(&fitted)).sum::<f32>() / 400.0;
        assert!(right > 0.75 && wrong < 0.25, "mean relevance of correct passages {right}, of others {wrong}");
    }

    #[test]
    fn proportions_change_until_the_mean_reciprocal_rank_stops_rising() {
        let questions = questions();
        let mean = |direction: &Features| {
            let candidates = |question: &RankedQuestion| (question.candidates.iter().map(features).collect(), question.answer);
            mean_reciprocal_rank(&questions.iter().map(candidates).collect::<Vec<_>>(), direction)
        };
        let before = [3.0, 0.5, 0.0, 0.0, 0.1];
        let after = ranking_highest(&questions, before);
        assert!(after[1] / after[0] > 1.0, "late interaction should weigh more than embeddings: {after:?}");
        assert!(mean(&after) > mean(&before) + 0.1, "from {} to {}", mean(&before), mean(&after));
        assert_eq!(ranking_highest(&questions, after), after);
    }
}
