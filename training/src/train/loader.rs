//! Makes batches ahead of the step that needs them, on separate threads.
//!
//! A batch depends only on the seed and its step, so thread n of N makes every Nth batch, and batches are taken from the
//! threads in turn: the number of threads changes the speed, not the batches.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use tch::Device;

use crate::checkpoint::Position;
use crate::config::StageConfig;
use crate::data::augmenter::Augmenter;
use crate::data::batch::Batch;
use crate::data::hard_negatives::Miner;
use crate::data::masking;
use crate::data::sampler::{Sampler, SamplingTools};

/// Maximum number of waiting batches per thread.
const WAITING_MAX: usize = 3;

/// The batches of a stage, in order.
pub struct Loader {
    threads: Vec<Receiver<Batch>>,
    taken: usize,
}

/// The inputs of batches.
pub struct Source {
    /// Draws the pairs.
    pub sampler: Arc<Sampler>,
    /// Mines hard negatives.
    pub miner: Option<Miner>,
    /// Changes texts, if the stage wants it.
    pub augmenter: Option<Arc<Augmenter>>,
    /// The run's seed.
    pub seed: u64,
    /// Batch size and objectives.
    pub stage: StageConfig,
    /// Number of sentences per group.
    pub group_rows: usize,
    /// The device that the batches are moved to; here, because the copy would keep the training thread from queueing work.
    pub device: Device,
}

impl Loader {
    /// Starts `threads` threads that make the batches from `position` to the end of the stage.
    pub fn start(source: Source, position: Position, threads: usize) -> Self {
        let source = Arc::new(source);
        let start = |number: usize| {
            let (sender, receiver) = sync_channel(WAITING_MAX);
            let source = source.clone();
            std::thread::spawn(move || {
                for step in (position.step..source.stage.steps).skip(number).step_by(threads) {
                    if sender.send(source.batch(position.stage, step).to_device(source.device)).is_err() {
                        return;
                    }
                }
            });
            receiver
        };
        Self { threads: (0..threads).map(start).collect(), taken: 0 }
    }
}

impl Iterator for Loader {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let thread = self.taken % self.threads.len();
        self.taken += 1;
        self.threads[thread].recv().ok()
    }
}

impl Source {
    fn batch(&self, stage: usize, step: u64) -> Batch {
        let number = ((stage as u64) << 40) | step;
        let tools = SamplingTools { miner: self.miner.as_ref(), augmenter: self.augmenter.as_deref() };
        let pairs = self.sampler.batch(number, &self.stage, tools);
        let mut batch = match &self.stage.vocabulary_head {
            Some(head) if self.stage.masks_words() => {
                Batch::masked(&pairs, self.group_rows, &masking::draw(self.seed, number, &pairs, head.pairs_max))
            }
            _ if self.stage.resting_passages.is_some() => Batch::with_frozen_right(&pairs, self.group_rows),
            _ => Batch::new(&pairs, self.group_rows),
        };
        if self.stage.vocabulary_head.is_some() {
            batch = batch.with_targets(&pairs);
        }
        if let Some(late) = &self.stage.late_interaction {
            batch = batch.with_interaction(&pairs, late.pairs_max);
        }
        if self.stage.distillation.as_ref().is_some_and(|teacher| teacher.translations_only) {
            batch = batch.with_translations(&pairs, self.group_rows);
        }
        batch
    }
}
