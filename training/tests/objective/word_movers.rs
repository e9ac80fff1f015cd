//! Word Mover's Distance: values worked out by hand, and small problems solved by trying all plans.

use dragoman_training::objective::word_movers::{transport, word_movers_distances};
use proptest::prelude::*;
use tch::{Kind, Tensor};

use super::rows;

/// Sentences whose tokens are points on a line.
fn on_a_line(left: &[f64], right: &[f64]) -> f64 {
    let side =
        |places: &[f64]| (rows(places, 1).unsqueeze(0), Tensor::ones([1, places.len() as i64], (Kind::Float, tch::Device::Cpu)));
    let (left, right) = (side(left), side(right));
    word_movers_distances((&left.0, &left.1), (&right.0, &right.1)).double_value(&[0])
}

fn check(left: &[f64], right: &[f64], expect: f64) {
    let got = on_a_line(left, right);
    assert!((got - expect).abs() < 1e-6, "{left:?} to {right:?}: got {got}, expected {expect}");
    let back = on_a_line(right, left);
    assert!((back - expect).abs() < 1e-6, "{right:?} to {left:?}: got {back}, expected {expect}");
}

#[test]
fn distances_on_a_line_match_values_computed_by_hand() {
    check(&[2.0], &[7.0], 5.0);
    check(&[0.0, 1.0, 2.0], &[2.0, 0.0, 1.0], 0.0);
    // Half of the mass moves by 1.
    check(&[0.0, 1.0], &[0.0], 0.5);
    // Thirds to halves: the middle word is split, and a sixth moves by 1 to each side.
    check(&[0.0, 1.0, 2.0], &[0.0, 2.0], 1.0 / 3.0);
}

#[test]
fn two_words_cannot_both_move_to_the_nearest_word() {
    // The relaxed distance, each word to its nearest, would be 0 from left to right; the exact one moves half of the mass by
    // 10.
    check(&[0.0, 0.0], &[0.0, 10.0], 5.0);
}

#[test]
fn padding_has_no_mass() {
    let left = rows(&[0.0, 3.0, 99.0, 5.0], 1).view([2, 2, 1]);
    let right = rows(&[1.0, 77.0, 6.0, 7.0], 1).view([2, 2, 1]);
    let left_mask = Tensor::from_slice(&[1i64, 1, 1, 0]).view([2, 2]);
    let right_mask = Tensor::from_slice(&[1i64, 0, 1, 1]).view([2, 2]);
    let got = word_movers_distances((&left, &left_mask), (&right, &right_mask));
    // 0 and 3 to 1: (1 + 2) / 2. 99 to 6 and 7: (93 + 92) / 2.
    assert!((got.double_value(&[0]) - 1.5).abs() < 1e-5 && (got.double_value(&[1]) - 92.5).abs() < 1e-4);
}

#[test]
fn single_words_have_their_euclidean_distance() {
    let left = rows(&[0.0, 0.0], 2).unsqueeze(0);
    let right = rows(&[3.0, 4.0], 2).unsqueeze(0);
    let mask = Tensor::ones([1, 1], (Kind::Float, tch::Device::Cpu));
    assert!((word_movers_distances((&left, &mask), (&right, &mask)).double_value(&[0]) - 5.0).abs() < 1e-6);
}

/// The minimum mean cost of assigning each row to a different column, found by trying all.
fn best_assignment(costs: &[Vec<f64>]) -> f64 {
    fn rest(costs: &[Vec<f64>], row: usize, taken: &mut Vec<bool>) -> f64 {
        if row == costs.len() {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for column in 0..taken.len() {
            if !taken[column] {
                taken[column] = true;
                best = best.min(costs[row][column] + rest(costs, row + 1, taken));
                taken[column] = false;
            }
        }
        best
    }
    rest(costs, 0, &mut vec![false; costs.len()]) / costs.len() as f64
}

proptest! {
    /// Copying each row once per column, and each column once per row, turns it into an assignment problem.
    #[test]
    fn the_transport_cost_is_the_minimum_over_all_plans(
        rows in 1usize..=3,
        columns in 1usize..=2,
        costs in prop::collection::vec(0.0f64..10.0, 6),
    ) {
        let costs = &costs[..rows * columns];
        let size = rows * columns;
        let copied: Vec<Vec<f64>> =
            (0..size).map(|row| (0..size).map(|column| costs[row / columns * columns + column / rows]).collect()).collect();
        prop_assert!((transport(costs, rows, columns) - best_assignment(&copied)).abs() < 1e-9);
    }

    #[test]
    fn transport_between_equal_word_counts_is_the_best_assignment(costs in prop::collection::vec(0.0f64..10.0, 36)) {
        let square: Vec<Vec<f64>> = costs.chunks(6).map(<[f64]>::to_vec).collect();
        prop_assert!((transport(&costs, 6, 6) - best_assignment(&square)).abs() < 1e-9);
    }
}
