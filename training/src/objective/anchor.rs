//! The anchor-learner, DuEAM (2021), sections 3.1 and 3.2, equations 1 and 2.
//!
//! The anchor, a frozen encoder, determines the distance of two sentences by the Word Mover's Distance between its contextual
//! token embeddings; the learner's two sentence embeddings should have that Euclidean distance. The sentences need not be
//! translations of each other. Translation mining pulls a pair together by its cosine; DuEAM weights it with λ = 0.003.

use tch::Tensor;

use super::contrastive::unit;

/// Keeps the gradient of the root finite if two embeddings are equal.
const SQUARE_MIN: f64 = 1e-12;

/// Equation 1: the mean of e^|e^(-d_euc) - e^(-d_wmd)|. Its minimum is 1.
///
/// `left` and `right` [batch, d] are the learner's embeddings, `distances` [batch] the anchor's Word Mover's Distances, which
/// get no gradient.
pub fn anchor_loss(left: &Tensor, right: &Tensor, distances: &Tensor) -> Tensor {
    let kind = left.kind();
    let squares = (left - right).square().sum_dim_intlist(1i64, false, kind);
    let learned = (squares + SQUARE_MIN).sqrt(); // [batch]
    let difference = (-learned).exp() - (-distances.detach().to_kind(kind)).exp();
    difference.abs().exp().mean(kind)
}

/// 1 - L_B of equation 2, the mean cosine of the pairs. DuEAM subtracts λ L_B from its loss; adding λ (1 - L_B) has the same
/// gradient and is never negative.
pub fn translation_mining_loss(left: &Tensor, right: &Tensor) -> Tensor {
    let kind = left.kind();
    1.0 - (unit(left) * unit(right)).sum_dim_intlist(1i64, false, kind).mean(kind)
}
