//! Heads on the sentence embedding that exist only in training and are not part of the bundle.

use dragoman::domain::Language;
use tch::{Kind, Tensor};

use super::attention::linear;
use super::encoder::TOKENS;
use super::parameters::Parameters;
use crate::config::{ModelConfig, VocabularyHeadConfig};

/// Creates the weights of the head that predicts tokens: L_la `xtr.language.weight` [62, d_la] (eq. 2) if it gets the language
/// as an input, L_fc `xtr.full` [out, in], in = d_la + d or d, and L_emb `xtr.vocabulary.weight` [vocabulary, out] (eq. 4), out
/// = in. With a shared embedding, L_emb is the token table and out = d, the only width for which eq. 4 makes sense.
pub fn create_vocabulary(parameters: &mut Parameters, config: &ModelConfig, head: &VocabularyHeadConfig, vocabulary: i64) {
    let input = config.dimension + if head.language_token { config.language_dimension } else { 0 };
    let output = if head.shared_embedding { config.dimension } else { input };
    if head.language_token {
        parameters.normal("xtr.language.weight", &[Language::COUNT as i64, config.language_dimension], 1.0);
    }
    parameters.normal("xtr.full.weight", &[output, input], 1.0 / (input as f64).sqrt());
    parameters.constant("xtr.full.bias", &[output], 0.0);
    if !head.shared_embedding {
        parameters.normal("xtr.vocabulary.weight", &[vocabulary, output], 1.0 / (output as f64).sqrt());
    }
}

/// Creates the contrastive projection: W_2 `contrastive.inner` [d, d] and W_1 `contrastive.outer` [d_cntrs, d] (eq. 10).
pub fn create_projection(parameters: &mut Parameters, config: &ModelConfig) {
    let deviation = 1.0 / (config.dimension as f64).sqrt();
    for (name, output) in [("contrastive.inner", config.dimension), ("contrastive.outer", config.projection_dimension)] {
        parameters.normal(&format!("{name}.weight"), &[output, config.dimension], deviation);
        parameters.constant(&format!("{name}.bias"), &[output], 0.0);
    }
}

/// Creates the linear layer from the student's width to the teacher's: `distillation.projection` [teacher, d].
pub fn create_distillation(parameters: &mut Parameters, config: &ModelConfig, teacher_dimension: i64) {
    let deviation = 1.0 / (config.dimension as f64).sqrt();
    parameters.normal("distillation.projection.weight", &[teacher_dimension, config.dimension], deviation);
    parameters.constant("distillation.projection.bias", &[teacher_dimension], 0.0);
}

/// The log-probabilities of tokens (eq. 4 and 5): log softmax(W_emb swish(W_fc (language ⊕ embedding) + b_fc)); without a
/// language token, the embedding is not prefixed.
///
/// `embeddings` [batch, d]; `languages` [batch] are the languages to predict in. -> [batch, vocabulary], float32
pub fn predict_tokens(
    parameters: &Parameters,
    head: &VocabularyHeadConfig,
    embeddings: &Tensor,
    languages: &Tensor,
    bf16: bool,
) -> Tensor {
    let kind = if bf16 { Kind::BFloat16 } else { Kind::Float };
    let joined = if head.language_token {
        let language = Tensor::embedding(parameters.get("xtr.language.weight"), languages, -1, false, false); // [batch, d_la]
        Tensor::cat(&[&language, embeddings], 1)
    } else {
        embeddings.shallow_clone()
    };
    let hidden = linear(parameters, "xtr.full", &joined.to_kind(kind)).silu();
    let output = parameters.get(if head.shared_embedding { TOKENS } else { "xtr.vocabulary.weight" });
    hidden.matmul(&output.to_kind(kind).tr()).log_softmax(1, Kind::Float)
}

/// Projects the student's embeddings to the teacher's width. [batch, d] -> [batch, teacher]
pub fn project_to_teacher(parameters: &Parameters, embeddings: &Tensor) -> Tensor {
    linear(parameters, "distillation.projection", embeddings)
}

/// h(S) of eq. 10 and 11: W_1 relu(W_2 u + b_2) + b_1. [batch, d] -> [batch, d_cntrs]
pub fn project(parameters: &Parameters, embeddings: &Tensor) -> Tensor {
    linear(parameters, "contrastive.outer", &linear(parameters, "contrastive.inner", embeddings).relu())
}
