//! The contrastive objective: EMS, equations 8 and 9.

use dragoman_training::objective::contrastive::contrastive_loss;

use super::{check_gradient, near, rows};

#[test]
fn orthogonal_pairs_have_the_contrastive_loss_computed_by_hand() {
    // Cosines are 1 on the diagonal and 0 beside it: each direction is -ln(e / (e + 1)) = 0.313262.
    let side = rows(&[1.0, 0.0, 0.0, 1.0], 2);
    near(&contrastive_loss(&side, &side, 1.0), 2.0 * 0.313_261_7);
}

#[test]
fn a_lower_temperature_sharpens_the_contrastive_loss() {
    // At temperature 0.5 the diagonal is 2: ln(1 + e^-2) = 0.126928 in each direction.
    let side = rows(&[1.0, 0.0, 0.0, 1.0], 2);
    near(&contrastive_loss(&side, &side, 0.5), 2.0 * 0.126_928_0);
}

#[test]
fn the_contrastive_loss_ignores_vector_lengths() {
    let left = rows(&[3.0, 0.0, 0.0, 0.2], 2);
    let right = rows(&[0.5, 0.0, 0.0, 9.0], 2);
    near(&contrastive_loss(&left, &right, 1.0), 2.0 * 0.313_261_7);
}

#[test]
fn the_contrastive_loss_adds_both_directions() {
    // Left rows (1, 0) and (1, 0); right rows (1, 0) and (0, 1). Cosines [[1, 0], [1, 0]].
    // Left to right: (-ln(e / (e + 1)) - ln(1 / (e + 1))) / 2 = (0.313262 + 1.313262) / 2 = 0.813262.
    // Right to left: each column is equal to itself: ln 2 = 0.693147.
    let left = rows(&[1.0, 0.0, 1.0, 0.0], 2);
    let right = rows(&[1.0, 0.0, 0.0, 1.0], 2);
    near(&contrastive_loss(&left, &right, 1.0), 0.813_261_7 + std::f64::consts::LN_2);
}

#[test]
fn the_contrastive_gradient_matches_finite_differences() {
    let left = rows(&[0.3, -0.8, 0.5, 1.0, 0.2, -0.4, -0.7, 0.6, 0.9], 3);
    let right = rows(&[0.4, -0.5, 0.6, 0.8, 0.1, -0.9, -0.2, 0.7, 0.3], 3);
    check_gradient(&left, |left| contrastive_loss(left, &right, 0.3));
    check_gradient(&right, |right| contrastive_loss(&left, right, 0.3));
}
