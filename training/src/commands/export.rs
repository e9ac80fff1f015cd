//! The subcommand `export`: from a run's weights to a bundle.

use std::path::{Path, PathBuf};

use clap::Args;
use dragoman::domain::RelevanceWeights;
use dragoman::text::Tokenizer;
use tch::Device;

use crate::config::Config;
use crate::data::tokenizer::sample;
use crate::error::Error;
use crate::eval::TorchEncoder;
use crate::export::{self, EncoderShape, EncoderWeights, ExportOptions, Origin};
use crate::model::encoder::kind_of;
use crate::model::parameters::Parameters;
use crate::train;

/// Sentences per language that int8 ranges are found on.
const CALIBRATION_PER_LANGUAGE: usize = 8;

/// What `export` reads and writes.
#[derive(Args)]
pub struct ExportArguments {
    /// The run's configuration.
    #[arg(long)]
    pub config: PathBuf,
    /// Weights of a stage, as `train` leaves them.
    #[arg(long)]
    pub weights: PathBuf,
    /// The tokenizer.json that the run was trained with.
    #[arg(long)]
    pub tokenizer: PathBuf,
    /// Version of the bundle.
    #[arg(long)]
    pub bundle_version: String,
    /// Folder of the bundle; one that is there is replaced.
    #[arg(long)]
    pub out: PathBuf,
    /// Folder of corpora to calibrate int8 on; without it, the golden sentences.
    #[arg(long)]
    pub calibration: Option<PathBuf>,
    /// Folder of evaluation files, as for `eval`: for the proof of parity and the measured quality.
    #[arg(long)]
    pub evaluation: Option<PathBuf>,
    /// MANIFEST.tsv of the corpora, for the model card.
    #[arg(long)]
    pub corpora: Option<PathBuf>,
    /// Weights of the bag stage of the same run, which the model card compares with.
    #[arg(long)]
    pub baseline_weights: Option<PathBuf>,
    /// Folder of the bundle before, which the model card compares with.
    #[arg(long)]
    pub previous: Option<PathBuf>,
    /// Folder of the bundle that the run began with, when its encoder has not been trained since: the new one takes it over as it
    /// is, and collections need not be embedded again.
    #[arg(long)]
    pub encoder_of: Option<PathBuf>,
    /// JSON of the weights that search gives to the model's evidence: `dense`, `late`, `lexical`, `tokens` and `bias`. Without it, those of
    /// the first models with late interaction.
    #[arg(long)]
    pub relevance: Option<PathBuf>,
    /// The head that recognizes languages, as `language` writes it; without it the bundle has none.
    #[arg(long)]
    pub language_head: Option<PathBuf>,
    /// Markdown that the model card has as it is: what its numbers and the recipe do not say.
    #[arg(long)]
    pub notes: Option<PathBuf>,
}

impl ExportArguments {
    /// Writes the bundle and prints its parity and measurements.
    pub fn run(&self) -> Result<(), Error> {
        let config = Config::read(&self.config)?;
        let parameters = train::load_weights(&self.weights, Device::Cpu)?;
        let vocabulary = Tokenizer::load(&self.tokenizer)?.vocabulary_size();
        let weights = encoder_weights(&config, vocabulary, &parameters)?;
        let baseline = match &self.baseline_weights {
            Some(path) => Some(encoder_weights(&config, vocabulary, &train::load_weights(path, Device::Cpu)?)?),
            None => None,
        };
        let calibration = calibration_texts(&config, self.calibration.as_deref())?;
        let read = |path: &PathBuf| std::fs::read_to_string(path).map_err(|source| Error::file(path, source));
        let notes = self.notes.as_ref().map(read).transpose()?;
        let relevance = self.relevance.as_deref().map(read_relevance).transpose()?;
        let command = format!("dragoman-train eval --bundle models/{} --data DEV", config.name);
        let options = ExportOptions {
            name: &config.name,
            origin: Origin::Trained(&config),
            version: &self.bundle_version,
            tokenizer: &self.tokenizer,
            folder: &self.out,
            calibration: &calibration,
            evaluation: self.evaluation.as_deref(),
            corpora: self.corpora.as_deref(),
            language_head: self.language_head.as_deref(),
            evaluation_command: &command,
            baseline: baseline.as_ref(),
            previous: self.previous.as_deref(),
            encoder_of: self.encoder_of.as_deref(),
            relevance,
            notes: notes.as_deref(),
        };
        let mut reference = TorchEncoder {
            parameters: &parameters,
            model: &config.model,
            kind: kind_of(&parameters),
            late_interaction: None,
            questions: None,
        };
        print!("{}", export::export(&options, &weights, &mut reference)?);
        Ok(())
    }
}

/// A sample of the texts in `raw` in all languages; none without a folder.
pub(super) fn calibration_texts(config: &Config, raw: Option<&Path>) -> Result<Vec<String>, Error> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    let texts = sample(raw, &config.corpora, config.seed, CALIBRATION_PER_LANGUAGE, |_| 1)?;
    Ok(texts.into_values().flatten().collect())
}

/// Reads the weights of relevance from a file of JSON.
pub(super) fn read_relevance(path: &Path) -> Result<RelevanceWeights, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
    serde_json::from_str(&text).map_err(|error| {
        let problem = format!("expected dense, late, lexical, tokens and bias as numbers: {error}");
        Error::Content { path: path.to_owned(), problem }
    })
}

pub(super) fn encoder_weights(config: &Config, vocabulary: usize, parameters: &Parameters) -> Result<EncoderWeights, Error> {
    let shape = EncoderShape::new(&config.model, vocabulary, kind_of(parameters));
    EncoderWeights::from_tensors(shape, parameters.iter())
}
