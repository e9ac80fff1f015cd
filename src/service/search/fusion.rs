//! Merges lists of candidates: by reciprocal rank fusion, or by letting languages take turns.

use std::collections::HashMap;

use super::hits::Candidate;
use crate::domain::{DocumentId, Fusion, Language, Metric, RankedScore};

/// A hit only takes a turn if it has at least this share of the best score by the metric, or of the best BM25. Hits below that
/// are not about the query, and a turn would put them before others that are.
const TURN_SCORE_PART: f32 = 0.5;

/// Fuses two lists. Each document gets the sum of weight / (rank constant + rank) over the lists that have it, and keeps the
/// passage from the list where it ranks higher.
pub(super) fn fuse(dense: Vec<Candidate>, lexical: Vec<Candidate>, fusion: &Fusion) -> Vec<Candidate> {
    let share = |weight: f32, ranked: Option<RankedScore>| {
        ranked.map_or(0.0, |ranked| weight / (fusion.rank_constant + ranked.rank as f32))
    };
    let mut fused = dense;
    let mut positions: HashMap<DocumentId, usize> =
        fused.iter().enumerate().map(|(position, candidate)| (candidate.document.clone(), position)).collect();
    for candidate in lexical {
        match positions.get(&candidate.document) {
            None => {
                positions.insert(candidate.document.clone(), fused.len());
                fused.push(candidate);
            }
            Some(&position) => {
                let known = &mut fused[position];
                known.ranks.lexical = candidate.ranks.lexical;
                let rank = |ranked: Option<RankedScore>| ranked.map_or(usize::MAX, |ranked| ranked.rank);
                if rank(known.ranks.lexical) < rank(known.ranks.dense) {
                    known.passage = candidate.passage;
                }
            }
        }
    }
    for candidate in &mut fused {
        candidate.score = share(fusion.dense, candidate.ranks.dense) + share(fusion.lexical, candidate.ranks.lexical);
    }
    // A list of weight zero adds no candidates.
    fused.retain(|candidate| candidate.score > 0.0);
    sort(&mut fused);
    fused
}

/// Sorts by score, best first. Among equal scores, the older passage comes first.
pub(super) fn sort(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.passage.cmp(&b.passage)));
}

/// Lets languages take turns: first comes the best hit of each language, then the second best of each, and so on. Within a
/// turn, hits are sorted by score, and of equal scores the nearer embedding comes first, then the older passage. A hit only takes
/// a turn if its score is at least half of the best score, or its BM25 at least half of the best BM25. The others follow by
/// score. Documents without a language count as one language of their own.
///
/// Every prefix of the result is balanced, so pages are balanced and do not depend on each other.
pub(super) fn interleave_languages(mut candidates: Vec<Candidate>, metric: Metric) -> Vec<Candidate> {
    // Fused scores are equal where ranks are, as those of the languages' best hits.
    let dense = |candidate: &Candidate| candidate.ranks.dense.map_or(f32::NEG_INFINITY, |ranked| ranked.score);
    let tie = |a: &Candidate, b: &Candidate| dense(b).total_cmp(&dense(a)).then(a.passage.cmp(&b.passage));
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| tie(a, b)));
    // Uses the scores of the lists, because a fused score says nothing about how near a language's best hit is.
    let lists: [fn(&Candidate) -> Option<RankedScore>; 2] =
        [|candidate| candidate.ranks.dense, |candidate| candidate.ranks.lexical];
    let best = |list: fn(&Candidate) -> Option<RankedScore>| {
        candidates.iter().filter_map(list).map(|ranked| ranked.score).fold(f32::NEG_INFINITY, f32::max)
    };
    // Distances are negated scores: up to twice the smallest distance counts like at least half of the best score elsewhere.
    let dense_bar = |best: f32| if metric == Metric::L2 { best / TURN_SCORE_PART } else { above_zero(best * TURN_SCORE_PART) };
    let bars = [dense_bar(best(lists[0])), above_zero(best(lists[1]) * TURN_SCORE_PART)];
    let is_near = |candidate: &Candidate| {
        let mut scores = lists.iter().zip(bars).filter_map(|(list, bar)| Some((list(candidate)?.score, bar)));
        scores.any(|(score, bar)| score >= bar)
    };
    take_turns(candidates, is_near)
}

