//! Shared parts of the commands that write a bundle: the weights, the accompanying files, and the output.

use std::path::{Path, PathBuf};

use clap::Args;
use dragoman::domain::RelevanceWeights;

use crate::config::Config;
use crate::data::tokenizer::sample;
use crate::error::Error;
use crate::export::{EncoderShape, EncoderWeights};
use crate::model::encoder::kind_of;
use crate::model::parameters::Parameters;

/// Sentences per language to calibrate int8 ranges on.
const CALIBRATION_PER_LANGUAGE: usize = 8;

/// The inputs of an export.
#[derive(Debug, Clone, Args)]
pub struct BundleArguments {
    /// The run's configuration.
    #[arg(long)]
    pub config: PathBuf,
    /// Weights of a stage, as written by `train`.
    #[arg(long)]
    pub weights: PathBuf,
    /// Version of the bundle.
    #[arg(long)]
    pub bundle_version: String,
    /// Folder of the bundle; an existing one is replaced.
    #[arg(long)]
    pub out: PathBuf,
    /// Folder of corpora to calibrate int8 on; defaults to the golden sentences.
    #[arg(long)]
    pub calibration: Option<PathBuf>,
    /// Folder of evaluation files, as for `eval`, to verify parity and to measure quality.
    #[arg(long)]
    pub evaluation: Option<PathBuf>,
    /// JSON with the relevance weights of search, as written by `relevance`. Defaults to those of the existing bundle, or to
    /// those of the first models with late interaction.
    #[arg(long)]
    pub relevance: Option<PathBuf>,
    /// Markdown to include in the model card: whatever its numbers and the recipe do not say.
    #[arg(long)]
    pub notes: Option<PathBuf>,
}

impl BundleArguments {
    /// A sample of the texts in all languages for calibration; empty without a folder.
    pub(super) fn calibration_texts(&self, config: &Config) -> Result<Vec<String>, Error> {
        let Some(raw) = &self.calibration else { return Ok(Vec::new()) };
        let texts = sample(raw, &config.corpora, config.seed, CALIBRATION_PER_LANGUAGE, |_| 1)?;
        Ok(texts.into_values().flatten().collect())
    }

    /// The relevance weights, if a file is given.
    pub(super) fn relevance_weights(&self) -> Result<Option<RelevanceWeights>, Error> {
        relevance_weights(self.relevance.as_deref())
    }

    /// The additional text of the model card.
    pub(super) fn notes_text(&self) -> Result<Option<String>, Error> {
        notes_text(self.notes.as_deref())
    }
}

/// Reads relevance weights from a file.
pub(super) fn relevance_weights(path: Option<&Path>) -> Result<Option<RelevanceWeights>, Error> {
    let Some(path) = path else { return Ok(None) };
    serde_json::from_str(&read(path)?).map(Some).map_err(|error| {
        let problem = format!("expected dense, late, lexical, translated, tokens and bias as numbers: {error}");
        Error::Content { path: path.to_owned(), problem }
    })
}

/// Reads additional model card text from a file.
pub(super) fn notes_text(path: Option<&Path>) -> Result<Option<String>, Error> {
    path.map(read).transpose()
}

/// The encoder with the weights `parameters`.
pub(super) fn encoder_weights(config: &Config, vocabulary: usize, parameters: &Parameters) -> Result<EncoderWeights, Error> {
    let shape = EncoderShape::new(&config.model, vocabulary, kind_of(parameters));
    EncoderWeights::from_tensors(shape, parameters.iter())
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::file(path, source))
}
