//! The subcommand `export`: writes a bundle from a run's weights.

use std::path::PathBuf;

use clap::Args;
use dragoman::text::Tokenizer;
use tch::Device;

use super::bundle_arguments::{BundleArguments, encoder_weights};
use crate::config::Config;
use crate::error::Error;
use crate::eval::TorchEncoder;
use crate::export::{self, ExportOptions, Origin};
use crate::train;

/// Input and output of `export`.
#[derive(Args)]
pub struct ExportArguments {
    /// The weights and the bundle to write.
    #[command(flatten)]
    pub bundle_arguments: BundleArguments,
    /// The tokenizer.json that the run was trained with.
    #[arg(long)]
    pub tokenizer: PathBuf,
    /// MANIFEST.tsv of the corpora, for the model card.
    #[arg(long)]
    pub corpora: Option<PathBuf>,
    /// Weights of the bag stage of the same run, for comparison in the model card.
    #[arg(long)]
    pub baseline_weights: Option<PathBuf>,
    /// Folder of the previous bundle, for comparison in the model card.
    #[arg(long)]
    pub previous: Option<PathBuf>,
    /// Folder of the bundle that the run started from, if its encoder has not been trained since: the new bundle copies the
    /// encoder, so that collections need not be re-embedded.
    #[arg(long)]
    pub encoder_of: Option<PathBuf>,
    /// The language head, as written by `language`; without it the bundle has none.
    #[arg(long)]
    pub language_head: Option<PathBuf>,
}

impl ExportArguments {
    /// Writes the bundle and prints its parity and evaluation.
    pub fn run(&self) -> Result<(), Error> {
        let config = Config::read(&self.bundle_arguments.config)?;
        let parameters = train::load_weights(&self.bundle_arguments.weights, Device::Cpu)?;
        let vocabulary = Tokenizer::load(&self.tokenizer)?.vocabulary_size();
        let weights = encoder_weights(&config, vocabulary, &parameters)?;
        let baseline = match &self.baseline_weights {
            Some(path) => Some(encoder_weights(&config, vocabulary, &train::load_weights(path, Device::Cpu)?)?),
            None => None,
        };
        let calibration = self.bundle_arguments.calibration_texts(&config)?;
        let new_bundle = &self.bundle_arguments.new_bundle;
        let (relevance, notes) = (new_bundle.relevance_weights()?, new_bundle.notes_text()?);
        let options = ExportOptions {
            name: &config.name,
            origin: Origin::Trained(&config),
            version: &new_bundle.bundle_version,
            tokenizer: &self.tokenizer,
            folder: &new_bundle.out,
            calibration: &calibration,
            evaluation: self.bundle_arguments.evaluation.as_deref(),
            corpora: self.corpora.as_deref(),
            language_head: self.language_head.as_deref(),
            baseline: baseline.as_ref(),
            previous: self.previous.as_deref(),
            encoder_of: self.encoder_of.as_deref(),
            relevance,
            notes: notes.as_deref(),
        };
        print!("{}", export::export(&options, &weights, &mut TorchEncoder::new(&parameters, &config.model))?);
        Ok(())
    }
}
