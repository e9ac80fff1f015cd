//! The sentence encoder (EMS, section III-A, eq. 1): a Transformer encoder, positions learned from 1, mean-pooled over the
//! sentence's own tokens.
//!
//! Weights: `embeddings.token.weight` [vocabulary, d]; `embeddings.position.weight` [tokens_max + 1, d], row 0 for padding;
//! `embeddings.norm.*` [d] (post-norm; imported weights may lack it); per layer i `layers.i.attention.{query,key,value,output}`
//! [d, d], `layers.i.feed_forward.up` [ff, d], `layers.i.feed_forward.down` [d, ff], `layers.i.{attention,feed_forward}.norm`
//! [d]. A question encoder that learns together with this one has the same weights, except the token table, under `questions.`.

use tch::{Kind, Tensor};

use super::attention::{Attention, additive_mask, layer_norm, linear, self_attention};
use super::parameters::Parameters;
use crate::config::{Activation, EncoderKind, ModelConfig, Norm};
use crate::data::batch::{Batch, Group};

/// The token table; every stage has one.
pub const TOKENS: &str = "embeddings.token.weight";

/// The logarithms of the tokens' weights in late interaction; only stages that train it have them. [vocabulary]
pub const TOKEN_WEIGHTS: &str = "embeddings.token.log_weight";

/// The separate table of late interaction, if a stage trains one, so that its rows do not have to serve embeddings too.
/// [vocabulary, d]
pub const LATE_TOKENS: &str = "embeddings.late.weight";

/// Like `TOKEN_WEIGHTS`, for `LATE_TOKENS`. [vocabulary]
pub const LATE_WEIGHTS: &str = "embeddings.late.log_weight";

/// Prefix of the weights of a question encoder that learns together with the encoder of passages.
pub const QUESTIONS: &str = "questions.";

/// The position table; row 0 belongs to padding. [tokens_max + 1, d]
pub const POSITIONS: &str = "embeddings.position.weight";

/// The scale of the embeddings' normalization. [d]
pub const EMBEDDING_NORM_WEIGHT: &str = "embeddings.norm.weight";
/// Its shift. [d]
pub const EMBEDDING_NORM_BIAS: &str = "embeddings.norm.bias";

/// The vector of a masked token, which only training has. [1, d]
const MASK: &str = "embeddings.mask.weight";

/// The function inside a residual connection. [batch, len, d] -> [batch, len, d]
type Sublayer<'a> = &'a dyn Fn(&Tensor) -> Tensor;

/// Settings of a forward pass.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// Bag or Transformer.
    pub kind: EncoderKind,
    /// Dropout; 0 outside training.
    pub dropout: f64,
    /// Matrix products in bfloat16.
    pub bf16: bool,
}

/// Creates the missing weights that `kind` needs.
pub fn create(parameters: &mut Parameters, config: &ModelConfig, vocabulary: i64, kind: EncoderKind) {
    let d = config.dimension;
    parameters.normal(TOKENS, &[vocabulary, d], 1.0 / (d as f64).sqrt());
    if kind == EncoderKind::Bag {
        return;
    }
    let post = config.norm == Norm::Post;
    if !post && !parameters.has(POSITIONS) {
        rescale_tokens(parameters, d);
    }
    if post {
        parameters.constant(EMBEDDING_NORM_WEIGHT, &[d], 1.0);
        parameters.constant(EMBEDDING_NORM_BIAS, &[d], 0.0);
    }
    // Zero positions and zero output projections make a pre-norm encoder equal to its bag of tokens until it is trained.
    let position_deviation = if post { 0.02 } else { 0.0 };
    parameters.normal(POSITIONS, &[config.tokens_max + 1, d], position_deviation);
    let inner = 1.0 / (d as f64).sqrt();
    let (attention_out, feed_forward_out) = if post { (inner, 1.0 / (config.feed_forward as f64).sqrt()) } else { (0.0, 0.0) };
    for layer in 0..config.layers {
        let mut dense = |name: &str, output: i64, input: i64, deviation: f64| {
            parameters.normal(&format!("layers.{layer}.{name}.weight"), &[output, input], deviation);
            parameters.constant(&format!("layers.{layer}.{name}.bias"), &[output], 0.0);
        };
        for part in ["query", "key", "value"] {
            dense(&format!("attention.{part}"), d, d, inner);
        }
        dense("attention.output", d, d, attention_out);
        dense("feed_forward.up", config.feed_forward, d, inner);
        dense("feed_forward.down", d, config.feed_forward, feed_forward_out);
        for part in ["attention", "feed_forward"] {
            parameters.constant(&format!("layers.{layer}.{part}.norm.weight"), &[d], 1.0);
            parameters.constant(&format!("layers.{layer}.{part}.norm.bias"), &[d], 0.0);
        }
    }
}