/// Puts candidates, sorted best first, into turns by language if `is_near` accepts them. The others follow.
fn take_turns(candidates: Vec<Candidate>, is_near: impl Fn(&Candidate) -> bool) -> Vec<Candidate> {
    let mut ranks: HashMap<Option<Language>, usize> = HashMap::new();
    let mut ordered: Vec<(usize, Candidate)> = candidates
        .into_iter()
        .map(|candidate| {
            if !is_near(&candidate) {
                return (usize::MAX, candidate);
            }
            let rank = ranks.entry(candidate.language).or_default();
            *rank += 1;
            (*rank, candidate)
        })
        .collect();
    // The sort is stable, so within a turn the order by score stays.
    ordered.sort_by_key(|(rank, _)| *rank);
    ordered.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Lets languages take turns, using only the scores. Scores must mean the same in all languages. A hit only takes a turn if
/// it has at least half of the best score.
pub(super) fn interleave_languages_by_score(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    sort(&mut candidates);
    let bar = candidates.first().map_or(0.0, |best| best.score * TURN_SCORE_PART);
    take_turns(candidates, |candidate| candidate.score >= bar)
}

/// Raises a bar so that scores of zero and below never reach it.
fn above_zero(bar: f32) -> f32 {
    bar.max(f32::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{HitRanks, PassageId};

    fn candidate(key: u64, language: &str, score: f32, ranks: HitRanks) -> Candidate {
        Candidate { ranks, ..Candidate::example(key, language, score) }
    }

    fn list(keys: &[u64], ranks: fn(RankedScore) -> HitRanks) -> Vec<Candidate> {
        let ranked = keys.iter().zip(1..);
        ranked.map(|(key, rank)| candidate(*key, "", 0.5, ranks(RankedScore { rank, score: 0.5 }))).collect()
    }

    fn fused(dense: &[u64], lexical: &[u64], fusion: Fusion) -> Vec<(u64, f32)> {
        let dense = list(dense, |ranked| HitRanks { dense: Some(ranked), ..HitRanks::default() });
        let lexical = list(lexical, |ranked| HitRanks { lexical: Some(ranked), ..HitRanks::default() });
        fuse(dense, lexical, &fusion).iter().map(|candidate| (candidate.passage.0, candidate.score)).collect()
    }

    #[test]
    fn a_document_in_both_lists_ranks_before_documents_in_one() {
        let found = fused(&[1, 2, 3], &[4, 3], Fusion::default());
        let expect = [(3, 1.0 / 63.0 + 1.0 / 62.0), (1, 1.0 / 61.0), (4, 1.0 / 61.0), (2, 1.0 / 62.0)];
        assert_eq!(found.len(), expect.len());
        for ((key, score), (expect_key, expect_score)) in found.into_iter().zip(expect) {
            assert_eq!(key, expect_key);
            assert!((score - expect_score).abs() < 1e-6, "{key}: {score}");
        }
    }

    #[test]
    fn weights_and_the_rank_constant_change_the_order() {
        let keys = |fusion| fused(&[1, 2], &[3, 2], fusion).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(keys(Fusion { lexical: 2.0, ..Fusion::default() }), [2, 3, 1]);
        assert_eq!(keys(Fusion { dense: 0.0, ..Fusion::default() }), [3, 2]);
        assert_eq!(keys(Fusion { rank_constant: 1.0, lexical: 0.1, ..Fusion::default() }), [1, 2, 3]);
    }

    #[test]
    fn a_fused_document_keeps_the_passage_of_its_higher_rank() {
        let at_rank = |rank| Some(RankedScore { rank, score: 0.5 });
        let mut of_words = candidate(7, "", 0.5, HitRanks { lexical: at_rank(1), ..HitRanks::default() });
        let of_meaning = candidate(9, "", 0.5, HitRanks { dense: at_rank(2), ..HitRanks::default() });
        of_words.document = of_meaning.document.clone();
        let found = fuse(vec![of_meaning], vec![of_words], &Fusion::default());
        assert_eq!(
            (found.len(), found[0].passage, found[0].ranks.clone()),
            (1, PassageId(7), HitRanks { dense: at_rank(2), lexical: at_rank(1), ..HitRanks::default() })
        );
    }

    fn in_turn(candidates: &[(u64, &str, f32)]) -> Vec<u64> {
        let ranks = |score| HitRanks { dense: Some(RankedScore { rank: 1, score }), ..HitRanks::default() };
        let candidates = candidates.iter().map(|(key, language, score)| candidate(*key, language, *score, ranks(*score)));
        interleave_languages(candidates.collect(), Metric::Cosine).iter().map(|candidate| candidate.passage.0).collect()
    }

    #[test]
    fn every_near_language_takes_its_first_turn_before_any_second_turn() {
        let found = in_turn(&[(1, "en", 0.9), (2, "en", 0.8), (3, "en", 0.7), (4, "fr", 0.6), (5, "ja", 0.5), (6, "fr", 0.5)]);
        assert_eq!(found, [1, 4, 5, 2, 6, 3]);
    }

    #[test]
    fn distant_hits_take_no_turn() {
        assert_eq!(in_turn(&[(1, "en", 0.9), (2, "en", 0.8), (3, "fr", 0.4), (4, "", 0.1)]), [1, 2, 3, 4]);
        assert_eq!(in_turn(&[(1, "en", -0.1), (2, "fr", -0.3), (3, "en", -0.2)]), [1, 3, 2]);
        assert_eq!(in_turn(&[]), [0; 0]);
    }

    #[test]
    fn of_equal_fused_scores_the_nearer_embedding_comes_first() {
        let first_of = |key, language, score| {
            let ranks = HitRanks { dense: Some(RankedScore { rank: 1, score }), ..HitRanks::default() };
            candidate(key, language, 0.016, ranks)
        };
        let candidates = vec![first_of(1, "ar", 0.4), first_of(2, "nl", 0.7), first_of(3, "en", 0.5)];
        let found = interleave_languages(candidates, Metric::Cosine);
        assert_eq!(found.iter().map(|candidate| candidate.passage.0).collect::<Vec<_>>(), [2, 3, 1]);
    }

    #[test]
    fn l2_distances_up_to_twice_the_smallest_count_as_near() {
        let ranks = |score| HitRanks { dense: Some(RankedScore { rank: 1, score }), ..HitRanks::default() };
        let of = |key, language, score| candidate(key, language, score, ranks(score));
        let candidates = vec![of(1, "en", -1.0), of(2, "en", -1.5), of(3, "fr", -2.0), of(4, "ja", -2.5)];
        let found: Vec<u64> = interleave_languages(candidates, Metric::L2).iter().map(|candidate| candidate.passage.0).collect();
        assert_eq!(found, [1, 3, 2, 4]);
    }

    #[test]
    fn a_hit_that_is_near_in_one_list_takes_a_turn() {
        let ranked = |score| Some(RankedScore { rank: 1, score });
        let near = candidate(1, "en", 0.03, HitRanks { dense: ranked(0.9), lexical: ranked(8.0), ..HitRanks::default() });
        let next = candidate(2, "en", 0.02, HitRanks { dense: ranked(0.8), ..HitRanks::default() });
        let by_words = candidate(3, "fr", 0.01, HitRanks { dense: ranked(0.1), lexical: ranked(5.0), ..HitRanks::default() });
        let far = candidate(4, "ja", 0.02, HitRanks { dense: ranked(0.2), ..HitRanks::default() });
        let found = interleave_languages(vec![near, next, by_words, far], Metric::Cosine);
        assert_eq!(found.iter().map(|candidate| candidate.passage.0).collect::<Vec<_>>(), [1, 3, 2, 4]);
    }

    #[test]
    fn documents_without_a_language_share_one_turn() {
        assert_eq!(in_turn(&[(1, "", 0.9), (2, "", 0.8), (3, "fr", 0.7)]), [1, 3, 2]);
    }
}
