//! What the subcommands `eval`, `export` and `plot` do with a run's weights.

use std::path::Path;

use dragoman::text::Tokenizer;
use tch::Device;

use crate::config::{Config, EncoderKind};
use crate::data::tokenizer::sample;
use crate::error::Error;
use crate::eval::{TextEncoder, TorchEncoder, measure};
use crate::export::{self, EncoderShape, EncoderWeights, ExportOptions};
use crate::model::parameters::Parameters;
use crate::{plot, train};

/// Sentences per language that int8 ranges are found on.
const CALIBRATION_PER_LANGUAGE: usize = 8;

/// What an export reads.
pub struct Sources<'a> {
    /// Weights of a stage.
    pub weights: &'a Path,
    /// The tokenizer.json.
    pub tokenizer: &'a Path,
    /// Folder of corpora to calibrate int8 on.
    pub calibration: Option<&'a Path>,
    /// Folder of evaluation files.
    pub evaluation: Option<&'a Path>,
    /// Table of the corpora.
    pub corpora: Option<&'a Path>,
}

/// Prints the measurements of a bundle.
pub fn eval_bundle(bundle: &Path, data: &Path, threads: usize) -> Result<(), Error> {
    println!("{}", measure(data, &mut TextEncoder::open_bundle(bundle, threads)?)?);
    Ok(())
}

/// Prints the measurements of a run's weights.
pub fn eval_weights(weights: &Path, config: &Config, tokenizer: &Path, data: &Path) -> Result<(), Error> {
    let parameters = train::load_weights(weights, Device::Cpu)?;
    let encoder = TorchEncoder { parameters: &parameters, model: &config.model, kind: kind_of(&parameters) };
    let tokens_max = config.model.tokens_max as usize;
    println!("{}", measure(data, &mut TextEncoder { tokenizer: Tokenizer::load(tokenizer)?, tokens_max, encoder })?);
    Ok(())
}

/// Writes a bundle and prints its parity and measurements.
pub fn export(config: &Config, sources: &Sources<'_>, version: &str, folder: &Path) -> Result<(), Error> {
    let parameters = train::load_weights(sources.weights, Device::Cpu)?;
    let kind = kind_of(&parameters);
    let vocabulary = Tokenizer::load(sources.tokenizer)?.vocabulary_size();
    let weights = EncoderWeights::from_tensors(EncoderShape::new(&config.model, vocabulary, kind), parameters.iter())?;
    let calibration = match sources.calibration {
        Some(raw) => sample(config, raw, CALIBRATION_PER_LANGUAGE)?.into_values().flatten().collect(),
        None => Vec::new(),
    };
    let command = format!("dragoman-train eval --bundle models/{} --data DEV", config.name);
    let options = ExportOptions {
        config,
        version,
        tokenizer: sources.tokenizer,
        folder,
        calibration: &calibration,
        evaluation: sources.evaluation,
        corpora: sources.corpora,
        evaluation_command: &command,
    };
    let mut reference = TorchEncoder { parameters: &parameters, model: &config.model, kind };
    let exported = export::export(&options, &weights, &mut reference)?;
    for parity in &exported.parity {
        println!("{parity:?}");
    }
    if let Some(report) = &exported.report {
        println!("{report}");
    }
    println!("bundle {} {version} written to {}", config.name, folder.display());
    Ok(())
}

/// Draws `loss.svg` from the run's `loss.csv`.
pub fn plot(run: &Path) -> Result<(), Error> {
    plot::plot(&run.join("loss.csv"), &["contrastive", "xtr"], &run.join("loss.svg"))
}

/// Which encoder the weights are of.
fn kind_of(parameters: &Parameters) -> EncoderKind {
    if parameters.has("embeddings.position.weight") { EncoderKind::Transformer } else { EncoderKind::Bag }
}
