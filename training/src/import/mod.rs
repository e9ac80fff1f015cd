//! `import-ems`: makes a bundle from the checkpoint and the SentencePiece model published by the EMS authors.
//!
//! The encoder is the authors' own, unchanged: post-norm with epsilon 1e-12, positions from 1, mean over the sentence's own
//! tokens. The only part of their training that the weights do not show is the preprocessing of texts, which
//! `dragoman::bundle::Preprocessing` names. `bundle` reads the bundles of this trainer.

/// The weights of a bundle.
pub mod bundle;
pub mod checkpoint;
pub mod encoder;
mod machine;
pub(crate) mod pickle;
pub mod sentencepiece;
pub mod sentencepiece_proto;

use std::path::{Path, PathBuf};

use dragoman::bundle::{Preprocessing, TOKENIZER, sha256_file};
use tch::{Device, Tensor};

use crate::config::{Activation, CorporaConfig, ModelConfig};
use crate::data::tokenizer::calibration_texts;
use crate::error::Error;
use crate::eval::TorchEncoder;
use crate::export::{self, EncoderShape, EncoderWeights, ExportOptions, Exported, Imported, Origin, SourceFile};
use crate::model::parameters::Parameters;
use checkpoint::Checkpoint;
use encoder::EncoderOptions;
use sentencepiece::SentencePiece;

/// Seed for sampling the sentences to calibrate int8 ranges on.
const CALIBRATION_SEED: u64 = 1;

/// The command line of `import-ems`.
#[derive(Debug, Clone, clap::Args)]
pub struct ImportOptions {
    /// The output of `torch.save` (PyTorch 1.6 or later): a state dict, or one under `state_dict`, `model_state_dict` or
    /// `model`.
    #[arg(long)]
    pub checkpoint: PathBuf,
    /// The SentencePiece BPE model (`.model`) that the weights were trained with.
    #[arg(long)]
    pub sentencepiece: PathBuf,
    /// Folder of the bundle; an existing one is replaced.
    #[arg(long)]
    pub out: PathBuf,
    /// Version of the bundle.
    #[arg(long)]
    pub bundle_version: String,
    /// Name of the bundle; defaults to the folder's.
    #[arg(long)]
    pub name: Option<String>,
    /// Attention heads, which the weights do not show.
    #[arg(long, default_value_t = 16)]
    pub heads: usize,
    /// Activation of the feed-forward parts, which the weights do not show; the authors' configuration says swish.
    #[arg(long, value_enum, default_value = "swish")]
    pub activation: Activation,
    /// License of the weights, for the model card.
    #[arg(long)]
    pub licence: Option<String>,
    /// Folder of evaluation files, as for `eval`, to verify parity and to measure quality.
    #[arg(long)]
    pub evaluation: Option<PathBuf>,
    /// Folder of corpora, as for `prepare`, to calibrate int8 on; defaults to the golden sentences.
    #[arg(long)]
    pub calibration: Option<PathBuf>,
}

/// Reads both files, writes the bundle, and reports what it found.
pub fn import_ems(options: &ImportOptions) -> Result<Exported, Error> {
    let pieces = SentencePiece::read(&options.sentencepiece)?;
    let encoder_options = EncoderOptions { heads: options.heads, activation: options.activation };
    let encoder = encoder::read(&mut Checkpoint::open(&options.checkpoint)?, encoder_options)?;
    let shape = encoder.weights.shape;
    if pieces.len() != shape.vocabulary {
        let problem = format!("has {} pieces, but the token table of the checkpoint has {}", pieces.len(), shape.vocabulary);
        return Err(Error::Content { path: options.sentencepiece.clone(), problem });
    }
    println!("read {shape:?}; skipped tensors of training heads: {}", encoder.skipped_tensors);
    let name = match (&options.name, options.out.file_name()) {
        (Some(name), _) => name.clone(),
        (None, Some(name)) => name.to_string_lossy().into_owned(),
        (None, None) => return Err(Error::Setting { setting: "out", problem: "has no name; give --name".to_owned() }),
    };
    let scratch = tempfile::tempdir().map_err(|source| Error::file(&std::env::temp_dir(), source))?;
    let tokenizer = scratch.path().join(TOKENIZER);
    pieces.save(&tokenizer)?;
    write(options, &name, &tokenizer, &encoder.weights)
}

fn write(options: &ImportOptions, name: &str, tokenizer: &Path, weights: &EncoderWeights) -> Result<Exported, Error> {
    let imported = Imported {
        checkpoint: source_file(&options.checkpoint)?,
        sentencepiece: source_file(&options.sentencepiece)?,
        licence: options.licence.clone(),
        preprocessing: Preprocessing::MosesJieba,
    };
    let corpora = CorporaConfig { default: 1.0, weights: Default::default() };
    let calibration = calibration_texts(options.calibration.as_deref(), &corpora, CALIBRATION_SEED)?;
    let export_options = ExportOptions {
        name,
        origin: Origin::Imported(&imported),
        version: &options.bundle_version,
        tokenizer,
        folder: &options.out,
        calibration: &calibration,
        evaluation: options.evaluation.as_deref(),
        corpora: None,
        baseline: None,
        previous: None,
        encoder_of: None,
        relevance: None,
        language_head: None,
        notes: None,
    };
    let (parameters, model) = (parameters(weights), model_config(&weights.shape));
    export::export(&export_options, weights, &mut TorchEncoder::new(&parameters, &model))
}

/// The weights in libtorch, which is the reference for the graphs.
pub fn parameters(weights: &EncoderWeights) -> Parameters {
    let mut parameters = Parameters::new(Device::Cpu);
    for (name, weight) in weights.iter() {
        let shape: Vec<i64> = weight.shape.iter().map(|&size| size as i64).collect();
        parameters.set(name, &Tensor::from_slice(&weight.values).view(shape.as_slice()));
    }
    parameters
}

/// The configuration of the encoder, without training heads.
fn model_config(shape: &EncoderShape) -> ModelConfig {
    ModelConfig {
        dimension: shape.dimension as i64,
        layers: shape.layers as i64,
        heads: shape.heads as i64,
        feed_forward: shape.feed_forward as i64,
        tokens_max: shape.tokens_max as i64,
        norm: shape.norm,
        activation: shape.activation,
        language_dimension: 0,
        projection_dimension: 0,
    }
}

fn source_file(path: &Path) -> Result<SourceFile, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(SourceFile { name, sha256: sha256_file(path)? })
}