/// Scales the token table so that its rows have the length that a layer normalization gives, the square root of d. The bag's
/// direction stays the same. Without this, the rows are so short that the first steps of new layers would swamp what the table
/// has learned.
fn rescale_tokens(parameters: &mut Parameters, d: i64) {
    let table = parameters.get(TOKENS).detach();
    let length = table.square().sum_dim_intlist(1i64, false, Kind::Float).sqrt().mean(Kind::Double).double_value(&[]);
    if length > 0.0 {
        parameters.set(TOKENS, &(table * ((d as f64).sqrt() / length)));
    }
}

/// Creates the vector that replaces the tokens masked by SMLM and UGT, unless it exists.
pub fn create_mask(parameters: &mut Parameters, config: &ModelConfig) {
    parameters.normal(MASK, &[1, config.dimension], 1.0 / (config.dimension as f64).sqrt());
}

/// Creates the tokens' weights in late interaction, unless they exist. They start as the lengths of the table's rows, from
/// which a bag of tokens has learned the importance of each token, scaled so that their logarithms have the mean 0.
pub fn create_token_weights(parameters: &mut Parameters) {
    if parameters.has(TOKEN_WEIGHTS) {
        return;
    }
    let table = parameters.get(TOKENS).detach();
    let logs = table.square().sum_dim_intlist(1i64, false, Kind::Float).sqrt().clamp_min(1e-6).log();
    parameters.set(TOKEN_WEIGHTS, &(&logs - logs.mean(Kind::Float)));
}

/// Creates the separate table of late interaction and its weights, unless they exist, as copies of the token table and its
/// weights.
pub fn create_late_table(parameters: &mut Parameters) {
    if !parameters.has(LATE_TOKENS) {
        create_token_weights(parameters);
        let (table, weights) = (parameters.get(TOKENS).shallow_clone(), parameters.get(TOKEN_WEIGHTS).shallow_clone());
        parameters.set(LATE_TOKENS, &table);
        parameters.set(LATE_WEIGHTS, &weights);
    }
}

/// Creates the question encoder, unless it exists, as a copy of the encoder of passages.
pub fn create_question_encoder(parameters: &mut Parameters) {
    let is_copied = |name: &str| name.starts_with("layers.") || name == POSITIONS || name.starts_with("embeddings.norm.");
    let copies: Vec<(String, Tensor)> = parameters
        .iter()
        .filter(|(name, _)| is_copied(name))
        .map(|(name, weight)| (format!("{QUESTIONS}{name}"), weight.shallow_clone()))
        .filter(|(name, _)| !parameters.has(name))
        .collect();
    copies.iter().for_each(|(name, weight)| parameters.set(name, weight));
}

/// The question encoder as an encoder of its own, if there is one: its weights and the token table.
pub fn question_encoder(parameters: &Parameters) -> Option<Parameters> {
    if !has_question_encoder(parameters) {
        return None;
    }
    let mut questions = Parameters::new(parameters.device());
    questions.set(TOKENS, parameters.get(TOKENS));
    let of_questions = parameters.iter().filter_map(|(name, weight)| Some((name.strip_prefix(QUESTIONS)?, weight)));
    of_questions.for_each(|(name, weight)| questions.set(name, weight));
    Some(questions)
}

fn has_question_encoder(parameters: &Parameters) -> bool {
    parameters.has(&format!("{QUESTIONS}{POSITIONS}"))
}

/// The names of the table and the weights that late interaction uses.
pub fn late_names(parameters: &Parameters) -> (&'static str, &'static str) {
    if parameters.has(LATE_TOKENS) { (LATE_TOKENS, LATE_WEIGHTS) } else { (TOKENS, TOKEN_WEIGHTS) }
}

/// The kind of encoder of these weights.
pub fn kind_of(parameters: &Parameters) -> EncoderKind {
    if parameters.has(POSITIONS) { EncoderKind::Transformer } else { EncoderKind::Bag }
}

/// The sentence embeddings of a batch, not normalized. [2 x pairs, d]
pub fn encode(parameters: &Parameters, config: &ModelConfig, batch: &Batch, pass: Pass) -> Tensor {
    encode_rows(parameters, config, &gather(parameters, batch), batch, pass)
}

/// The token vectors of a batch. They are gathered once, so that the backward pass touches the table once and not once per
/// group. [distinct, d], and one more row for the mask if tokens are masked
pub fn gather(parameters: &Parameters, batch: &Batch) -> Tensor {
    with_mask(parameters, table_rows(parameters, TOKENS, batch), batch)
}

/// The rows of the table `name` that a batch reads, detached from the table, whose dense gradient would be zero almost
/// everywhere. [distinct, d]
pub fn table_rows(parameters: &Parameters, name: &str, batch: &Batch) -> Tensor {
    parameters.get(name).detach().index_select(0, &batch.distinct)
}

/// Adds the mask's row if tokens are masked.
pub fn with_mask(parameters: &Parameters, rows: Tensor, batch: &Batch) -> Tensor {
    if batch.masked.is_some() { Tensor::cat(&[&rows, parameters.get(MASK)], 0) } else { rows }
}

