//! Training: mini-batches, Adam, and early stopping on the validation part.

use std::sync::atomic::{AtomicBool, Ordering};

use super::network::{Activations, Shape, backward, forward, loss_and_gradient};
use super::{DIMENSION_MAX, HIDDEN_MAX, INFERENCE_BATCH_ROWS, LABELS_MAX, Mlp};
use crate::classify::random::Random;
use crate::classify::{ClassifyError, Split, TargetKind, Targets};
use crate::domain::MlpSettings;
use crate::parallel::in_parallel;

/// Adam's β₁, β₂ and ε (Kingma and Ba, 2015, algorithm 1).
const MOMENT_DECAY: f32 = 0.9;
const SQUARE_DECAY: f32 = 0.999;
const DIVISOR_MIN: f32 = 1e-8;

#[derive(Debug, Clone, Copy)]
pub struct Training<'a> {
    /// Concatenated unit-length embeddings. [examples, dimension]
    pub embeddings: &'a [f32],
    pub dimension: usize,
    pub targets: Targets<'a>,
    /// The number of labels; all labels of `targets` are below it.
    pub labels: usize,
    /// The examples to train on and to validate on.
    pub split: &'a Split,
    /// The settings. The split is already made, so `validation_share` has no effect.
    pub parameters: &'a MlpSettings,
    /// The number of runs in parallel. The result does not depend on it, because each run uses one thread.
    pub threads: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpochReport {
    /// The number of the epoch, from 0.
    pub epoch: usize,
    /// The mean loss of its examples during training, with dropout.
    pub training_loss: f64,
    /// The validation after it; `None` without a validation set.
    pub validation: Option<ValidationScore>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValidationScore {
    /// 0 to 1: accuracy for classes, micro-F1 at probability 0.5 for label sets.
    pub quality: f64,
    /// The mean loss of its examples.
    pub loss: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TrainedRun {
    /// The network that was kept.
    pub mlp: Mlp,
    /// Its epoch: the best on the validation set, or the latest in a tie; without validation, the last.
    pub best_epoch: EpochReport,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    /// Sorted by seed.
    pub runs: Vec<TrainedRun>,
    /// The index of the best run: the highest quality on the validation set, then the lowest loss on it, then the lowest seed.
    /// Without a validation set, the lowest training loss.
    pub best: usize,
}

impl Training<'_> {
    /// Trains all runs. Calls `stop` after each epoch, from several threads; if it returns true, all of them end.
    ///
    /// The same input gives the same result on the same machine, for any number of threads. On another machine, `tanh` and
    /// `exp` may round differently.
    pub fn train(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<Trained, ClassifyError> {
        self.check()?;
        let stopped = AtomicBool::new(false);
        let done = in_parallel(0..self.parameters.runs, 1, self.threads, |run| {
            let result = self.run(run.start, &stopped, stop);
            stopped.fetch_or(result.is_err(), Ordering::Relaxed);
            Ok::<_, ClassifyError>(result)
        })?;
        // A failed run stops the others, so their errors are not the cause.
        let reason = done.iter().filter_map(|result| result.as_ref().err()).find(|error| **error != ClassifyError::Stopped);
        if let Some(error) = reason {
            return Err(error.clone());
        }
        let runs = done.into_iter().collect::<Result<Vec<TrainedRun>, _>>()?;
        let best = (1..runs.len()).fold(0, |best, run| if runs[run].is_better_than(&runs[best]) { run } else { best });
        Ok(Trained { runs, best })
    }

    fn check(&self) -> Result<(), ClassifyError> {
        let parameters = self.parameters;
        let refuse =
            |name, expected: &str, got: String| Err(ClassifyError::Parameter { name, expected: expected.to_owned(), got });
        let within = |name, got: usize, min: usize, max: usize| match (min..=max).contains(&got) {
            true => Ok(()),
            false => refuse(name, &format!("{min} to {max}"), got.to_string()),
        };
        within("dimension", self.dimension, 1, DIMENSION_MAX)?;
        within("labels", self.labels, if self.targets.target_kind() == TargetKind::Class { 2 } else { 1 }, LABELS_MAX)?;
        within("hidden", parameters.hidden_for(self.labels), 1, HIDDEN_MAX)?;
        within("batch", parameters.batch, 1, 4_096)?;
        within("epochs_max", parameters.epochs_max, 1, 10_000)?;
        within("patience", parameters.patience, 1, usize::MAX)?;
        within("runs", parameters.runs, 1, 100)?;
        if !(0.0..1.0).contains(&parameters.dropout) {
            return refuse("dropout", "a share from 0 to below 1", parameters.dropout.to_string());
        }
        if !(parameters.learning_rate > 0.0 && parameters.learning_rate <= 1.0) {
            return refuse("learning_rate", "a number above 0, at most 1", parameters.learning_rate.to_string());
        }
        within("examples to learn from", self.split.train.len(), 1, u32::MAX as usize)?;
        let (examples, got) = (self.targets.len(), self.embeddings.len());
        if got != examples * self.dimension {
            return Err(ClassifyError::Length { what: "embeddings", expected: examples * self.dimension, got });
        }
        if let Some(number) = self.split.train.iter().chain(&self.split.validation).find(|number| **number as usize >= examples) {
            return refuse("split", &format!("numbers of examples below {examples}"), number.to_string());
        }
        if let Some(index) = self.embeddings.iter().position(|value| !value.is_finite()) {
            return Err(ClassifyError::NotFinite { example: index / self.dimension });
        }
        self.targets.check(self.labels)
    }

    fn run(&self, run: usize, stopped: &AtomicBool, stop: &(dyn Fn() -> bool + Sync)) -> Result<TrainedRun, ClassifyError> {
        let parameters = self.parameters;
        let seed = u64::from(parameters.seed) + run as u64;
        let mut learner = Learner::new(self, seed);
        let mut best: Option<(EpochReport, Vec<f32>)> = None;
        let mut improved = 0;
        for epoch in 0..parameters.epochs_max {
            let training_loss = learner.train_epoch();
            let validation = self.validate(&mut learner);
            let losses = [Some(training_loss), validation.map(|validation| validation.loss)];
            if losses.into_iter().flatten().any(|loss| !loss.is_finite()) {
                return Err(ClassifyError::Diverged { seed, epoch, learning_rate: parameters.learning_rate });
            }
            if stop() || stopped.load(Ordering::Relaxed) {
                return Err(ClassifyError::Stopped);
            }
            let done = EpochReport { epoch, training_loss, validation };
            let quality = |done: &EpochReport| done.validation.map_or(0.0, |validation| validation.quality);
            if best.as_ref().is_none_or(|(best_epoch, _)| quality(&done) >= quality(best_epoch)) {
                let better = best.as_ref().is_none_or(|(best_epoch, _)| quality(&done) > quality(best_epoch));
                improved = if better { epoch } else { improved };
                best = Some((done, learner.parameters.clone()));
            }
            if validation.is_some() && epoch - improved >= parameters.patience {
                break;
            }
        }
        let (best_epoch, values) = best.ok_or(ClassifyError::Stopped)?;
        let mlp = Mlp {
            shape: learner.shape,
            activation: parameters.activation,
            target_kind: self.targets.target_kind(),
            temperature: 1.0,
            parameters: values,
        };
        Ok(TrainedRun { mlp, best_epoch })
    }

    fn embedding(&self, example: u32) -> &[f32] {
        &self.embeddings[example as usize * self.dimension..][..self.dimension]
    }

    fn validate(&self, learner: &mut Learner<'_>) -> Option<ValidationScore> {
        let examples = &self.split.validation;
        let (mut loss, mut right, mut predicted, mut expected) = (0.0, 0, 0, 0);
        for chunk in examples.chunks(INFERENCE_BATCH_ROWS) {
            let inference = &mut learner.inference;
            inference.fill(chunk.iter().map(|example| self.embedding(*example)));
            forward(learner.shape, self.parameters.activation, &learner.parameters, inference);
            for (logits, example) in inference.logits().chunks_exact(self.labels).zip(chunk) {
                let labels = self.targets.of(*example as usize);
                let answered = predicted_labels(self.targets.target_kind(), logits);
                right += answered.iter().filter(|label| labels.contains(label)).count();
                (predicted, expected) = (predicted + answered.len(), expected + labels.len());
                loss += loss_and_gradient(self.targets.target_kind(), &mut logits.to_vec(), labels);
            }
        }
        // For classes, predicted = expected = examples, so F1 is accuracy. If no labels are expected, predicting none is
        // perfect.
        let quality = if predicted + expected == 0 { 1.0 } else { 2.0 * right as f64 / (predicted + expected) as f64 };
        (!examples.is_empty()).then(|| ValidationScore { quality, loss: loss / examples.len() as f64 })
    }
}

impl Trained {
    pub fn into_best(mut self) -> TrainedRun {
        self.runs.swap_remove(self.best)
    }
}

impl TrainedRun {
    fn is_better_than(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.best_epoch, &other.best_epoch);
        match (ours.validation, theirs.validation) {
            (Some(ours), Some(theirs)) => (-ours.quality, ours.loss) < (-theirs.quality, theirs.loss),
            _ => ours.training_loss < theirs.training_loss,
        }
    }
}

/// Returns the predicted labels: for classes, the one with the highest logit, or the lowest in a tie; for label sets, all with
/// a probability of at least 0.5.
fn predicted_labels(target_kind: TargetKind, logits: &[f32]) -> Vec<u32> {
    match target_kind {
        TargetKind::Class => crate::classify::knn::highest(logits).into_iter().collect(),
        TargetKind::LabelSet => (0..logits.len() as u32).filter(|label| logits[*label as usize] >= 0.0).collect(),
    }
}

/// A network in training, with the state of Adam.
struct Learner<'a> {
    training: &'a Training<'a>,
    shape: Shape,
    random: Random,
    order: Vec<u32>,
    parameters: Vec<f32>,
    gradient: Vec<f32>,
    moments: Vec<f32>,
    squares: Vec<f32>,
    /// MOMENT_DECAY and SQUARE_DECAY to the power of the number of steps so far.
    decayed: [f64; 2],
    batch: Activations,
    inference: Activations,
}

