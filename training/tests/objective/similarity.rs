//! Sentence similarity: lightweight, equation 6.

use dragoman_training::objective::similarity::similarity_loss;

use super::{check_gradient, near, rows};

#[test]
fn similarity_loss_is_zero_for_equal_similarities() {
    // The right side is the left one rotated by 90 degrees, so all inner products within a side are the same.
    let left = rows(&[1.0, 2.0, -0.5, 0.3, 0.7, -1.1], 2);
    let right = rows(&[-2.0, 1.0, -0.3, -0.5, 1.1, 0.7], 2);
    near(&similarity_loss(&left, &right), 0.0);
}

#[test]
fn similarity_loss_of_different_similarities_is_as_computed_by_hand() {
    // Left products [[1, 0], [0, 1]]: rows of the softmax (0.731059, 0.268941) and mirrored. Right products all 1: (0.5, 0.5).
    // Each difference is ±0.231059, -ln cos(π/2 0.231059) = 0.067364; a row has two of them.
    let left = rows(&[1.0, 0.0, 0.0, 1.0], 2);
    let right = rows(&[1.0, 0.0, 1.0, 0.0], 2);
    near(&similarity_loss(&left, &right), 0.134_727_7);
}

#[test]
fn opposite_similarities_have_a_finite_loss() {
    // Products of ±400 saturate both softmaxes at differences of 1, where cos(π/2) = 0.
    let left = rows(&[20.0, 0.0, 19.0, 0.0, 0.0, 1.0], 2);
    let right = rows(&[0.0, 1.0, 30.0, 0.0, 31.0, 0.0], 2);
    assert!(similarity_loss(&left, &right).double_value(&[]).is_finite());
}

#[test]
fn the_similarity_gradient_matches_finite_differences() {
    let left = rows(&[0.3, -0.8, 0.5, 1.0, 0.2, -0.4, -0.7, 0.6, 0.9], 3);
    let right = rows(&[0.4, -0.5, 0.6, 0.8, 0.1, -0.9, -0.2, 0.7, 0.3], 3);
    check_gradient(&left, |left| similarity_loss(left, &right));
    check_gradient(&right, |right| similarity_loss(&left, right));
}