/// Like `encode`, from the output of `gather`. [2 x pairs, d]
pub fn encode_rows(parameters: &Parameters, config: &ModelConfig, rows: &Tensor, batch: &Batch, pass: Pass) -> Tensor {
    match pass.kind {
        EncoderKind::Bag => Tensor::embedding_bag::<&Tensor>(rows, &batch.flat, &batch.offsets, false, 1, false, None, false).0,
        EncoderKind::Transformer => {
            let pooled: Vec<Tensor> =
                batch.groups.iter().map(|group| encode_group(parameters, config, rows, group, pass)).collect();
            Tensor::cat(&pooled, 0).index_select(0, &batch.order)
        }
    }
}

/// The contextual token embeddings of a batch, not pooled; for a bag, the token vectors. [2 x pairs, len, d], and their mask,
/// which is 1 for tokens and 0 for padding, [2 x pairs, len]
pub fn encode_tokens(parameters: &Parameters, config: &ModelConfig, batch: &Batch, pass: Pass) -> (Tensor, Tensor) {
    let rows = gather(parameters, batch);
    let length = batch.groups.iter().map(|group| group.ids.size()[1]).max().unwrap_or(0);
    let (mut states, mut masks) = (Vec::new(), Vec::new());
    for group in &batch.groups {
        let missing = length - group.ids.size()[1];
        let group_states = match pass.kind {
            EncoderKind::Bag => Tensor::embedding(&rows, &group.ids, -1, false, false),
            EncoderKind::Transformer => token_states(parameters, config, &rows, group, pass),
        };
        states.push(group_states.constant_pad_nd([0, 0, 0, missing]));
        masks.push(group.mask.constant_pad_nd([0, missing]));
    }
    (Tensor::cat(&states, 0).index_select(0, &batch.order), Tensor::cat(&masks, 0).index_select(0, &batch.order))
}

/// The Transformer over sentences of similar length. The group's ids are positions in `rows`. -> [batch, d]
pub fn encode_group(parameters: &Parameters, config: &ModelConfig, rows: &Tensor, group: &Group, pass: Pass) -> Tensor {
    let x = token_states(parameters, config, rows, group, pass);
    let mask = group.mask.unsqueeze(-1); // [batch, len, 1]
    (x * &mask).sum_dim_intlist(1i64, false, Kind::Float) / mask.sum_dim_intlist(1i64, false, Kind::Float)
}

/// The Transformer's last hidden states. -> [batch, len, d]
fn token_states(parameters: &Parameters, config: &ModelConfig, rows: &Tensor, group: &Group, pass: Pass) -> Tensor {
    let (_, length) = group.ids.size2().unwrap_or((0, 0));
    let training = pass.dropout > 0.0;
    let prefix = if group.questions && has_question_encoder(parameters) { QUESTIONS } else { "" };
    let positions =
        Tensor::arange_start(1, length + 1, (Kind::Int64, rows.device())).unsqueeze(0) * group.mask.to_kind(Kind::Int64);
    let mut x = Tensor::embedding(rows, &group.ids, -1, false, false) // [batch, len, d]
        + Tensor::embedding(parameters.get(&format!("{prefix}{POSITIONS}")), &positions, -1, false, false);
    if parameters.has(&format!("{prefix}{EMBEDDING_NORM_WEIGHT}")) {
        x = layer_norm(parameters, &format!("{prefix}embeddings.norm"), &x);
    }
    x = x.dropout(pass.dropout, training);
    let mask = additive_mask(&group.mask);
    let attention = Attention { heads: config.heads, mask: &mask, dropout: pass.dropout };
    let narrow = |x: Tensor| if pass.bf16 { x.to_kind(Kind::BFloat16) } else { x };
    for layer in 0..config.layers {
        let layer = format!("{prefix}layers.{layer}");
        let sublayers: [(&str, Sublayer<'_>); 2] = [
            ("attention", &|x| self_attention(parameters, &format!("{layer}.attention"), x, attention)),
            ("feed_forward", &|x| {
                let up = linear(parameters, &format!("{layer}.feed_forward.up"), x);
                let active = match config.activation {
                    Activation::Gelu => up.gelu("none"),
                    Activation::Swish => up.silu(),
                };
                linear(parameters, &format!("{layer}.feed_forward.down"), &active)
            }),
        ];
        for (name, sublayer) in sublayers {
            let norm = format!("{layer}.{name}.norm");
            let apply = |x: Tensor| sublayer(&narrow(x)).to_kind(Kind::Float).dropout(pass.dropout, training);
            x = match config.norm {
                Norm::Pre => &x + apply(layer_norm(parameters, &norm, &x)),
                Norm::Post => layer_norm(parameters, &norm, &(&x + apply(x.shallow_clone()))),
            };
        }
    }
    x
}