impl<'a> Learner<'a> {
    /// Initializes weights and biases uniformly within ± 1 / √inputs, like libtorch's linear layers.
    fn new(training: &'a Training<'a>, seed: u64) -> Self {
        let (dimension, labels) = (training.dimension, training.labels);
        let shape = Shape { dimension, hidden: training.parameters.hidden_for(labels), labels };
        let mut random = Random::new(seed);
        let mut parameters = vec![0.0; shape.parameters()];
        let parts = shape.parts_mut(&mut parameters);
        for (part, inputs) in [
            (parts.hidden_weights, shape.dimension),
            (parts.hidden_biases, shape.dimension),
            (parts.label_weights, shape.hidden),
            (parts.label_biases, shape.hidden),
        ] {
            part.iter_mut().for_each(|value| *value = random.within(1.0 / (inputs as f32).sqrt()));
        }
        let zeros = vec![0.0; shape.parameters()];
        Self {
            training,
            shape,
            random,
            order: training.split.train.clone(),
            parameters,
            gradient: zeros.clone(),
            moments: zeros.clone(),
            squares: zeros,
            decayed: [1.0; 2],
            batch: Activations::new(shape, training.parameters.batch),
            inference: Activations::new(shape, INFERENCE_BATCH_ROWS),
        }
    }

