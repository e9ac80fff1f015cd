//! What training puts on top of the sentence embedding, and the bundle leaves out.

use dragoman::domain::Language;
use tch::{Kind, Tensor};

use super::attention::linear;
use super::parameters::Parameters;
use crate::config::ModelConfig;

/// Makes XTR's weights: L_la `xtr.language.weight` [62, d_la] (eq. 2), L_fc `xtr.full` [d_la + d, d_la + d] and L_emb
/// `xtr.vocabulary.weight` [vocabulary, d_la + d] (eq. 4).
pub fn create_xtr(parameters: &mut Parameters, config: &ModelConfig, vocabulary: i64) {
    let width = config.language_dimension + config.dimension;
    let deviation = 1.0 / (width as f64).sqrt();
    parameters.normal("xtr.language.weight", &[Language::COUNT as i64, config.language_dimension], 1.0);
    parameters.normal("xtr.full.weight", &[width, width], deviation);
    parameters.constant("xtr.full.bias", &[width], 0.0);
    parameters.normal("xtr.vocabulary.weight", &[vocabulary, width], deviation);
}

/// Makes the contrastive projection: W_2 `contrastive.inner` [d, d] and W_1 `contrastive.outer` [d_cntrs, d] (eq. 10).
pub fn create_projection(parameters: &mut Parameters, config: &ModelConfig) {
    let deviation = 1.0 / (config.dimension as f64).sqrt();
    for (name, output) in [("contrastive.inner", config.dimension), ("contrastive.outer", config.projection_dimension)] {
        parameters.normal(&format!("{name}.weight"), &[output, config.dimension], deviation);
        parameters.constant(&format!("{name}.bias"), &[output], 0.0);
    }
}

/// The log-probabilities of the target sentence's tokens (eq. 4 and 5): log softmax(W_emb swish(W_fc (language ⊕ embedding) + b_fc)).
///
/// `embeddings` [batch, d]; `languages` [batch] says which language to reconstruct in. -> [batch, vocabulary], float32
pub fn reconstruct(parameters: &Parameters, embeddings: &Tensor, languages: &Tensor, bf16: bool) -> Tensor {
    let language = Tensor::embedding(parameters.get("xtr.language.weight"), languages, -1, false, false); // [batch, d_la]
    let joined = Tensor::cat(&[&language, embeddings], 1);
    let kind = if bf16 { Kind::BFloat16 } else { Kind::Float };
    let hidden = linear(parameters, "xtr.full", &joined.to_kind(kind)).silu();
    let logits = hidden.matmul(&parameters.get("xtr.vocabulary.weight").to_kind(kind).tr());
    logits.log_softmax(1, Kind::Float)
}

/// h(S) of eq. 10 and 11: W_1 relu(W_2 u + b_2) + b_1. [batch, d] -> [batch, d_cntrs]
pub fn project(parameters: &Parameters, embeddings: &Tensor) -> Tensor {
    linear(parameters, "contrastive.outer", &linear(parameters, "contrastive.inner", embeddings).relu())
}
