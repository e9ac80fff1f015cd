//! The single-word masked language model (SMLM) and the unified generative task (UGT), lightweight cross-lingual sentence
//! representations (2021), section 3.2, equations 1 and 4.
//!
//! In each pair, one token w_t of one side is masked. SMLM predicts w_t from its own sentence, where it is masked, and from the
//! translation. UGT predicts the translation's tokens as XTR does, and from the masked sentence it also predicts w_t, with half
//! of the probability.

use tch::Tensor;

/// Mean over the batch of equation 1, one masked side per pair: -log P(w_t | S without w_t) - log P(w_t | S').
///
/// `from_masked` and `from_translation` [batch, vocabulary] are the log-probabilities predicted from the sentence with the
/// masked token and from its translation; `masked` [batch] has the ids of the masked tokens. The equation sums over both sides
/// of each pair; drawing one side at random gives half of that sum on average, and saves a third and fourth encoding.
pub fn masked_word_loss(from_masked: &Tensor, from_translation: &Tensor, masked: &Tensor) -> Tensor {
    let pick = |log_probs: &Tensor| log_probs.gather(1, &masked.unsqueeze(1), false).mean(log_probs.kind());
    -(pick(from_masked) + pick(from_translation))
}

/// Mean over the batch of D_KL(q || p), one direction of equation 2 with q of equation 4.
///
/// `log_probs` [batch, vocabulary] is log p; `targets` [batch, len] has the translation's token ids, padded with -1; `masked`
/// [batch] has the id of the token that is masked in the source sentence, or -1 if there is none: q is then that of equation 3.
/// If the translation contains w_t too, w_t gets both masses, so that q always sums to 1. A token counts as often as it occurs;
/// the paper's implementation counts each token once (its footnote 4).
pub fn unified_generative_loss(log_probs: &Tensor, targets: &Tensor, masked: &Tensor) -> Tensor {
    let kind = log_probs.kind();
    let mask = targets.ge(0).to_kind(kind); // [batch, len]
    let lengths = mask.sum_dim_intlist(1i64, true, kind); // [batch, 1]
    let half = masked.ge(0).to_kind(kind).unsqueeze(1) * 0.5; // [batch, 1]: the mass of w_t
    // One entry per token of the translation, and one for w_t: its share of q's mass. [batch, len + 1]
    let shares = Tensor::cat(&[&(&mask * (1.0 - &half) / lengths), &half], 1);
    let tokens = Tensor::cat(&[targets, &masked.unsqueeze(1)], 1);
    // A token's q is the sum of the shares of its entries.
    let same = tokens.unsqueeze(2).eq_tensor(&tokens.unsqueeze(1)).to_kind(kind); // [batch, len + 1, len + 1]
    let q = (same * shares.unsqueeze(1)).sum_dim_intlist(2i64, false, kind);
    let log_p = log_probs.gather(1, &tokens.clamp_min(0), false);
    // Entries without mass may have q = 0; clamping avoids multiplying its infinite logarithm by their share of 0.
    let divergence = &shares * (q.clamp_min(1e-30).log() - log_p);
    divergence.sum(kind) / targets.size()[0] as f64
}
