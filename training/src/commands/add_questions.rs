//! The subcommand `add-questions`: adds a question encoder to an existing bundle.

use std::path::PathBuf;

use clap::Args;
use dragoman::bundle::TOKENIZER;
use dragoman::text::Tokenizer;
use tch::Device;

use super::bundle_arguments::{BundleArguments, encoder_weights};
use crate::config::{Config, StageConfig};
use crate::error::Error;
use crate::eval::TorchEncoder;
use crate::export::questions::{QuestionOptions, add_questions};
use crate::model::encoder::question_encoder;
use crate::train;

/// Input and output of `add-questions`.
#[derive(Debug, Args)]
pub struct AddQuestionsArguments {
    /// With `question_encoder`, the bundle exported from the same weights; with `resting_passages`, the bundle that the run
    /// started from (`from-bundle`).
    #[arg(long)]
    pub bundle: PathBuf,
    /// The weights to add and the bundle to write. The configuration's last stage must have `resting_passages` or
    /// `question_encoder`, and must have made the weights.
    #[command(flatten)]
    pub bundle_arguments: BundleArguments,
}

impl AddQuestionsArguments {
    /// Writes the bundle and prints the new section of its model card.
    pub fn run(&self) -> Result<(), Error> {
        let config = Config::read(&self.bundle_arguments.config)?;
        let trains_questions = |stage: &&StageConfig| stage.resting_passages.is_some() || stage.question_encoder.is_some();
        let Some(stage) = config.stages.last().filter(trains_questions) else {
            let problem = "expected resting_passages or question_encoder in the last stage".to_owned();
            return Err(Error::Setting { setting: "stages.resting_passages", problem });
        };
        let parameters = train::load_weights(&self.bundle_arguments.weights, Device::Cpu)?;
        let parameters = match question_encoder(&parameters) {
            Some(questions) => questions,
            None if stage.question_encoder.is_none() => parameters,
            None => {
                let problem = format!("has no question encoder, which the stage {} trains", stage.name);
                return Err(Error::Content { path: self.bundle_arguments.weights.clone(), problem });
            }
        };
        let vocabulary = Tokenizer::load(&self.bundle.join(TOKENIZER))?.vocabulary_size();
        let weights = encoder_weights(&config, vocabulary, &parameters)?;
        let options = QuestionOptions {
            bundle: &self.bundle,
            new_bundle: &self.bundle_arguments.new_bundle,
            stage: (&config, stage),
            calibration: &self.bundle_arguments.calibration_texts(&config)?,
            evaluation: self.bundle_arguments.evaluation.as_deref(),
        };
        print!("{}", add_questions(&options, &weights, &mut TorchEncoder::new(&parameters, &config.model))?);
        Ok(())
    }
}
