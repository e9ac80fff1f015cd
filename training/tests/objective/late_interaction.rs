//! Late interaction over the rows of the token table.

use dragoman_training::objective::late_interaction::{Interaction, late_interaction_loss, late_interaction_scores};
use tch::Tensor;

use super::{check_gradient, near, rows};

/// Left texts: tokens 0 and 1; token 2 twice. Right texts: tokens 3 and 4; token 5, repeated to the same length.
fn texts() -> Interaction {
    Interaction {
        left: Tensor::from_slice(&[0i64, 1, 2]),
        counts: rows(&[1.0, 1.0, 0.0, 0.0, 0.0, 2.0], 3),
        right: Tensor::from_slice(&[3i64, 4, 5]),
        tokens: Tensor::from_slice(&[0i64, 1, 2, 2]).view([2, 2]),
    }
}

/// Directions of the six tokens: 0°, 90°, 45° on the left, 0°, 45° and 90° on the right, of different lengths.
fn table() -> Tensor {
    rows(&[2.0, 0.0, 0.0, 3.0, 1.0, 1.0, 5.0, 0.0, 0.5, 0.5, 0.0, 7.0], 2)
}

fn weights() -> Tensor {
    // Weights 1 and 3; the third one has no effect, because its token is alone in its text.
    Tensor::from_slice(&[0.0, 3f64.ln(), 0.4, 9.0, 9.0, 9.0])
}

#[test]
fn scores_average_the_best_match_of_each_left_token_by_weight() {
    let half = 0.5f64.sqrt();
    let scores = late_interaction_scores(&table(), &weights(), &texts());
    // 0° matches 0°, 90° matches 45°: (1 + 3 x 0.7071) / 4. Against 90°: (0 + 3) / 4.
    near(&scores.get(0).get(0), (1.0 + 3.0 * half) / 4.0);
    near(&scores.get(0).get(1), 0.75);
    // 45° matches itself, or 90°.
    near(&scores.get(1).get(0), 1.0);
    near(&scores.get(1).get(1), half);
}

#[test]
fn the_loss_adds_the_cross_entropy_of_both_directions() {
    // Rows: ln(1 + e^(0.2 / 0.5)), since 0.6 is 0.2 less than 0.8, and ln(1 + e^(-1)); columns: ln(1 + e^-0.6), ln(1 + e^0.2).
    let scores = rows(&[0.6, 0.8, 0.3, 0.8], 2);
    let pick = |wrong_less_right: f64| (wrong_less_right / 0.5).exp().ln_1p();
    let expect = (pick(0.2) + pick(-0.5)) / 2.0 + (pick(-0.3) + pick(0.0)) / 2.0;
    near(&late_interaction_loss(&scores, 0.5), expect);
}

#[test]
fn the_late_interaction_gradients_match_finite_differences() {
    check_gradient(&table(), |table| late_interaction_loss(&late_interaction_scores(table, &weights(), &texts()), 0.3));
    check_gradient(&weights(), |weights| late_interaction_loss(&late_interaction_scores(&table(), weights, &texts()), 0.3));
}
