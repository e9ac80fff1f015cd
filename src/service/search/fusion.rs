//! Putting lists of candidates together: reciprocal rank fusion, and languages that take turns.

use std::collections::HashMap;

use super::hits::Candidate;
use crate::domain::{DocumentId, Fusion, Language, ListPlace, Metric};

/// A hit takes a turn only with at least this part of the best score by the metric or the best BM25. Hits below are not about what was asked
/// for, and a turn would put them before others that are.
const TURN_SCORE_PART: f32 = 0.5;

/// Fuses two lists: each document gets the sum of weight / (rank constant + rank) over the lists that have it, and keeps the
/// passage of the list where it ranks higher.
pub(super) fn fuse(dense: Vec<Candidate>, lexical: Vec<Candidate>, fusion: &Fusion) -> Vec<Candidate> {
    let share =
        |weight: f32, place: Option<ListPlace>| place.map_or(0.0, |place| weight / (fusion.rank_constant + place.rank as f32));
    let mut fused = dense;
    let mut places: HashMap<DocumentId, usize> =
        fused.iter().enumerate().map(|(place, candidate)| (candidate.document.clone(), place)).collect();
    for candidate in lexical {
        match places.get(&candidate.document) {
            None => {
                places.insert(candidate.document.clone(), fused.len());
                fused.push(candidate);
            }
            Some(&place) => {
                let known = &mut fused[place];
                known.places.lexical = candidate.places.lexical;
                let rank = |place: Option<ListPlace>| place.map_or(usize::MAX, |place| place.rank);
                if rank(known.places.lexical) < rank(known.places.dense) {
                    known.passage = candidate.passage;
                }
            }
        }
    }
    for candidate in &mut fused {
        candidate.score = share(fusion.dense, candidate.places.dense) + share(fusion.lexical, candidate.places.lexical);
    }
    // A list of weight zero names nobody.
    fused.retain(|candidate| candidate.score > 0.0);
    sort(&mut fused);
    fused
}

/// Sorts by score, best first; of equal scores the older passage first.
pub(super) fn sort(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.passage.cmp(&b.passage)));
}

/// Lets languages take turns: first the best hit of each language, then the second best of each, and so on; within a turn by
/// score. A hit takes a turn only when it is at least half as near as the nearest, or its BM25 is at least half of the best one's; the
/// others follow by score.
/// Documents without a language are taken for one language of their own.
///
/// Every beginning of the result is balanced, so a page of it is, and pages do not depend on each other.
pub(super) fn take_turns(mut candidates: Vec<Candidate>, metric: Metric) -> Vec<Candidate> {
    sort(&mut candidates);
    // Not the scores themselves: fused ranks say nothing of how near the first of a language is.
    let lists: [fn(&Candidate) -> Option<ListPlace>; 2] = [|one| one.places.dense, |one| one.places.lexical];
    let best = |list: fn(&Candidate) -> Option<ListPlace>| {
        candidates.iter().filter_map(list).map(|place| place.score).fold(f32::NEG_INFINITY, f32::max)
    };
    // Of distances, which come negated, twice the least one is as near as half the best of other scores.
    let dense_bar = |best: f32| if metric == Metric::L2 { best / TURN_SCORE_PART } else { above_zero(best * TURN_SCORE_PART) };
    let bars = [dense_bar(best(lists[0])), above_zero(best(lists[1]) * TURN_SCORE_PART)];
    let is_near = |one: &Candidate| {
        let mut places = lists.iter().zip(bars).filter_map(|(list, bar)| Some((list(one)?.score, bar)));
        places.any(|(score, bar)| score >= bar)
    };
    in_turns(candidates, is_near)
}

