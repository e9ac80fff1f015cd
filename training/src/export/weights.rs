//! The trained encoder's weights as plain arrays: the source of every exported graph.
//!
//! Tensor names and the math behind them are the model's (`model/encoder.rs`). A linear layer is y = x W^T + b with W [out,
//! in]. Whether there are positions and a normalization of the embeddings follows from the presence of their tensors.

use std::collections::{BTreeMap, HashMap};

use tch::{Kind, Tensor};

use crate::config::{Activation, EncoderKind, ModelConfig, Norm};
use crate::error::Error;
use crate::model::encoder::{
    EMBEDDING_NORM_BIAS, EMBEDDING_NORM_WEIGHT, LATE_TOKENS, LATE_WEIGHTS, POSITIONS, TOKEN_WEIGHTS, TOKENS,
};

/// The encoder's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderShape {
    /// Number of token ids.
    pub vocabulary: usize,
    /// Width, also the number of values per embedding.
    pub dimension: usize,
    /// Transformer layers; 0 is a bag of tokens.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width of the feed-forward part.
    pub feed_forward: usize,
    /// Maximum tokens to read of one text.
    pub tokens_max: usize,
    /// Position of the layer normalization.
    pub norm: Norm,
    /// Activation of the feed-forward part.
    pub activation: Activation,
}

/// A tensor of f32, the last dimension fastest.
#[derive(Debug, Clone, PartialEq)]
pub struct Weight {
    /// One or two dimensions.
    pub shape: Vec<usize>,
    /// The values; their number is the product of the shape.
    pub values: Vec<f32>,
}

/// The encoder's weights by name.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderWeights {
    /// Size.
    pub shape: EncoderShape,
    tensors: BTreeMap<String, Weight>,
}

impl EncoderShape {
    /// The size of a configured encoder. A bag of tokens has 0 layers.
    pub fn new(model: &ModelConfig, vocabulary: usize, kind: EncoderKind) -> Self {
        Self {
            vocabulary,
            dimension: model.dimension as usize,
            layers: if kind == EncoderKind::Bag { 0 } else { model.layers as usize },
            heads: model.heads as usize,
            feed_forward: model.feed_forward as usize,
            tokens_max: model.tokens_max as usize,
            norm: model.norm,
            activation: model.activation,
        }
    }
}

impl EncoderWeights {
    /// Takes the encoder's tensors from `tensors`, which may also contain training heads, and checks their shapes.
    pub fn from_tensors<'t>(
        shape: EncoderShape,
        tensors: impl IntoIterator<Item = (&'t str, &'t Tensor)>,
    ) -> Result<Self, Error> {
        let tensors: HashMap<&str, &Tensor> = tensors.into_iter().collect();
        Self::gather(shape, |name| tensors.get(name).map(|tensor| weight_of(tensor)).transpose())
    }

    /// Like `from_tensors`, from plain arrays.
    pub fn from_weights(shape: EncoderShape, mut weights: BTreeMap<String, Weight>) -> Result<Self, Error> {
        Self::gather(shape, |name| Ok(weights.remove(name)))
    }

    fn gather(shape: EncoderShape, mut find: impl FnMut(&str) -> Result<Option<Weight>, Error>) -> Result<Self, Error> {
        if shape.layers > 0 && (shape.heads == 0 || !shape.dimension.is_multiple_of(shape.heads)) {
            let problem = format!("must divide the dimension {}, got {}", shape.dimension, shape.heads);
            return Err(Error::Setting { setting: "model.heads", problem });
        }
        let mut gathered = BTreeMap::new();
        for (name, expected, needed) in expected(&shape) {
            match find(&name)? {
                Some(weight) if weight.shape == expected => drop(gathered.insert(name, weight)),
                Some(weight) => {
                    return Err(shape_error(format!("{name} has the shape {:?}, expected {expected:?}", weight.shape)));
                }
                None if needed => return Err(shape_error(format!("{name} is missing"))),
                None => {}
            }
        }
        if gathered.contains_key(EMBEDDING_NORM_WEIGHT) != gathered.contains_key(EMBEDDING_NORM_BIAS) {
            return Err(shape_error(format!("only one of {EMBEDDING_NORM_WEIGHT} and {EMBEDDING_NORM_BIAS} is there")));
        }
        Ok(Self { shape, tensors: gathered })
    }

    /// The tensor `name`, if the model has it.
    pub fn find(&self, name: &str) -> Option<&Weight> {
        self.tensors.get(name)
    }

    /// The tensor `name`.
    pub fn get(&self, name: &str) -> Result<&Weight, Error> {
        self.find(name).ok_or_else(|| shape_error(format!("{name} is missing")))
    }

    /// All tensors in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Weight)> {
        self.tensors.iter().map(|(name, weight)| (name.as_str(), weight))
    }

    /// Total number of parameters.
    pub fn parameters(&self) -> usize {
        self.tensors.values().map(|weight| weight.values.len()).sum()
    }
}

