//! Additive margin softmax (AMS): LaBSE's objective (Yang et al., 2019), as EMS (2024), section V, uses it in its own
//! framework.
//!
//! Like the contrastive objective, but a translation must be nearer than every other sentence by a margin. On the sentence
//! embedding it is LaBSE-EMS-vanilla, through the projection LaBSE-EMS-MLP, and with XTR added LaBSE-EMS-joint.

use tch::{Kind, Reduction, Tensor};

use super::contrastive::unit;

/// Mean over the batch of the sum of both directions: -log of e^((cos(x, y) - m) / T) over itself plus the e^(cos(x, y') / T)
/// of the other sentences y' of the batch. EMS: margin m 0.3, temperature T 0.1.
///
/// `left` and `right` are [batch, d], row by row translations, not necessarily of unit length.
pub fn additive_margin_loss(left: &Tensor, right: &Tensor, margin: f64, temperature: f64) -> Tensor {
    let pairs = left.size()[0];
    let margins = Tensor::eye(pairs, (left.kind(), left.device())) * margin;
    let logits = (unit(left).matmul(&unit(right).tr()) - margins) / temperature; // [batch, batch]
    let targets = Tensor::arange(pairs, (Kind::Int64, left.device()));
    let pick = |logits: &Tensor| logits.cross_entropy_loss::<Tensor>(&targets, None, Reduction::Mean, -100, 0.0);
    pick(&logits) + pick(&logits.tr())
}