/// Puts candidates, best first, into turns: those that `is_near` says, by language; then the others.
fn in_turns(candidates: Vec<Candidate>, is_near: impl Fn(&Candidate) -> bool) -> Vec<Candidate> {
    let mut taken: HashMap<Option<Language>, usize> = HashMap::new();
    let mut ordered: Vec<(usize, Candidate)> = candidates
        .into_iter()
        .map(|candidate| {
            if !is_near(&candidate) {
                return (usize::MAX, candidate);
            }
            let turn = taken.entry(candidate.language).or_default();
            *turn += 1;
            (*turn, candidate)
        })
        .collect();
    // Stable: the order by score stays within a turn.
    ordered.sort_by_key(|(turn, _)| *turn);
    ordered.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Lets languages take turns by their scores alone, which must mean the same in all of them: a hit takes a turn only with at least
/// half of the best score.
pub(super) fn take_turns_by_score(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    sort(&mut candidates);
    let bar = candidates.first().map_or(0.0, |best| best.score * TURN_SCORE_PART);
    in_turns(candidates, |candidate| candidate.score >= bar)
}

/// A bar that scores of zero and below do not reach.
fn above_zero(bar: f32) -> f32 {
    bar.max(f32::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{HitPlaces, PassageId};

    /// A candidate whose id is its passage's key.
    fn candidate(key: u64, language: &str, score: f32, places: HitPlaces) -> Candidate {
        Candidate {
            passage: PassageId(key),
            document: DocumentId::parse(&key.to_string()).unwrap(),
            language: Language::parse(language),
            score,
            places,
            group: None,
        }
    }

    fn list(keys: &[u64], place: fn(ListPlace) -> HitPlaces) -> Vec<Candidate> {
        let ranked = keys.iter().zip(1..);
        ranked.map(|(key, rank)| candidate(*key, "", 0.5, place(ListPlace { rank, score: 0.5 }))).collect()
    }

    fn fused(dense: &[u64], lexical: &[u64], fusion: Fusion) -> Vec<(u64, f32)> {
        let dense = list(dense, |place| HitPlaces { dense: Some(place), ..HitPlaces::default() });
        let lexical = list(lexical, |place| HitPlaces { lexical: Some(place), ..HitPlaces::default() });
        fuse(dense, lexical, &fusion).iter().map(|candidate| (candidate.passage.0, candidate.score)).collect()
    }

    #[test]
    fn a_document_of_both_lists_goes_before_those_of_one() {
        let found = fused(&[1, 2, 3], &[4, 3], Fusion::default());
        let expect = [(3, 1.0 / 63.0 + 1.0 / 62.0), (1, 1.0 / 61.0), (4, 1.0 / 61.0), (2, 1.0 / 62.0)];
        assert_eq!(found.len(), expect.len());
        for ((key, score), (expect_key, expect_score)) in found.into_iter().zip(expect) {
            assert_eq!(key, expect_key);
            assert!((score - expect_score).abs() < 1e-6, "{key}: {score}");
        }
    }

    #[test]
    fn weights_and_the_rank_constant_decide() {
        let keys = |fusion| fused(&[1, 2], &[3, 2], fusion).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(keys(Fusion { lexical: 2.0, ..Fusion::default() }), [2, 3, 1]);
        assert_eq!(keys(Fusion { dense: 0.0, ..Fusion::default() }), [3, 2]);
        assert_eq!(keys(Fusion { rank_constant: 1.0, lexical: 0.1, ..Fusion::default() }), [1, 2, 3]);
    }

    #[test]
    fn a_fused_document_has_the_passage_of_its_higher_rank() {
        let at = |rank| Some(ListPlace { rank, score: 0.5 });
        let mut of_words = candidate(7, "", 0.5, HitPlaces { lexical: at(1), ..HitPlaces::default() });
        let of_meaning = candidate(9, "", 0.5, HitPlaces { dense: at(2), ..HitPlaces::default() });
        of_words.document = of_meaning.document.clone();
        let found = fuse(vec![of_meaning], vec![of_words], &Fusion::default());
        assert_eq!(
            (found.len(), found[0].passage, found[0].places.clone()),
            (1, PassageId(7), HitPlaces { dense: at(2), lexical: at(1), ..HitPlaces::default() })
        );
    }

    fn turns(candidates: &[(u64, &str, f32)]) -> Vec<u64> {
        let place = |score| HitPlaces { dense: Some(ListPlace { rank: 1, score }), ..HitPlaces::default() };
        let candidates = candidates.iter().map(|(key, language, score)| candidate(*key, language, *score, place(*score)));
        take_turns(candidates.collect(), Metric::Cosine).iter().map(|candidate| candidate.passage.0).collect()
    }

    #[test]
    fn no_language_goes_twice_before_another_near_one_went_once() {
        let found = turns(&[(1, "en", 0.9), (2, "en", 0.8), (3, "en", 0.7), (4, "fr", 0.6), (5, "ja", 0.5), (6, "fr", 0.5)]);
        assert_eq!(found, [1, 4, 5, 2, 6, 3]);
    }

    #[test]
    fn what_is_far_takes_no_turn() {
        assert_eq!(turns(&[(1, "en", 0.9), (2, "en", 0.8), (3, "fr", 0.4), (4, "", 0.1)]), [1, 2, 3, 4]);
        assert_eq!(turns(&[(1, "en", -0.1), (2, "fr", -0.3), (3, "en", -0.2)]), [1, 3, 2]);
        assert_eq!(turns(&[]), [0; 0]);
    }

    #[test]
    fn distances_are_near_up_to_twice_the_least() {
        let place = |score| HitPlaces { dense: Some(ListPlace { rank: 1, score }), ..HitPlaces::default() };
        let of = |key, language, score| candidate(key, language, score, place(score));
        let candidates = vec![of(1, "en", -1.0), of(2, "en", -1.5), of(3, "fr", -2.0), of(4, "ja", -2.5)];
        let found: Vec<u64> = take_turns(candidates, Metric::L2).iter().map(|candidate| candidate.passage.0).collect();
        assert_eq!(found, [1, 3, 2, 4]);
    }

    #[test]
    fn being_near_in_one_list_is_enough_for_a_turn() {
        let place = |score| Some(ListPlace { rank: 1, score });
        let near = candidate(1, "en", 0.03, HitPlaces { dense: place(0.9), lexical: place(8.0), ..HitPlaces::default() });
        let next = candidate(2, "en", 0.02, HitPlaces { dense: place(0.8), ..HitPlaces::default() });
        let by_words = candidate(3, "fr", 0.01, HitPlaces { dense: place(0.1), lexical: place(5.0), ..HitPlaces::default() });
        let far = candidate(4, "ja", 0.02, HitPlaces { dense: place(0.2), ..HitPlaces::default() });
        let found = take_turns(vec![near, next, by_words, far], Metric::Cosine);
        assert_eq!(found.iter().map(|candidate| candidate.passage.0).collect::<Vec<_>>(), [1, 3, 2, 4]);
    }

    #[test]
    fn documents_without_a_language_take_turns_together() {
        assert_eq!(turns(&[(1, "", 0.9), (2, "", 0.8), (3, "fr", 0.7)]), [1, 3, 2]);
    }
}
