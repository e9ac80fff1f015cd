//! Multi-head self-attention (Vaswani et al., 2017, section 3.2), and the linear layer and the normalization of the model.

use tch::{Kind, Tensor};

use super::parameters::Parameters;

/// y = x Wᵀ + b, computed in the kind of `x`: with bfloat16 input, the float32 master weights are rounded first.
pub fn linear(parameters: &Parameters, name: &str, x: &Tensor) -> Tensor {
    let weight = parameters.get(&format!("{name}.weight")).to_kind(x.kind());
    let bias = parameters.get(&format!("{name}.bias")).to_kind(x.kind());
    x.linear(&weight, Some(&bias))
}

/// Layer normalization over the last dimension, in float32, epsilon 1e-12.
pub fn layer_norm(parameters: &Parameters, name: &str, x: &Tensor) -> Tensor {
    let (weight, bias) = (parameters.get(&format!("{name}.weight")), parameters.get(&format!("{name}.bias")));
    x.layer_norm(weight.size(), Some(weight), Some(bias), 1e-12, false)
}

/// Settings of self-attention.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Heads; divides the width.
    pub heads: i64,
    /// Additive mask, 0 for tokens and very low for padding. [batch, 1, 1, len]
    pub mask: &'a Tensor,
    /// Dropout of the attention weights (EMS, footnote 18); 0 outside training.
    pub dropout: f64,
}

/// Attends within each sentence. [batch, len, d] -> [batch, len, d]
pub fn self_attention(parameters: &Parameters, name: &str, x: &Tensor, attention: Attention<'_>) -> Tensor {
    let Attention { heads, mask, dropout } = attention;
    let (batch, length, dimension) = x.size3().unwrap_or((0, 0, 0));
    let split = |part: &str| {
        let projected = linear(parameters, &format!("{name}.{part}"), x);
        projected.view([batch, length, heads, dimension / heads]).transpose(1, 2) // [batch, heads, len, d / heads]
    };
    // Plain products, because libtorch's fused attention multiplies head by head, which is slower on a CPU for short sentences.
    let query = split("query") * (((dimension / heads) as f64).sqrt().recip());
    let scores = query.matmul(&split("key").transpose(2, 3)) + mask.to_kind(x.kind()); // [batch, heads, len, len]
    let weights = scores.softmax(-1, x.kind()).dropout(dropout, dropout > 0.0);
    let attended = weights.matmul(&split("value"));
    let joined = attended.transpose(1, 2).contiguous().view([batch, length, dimension]);
    linear(parameters, &format!("{name}.output"), &joined)
}

/// The additive mask for `self_attention` from a mask with 1 for tokens and 0 for padding. [batch, len] -> [batch, 1, 1, len]
pub fn additive_mask(mask: &Tensor) -> Tensor {
    ((mask.to_kind(Kind::Float) - 1.0) * 1e4).unsqueeze(1).unsqueeze(1)
}
