//! Sentence similarity, lightweight cross-lingual sentence representations (2021), section 3.3, equation 6.
//!
//! Sentences that are similar in one language should have similar translations: the softmax over a sentence's inner products
//! with the batch's sentences of its own language should equal that of its translation.

use tch::Tensor;

/// Keeps the logarithm finite if rounding makes a difference of probabilities ±1.
const COSINE_MIN: f64 = 1e-6;

/// Equation 6 divided by the batch's size: the mean over sentences j₁ of the sum over sentences j₂. `left` and `right` are
/// [batch, d], row by row translations.
pub fn similarity_loss(left: &Tensor, right: &Tensor) -> Tensor {
    let kind = left.kind();
    let within = |side: &Tensor| side.matmul(&side.tr()).softmax(1, kind); // [batch, batch]
    let difference = within(left) - within(right);
    let log_cosine = (difference * std::f64::consts::FRAC_PI_2).cos().clamp_min(COSINE_MIN).log();
    -log_cosine.sum_dim_intlist(1i64, false, kind).mean(kind)
}
