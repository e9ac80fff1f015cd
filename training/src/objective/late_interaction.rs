//! Late interaction (ColBERT, Khattab and Zaharia, 2020) over the rows of the token table, which the server uses to score
//! passages for a question. A passage then needs only its token ids, no vectors of its own.
//!
//! The score of a passage d for a question q is the weighted mean, over the tokens of q, of the highest cosine that each has
//! with a token of d: s(q, d) = sum_i w_i max_j cos(q_i, d_j) / sum_i w_i. The weights are learned, one per token of the
//! vocabulary.

use tch::{Kind, Reduction, Tensor};

use super::contrastive::unit;

/// The texts to compare, as positions in the rows of the batch's tokens.
#[derive(Debug)]
pub struct Interaction {
    /// The distinct tokens of the left texts. [left]
    pub left: Tensor,
    /// How often each of them occurs in each left text. [pairs, left]
    pub counts: Tensor,
    /// The distinct tokens of the right texts. [right]
    pub right: Tensor,
    /// The tokens of each right text, as positions in `right`; shorter texts repeat their first token. [pairs, len]
    pub tokens: Tensor,
}

impl Interaction {
    /// Moves the tensors to another device.
    pub fn to_device(self, device: tch::Device) -> Self {
        Self {
            left: self.left.to_device(device),
            counts: self.counts.to_device(device),
            right: self.right.to_device(device),
            tokens: self.tokens.to_device(device),
        }
    }
}

/// Scores each left text against each right one, -1 to 1. `rows` [distinct, d] are the token vectors of the batch, `log_weights`
/// [distinct] the logarithms of their weights. -> [pairs, pairs]
pub fn late_interaction_scores(rows: &Tensor, log_weights: &Tensor, texts: &Interaction) -> Tensor {
    let (pairs, length) = texts.tokens.size2().unwrap_or((0, 0));
    let unit_rows = unit(rows);
    let (left, right) = (unit_rows.index_select(0, &texts.left), unit_rows.index_select(0, &texts.right));
    let cosines = left.matmul(&right.tr()); // [left, right]
    let flat = texts.tokens.flatten(0, -1);
    // The choice of the nearest token has no gradient; only its cosine has one.
    let nearest = tch::no_grad(|| {
        let by_text = cosines.index_select(1, &flat).view([-1, pairs, length]); // [left, pairs, len]
        let nearest = by_text.argmax(-1, false); // [left, pairs]
        let starts = Tensor::arange(pairs, (Kind::Int64, rows.device())) * length;
        flat.index_select(0, &(nearest + starts).flatten(0, -1)).view([-1, pairs])
    });
    let greatest = cosines.gather(1, &nearest, false); // [left, pairs]
    let weights = log_weights.index_select(0, &texts.left).exp() * &texts.counts; // [pairs, left]
    weights.matmul(&greatest) / weights.sum_dim_intlist(1i64, true, weights.kind())
}

/// Mean over the batch of the softmax loss with which scores identify the right text of each left one, and the left text of
/// each right one.
pub fn late_interaction_loss(scores: &Tensor, temperature: f64) -> Tensor {
    let logits = scores / temperature;
    let targets = Tensor::arange(scores.size()[0], (Kind::Int64, scores.device()));
    let pick = |logits: &Tensor| logits.cross_entropy_loss::<Tensor>(&targets, None, Reduction::Mean, -100, 0.0);
    pick(&logits) + pick(&logits.tr())
}
