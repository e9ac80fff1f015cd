//! The loop: stages one after another, batches from a thread of its own, a checkpoint now and then.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use tch::{Device, Kind, Tensor};

use crate::checkpoint::{self, Position};
use crate::config::{Config, EncoderKind, StageConfig};
use crate::data::batch::Batch;
use crate::data::sampler::Sampler;
use crate::error::Error;
use crate::model::encoder::{self, Pass};
use crate::model::heads;
use crate::model::parameters::Parameters;
use crate::objective::contrastive::contrastive_loss;
use crate::objective::xtr::xtr_loss;
use crate::optim::{Adam, learning_rate};
use crate::progress::{Entry, Progress};

/// Sentences of one forward pass on the CPU; a GPU takes the whole batch in eight.
const GROUP_ROWS_CPU: usize = 128;

/// What a run reads and writes.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder of shards.
    pub data: PathBuf,
    /// Folder of the run: checkpoint, loss log, plot.
    pub run: PathBuf,
    /// Pieces of the tokenizer.
    pub vocabulary: i64,
    /// Where to train.
    pub device: Device,
    /// Time between checkpoints.
    pub checkpoint_every: Duration,
    /// Stops after this many steps of this call, with a checkpoint.
    pub stop_after_steps: Option<u64>,
}

/// Trains, or goes on with the checkpoint in the run's folder.
pub fn train(config: &Config, options: &Options) -> Result<(), Error> {
    std::fs::create_dir_all(&options.run).map_err(|source| Error::file(&options.run, source))?;
    let sampler = Arc::new(Sampler::open(config, &options.data)?);
    let path = checkpoint::path(&options.run);
    tch::manual_seed(config.seed as i64);
    let (mut parameters, mut adam, mut position) = if path.is_file() {
        let resumed = checkpoint::load(&path, options.device)?;
        println!("going on at stage {}, step {}", resumed.2.stage, resumed.2.step);
        resumed
    } else {
        (Parameters::new(options.device), Adam::default(), Position::default())
    };
    let mut steps_left = options.stop_after_steps.unwrap_or(u64::MAX);
    while position.stage < config.stages.len() {
        let stage = &config.stages[position.stage];
        create(&mut parameters, config, stage, options.vocabulary);
        let from = position.step;
        let run = Run { config, options, sampler: &sampler, parameters: &parameters };
        run.stage(&mut adam, &mut position, steps_left)?;
        steps_left -= position.step - from;
        if position.step < stage.steps {
            return checkpoint::save(&path, &parameters, &adam, position);
        }
        position = Position { stage: position.stage + 1, step: 0 };
        adam = Adam::default();
        checkpoint::save(&path, &parameters, &adam, position)?;
        checkpoint::save(&options.run.join(format!("{}.safetensors", stage.name)), &parameters, &adam, position)?;
    }
    Ok(())
}

/// Makes the weights that a stage needs and that are not there yet.
pub fn create(parameters: &mut Parameters, config: &Config, stage: &StageConfig, vocabulary: i64) {
    encoder::create(parameters, &config.model, vocabulary, stage.encoder);
    if stage.xtr_weight > 0.0 {
        heads::create_xtr(parameters, &config.model, vocabulary);
    }
    if stage.projection {
        heads::create_projection(parameters, &config.model);
    }
}

/// What does not change within a stage.
struct Run<'a> {
    config: &'a Config,
    options: &'a Options,
    sampler: &'a Arc<Sampler>,
    parameters: &'a Parameters,
}

