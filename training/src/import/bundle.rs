//! Reads a bundle exported by this trainer, as the start of another run (`commands/from_bundle.rs`).
//!
//! The weights are those of its float16 graph, so they come back rounded to 11 bits; the token table comes from its own file,
//! in bytes with a scale per row (in older bundles, from the graph). Names and layouts invert what `export/onnx.rs` does:
//! there, matrices are [inputs, outputs], and an attention layer's queries, keys and values are in one matrix.

use std::collections::BTreeMap;
use std::path::Path;

use dragoman::bundle::{Bundle, LATE_TABLE, MANIFEST, MODEL_FP16, TOKEN_TABLE};
use dragoman::ranking::TokenTable;
use half::f16;
use prost::Message as _;

use crate::config::{Config, ModelConfig, StageConfig};
use crate::error::Error;
use crate::export::onnx::transposed;
use crate::export::proto::{DataType, ModelProto, TensorProto};
use crate::export::{EncoderShape, EncoderWeights, Weight};
use crate::model::encoder::{LATE_TOKENS, LATE_WEIGHTS, TOKEN_WEIGHTS, TOKENS};

/// The weights of a bundle as a stage's encoder; an error names any tensor of another kind or size.
pub fn read_weights(config: &Config, stage: &StageConfig, bundle: &Path) -> Result<EncoderWeights, Error> {
    let bundle = Bundle::open(bundle)?;
    check_kind(&config.model, &bundle)?;
    let path = bundle.folder.join(MODEL_FP16);
    let bytes = std::fs::read(&path).map_err(|source| Error::file(&path, source))?;
    let broken = |problem: String| Error::Content { path: path.clone(), problem };
    let model = ModelProto::decode(bytes.as_slice()).map_err(|error| broken(error.to_string()))?;
    let mut tensors = BTreeMap::new();
    for tensor in model.graph.unwrap_or_default().initializer {
        if tensor.data_type == Some(DataType::Float16 as i32) {
            let name = tensor.name.clone().unwrap_or_default();
            let weight =
                halves(&tensor).ok_or_else(|| broken(format!("{name} has a number of values that contradicts its shape")))?;
            tensors.insert(name, weight);
        }
    }
    for (file, rows, weights) in [(TOKEN_TABLE, TOKENS, TOKEN_WEIGHTS), (LATE_TABLE, LATE_TOKENS, LATE_WEIGHTS)] {
        if bundle.manifest.files.contains_key(file) {
            let table = TokenTable::read(&bundle.path(file))?;
            let weight = |shape: Vec<usize>, values| Weight { shape, values };
            tensors.insert(rows.to_owned(), weight(vec![table.vocabulary(), table.dimension], table.vectors()));
            let logs = table.weights.iter().map(|weight| weight.ln()).collect();
            tensors.insert(weights.to_owned(), weight(vec![table.vocabulary()], logs));
        }
    }
    let vocabulary = tensors.get(TOKENS).and_then(|table| table.shape.first().copied()).unwrap_or(0);
    let shape = EncoderShape::new(&config.model, vocabulary, stage.encoder);
    let weights = renamed_weights(tensors, &shape).map_err(&broken)?;
    let surplus =
        weights.keys().find(|name| name.starts_with("layers.") && layer_of(name).is_none_or(|layer| layer >= shape.layers));
    if let Some(name) = surplus {
        return Err(broken(format!("has {name}, expected {} layers, as the stage {} has", shape.layers, stage.name)));
    }
    EncoderWeights::from_weights(shape, weights)
}

/// Checks properties that the shapes of weights do not show.
fn check_kind(model: &ModelConfig, bundle: &Bundle) -> Result<(), Error> {
    let problem = |problem: String| Error::Content { path: bundle.folder.join(MANIFEST), problem };
    let trained = &bundle.manifest.training["config"]["model"];
    let trained: ModelConfig = serde_json::from_value(trained.clone())
        .map_err(|error| problem(format!("does not describe a model made by this trainer: {error}")))?;
    for (name, expected, got) in [
        ("heads", model.heads.to_string(), trained.heads.to_string()),
        ("tokens_max", model.tokens_max.to_string(), trained.tokens_max.to_string()),
        ("norm", format!("{:?}", model.norm), format!("{:?}", trained.norm)),
        ("activation", format!("{:?}", model.activation), format!("{:?}", trained.activation)),
    ] {
        if got != expected {
            return Err(problem(format!("was trained with model.{name} {got}, but the configuration says {expected}")));
        }
    }
    Ok(())
}

fn layer_of(name: &str) -> Option<usize> {
    name.strip_prefix("layers.")?.split('.').next()?.parse().ok()
}

fn halves(tensor: &TensorProto) -> Option<Weight> {
    let shape: Vec<usize> = tensor.dims.iter().map(|&size| usize::try_from(size)).collect::<Result<_, _>>().ok()?;
    let bytes = tensor.raw_data.as_deref().unwrap_or_default();
    let (halves, rest) = bytes.as_chunks::<2>();
    let values: Vec<f32> = halves.iter().map(|&half| f16::from_le_bytes(half).to_f32()).collect();
    (rest.is_empty() && values.len() == shape.iter().product::<usize>()).then_some(Weight { shape, values })
}

/// Maps the graph's constants to the model's weights.
fn renamed_weights(tensors: BTreeMap<String, Weight>, shape: &EncoderShape) -> Result<BTreeMap<String, Weight>, String> {
    let mut weights = BTreeMap::new();
    for (name, weight) in tensors {
        let Some((module, parameter)) = name.rsplit_once('.') else { continue };
        if let Some(attention) = module.strip_suffix(".projected") {
            for (part, weight) in ["query", "key", "value"]
                .into_iter()
                .zip(split_qkv(weight, shape).map_err(|problem| format!("{name} {problem}"))?)
            {
                let parameter = if parameter == "matrix" { "weight" } else { parameter };
                weights.insert(format!("{attention}.{part}.{parameter}"), weight);
            }
        } else if parameter == "matrix" {
            weights.insert(format!("{module}.weight"), transposed_weight(&weight));
        } else {
            weights.insert(name, weight);
        }
    }
    Ok(weights)
}

/// Splits one matrix [d, 3 d] or one bias [3 d] into queries, keys and values, and removes the attention scale from the
/// queries.
fn split_qkv(weight: Weight, shape: &EncoderShape) -> Result<[Weight; 3], String> {
    let d = shape.dimension;
    let outputs = weight.shape.last().copied().unwrap_or(0);
    if outputs != 3 * d || shape.heads == 0 {
        return Err(format!("has {outputs} outputs, expected {} with {} heads", 3 * d, shape.heads));
    }
    let weight = if weight.shape.len() == 2 { transposed_weight(&weight) } else { weight };
    let scale = ((d / shape.heads) as f32).sqrt();
    let part = |number: usize, scale: f32| {
        let length = weight.values.len() / 3;
        let values = weight.values[number * length..][..length].iter().map(|value| value * scale).collect();
        Weight { shape: std::iter::once(d).chain(weight.shape.iter().skip(1).copied()).collect(), values }
    };
    Ok([part(0, scale), part(1, 1.0), part(2, 1.0)])
}

/// Transposes [inputs, outputs] to [outputs, inputs].
fn transposed_weight(weight: &Weight) -> Weight {
    let outputs = weight.shape.last().copied().unwrap_or(0);
    let inputs = weight.values.len().checked_div(outputs).unwrap_or(0);
    Weight { shape: vec![outputs, inputs], values: transposed(&weight.values, outputs) }
}
