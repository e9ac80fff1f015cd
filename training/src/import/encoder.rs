//! Maps the tensors of the EMS authors' checkpoint to this encoder's (`model/encoder.rs` has the list and the math).
//!
//! Names are those of the modules of the authors' implementation, with any prefix: `module.model.bert.` as trained on several
//! devices, `model.bert.`, or none.

use std::collections::BTreeMap;

use super::checkpoint::Checkpoint;
use super::pickle::StoredTensor;
use crate::config::{Activation, Norm};
use crate::error::Error;
use crate::export::{EncoderShape, EncoderWeights, Weight};
use crate::model::encoder::{EMBEDDING_NORM_BIAS, EMBEDDING_NORM_WEIGHT, POSITIONS, TOKENS};

/// The token table, which identifies the state dict and the prefix of its names.
const LANDMARK: &str = "embedding.word_embedding.embedding.weight";

/// Names outside of the layers: the authors', and ours.
const EMBEDDINGS: [(&str, &str); 8] = [
    (LANDMARK, TOKENS),
    ("embedding.position_embedding.position_embeddings.weight", POSITIONS),
    ("embedding.position_embedding.position_embeddings", POSITIONS),
    ("embedding.layer_norm.weight", EMBEDDING_NORM_WEIGHT),
    ("embedding.layer_norm.bias", EMBEDDING_NORM_BIAS),
    ("embedding.LayerNorm.weight", EMBEDDING_NORM_WEIGHT),
    ("embedding.LayerNorm.bias", EMBEDDING_NORM_BIAS),
    ("embedding.position_embedding.weight", POSITIONS),
];

/// Names within layer N, below `encoder.layer.N.` and `layers.N.`: the authors', and ours, each with `.weight` and `.bias`.
const LAYER: [(&str, &str); 8] = [
    ("attention.self_attention.query", "attention.query"),
    ("attention.self_attention.key", "attention.key"),
    ("attention.self_attention.value", "attention.value"),
    ("attention.output.dense", "attention.output"),
    ("attention.output.LayerNorm", "attention.norm"),
    ("intermediate.dense", "feed_forward.up"),
    ("output.dense", "feed_forward.down"),
    ("output.LayerNorm", "feed_forward.norm"),
];

/// An encoder from a checkpoint.
pub struct ImportedEncoder {
    /// Its weights.
    pub weights: EncoderWeights,
    /// Number of tensors that were skipped because only training needs them.
    pub skipped_tensors: usize,
}

/// Properties that the shapes of tensors do not show.
#[derive(Debug, Clone, Copy)]
pub struct EncoderOptions {
    /// Attention heads.
    pub heads: usize,
    /// Activation of the feed-forward parts.
    pub activation: Activation,
}

/// Reads the encoder. Sizes come from the shapes of the tables and the first layer.
pub fn read(checkpoint: &mut Checkpoint, encoder_options: EncoderOptions) -> Result<ImportedEncoder, Error> {
    let tensors = checkpoint.state_dict(LANDMARK)?;
    let prefix = prefix_of(&tensors)?;
    let (mut weights, mut skipped_tensors) = (BTreeMap::new(), 0);
    for (name, tensor) in &tensors {
        let within = name.strip_prefix(&prefix);
        match within.and_then(our_name) {
            Some(ours) => {
                if weights.insert(ours.clone(), checkpoint.read(name, tensor)?).is_some() {
                    return Err(problem(format!("{name} is {ours}, but so is another tensor")));
                }
            }
            // An unknown part of the encoder must not be dropped silently.
            None if within.is_some_and(|name| name.starts_with("embedding.") || name.starts_with("encoder.")) => {
                return Err(problem(format!("{name} is an unknown part of the encoder")));
            }
            None => skipped_tensors += 1,
        }
    }
    let shape = shape_of(&weights, encoder_options)?;
    Ok(ImportedEncoder { weights: EncoderWeights::from_weights(shape, weights)?, skipped_tensors })
}