impl Run<'_> {
    fn group_rows(&self, stage: &StageConfig) -> usize {
        match (stage.encoder, self.options.device) {
            (EncoderKind::Transformer, Device::Cpu) => GROUP_ROWS_CPU,
            (EncoderKind::Transformer, _) => (stage.batch_pairs / 4).max(1),
            // The bag reads no groups; one is the least work.
            (EncoderKind::Bag, _) => 2 * stage.batch_pairs,
        }
    }

    /// Trains one stage to its end, or for `steps_max` steps.
    fn stage(&self, adam: &mut Adam, position: &mut Position, steps_max: u64) -> Result<(), Error> {
        let stage = &self.config.stages[position.stage];
        let mut progress = Progress::open(&self.options.run, stage, position.step)?;
        let batches = prefetch(self.sampler.clone(), position.stage as u64, stage.clone(), position.step, self.group_rows(stage));
        let mut saved = Instant::now();
        let last_step = stage.steps.min(position.step.saturating_add(steps_max));
        while position.step < last_step {
            // Dropout draws from libtorch's generator: seeded by the step, a resumed run draws what an unbroken one would.
            tch::manual_seed((self.config.seed ^ ((position.stage as u64) << 40) ^ position.step) as i64);
            let Ok(batch) = batches.recv() else { break };
            let losses = losses(self.parameters, self.config, stage, &batch.to_device(self.options.device));
            losses.total.backward();
            let rate = learning_rate(stage, position.step);
            let gradient_norm = adam.step(self.parameters, rate, stage);
            position.step += 1;
            progress.add(&losses.contrastive, &losses.xtr);
            if progress.is_due() || position.step == last_step {
                refuse_divergence(&progress.report(position.step, rate, gradient_norm)?)?;
            }
            if saved.elapsed() >= self.options.checkpoint_every {
                checkpoint::save(&checkpoint::path(&self.options.run), self.parameters, adam, *position)?;
                saved = Instant::now();
            }
        }
        Ok(())
    }
}

fn refuse_divergence(entry: &Entry) -> Result<(), Error> {
    let loss = entry.contrastive + entry.xtr;
    if loss.is_finite() { Ok(()) } else { Err(Error::Diverged { step: entry.step, loss }) }
}

/// The losses of one step, as tensors so that reading them does not wait for the device.
pub struct Losses {
    /// What is differentiated: the weighted sum (EMS, eq. 12).
    pub total: Tensor,
    /// Equation 8, per pair.
    pub contrastive: Tensor,
    /// Equation 6, per pair.
    pub xtr: Tensor,
}

/// The forward pass of a step.
pub fn losses(parameters: &Parameters, config: &Config, stage: &StageConfig, batch: &Batch) -> Losses {
    let pass = Pass { kind: stage.encoder, dropout: stage.dropout, bf16: stage.bf16 };
    let embeddings = encoder::encode(parameters, &config.model, batch, pass); // [2 x pairs, d]
    let pairs = batch.pairs as i64;
    let zero = Tensor::zeros([], (Kind::Float, embeddings.device()));
    let mut losses = Losses { total: zero.shallow_clone(), contrastive: zero.shallow_clone(), xtr: zero };
    if stage.contrastive_weight > 0.0 {
        let seen = if stage.projection { heads::project(parameters, &embeddings) } else { embeddings.shallow_clone() };
        let (left, right) = (seen.narrow(0, 0, pairs), seen.narrow(0, pairs, pairs));
        losses.contrastive = contrastive_loss(&left, &right, stage.temperature);
        losses.total = &losses.total + &losses.contrastive * stage.contrastive_weight;
    }
    if stage.xtr_weight > 0.0 && stage.xtr_pairs > 0 {
        let seen = pairs.min(stage.xtr_pairs as i64);
        // Left reconstructs right and right left: sources and targets are the same rows, the halves swapped.
        let swap = |rows: &Tensor| Tensor::cat(&[rows.narrow(0, pairs, seen), rows.narrow(0, 0, seen)], 0);
        let sources = Tensor::cat(&[embeddings.narrow(0, 0, seen), embeddings.narrow(0, pairs, seen)], 0);
        let log_probs = heads::reconstruct(parameters, &sources, &swap(&batch.languages), stage.bf16);
        losses.xtr = xtr_loss(&log_probs, &swap(&batch.targets)) * 2.0;
        losses.total = &losses.total + &losses.xtr * stage.xtr_weight;
    }
    losses
}

/// Makes batches ahead on a thread of its own, at most four at a time.
fn prefetch(sampler: Arc<Sampler>, stage_number: u64, stage: StageConfig, first_step: u64, group_rows: usize) -> Receiver<Batch> {
    let (sender, receiver) = sync_channel(4);
    std::thread::spawn(move || {
        for step in first_step..stage.steps {
            let number = (stage_number << 40) | step;
            let pairs = sampler.batch(number, stage.batch_pairs, stage.tokens_max as usize, stage.token_dropout);
            if sender.send(Batch::new(&pairs, group_rows)).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Reads the weights of a finished stage or of a checkpoint.
pub fn load_weights(path: &Path, device: Device) -> Result<Parameters, Error> {
    checkpoint::load(path, device).map(|(parameters, ..)| parameters)
}
