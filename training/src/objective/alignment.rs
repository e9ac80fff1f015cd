//! Sentence alignment, lightweight cross-lingual sentence representations (2021), section 3.3, equation 5.
//!
//! The contrastive objective's predecessor: uses plain inner products of the sentence embeddings, neither scaled to unit length
//! nor divided by a temperature.

use tch::{Kind, Reduction, Tensor};

/// Mean over the batch of the terms of equation 5, summed over both directions. `left` and `right` are [batch, d], row by row
/// translations.
pub fn alignment_loss(left: &Tensor, right: &Tensor) -> Tensor {
    let products = left.matmul(&right.tr()); // [batch, batch]
    let targets = Tensor::arange(left.size()[0], (Kind::Int64, left.device()));
    let pick = |logits: &Tensor| logits.cross_entropy_loss::<Tensor>(&targets, None, Reduction::Mean, -100, 0.0);
    pick(&products) + pick(&products.tr())
}
