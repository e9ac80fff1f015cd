//! XTR: EMS, equations 6 and 7.

use dragoman_training::objective::xtr::xtr_loss;
use tch::{Kind, Tensor};

use super::{check_gradient, near, rows};

#[test]
fn xtr_is_zero_when_the_prediction_equals_the_target() {
    // Tokens 0, 0, 1: p = (2/3, 1/3, 0).
    let log_probs = rows(&[2.0 / 3.0, 1.0 / 3.0, 1e-30], 3).log();
    near(&xtr_loss(&log_probs, &Tensor::from_slice(&[0i64, 0, 1]).view([1, 3])), 0.0);
}

#[test]
fn xtr_is_the_kl_divergence_of_two_distributions() {
    // q = (1/2, 1/4, 1/4), p = (1/2, 1/2, 0): KL = 1/2 ln 1 + 1/2 ln 2 = 0.346574. Padding has no mass.
    let log_probs = rows(&[0.5, 0.25, 0.25], 3).log();
    near(&xtr_loss(&log_probs, &Tensor::from_slice(&[0i64, 1, -1, -1]).view([1, 4])), 0.346_573_6);
}

#[test]
fn xtr_counts_every_occurrence_of_a_repeated_token() {
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

#[test]
fn the_xtr_gradient_matches_finite_differences() {
    let logits = rows(&[0.2, -1.0, 0.7, 0.1, 1.3, -0.3, 0.4, 0.0], 4);
    let targets = Tensor::from_slice(&[0i64, 2, 2, 1, -1, -1]).view([2, 3]);
    check_gradient(&logits, |logits| xtr_loss(&logits.log_softmax(1, Kind::Double), &targets));
}