/// The prefix before the landmark.
fn prefix_of(tensors: &[(String, StoredTensor)]) -> Result<String, Error> {
    let mut prefixes = tensors.iter().filter_map(|(name, _)| name.strip_suffix(LANDMARK));
    match (prefixes.next(), prefixes.next()) {
        (Some(prefix), None) => Ok(prefix.to_owned()),
        (first, second) => Err(problem(format!("expected one tensor …{LANDMARK}, got it in {first:?} and {second:?}"))),
    }
}

/// Maps one of the authors' tensor names, without the prefix, to ours.
fn our_name(name: &str) -> Option<String> {
    if let Some((_, ours)) = EMBEDDINGS.iter().find(|(theirs, _)| *theirs == name) {
        return Some((*ours).to_owned());
    }
    let (layer, within) = name.strip_prefix("encoder.layer.")?.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    let (module, parameter) = within.rsplit_once('.')?;
    let (_, ours) = LAYER.iter().find(|(theirs, _)| *theirs == module)?;
    matches!(parameter, "weight" | "bias").then(|| format!("layers.{layer}.{ours}.{parameter}"))
}

fn shape_of(weights: &BTreeMap<String, Weight>, encoder_options: EncoderOptions) -> Result<EncoderShape, Error> {
    let matrix = |name: &str| match weights.get(name).map(|weight| weight.shape.as_slice()) {
        Some(&[rows, columns]) => Ok((rows, columns)),
        Some(shape) => Err(problem(format!("{name} has the shape {shape:?}, expected two dimensions"))),
        None => Err(problem(format!("{name} is missing"))),
    };
    let (vocabulary, dimension) = matrix(TOKENS)?;
    let (positions, _) = matrix(POSITIONS)?;
    let (feed_forward, _) = matrix("layers.0.feed_forward.up.weight")?;
    let layer = |name: &String| name.strip_prefix("layers.")?.split('.').next()?.parse::<usize>().ok();
    // The number of layers is capped by the number of tensors, so that a huge layer number is reported as missing tensors.
    let layers = weights.keys().filter_map(layer).max().map_or(0, |last| last.saturating_add(1).min(weights.len() + 1));
    if positions < 2 {
        return Err(problem(format!("{POSITIONS} has {positions} rows, expected one for padding and at least one more")));
    }
    Ok(EncoderShape {
        vocabulary,
        dimension,
        layers,
        heads: encoder_options.heads,
        feed_forward,
        tokens_max: positions - 1,
        norm: Norm::Post,
        activation: encoder_options.activation,
    })
}

fn problem(problem: String) -> Error {
    Error::Setting { setting: "checkpoint", problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn original_tensor_names_are_mapped_to_ours() {
        let check = |theirs: &str, ours: Option<&str>| assert_eq!(our_name(theirs).as_deref(), ours, "{theirs}");
        check("embedding.word_embedding.embedding.weight", Some("embeddings.token.weight"));
        check("embedding.position_embedding.position_embeddings.weight", Some("embeddings.position.weight"));
        check("embedding.layer_norm.bias", Some("embeddings.norm.bias"));
        check("encoder.layer.11.attention.self_attention.key.bias", Some("layers.11.attention.key.bias"));
        check("encoder.layer.0.attention.output.dense.weight", Some("layers.0.attention.output.weight"));
        check("encoder.layer.0.attention.output.LayerNorm.weight", Some("layers.0.attention.norm.weight"));
        check("encoder.layer.3.intermediate.dense.weight", Some("layers.3.feed_forward.up.weight"));
        check("encoder.layer.3.output.dense.weight", Some("layers.3.feed_forward.down.weight"));
        check("encoder.layer.3.output.LayerNorm.bias", Some("layers.3.feed_forward.norm.bias"));
        check("encoder.layer.3.output.LayerNorm.gamma", None);
        check("encoder.layer.x.output.dense.weight", None);
        check("decoder.decoder.weight", None);
    }
}
