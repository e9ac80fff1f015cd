//! SMLM and UGT: lightweight, equations 1 to 4.

use dragoman_training::objective::unified_generative::{masked_word_loss, unified_generative_loss};
use dragoman_training::objective::xtr::xtr_loss;
use tch::{Kind, Tensor};

use super::{check_gradient, near, rows};

fn ids(values: &[i64], width: i64) -> Tensor {
    Tensor::from_slice(values).view([-1, width])
}

#[test]
fn the_masked_word_loss_adds_sentence_and_translation_predictions() {
    // -ln(1/4) from one and -ln(1/2) from the other: 3 ln 2.
    let from_masked = rows(&[0.5, 0.25, 0.25], 3).log();
    let from_translation = rows(&[0.25, 0.25, 0.5], 3).log();
    let loss = masked_word_loss(&from_masked, &from_translation, &Tensor::from_slice(&[2i64]));
    near(&loss, 3.0 * std::f64::consts::LN_2);
}

#[test]
fn the_masked_word_loss_is_the_mean_over_pairs() {
    // First pair ln 4 + ln 4, second pair ln 2 + ln 2: the mean is 3 ln 2.
    let log_probs = rows(&[0.5, 0.25, 0.25, 0.5, 0.25, 0.25], 3).log();
    let loss = masked_word_loss(&log_probs, &log_probs, &Tensor::from_slice(&[1i64, 0]));
    near(&loss, 3.0 * std::f64::consts::LN_2);
}

#[test]
fn a_masked_word_gets_half_of_the_target_mass() {
    // The translation is token 1, token 0 is masked: q = (1/2, 1/2, 0), p = (1/2, 1/4, 1/4), KL = 1/2 ln 2.
    let log_probs = rows(&[0.5, 0.25, 0.25], 3).log();
    let loss = unified_generative_loss(&log_probs, &ids(&[1, -1], 2), &Tensor::from_slice(&[0i64]));
    near(&loss, 0.5 * std::f64::consts::LN_2);
}

#[test]
fn a_masked_word_in_the_translation_gets_both_shares_of_the_mass() {
    // The translation is 0, 1, token 0 is masked: q = (1/4 + 1/2, 1/4, 0), KL = 3/4 ln(3/2) + 1/4 ln 1 = 0.304099.
    let log_probs = rows(&[0.5, 0.25, 0.25], 3).log();
    let loss = unified_generative_loss(&log_probs, &ids(&[0, 1], 2), &Tensor::from_slice(&[0i64]));
    near(&loss, 0.304_098_8);
}

#[test]
fn without_masked_words_the_generative_loss_equals_xtr() {
    let log_probs = rows(&[0.2, -1.0, 0.7, 0.1, 1.3, -0.3, 0.4, 0.0], 4).log_softmax(1, Kind::Double);
    let targets = ids(&[0, 2, 2, 1, -1, -1], 3);
    let expect = xtr_loss(&log_probs, &targets).double_value(&[]);
    near(&unified_generative_loss(&log_probs, &targets, &Tensor::from_slice(&[-1i64, -1])), expect);
}

#[test]
fn the_generative_gradients_match_finite_differences() {
    let logits = rows(&[0.2, -1.0, 0.7, 0.1, 1.3, -0.3, 0.4, 0.0], 4);
    let targets = ids(&[0, 2, 2, 1, -1, -1], 3);
    for masked in [[3i64, -1], [2, 0]] {
        let masked = Tensor::from_slice(&masked);
        check_gradient(&logits, |logits| unified_generative_loss(&logits.log_softmax(1, Kind::Double), &targets, &masked));
    }
    let other = rows(&[0.1, 0.9, -0.4, 0.2, -1.3, 0.3, 0.5, 0.6], 4).log_softmax(1, Kind::Double);
    let masked = Tensor::from_slice(&[3i64, 0]);
    check_gradient(&logits, |logits| masked_word_loss(&logits.log_softmax(1, Kind::Double), &other, &masked));
    check_gradient(&logits, |logits| masked_word_loss(&other, &logits.log_softmax(1, Kind::Double), &masked));
}
