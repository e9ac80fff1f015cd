//! Cross-lingual token reconstruction (XTR), EMS (2024), section III-B, equations 6 and 7.
//!
//! From one sentence's embedding and the language of its translation, predicts which tokens the translation has. Order is
//! ignored: the target is one distribution over the vocabulary per sentence. A token that occurs twice counts twice (N_w in
//! equation 7), so that a target's mass is 1; padding has no mass.

use tch::Tensor;

/// Mean over the batch of D_KL(p || q), one direction of equation 6.
///
/// `log_probs` [batch, vocabulary] is log q; `targets` [batch, len] has the translation's token ids, padded with -1.
pub fn xtr_loss(log_probs: &Tensor, targets: &Tensor) -> Tensor {
    let kind = log_probs.kind();
    let mask = targets.ge(0).to_kind(kind); // [batch, len]
    let lengths = mask.sum_dim_intlist(1i64, false, kind); // [batch]
    let mean = |per_token: Tensor| (per_token * &mask).sum_dim_intlist(1i64, false, kind) / &lengths;
    // p(w) is N_w / |S|, so the sum over w of p(w) f(w) is the mean of f over the sentence's tokens.
    let cross = mean(log_probs.gather(1, &targets.clamp_min(0), false));
    let same = targets.unsqueeze(2).eq_tensor(&targets.unsqueeze(1)).to_kind(kind) * mask.unsqueeze(1); // [batch, len, len]
    let counts = same.sum_dim_intlist(2i64, false, kind).clamp_min(1.0);
    let negative_entropy = mean((counts / lengths.unsqueeze(1)).log());
    (negative_entropy - cross).mean(kind)
}
