//! The sentence-level contrastive objective, EMS (2024), section III-C, equations 8 and 9.
//!
//! Each sentence must identify its translation among all sentences of the other side of the batch, in both directions.

use tch::{Kind, Reduction, Tensor};

/// Mean over the batch of the loss of equation 8, summed over both directions (the 1 / |B| of equation 12 included).
///
/// `left` and `right` are [batch, d], row by row translations, not necessarily of unit length; equation 9 normalizes them.
pub fn contrastive_loss(left: &Tensor, right: &Tensor, temperature: f64) -> Tensor {
    let similarities = unit(left).matmul(&unit(right).tr()) / temperature; // [batch, batch]
    let targets = Tensor::arange(left.size()[0], (Kind::Int64, left.device()));
    let pick = |logits: &Tensor| logits.cross_entropy_loss::<Tensor>(&targets, None, Reduction::Mean, -100, 0.0);
    pick(&similarities) + pick(&similarities.tr())
}

/// Scales rows to unit length.
pub fn unit(rows: &Tensor) -> Tensor {
    let norm = rows.square().sum_dim_intlist(-1i64, true, rows.kind()).sqrt().clamp_min(1e-8);
    rows / norm
}