/// Name and shape of every tensor, and whether it is required.
fn expected(shape: &EncoderShape) -> Vec<(String, Vec<usize>, bool)> {
    let (d, ff) = (shape.dimension, shape.feed_forward);
    let mut all = vec![
        (TOKENS.to_owned(), vec![shape.vocabulary, d], true),
        (TOKEN_WEIGHTS.to_owned(), vec![shape.vocabulary], false),
        (LATE_TOKENS.to_owned(), vec![shape.vocabulary, d], false),
        (LATE_WEIGHTS.to_owned(), vec![shape.vocabulary], false),
        (POSITIONS.to_owned(), vec![shape.tokens_max + 1, d], false),
        (EMBEDDING_NORM_WEIGHT.to_owned(), vec![d], false),
        (EMBEDDING_NORM_BIAS.to_owned(), vec![d], false),
    ];
    for layer in 0..shape.layers {
        let mut needed = |name: &str, shape: &[usize]| all.push((format!("layers.{layer}.{name}"), shape.to_vec(), true));
        for part in ["query", "key", "value", "output"] {
            needed(&format!("attention.{part}.weight"), &[d, d]);
            needed(&format!("attention.{part}.bias"), &[d]);
        }
        needed("feed_forward.up.weight", &[ff, d]);
        needed("feed_forward.up.bias", &[ff]);
        needed("feed_forward.down.weight", &[d, ff]);
        needed("feed_forward.down.bias", &[d]);
        for part in ["attention", "feed_forward"] {
            needed(&format!("{part}.norm.weight"), &[d]);
            needed(&format!("{part}.norm.bias"), &[d]);
        }
    }
    all
}

fn weight_of(tensor: &Tensor) -> Result<Weight, Error> {
    let shape: Vec<usize> = tensor.size().into_iter().map(|size| size as usize).collect();
    let flat = tensor.detach().to_device(tch::Device::Cpu).to_kind(Kind::Float).contiguous();
    let mut values = vec![0.0; flat.numel()];
    flat.f_copy_data(&mut values, flat.numel())?;
    Ok(Weight { shape, values })
}

fn shape_error(problem: String) -> Error {
    Error::Setting { setting: "model", problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAG: EncoderShape = EncoderShape {
        vocabulary: 3,
        dimension: 2,
        layers: 0,
        heads: 1,
        feed_forward: 0,
        tokens_max: 4,
        norm: Norm::Post,
        activation: Activation::Gelu,
    };

    fn from_ones(shape: EncoderShape, named: &[(&str, &[i64])]) -> Result<EncoderWeights, Error> {
        let ones = |shape: &[i64]| Tensor::ones(shape, (Kind::BFloat16, tch::Device::Cpu));
        let tensors: Vec<(&str, Tensor)> = named.iter().map(|(name, shape)| (*name, ones(shape))).collect();
        EncoderWeights::from_tensors(shape, tensors.iter().map(|(name, tensor)| (*name, tensor)))
    }

    #[test]
    fn a_bag_needs_only_the_token_table_and_drops_training_heads() {
        let weights = from_ones(BAG, &[(TOKENS, &[3, 2]), ("heads.xtr.weight", &[7, 7])]).unwrap();
        assert_eq!(weights.get(TOKENS).unwrap(), &Weight { shape: vec![3, 2], values: vec![1.0; 6] });
        assert_eq!(weights.parameters(), 6);
    }

    #[test]
    fn a_missing_or_misshapen_tensor_is_named() {
        let check = |shape: EncoderShape, named: &[(&str, &[i64])], expect: &str| {
            let error = from_ones(shape, named).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(BAG, &[], "embeddings.token.weight is missing");
        check(BAG, &[(TOKENS, &[2, 3])], "embeddings.token.weight has the shape [2, 3], expected [3, 2]");
        check(BAG, &[(TOKENS, &[3, 2]), (EMBEDDING_NORM_BIAS, &[2])], "only one of");
        check(EncoderShape { layers: 1, ..BAG }, &[(TOKENS, &[3, 2])], "layers.0.attention.query.weight is missing");
        check(EncoderShape { layers: 1, heads: 3, ..BAG }, &[(TOKENS, &[3, 2])], "must divide the dimension 2, got 3");
    }
}
