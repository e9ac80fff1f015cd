//! The training loop: one stage after another, batches from separate threads, and regular checkpoints.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tch::{Device, Tensor};

use crate::checkpoint::{self, Position, State};
use crate::config::{Config, EncoderKind, HardNegativesConfig, StageConfig};
use crate::data::augmenter::Augmenter;
use crate::data::hard_negatives::Miner;
use crate::data::sampler::Sampler;
use crate::data::views;
use crate::error::Error;
use crate::model::encoder;
use crate::model::parameters::Parameters;
use crate::objective::Objective;
use crate::optim::{Adam, learning_rate};
use crate::progress::Progress;

/// A step's losses and gradients.
pub mod forward;
/// Makes batches ahead of time.
pub mod loader;
/// Frozen encoders.
pub mod teachers;

use forward::Forward;
use loader::{Loader, Source};
use teachers::Teachers;

/// Sentences per forward pass on the CPU; on a GPU, a batch of the Transformer has eight or nine groups.
const GROUP_ROWS_CPU: usize = 128;
/// Maximum number of threads that make batches for a GPU.
const LOADER_THREADS_MAX: usize = 8;

/// Maximum sentences per forward pass with a gradient cache on a GPU, which bounds the memory that a batch needs.
const GROUP_ROWS_CACHED: usize = 512;

/// Input and output of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder of shards.
    pub data: PathBuf,
    /// Folder of the run: checkpoint, loss log, plot, report.
    pub run: PathBuf,
    /// Vocabulary size of the tokenizer.
    pub vocabulary: i64,
    /// Changes texts, for stages with `missing_diacritics` or `subword_splits`.
    pub augmenter: Option<Arc<Augmenter>>,
    /// The device to train on.
    pub device: Device,
    /// Time between checkpoints.
    pub checkpoint_every: Duration,
    /// Stops after this many steps in this call, with a checkpoint.
    pub stop_after_steps: Option<u64>,
    /// When this becomes true, the run stops after the current step, with a checkpoint.
    pub stop: Arc<AtomicBool>,
}

/// The result of a call to `train`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All stages are done.
    Finished,
    /// Stopped early; the same call resumes the run.
    Stopped {
        /// Name of the stage.
        stage: String,
        /// Steps done in it.
        step: u64,
    },
}

/// Trains, or resumes from the checkpoint in the run's folder.
pub fn train(config: &Config, options: &Options) -> Result<Outcome, Error> {
    let config = &without_unsupported_bf16(config, options.device);
    std::fs::create_dir_all(&options.run).map_err(|source| Error::file(&options.run, source))?;
    let sampler = Arc::new(Sampler::open(config, &options.data)?);
    views::lines(&sampler.views()).iter().for_each(|line| println!("{line}"));
    let path = checkpoint::path(&options.run);
    let mut state = State::new(options.device);
    if path.is_file() {
        state = checkpoint::load(&path, options.device)?;
        println!("resuming at stage {}, step {}", state.position.stage, state.position.step);
    }
    // Checked first, so that a missing teacher is reported before hours of other stages.
    for stage in config.stages.iter().skip(state.position.stage) {
        Teachers::check(stage, &options.run, options.vocabulary)?;
    }
    let mut steps_left = options.stop_after_steps.unwrap_or(u64::MAX);
    while state.position.stage < config.stages.len() {
        let stage = &config.stages[state.position.stage];
        let teachers = Teachers::open(stage, options.vocabulary, options.device)?;
        let teachers = teachers.with_passages(stage, &config.model, &options.run, options.device)?;
        // Seeded by the stage, so that a stage starts the same after an interruption as in an uninterrupted run.
        tch::manual_seed(seed(config, Position { step: 0, ..state.position }));
        forward::create(&mut state.parameters, config, stage, options.vocabulary, &teachers);
        let begun = state.position;
        let run = Run { config, options, sampler: &sampler, teachers: &teachers };
        run.stage(&mut state, steps_left)?;
        if state.position.stage == begun.stage {
            return Ok(Outcome::Stopped { stage: stage.name.clone(), step: state.position.step });
        }
        // A stage may have been shortened since, to end at the current step.
        steps_left = steps_left.saturating_sub(stage.steps.saturating_sub(begun.step));
    }
    Ok(Outcome::Finished)
}

/// Turns bfloat16 off if the processor has no instructions for it, because each product then takes many conversions and is
/// about thirty times slower than in float32.
fn without_unsupported_bf16(config: &Config, device: Device) -> Config {
    let mut config = config.clone();
    if device == Device::Cpu && !multiplies_bf16() && config.stages.iter().any(|stage| stage.bf16) {
        println!("this processor has no bfloat16 instructions, so stages that ask for it are trained in float32");
        config.stages.iter_mut().for_each(|stage| stage.bf16 = false);
    }
    config
}

fn multiplies_bf16() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512bf16");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("bf16");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// Seed of libtorch's random numbers at a step, so that a resumed run draws the same ones as an uninterrupted run.
fn seed(config: &Config, position: Position) -> i64 {
    (config.seed ^ ((position.stage as u64) << 40) ^ position.step) as i64
}

/// What stays the same within a stage.
struct Run<'a> {
    config: &'a Config,
    options: &'a Options,
    sampler: &'a Arc<Sampler>,
    teachers: &'a Teachers,
}

