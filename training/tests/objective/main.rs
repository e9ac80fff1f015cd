//! The objectives against values worked out by hand, and their gradients against finite differences.

mod additive_margin;
mod alignment;
mod anchor;
mod contrastive;
mod distillation;
mod late_interaction;
mod similarity;
mod sum;
mod unified_generative;
mod word_movers;
mod xtr;

use tch::{Kind, Tensor};

/// A matrix of doubles, row by row.
fn rows(values: &[f64], width: i64) -> Tensor {
    Tensor::from_slice(values).view([-1, width]).to_kind(Kind::Double)
}

fn near(got: &Tensor, expect: f64) {
    let got = got.double_value(&[]);
    assert!((got - expect).abs() < 1e-5, "got {got}, expected {expect}");
}

/// Compares the gradient of `loss` at `at` with central differences, value by value.
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
