//! The anchor-learner: DuEAM, equations 1 and 2.

use dragoman_training::objective::anchor::{anchor_loss, translation_mining_loss};
use tch::{Kind, Tensor};

use super::{check_gradient, near, rows};

#[test]
fn the_anchor_loss_is_one_when_the_distances_match() {
    // The distance of (0, 0) and (3, 4) is 5: e^|e^-5 - e^-5| = 1.
    near(&anchor_loss(&rows(&[0.0, 0.0], 2), &rows(&[3.0, 4.0], 2), &Tensor::from_slice(&[5.0])), 1.0);
}

#[test]
fn the_anchor_loss_is_the_mean_exponential_of_the_similarity_gaps() {
    // Distance 5 against ln 2: e^|0.006738 - 0.5| = 1.637649; the second pair matches, 1; the mean is 1.318825.
    let left = rows(&[0.0, 0.0, 1.0, 1.0], 2);
    let right = rows(&[3.0, 4.0, 1.0, 3.0], 2);
    let distances = Tensor::from_slice(&[std::f64::consts::LN_2, 2.0]);
    near(&anchor_loss(&left, &right, &distances), 1.318_824_8);
}

#[test]
fn translation_mining_is_one_minus_the_mean_cosine() {
    // Cosines 0 and 1.
    let left = rows(&[1.0, 0.0, 1.0, 0.0], 2);
    let right = rows(&[0.0, 2.0, 5.0, 0.0], 2);
    near(&translation_mining_loss(&left, &right), 0.5);
}

#[test]
fn the_anchor_gradients_match_finite_differences() {
    let left = rows(&[0.3, -0.8, 0.5, 1.0, 0.2, -0.4], 3);
    let right = rows(&[0.4, -0.5, 0.6, 0.8, 0.1, -0.9], 3);
    let distances = Tensor::from_slice(&[0.1, 1.7]);
    check_gradient(&left, |left| anchor_loss(left, &right, &distances));
    check_gradient(&right, |right| anchor_loss(&left, right, &distances));
    check_gradient(&left, |left| translation_mining_loss(left, &right));
    check_gradient(&right, |right| translation_mining_loss(&left, right));
}

#[test]
fn equal_embeddings_have_a_finite_gradient() {
    let left = rows(&[0.3, -0.8], 2).set_requires_grad(true);
    anchor_loss(&left, &rows(&[0.3, -0.8], 2), &Tensor::from_slice(&[1.0])).backward();
    assert!(left.grad().isfinite().all().int64_value(&[]) == 1);
    assert_eq!(left.grad().kind(), Kind::Double);
}
