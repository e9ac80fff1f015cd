//! The vocabulary follows the counts of the words.

use super::*;

fn words(counts: &[(&str, u32)]) -> Vec<CountedWord> {
    counts.iter().map(|(word, count)| (word.chars().collect(), *count)).collect()
}

fn settings(character_coverage: f64) -> TokenizerConfig {
    let (vocabulary, characters_per_language, piece_characters_max, candidate_count_min) = (100, 0, 16, 2);
    TokenizerConfig { vocabulary, characters_per_language, piece_characters_max, character_coverage, candidate_count_min }
}

fn names(pieces: &[Piece]) -> Vec<&str> {
    pieces.iter().map(|(piece, _)| piece.as_str()).collect()
}

fn lattice(pieces: &[(&str, f64)]) -> Lattice {
    Lattice::new(&pieces.iter().map(|(piece, score)| (piece.chars().collect(), *score)).collect::<Vec<_>>())
}

fn best(lattice: &Lattice, word: &str) -> Vec<u32> {
    let mut pieces = lattice.best(&word.chars().collect::<Vec<_>>(), None);
    pieces.reverse();
    pieces
}

#[test]
fn a_frequent_word_contained_in_no_other_becomes_one_piece() {
    let words = words(&[("▁được", 900), ("▁ngày", 700), ("▁abd", 1), ("▁gcà", 1), ("▁nđy", 1)]);
    let pieces = train(&words, 16, &settings(1.0));
    assert!(names(&pieces).contains(&"▁được") && names(&pieces).contains(&"▁ngày"), "{pieces:?}");
}

#[test]
fn pieces_are_sorted_by_probability_and_sum_to_at_most_one() {
    let pieces = train(&words(&[("▁und", 500), ("▁oder", 60), ("▁aber", 50)]), 14, &settings(1.0));
    assert_eq!(pieces[0].0, "▁und");
    assert!(pieces.windows(2).all(|two| two[0].1 >= two[1].1));
    assert!(pieces.iter().map(|(_, score)| score.exp()).sum::<f64>() <= 1.0 + 1e-9);
}

#[test]
fn characters_outside_the_coverage_are_in_no_piece() {
    // 99 of 100 characters are a or b; c is the hundredth.
    let words = words(&[("ab", 49), ("a", 1), ("c", 1)]);
    let pieces = train(&words, 8, &settings(0.99));
    assert!(names(&pieces).contains(&"a") && !pieces.iter().any(|(piece, _)| piece.contains('c')), "{pieces:?}");
}

#[test]
fn the_vocabulary_fits_its_size_and_contains_every_covered_character() {
    let words = words(&[("▁haus", 40), ("▁hausboot", 7), ("▁boot", 30), ("▁maus", 20), ("▁mausboot", 3)]);
    let pieces = train(&words, 12, &settings(1.0));
    assert!(pieces.len() <= 12);
    for character in "▁hausbotm".chars() {
        assert!(names(&pieces).contains(&character.to_string().as_str()), "{character} is missing");
    }
}

#[test]
fn the_best_segmentation_has_the_highest_probability() {
    // ab + c: -1 - 2 = -3; a + bc: -1.5 - 1 = -2.5; a + b + c: -1.5 - 3 - 2 = -6.5.
    let lattice = lattice(&[("a", -1.5), ("b", -3.0), ("c", -2.0), ("ab", -1.0), ("bc", -1.0)]);
    assert_eq!(best(&lattice, "abc"), [0, 4]);
}

#[test]
fn unknown_characters_are_skipped() {
    let lattice = lattice(&[("a", -1.0), ("b", -1.0)]);
    assert_eq!(best(&lattice, "axb"), [0, 1]);
}

#[test]
fn expected_counts_weigh_segmentations_by_probability() {
    // "ab" as one piece has probability 1/2, as a + b it has 1/2 x 1/4 = 1/8. Their shares are 4/5 and 1/5; there are ten
    // words.
    let lattice = lattice(&[("a", 0.5f64.ln()), ("b", 0.25f64.ln()), ("ab", 0.5f64.ln())]);
    let mut expected = [0.0; 3];
    lattice.expect(&['a', 'b'], 10.0, &mut expected);
    for (got, expect) in expected.into_iter().zip([2.0, 2.0, 8.0]) {
        assert!((got - expect).abs() < 1e-9, "{expected:?}");
    }
}

#[test]
fn digamma_matches_known_values() {
    // digamma(1) is minus Euler's constant; digamma(2) is one more; digamma(10) = 1 + 1/2 + ... + 1/9 minus the constant.
    for (x, expect) in [(1.0, -0.577_215_664_9), (2.0, 0.422_784_335_1), (10.0, 2.251_752_589_1)] {
        assert!((digamma(x) - expect).abs() < 1e-8, "digamma({x}) = {}", digamma(x));
    }
}
