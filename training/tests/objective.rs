//! The objectives against values worked by hand, and their gradients against finite differences.

use dragoman_training::objective::contrastive::contrastive_loss;
use dragoman_training::objective::xtr::xtr_loss;
use tch::{Kind, Tensor};

fn rows(values: &[f64], width: i64) -> Tensor {
    Tensor::from_slice(values).view([-1, width]).to_kind(Kind::Double)
}

fn near(got: &Tensor, expect: f64) {
    let got = got.double_value(&[]);
    assert!((got - expect).abs() < 1e-5, "got {got}, expected {expect}");
}

#[test]
fn contrastive_of_orthogonal_pairs_at_temperature_one() {
    // Cosines are 1 on the diagonal and 0 beside it: each direction is -ln(e / (e + 1)) = 0.313262.
    let side = rows(&[1.0, 0.0, 0.0, 1.0], 2);
    near(&contrastive_loss(&side, &side, 1.0), 2.0 * 0.313_261_7);
}

#[test]
fn contrastive_sharpens_with_a_lower_temperature() {
    // At temperature 0.5 the diagonal is 2: ln(1 + e^-2) = 0.126928 in each direction.
    let side = rows(&[1.0, 0.0, 0.0, 1.0], 2);
    near(&contrastive_loss(&side, &side, 0.5), 2.0 * 0.126_928_0);
}

#[test]
fn contrastive_sees_angles_and_not_lengths() {
    let left = rows(&[3.0, 0.0, 0.0, 0.2], 2);
    let right = rows(&[0.5, 0.0, 0.0, 9.0], 2);
    near(&contrastive_loss(&left, &right, 1.0), 2.0 * 0.313_261_7);
}

#[test]
fn contrastive_differs_by_direction_when_one_sentence_is_near_both() {
    // Left rows (1, 0) and (1, 0); right rows (1, 0) and (0, 1). Cosines [[1, 0], [1, 0]].
    // Left to right: (-ln(e / (e + 1)) - ln(1 / (e + 1))) / 2 = (0.313262 + 1.313262) / 2 = 0.813262.
    // Right to left: each column is equal to itself: ln 2 = 0.693147.
    let left = rows(&[1.0, 0.0, 1.0, 0.0], 2);
    let right = rows(&[1.0, 0.0, 0.0, 1.0], 2);
    near(&contrastive_loss(&left, &right, 1.0), 0.813_261_7 + std::f64::consts::LN_2);
}

#[test]
fn xtr_is_zero_when_the_prediction_is_the_target() {
    // Tokens 0, 0, 1: p = (2/3, 1/3, 0).
    let log_probs = rows(&[2.0 / 3.0, 1.0 / 3.0, 1e-30], 3).log();
    near(&xtr_loss(&log_probs, &Tensor::from_slice(&[0i64, 0, 1]).view([1, 3])), 0.0);
}

#[test]
fn xtr_is_the_divergence_of_two_distributions() {
    // q = (1/2, 1/4, 1/4), p = (1/2, 1/2, 0): KL = 1/2 ln 1 + 1/2 ln 2 = 0.346574. Padding has no mass.
    let log_probs = rows(&[0.5, 0.25, 0.25], 3).log();
    near(&xtr_loss(&log_probs, &Tensor::from_slice(&[0i64, 1, -1, -1]).view([1, 4])), 0.346_573_6);
}

#[test]
fn xtr_counts_a_repeated_token_as_often_as_it_occurs() {
    // q = (1/2, 1/4, 1/4), p = (2/3, 1/3, 0): KL = 2/3 ln(4/3) + 1/3 ln(4/3) = ln(4/3) = 0.287682.
    let log_probs = rows(&[0.5, 0.25, 0.25], 3).log();
    near(&xtr_loss(&log_probs, &Tensor::from_slice(&[0i64, 1, 0]).view([1, 3])), 0.287_682_1);
}

#[test]
fn xtr_is_the_mean_over_sentences() {
    let log_probs = rows(&[0.5, 0.25, 0.25, 0.5, 0.25, 0.25], 3).log();
    let targets = Tensor::from_slice(&[0i64, 1, -1, 0, 1, 0]).view([2, 3]);
    near(&xtr_loss(&log_probs, &targets), (0.346_573_6 + 0.287_682_1) / 2.0);
}

/// Compares the gradient of `loss` at `at` with central differences, number by number.
fn check_gradient(at: &Tensor, loss: impl Fn(&Tensor) -> Tensor) {
    let point = at.copy().set_requires_grad(true);
    loss(&point).backward();
    let gradient: Vec<f64> = Vec::try_from(point.grad().flatten(0, -1)).unwrap();
    let values: Vec<f64> = Vec::try_from(at.flatten(0, -1)).unwrap();
    let step = 1e-5;
    for (index, gradient) in gradient.iter().enumerate() {
        let shifted = |by: f64| {
            let mut moved = values.clone();
            moved[index] += by;
            loss(&Tensor::from_slice(&moved).view_as(at)).double_value(&[])
        };
        let expect = (shifted(step) - shifted(-step)) / (2.0 * step);
        assert!((gradient - expect).abs() < 1e-4, "number {index}: gradient {gradient}, difference quotient {expect}");
    }
}

#[test]
fn the_contrastive_gradient_is_that_of_finite_differences() {
    let left = rows(&[0.3, -0.8, 0.5, 1.0, 0.2, -0.4, -0.7, 0.6, 0.9], 3);
    let right = rows(&[0.4, -0.5, 0.6, 0.8, 0.1, -0.9, -0.2, 0.7, 0.3], 3);
    check_gradient(&left, |left| contrastive_loss(left, &right, 0.3));
    check_gradient(&right, |right| contrastive_loss(&left, right, 0.3));
}

#[test]
fn the_xtr_gradient_is_that_of_finite_differences() {
    let logits = rows(&[0.2, -1.0, 0.7, 0.1, 1.3, -0.3, 0.4, 0.0], 4);
    let targets = Tensor::from_slice(&[0i64, 2, 2, 1, -1, -1]).view([2, 3]);
    check_gradient(&logits, |logits| xtr_loss(&logits.log_softmax(1, Kind::Double), &targets));
}
