//! Sentence alignment: lightweight, equation 5.

use dragoman_training::objective::alignment::alignment_loss;

use super::{check_gradient, near, rows};

#[test]
fn alignment_uses_inner_products_and_depends_on_length() {
    // Products [[2, 0], [0, 1]]: ln(1 + e^-2) = 0.126928 and ln(1 + e^-1) = 0.313262, by rows as by columns; their mean twice.
    let left = rows(&[2.0, 0.0, 0.0, 1.0], 2);
    let right = rows(&[1.0, 0.0, 0.0, 1.0], 2);
    near(&alignment_loss(&left, &right), 0.126_928_0 + 0.313_261_7);
}

#[test]
fn alignment_adds_both_directions() {
    // Products [[1, 0], [1, 0]]. By rows: (0.313262 + 1.313262) / 2 = 0.813262. By columns: ln 2.
    let left = rows(&[1.0, 0.0, 1.0, 0.0], 2);
    let right = rows(&[1.0, 0.0, 0.0, 1.0], 2);
    near(&alignment_loss(&left, &right), 0.813_261_7 + std::f64::consts::LN_2);
}

#[test]
fn the_alignment_gradient_matches_finite_differences() {
    let left = rows(&[0.3, -0.8, 0.5, 1.0, 0.2, -0.4, -0.7, 0.6, 0.9], 3);
    let right = rows(&[0.4, -0.5, 0.6, 0.8, 0.1, -0.9, -0.2, 0.7, 0.3], 3);
    check_gradient(&left, |left| alignment_loss(left, &right));
    check_gradient(&right, |right| alignment_loss(&left, right));
}
