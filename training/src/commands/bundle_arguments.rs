//! Shared parts of the commands that write a bundle: the weights, the accompanying files, and the output.

use std::path::PathBuf;

use clap::Args;

use crate::config::Config;
use crate::data::tokenizer::calibration_texts;
use crate::error::Error;
use crate::export::{EncoderShape, EncoderWeights, NewBundle};
use crate::model::encoder::kind_of;
use crate::model::parameters::Parameters;

/// The inputs of an export.
#[derive(Debug, Clone, Args)]
pub struct BundleArguments {
    /// The run's configuration.
    #[arg(long)]
    pub config: PathBuf,
    /// Weights of a stage, as written by `train`.
    #[arg(long)]
    pub weights: PathBuf,
    /// The bundle to write.
    #[command(flatten)]
    pub new_bundle: NewBundle,
    /// Folder of corpora to calibrate int8 on; defaults to the golden sentences.
    #[arg(long)]
    pub calibration: Option<PathBuf>,
    /// Folder of evaluation files, as for `eval`, to verify parity and to measure quality.
    #[arg(long)]
    pub evaluation: Option<PathBuf>,
}

impl BundleArguments {
    /// A sample of the texts in all languages for calibration; empty without a folder.
    pub(super) fn calibration_texts(&self, config: &Config) -> Result<Vec<String>, Error> {
        calibration_texts(self.calibration.as_deref(), &config.corpora, config.seed)
    }
}

/// The encoder with the weights `parameters`.
pub(super) fn encoder_weights(config: &Config, vocabulary: usize, parameters: &Parameters) -> Result<EncoderWeights, Error> {
    let shape = EncoderShape::new(&config.model, vocabulary, kind_of(parameters));
    EncoderWeights::from_tensors(shape, parameters.iter())
}
