//! The subcommand `add-questions`: an encoder of questions comes into a bundle that is there.

use std::path::PathBuf;

use clap::Args;
use dragoman::bundle::TOKENIZER;
use dragoman::text::Tokenizer;
use tch::Device;

use super::export::{calibration_texts, encoder_weights, read_relevance};
use crate::config::Config;
use crate::error::Error;
use crate::eval::TorchEncoder;
use crate::export::questions::{QuestionOptions, add_questions};
use crate::model::encoder::kind_of;
use crate::train;

/// What `add-questions` reads and writes.
#[derive(Debug, Args)]
pub struct AddQuestionsArguments {
    /// The bundle that the run began with (`from-bundle`).
    #[arg(long)]
    pub bundle: PathBuf,
    /// The run's configuration, whose last stage has `resting_passages`.
    #[arg(long)]
    pub config: PathBuf,
    /// Weights of that stage.
    #[arg(long)]
    pub weights: PathBuf,
    /// Version of the new bundle.
    #[arg(long)]
    pub bundle_version: String,
    /// Folder of the new bundle; one that is there is replaced.
    #[arg(long)]
    pub out: PathBuf,
    /// Folder of corpora to calibrate int8 on; without it, the golden sentences.
    #[arg(long)]
    pub calibration: Option<PathBuf>,
    /// Folder of evaluation files, as for `eval`: for the proof of parity and the measured quality.
    #[arg(long)]
    pub evaluation: Option<PathBuf>,
    /// JSON of the weights that search gives to the model's evidence, as for `export`; without it, the bundle's stay.
    #[arg(long)]
    pub relevance: Option<PathBuf>,
    /// Markdown that the card's section has as it is.
    #[arg(long)]
    pub notes: Option<PathBuf>,
}

impl AddQuestionsArguments {
    /// Writes the bundle and prints what the card says of it.
    pub fn run(&self) -> Result<(), Error> {
        let config = Config::read(&self.config)?;
        let Some(stage) = config.stages.last().filter(|stage| stage.resting_passages.is_some()) else {
            let problem = "expected resting_passages in the last stage".to_owned();
            return Err(Error::Setting { setting: "stages.resting_passages", problem });
        };
        let parameters = train::load_weights(&self.weights, Device::Cpu)?;
        let vocabulary = Tokenizer::load(&self.bundle.join(TOKENIZER))?.vocabulary_size();
        let weights = encoder_weights(&config, vocabulary, &parameters)?;
        let notes = self.notes.as_ref().map(|path| std::fs::read_to_string(path).map_err(|source| Error::file(path, source)));
        let notes = notes.transpose()?;
        let options = QuestionOptions {
            bundle: &self.bundle,
            version: &self.bundle_version,
            folder: &self.out,
            stage: (&config, stage),
            calibration: &calibration_texts(&config, self.calibration.as_deref())?,
            evaluation: self.evaluation.as_deref(),
            relevance: self.relevance.as_deref().map(read_relevance).transpose()?,
            notes: notes.as_deref(),
        };
        let (model, kind) = (&config.model, kind_of(&parameters));
        let mut reference = TorchEncoder { parameters: &parameters, model, kind, late_interaction: None, questions: None };
        print!("{}", add_questions(&options, &weights, &mut reference)?);
        Ok(())
    }
}