impl Run<'_> {
    fn group_rows(&self, stage: &StageConfig) -> usize {
        match (stage.encoder, self.options.device) {
            (EncoderKind::Transformer, Device::Cpu) => GROUP_ROWS_CPU,
            (EncoderKind::Transformer, _) if stage.gradient_cache => (stage.batch_pairs / 4).clamp(1, GROUP_ROWS_CACHED),
            (EncoderKind::Transformer, _) => (stage.batch_pairs / 4).max(1),
            // The bag does not use groups, and a single one is the least work.
            (EncoderKind::Bag, _) => 2 * stage.batch_pairs,
        }
    }

    /// Trains one stage to its end, for `steps_max` steps, or until a stop is requested; writes a checkpoint.
    fn stage(&self, state: &mut State, steps_max: u64) -> Result<(), Error> {
        let stage = &self.config.stages[state.position.stage];
        let mut progress = self.progress(state.position)?;
        let mut batches = self.loader(state.position, stage)?;
        let mut saved = Instant::now();
        let last_step = stage.steps.min(state.position.step.saturating_add(steps_max));
        while state.position.step < last_step && !self.options.stop.load(Ordering::Relaxed) {
            let batch = batches.next().ok_or(Error::NoBatch { step: state.position.step })?;
            let forward = Forward { parameters: &state.parameters, model: &self.config.model, stage, teachers: self.teachers };
            let step = forward.backward(&batch, seed(self.config, state.position));
            let rate = learning_rate(stage, state.position.step);
            let gradient_norm = state.adam.step(&state.parameters, &step.tables, rate, stage);
            state.position.step += 1;
            state.average.add(&state.parameters, stage, state.position.step);
            progress.add(&step.terms);
            let save = saved.elapsed() >= self.options.checkpoint_every;
            let stops = state.position.step == last_step || self.options.stop.load(Ordering::Relaxed);
            if progress.is_due() || save || stops {
                progress.report(state.position.step, rate, gradient_norm.double_value(&[]))?;
            }
            if save && !stops {
                self.save(state, &progress)?;
                saved = Instant::now();
            }
        }
        if state.position.step < stage.steps {
            return self.save(state, &progress);
        }
        self.finish(state, &progress)
    }

    /// Ends a stage: the next one starts from its weights, or from their average if the stage averages.
    fn finish(&self, state: &mut State, progress: &Progress) -> Result<(), Error> {
        let stage = &self.config.stages[state.position.stage];
        state.average.finish(&mut state.parameters);
        if let Some(between) = &stage.interpolation {
            let earlier = load_weights(&weights_path(&self.options.run, &between.stage), self.options.device)?;
            state.parameters.interpolate_from(&earlier, between.share);
        }
        state.adam = Adam::default();
        state.position = Position { stage: state.position.stage + 1, step: 0 };
        checkpoint::save(&weights_path(&self.options.run, &stage.name), state)?;
        self.save(state, progress)
    }

    fn save(&self, state: &State, progress: &Progress) -> Result<(), Error> {
        checkpoint::save(&checkpoint::path(&self.options.run), state)?;
        let shares = self.sampler.language_shares();
        let shares: Vec<(&str, f64)> = shares.iter().map(|(language, share)| (language.code(), *share)).collect();
        progress.publish(self.config, &shares)
    }

    fn progress(&self, position: Position) -> Result<Progress, Error> {
        let mut objectives: Vec<Objective> = self.config.stages.iter().flat_map(forward::objectives).collect();
        objectives.sort_unstable();
        objectives.dedup();
        Progress::open(&self.options.run, self.config, &objectives, position.stage, position.step)
    }

    fn loader(&self, position: Position, stage: &StageConfig) -> Result<Loader, Error> {
        let (sampler, seed, stage) = (self.sampler.clone(), self.config.seed, stage.clone());
        let miner = stage.hard_negatives.as_ref().map(|hard| self.miner(hard)).transpose()?;
        let augmenter = self.options.augmenter.clone();
        for (setting, is_set) in [
            ("stages.missing_diacritics", stage.missing_diacritics.is_some()),
            ("stages.subword_splits", stage.subword_splits.is_some()),
        ] {
            if is_set && augmenter.is_none() {
                let problem = "needs the tokenizer that the shards were made with".to_owned();
                return Err(Error::Setting { setting, problem });
            }
        }
        let threads = match self.options.device {
            // The forward pass needs the cores.
            Device::Cpu => 1,
            _ => std::thread::available_parallelism().map_or(1, |cores| (cores.get() - 1).clamp(1, LOADER_THREADS_MAX)),
        };
        let (group_rows, device) = (self.group_rows(&stage), self.options.device);
        let source = Source { sampler, miner, augmenter, seed, group_rows, device, stage };
        Ok(Loader::start(source, position, threads))
    }

    /// Makes a miner from the token table of a finished stage.
    fn miner(&self, hard: &HardNegativesConfig) -> Result<Miner, Error> {
        let path = weights_path(&self.options.run, &hard.stage);
        let parameters = load_weights(&path, Device::Cpu)?;
        let (vocabulary, dimension) = (self.options.vocabulary, self.config.model.dimension);
        let table = parameters.has(encoder::TOKENS).then(|| parameters.get(encoder::TOKENS));
        let Some(table) = table.filter(|table| table.size() == [vocabulary, dimension]) else {
            let got = table.map(Tensor::size);
            let problem = format!("expected a token table of {vocabulary} x {dimension}, got {got:?}");
            return Err(Error::Content { path, problem });
        };
        let mut values = vec![0.0f32; table.numel()];
        table.copy_data(&mut values, table.numel());
        Ok(Miner::new(values, dimension as usize, hard.pool))
    }
}

/// The path of a finished stage's weights.
pub(crate) fn weights_path(run: &Path, stage: &str) -> PathBuf {
    run.join(format!("{stage}.safetensors"))
}

/// Reads the weights of a finished stage or of a checkpoint, averaged if its stage averages.
pub fn load_weights(path: &Path, device: Device) -> Result<Parameters, Error> {
    checkpoint::load(path, device).map(State::learned)
}
