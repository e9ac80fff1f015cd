//! Tests of questions: late interaction, its estimates and the matches of tokens.

use super::*;
use crate::domain::TokenSet;
use crate::ranking::TokenTable;
use crate::ranking::scorer::TokenScorer;

/// Makes random rows of 300 tokens in five dimensions.
fn table() -> TokenTable {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as i8
    };
    let rows: Vec<i8> = (0..300 * 5).map(|_| next().max(-127)).collect();
    let weights = (0..300).map(|token| 0.5 + (token % 7) as f32).collect();
    TokenTable { dimension: 5, rows, scales: vec![0.02; 300], weights }
}

fn passages() -> TokenIndex {
    let mut index = TokenIndex::default();
    for passage in 0..60_u32 {
        let tokens: Vec<u32> = (0..8).map(|n| (passage * 13 + n * n * 29) % 280).collect();
        index.insert(PassageId(passage.into()), &TokenSet::from_ids(&tokens));
    }
    index
}

/// Computes the formula of `late_interaction` in plain arithmetic.
fn plain(question: &[u32], passage: &[u16], index: &TokenIndex) -> f32 {
    let table = table();
    let vectors = table.vectors();
    let row = |token: usize| &vectors[token * 5..][..5];
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let cosine = |a: usize, b: usize| dot(row(a), row(b)) / (dot(row(a), row(a)) * dot(row(b), row(b))).sqrt();
    let (mut sum, mut total) = (0.0, 0.0);
    for &token in question {
        let token = token as usize;
        let near = (0..300).filter(|&other| cosine(token, other) >= NEAR);
        let without: f32 = near.map(|other| 1.0 - index.frequency(other as u16) as f32 / index.len() as f32).product();
        let share = (1.0 - without).max(1.0 / (index.len() as f32 + 1.0));
        let times = question.iter().filter(|&&other| other as usize == token).count() as f32;
        let weight = (times * table.weights[token]).powf(0.4) / times * (1.0 + 1.0 / share).ln();
        let greatest = passage.iter().map(|&other| cosine(token, usize::from(other))).fold(0.0, f32::max);
        sum += weight * greatest;
        total += weight;
    }
    sum / total
}

#[test]
fn scores_follow_the_formula() {
    let (scorer, index) = (TokenScorer::new(table()), passages());
    let long: Vec<u32> = (0..25).map(|n| n * 11).collect();
    for question in [&[5, 290, 5, 17][..], &[3], &long] {
        let compared = scorer.question(question, &index).unwrap();
        for (passage, tokens) in index.iter() {
            let (got, expect) = (compared.score(tokens, &[]), plain(question, tokens, &index));
            assert!((got - expect).abs() < 1e-4, "{question:?}, {passage:?}: {got}, expected {expect}");
        }
    }
}

#[test]
fn a_word_within_a_longer_one_counts_half() {
    let (scorer, index) = (TokenScorer::new(table()), passages());
    let question = scorer.question(&[3], &index).unwrap();
    assert_eq!(question.score(&[3], &[]), 1.0);
    assert!((question.score(&[3], &[3]) - PARTIAL).abs() < 1e-4);
    let near = question.score(&[40, 120, 290], &[]);
    assert!(near > PARTIAL, "another token is nearer than half");
    assert_eq!(question.score(&[3, 40, 120, 290], &[3]), near);
    assert_eq!(question.score(&[3, 40], &[40]), 1.0, "only tokens of the question");
}

#[test]
fn reading_passages_in_advance_does_not_change_their_scores() {
    let (scorer, index) = (TokenScorer::new(table()), passages());
    for question in [&[5, 290, 17][..], &(0..25).map(|n| n * 11).collect::<Vec<_>>()] {
        let fresh = scorer.question(question, &index).unwrap();
        let mut compared = scorer.question(question, &index).unwrap();
        compared.add_passages(index.iter().map(|(_, tokens)| tokens).chain([&[299, 300, 65_535][..]])).unwrap();
        for (passage, tokens) in index.iter() {
            assert_eq!(compared.score(tokens, &[]), fresh.score(tokens, &[]), "{passage:?}");
        }
    }
}

