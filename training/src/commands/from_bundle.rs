//! The subcommand `from-bundle`: starts a run from a bundle, to train it further or on other text.

use std::path::{Path, PathBuf};

use tch::Device;

use crate::checkpoint::{self, Position, State};
use crate::config::Config;
use crate::error::Error;
use crate::import;
use crate::import::bundle::read_weights;
use crate::train::weights_path;

/// The command line of `from-bundle`.
#[derive(Debug, Clone, clap::Args)]
pub struct FromBundleArguments {
    /// The bundle, as written by `export`. Its tokenizer.json is the one for `prepare` and `train`.
    #[arg(long)]
    pub bundle: PathBuf,
    /// The configuration of the run. Its model must have the sizes of the bundle's.
    #[arg(long)]
    pub config: PathBuf,
    /// The stage that the bundle's weights complete; `train` continues with the next one.
    #[arg(long)]
    pub stage: String,
    /// Folder of the run, which must not have a checkpoint yet.
    #[arg(long)]
    pub run: PathBuf,
}

impl FromBundleArguments {
    /// Writes the stage's weights and the checkpoint.
    pub fn run(&self) -> Result<(), Error> {
        begin(&Config::read(&self.config)?, &self.stage, &self.bundle, &self.run)?;
        println!("{} starts after stage {}; `train` continues from there", self.run.display(), self.stage);
        Ok(())
    }
}

/// Starts a run in `run` after the stage named `stage`, with the weights of the bundle in `bundle`.
pub fn begin(config: &Config, stage: &str, bundle: &Path, run: &Path) -> Result<(), Error> {
    let Some(number) = config.stages.iter().position(|other| other.name == stage) else {
        let names: Vec<&str> = config.stages.iter().map(|stage| stage.name.as_str()).collect();
        return Err(Error::Setting { setting: "stage", problem: format!("expected one of {names:?}, got {stage:?}") });
    };
    if number + 1 == config.stages.len() {
        let problem = format!("{stage} is the last one of the configuration, so nothing is left to train");
        return Err(Error::Setting { setting: "stage", problem });
    }
    let (before, after) = (&config.stages[..number], &config.stages[number + 1..]);
    let miners = after.iter().filter_map(|stage| stage.hard_negatives.as_ref());
    let miners = miners.map(|hard| ("stages.hard_negatives.stage", "are mined with", &hard.stage));
    let resting = after.iter().filter_map(|stage| stage.resting_passages.as_ref());
    let resting = resting.map(|passages| ("stages.resting_passages.stage", "are embedded by", &passages.stage));
    if let Some((setting, how, name)) = miners.chain(resting).find(|(.., name)| before.iter().any(|stage| stage.name == **name)) {
        let problem = format!("{how} {name}, whose weights the bundle does not have; name {stage}");
        return Err(Error::Setting { setting, problem });
    }
    let path = checkpoint::path(run);
    if path.exists() {
        return Err(Error::Content { path, problem: "a run already exists".to_owned() });
    }
    // A stage that freezes the encoder keeps the one of the stage before.
    let trained =
        config.stages[..=number].iter().rfind(|stage| !stage.trains_only_late_table()).unwrap_or(&config.stages[number]);
    let weights = read_weights(config, trained, bundle)?;
    let state = State {
        parameters: import::parameters(&weights),
        position: Position { stage: number + 1, step: 0 },
        ..State::new(Device::Cpu)
    };
    std::fs::create_dir_all(run).map_err(|source| Error::file(run, source))?;
    checkpoint::save(&weights_path(run, stage), &state)?;
    checkpoint::save(&path, &state)
}