    /// Runs one epoch over all examples in random order. Returns their mean loss.
    fn train_epoch(&mut self) -> f64 {
        let (training, parameters) = (self.training, self.training.parameters);
        let mut order = std::mem::take(&mut self.order);
        self.random.shuffle(&mut order);
        let mut mask = vec![1.0; if parameters.dropout > 0.0 { parameters.batch * self.shape.dimension } else { 0 }];
        let mut loss = 0.0;
        for examples in order.chunks(parameters.batch) {
            self.batch.fill(examples.iter().map(|example| training.embedding(*example)));
            if parameters.dropout > 0.0 {
                let mask = &mut mask[..examples.len() * self.shape.dimension];
                self.random.fill_mask(mask, parameters.dropout);
                self.batch.inputs.iter_mut().zip(mask).for_each(|(input, mask)| *input *= *mask);
                self.random.fill_mask(&mut self.batch.hidden_mask[..examples.len() * self.shape.hidden], parameters.dropout);
            }
            forward(self.shape, parameters.activation, &self.parameters, &mut self.batch);
            let network = (self.shape, parameters.activation, self.parameters.as_slice());
            loss += backward(network, &mut self.batch, training.targets, examples, &mut self.gradient);
            self.step(parameters.learning_rate);
        }
        self.order = order;
        loss / self.order.len() as f64
    }

    fn step(&mut self, learning_rate: f32) {
        self.decayed[0] *= f64::from(MOMENT_DECAY);
        self.decayed[1] *= f64::from(SQUARE_DECAY);
        let rate = (f64::from(learning_rate) / (1.0 - self.decayed[0])) as f32;
        let unbias = (1.0 / (1.0 - self.decayed[1]).sqrt()) as f32;
        let remembered = self.moments.iter_mut().zip(&mut self.squares);
        for ((value, slope), (moment, square)) in self.parameters.iter_mut().zip(&self.gradient).zip(remembered) {
            *moment = MOMENT_DECAY * *moment + (1.0 - MOMENT_DECAY) * slope;
            *square = SQUARE_DECAY * *square + (1.0 - SQUARE_DECAY) * slope * slope;
            *value -= rate * *moment / (square.sqrt() * unbias + DIVISOR_MIN);
        }
    }
}

#[cfg(test)]
#[path = "train_tests.rs"]
mod tests;
