//! Additive margin softmax: EMS, section V.

use dragoman_training::objective::additive_margin::additive_margin_loss;
use dragoman_training::objective::contrastive::contrastive_loss;

use super::{check_gradient, near, rows};

#[test]
fn the_margin_is_subtracted_from_the_cosine_of_the_translation() {
    // Cosines 1 and 0, margin 0.3, temperature 1: the logits are 0.7 and 0, ln(1 + e^-0.7) = 0.403186 in each direction.
    let side = rows(&[1.0, 0.0, 0.0, 1.0], 2);
    near(&additive_margin_loss(&side, &side, 0.3, 1.0), 2.0 * 0.403_186_0);
}

#[test]
fn the_temperature_divides_the_cosine_minus_the_margin() {
    // (1 - 0.3) / 0.1 = 7: ln(1 + e^-7) = 0.000911 in each direction.
    let side = rows(&[1.0, 0.0, 0.0, 1.0], 2);
    near(&additive_margin_loss(&side, &side, 0.3, 0.1), 2.0 * 0.000_911_5);
}

#[test]
fn without_a_margin_the_loss_equals_the_contrastive_loss() {
    let left = rows(&[0.3, -0.8, 0.5, 1.0, 0.2, -0.4], 3);
    let right = rows(&[0.4, -0.5, 0.6, 0.8, 0.1, -0.9], 3);
    let expect = contrastive_loss(&left, &right, 0.1).double_value(&[]);
    near(&additive_margin_loss(&left, &right, 0.0, 0.1), expect);
}

#[test]
fn the_additive_margin_gradient_matches_finite_differences() {
    let left = rows(&[0.3, -0.8, 0.5, 1.0, 0.2, -0.4, -0.7, 0.6, 0.9], 3);
    let right = rows(&[0.4, -0.5, 0.6, 0.8, 0.1, -0.9, -0.2, 0.7, 0.3], 3);
    check_gradient(&left, |left| additive_margin_loss(left, &right, 0.3, 0.3));
    check_gradient(&right, |right| additive_margin_loss(&left, right, 0.3, 0.3));
}