#[test]
fn near_tokens_are_cached_across_questions() {
    let (scorer, index) = (TokenScorer::new(table()), passages());
    let first = scorer.question(&[5, 120, 17], &index).unwrap();
    let again = scorer.question(&[17, 5], &index).unwrap();
    assert_eq!((again.ids.clone(), again.near.len()), (vec![5, 17], 2));
    assert!(Arc::ptr_eq(&first.near[0], &again.near[0]) && Arc::ptr_eq(&first.near[1], &again.near[1]));
}

#[test]
fn the_best_passages_are_returned_in_order_of_score() {
    let (scorer, mut index) = (TokenScorer::new(table()), passages());
    let compared = scorer.question(&[5, 120, 17], &index).unwrap();
    let waiting = compared.estimate(&index).nearest(&index, 60, |_| true);
    index.prepare_now();
    let (prepared, rounding) = (compared.estimate(&index).nearest(&index, 60, |_| true), 1e-4);
    assert!(waiting.len() == 60 && waiting.iter().zip(&prepared).all(|(a, b)| (a.1 - b.1).abs() < rounding));
    let mut all: Vec<(PassageId, f32)> = index.iter().map(|(passage, tokens)| (passage, compared.score(tokens, &[]))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let keys = |found: &[(PassageId, f32)]| found.iter().map(|(passage, _)| passage.0).collect::<Vec<_>>();
    assert_eq!(keys(&compared.estimate(&index).nearest(&index, 5, |_| true)), keys(&all[..5]));
    let odd: Vec<_> = all.iter().copied().filter(|(passage, _)| passage.0 % 2 == 1).collect();
    assert_eq!(keys(&compared.estimate(&index).nearest(&index, 5, |passage| passage.0 % 2 == 1)), keys(&odd[..5]));
}

#[test]
fn an_estimate_is_at_most_the_score() {
    let (scorer, mut index) = (TokenScorer::new(table()), passages());
    for prepared in [false, true] {
        if prepared {
            index.prepare_now();
        }
        let compared = scorer.question(&[5, 120, 17, 290], &index).unwrap();
        let estimates = compared.estimate(&index);
        for (passage, tokens) in index.iter() {
            let (estimate, score) = (estimates.get(&index, passage), compared.score(tokens, &[]));
            assert!((0.0..=score + 1e-4).contains(&estimate), "{passage:?}: {estimate}, {score}");
        }
        assert_eq!(estimates.get(&index, PassageId(900)), 0.0, "a passage that is not in the index");
    }
}

#[test]
fn in_large_collections_very_common_tokens_retrieve_no_passages() {
    // Three tokens with the same direction, and another one.
    let rows = vec![127, 0, 0, 127, 127, 0, 127, 0];
    let table = TokenTable { dimension: 2, rows, scales: vec![1.0; 4], weights: vec![1.0; 4] };
    let mut index = TokenIndex::default();
    for passage in 0..VISITS_MIN as u64 {
        let tokens = if passage % 1_000 == 0 { &[0, 1, 2, 3][..] } else { &[0, 2, 3] };
        index.insert(PassageId(passage), &TokenSet::from_ids(tokens));
    }
    index.prepare();
    let compared = TokenScorer::new(table).question(&[0, 1], &index).unwrap();
    let found = compared.estimate(&index).nearest(&index, 1_000, |_| true);
    assert_eq!(found.len(), 200, "only passages with the rare token are found");
    assert!(found.iter().all(|(passage, score)| passage.0 % 1_000 == 0 && *score < compared.score(&[0, 1], &[])));
}

#[test]
fn a_question_without_known_tokens_finds_nothing() {
    let (scorer, index) = (TokenScorer::new(table()), passages());
    for question in [&[][..], &[400, 70_000]] {
        let compared = scorer.question(question, &index).unwrap();
        assert_eq!((compared.score(&[1, 2], &[]), compared.estimate(&index).nearest(&index, 9, |_| true)), (0.0, Vec::new()));
    }
    let nothing = TokenIndex::default();
    assert_eq!(scorer.question(&[5], &nothing).unwrap().estimate(&nothing).nearest(&nothing, 9, |_| true), []);
}

#[test]
fn passage_tokens_missing_from_the_table_score_zero() {
    let (scorer, mut index) = (TokenScorer::new(table()), passages());
    let before = scorer.question(&[5, 17], &index).unwrap().estimate(&index).nearest(&index, 60, |_| true);
    index.insert(PassageId(900), &TokenSet::from_ids(&[300, 65_535]));
    let compared = scorer.question(&[5, 17], &index).unwrap();
    assert_eq!(compared.score(&[300, 65_535], &[]), 0.0);
    let after = compared.estimate(&index).nearest(&index, 60, |_| true);
    assert!(before.len() == after.len() && after.iter().all(|(passage, _)| passage.0 < 900), "{after:?}");
}

#[test]
fn passage_tokens_are_classified_as_near_light_or_other() {
    let scorer = TokenScorer::new(TokenTable {
        dimension: 2,
        rows: vec![127, 0, 0, 127, 120, 40, 90, 90, 126, 12],
        scales: vec![1.0; 5],
        weights: vec![1.0; 5],
    });
    let mut index = TokenIndex::default();
    (0..200).for_each(|passage| index.insert(PassageId(passage), &TokenSet::from_ids(&[1])));
    (200..205).for_each(|passage| index.insert(PassageId(passage), &TokenSet::from_ids(&[0, 2, 3, 4])));
    let compared = scorer.question(&[0, 1], &index).unwrap();
    let (near, light, other) = (TokenMatch::Near, TokenMatch::Light, TokenMatch::Other);
    assert_eq!(compared.matches(&[0, 1, 2], &[]), [near, light, other], "token 1 is light because nearly every passage has it");
    let nearest = compared.matches(&[2, 4, 4, 1, 999], &[]);
    assert_eq!(nearest, [other, near, near, light, other], "only the nearest token counts as near");
    assert_eq!(compared.matches(&[3], &[]), [near], "a cosine of 0.7 counts as near");
    assert_eq!(compared.matches(&[], &[]), []);
    assert_eq!(compared.matches(&[3, 0], &[0]), [other, other], "ignored question tokens match nothing");
}

#[test]
fn a_rare_token_is_significant_unless_another_is_far_heavier() {
    let table = |weights| TokenTable { dimension: 2, rows: vec![127, 0, 0, 127], scales: vec![1.0; 2], weights };
    let mut index = TokenIndex::default();
    index.insert(PassageId(1), &TokenSet::from_ids(&[0]));
    (2..100).for_each(|passage| index.insert(PassageId(passage), &TokenSet::from_ids(&[1])));
    let significant = |weight: f32| {
        let scorer = TokenScorer::new(table(vec![1.0, weight]));
        scorer.question(&[0, 1], &index).unwrap().is_significant(0)
    };
    assert!(significant(1.0) && significant(10.0), "a rare token is significant");
    assert!(!significant(10_000.0), "not if another token is far heavier");
}

#[test]
fn a_token_that_most_passages_have_weighs_less() {
    let scorer = TokenScorer::new(TokenTable {
        dimension: 2,
        rows: vec![127, 0, 0, 127, -127, 0],
        scales: vec![1.0; 3],
        weights: vec![1.0; 3],
    });
    let mut index = TokenIndex::default();
    (0..10).for_each(|passage| index.insert(PassageId(passage), &TokenSet::from_ids(&[0])));
    index.insert(PassageId(10), &TokenSet::from_ids(&[1]));
    let compared = scorer.question(&[0, 1], &index).unwrap();
    assert!(
        compared.score(&[1], &[]) > 0.75 && compared.score(&[0], &[]) < 0.25,
        "{} and {}",
        compared.score(&[1], &[]),
        compared.score(&[0], &[])
    );
}
