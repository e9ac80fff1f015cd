//! The classifier on frozen embeddings: a multilayer perceptron with one hidden layer (EMS, 2024, sections V-E and V-F).
//!
//! The papers give no sizes for it but follow LASER (their reference [6]), from whose published MLDoc recipe these are: 10 hidden
//! values, tanh, dropout 0.2 before and after them, Adam at 0.001 without weight decay, batches of 12; the parameters that did best
//! on the dev part are kept. LASER has a second hidden layer of 8 and goes through the training part 500 times; here it is one
//! layer, at most 100 times, and an end when the dev part has not got better for 20.
//!
//! Embeddings come in at unit length, so that every source of embeddings is treated alike. They are multiplied by the square root
//! of their dimension, which makes the mean square of a value 1.
//!
//! All random numbers are drawn here from a seed, none from libtorch's generator, which the whole process shares.

use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tch::nn::{Adam, OptimizerConfig as _, VarStore};
use tch::{Device, Kind, Tensor};

use super::encoder::Embeddings;
use crate::error::Error;

const HIDDEN: usize = 10;
const DROPOUT: f32 = 0.2;
const LEARNING_RATE: f64 = 1e-3;
const BATCH: usize = 12;
const EPOCHS_MAX: usize = 100;
/// Times through the training part without a better dev part before training ends.
const PATIENCE: usize = 20;

/// Embeddings and the class of each.
pub struct Examples<'a> {
    /// One embedding per example.
    pub embeddings: &'a Embeddings,
    /// Their classes, from 0.
    pub classes: &'a [i64],
}

/// A trained classifier.
pub struct Classifier {
    hidden: Layer,
    output: Layer,
}

struct Layer {
    /// [out, in]
    weight: Tensor,
    /// [out]
    bias: Tensor,
}

impl Classifier {
    /// Trains on `train` and keeps what is most accurate on `dev`; of equally accurate ones the latest, as LASER does.
    pub fn train(train: &Examples<'_>, dev: &Examples<'_>, classes: usize, seed: u64) -> Result<Self, Error> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let store = VarStore::new(Device::Cpu);
        let mut classifier = Self {
            hidden: Layer::new(&store, "hidden", train.embeddings.dimension(), HIDDEN, &mut random)?,
            output: Layer::new(&store, "output", HIDDEN, classes, &mut random)?,
        };
        let mut optimizer = Adam::default().build(&store, LEARNING_RATE)?;
        let (inputs, targets) = (inputs(train.embeddings)?, Tensor::f_from_slice(train.classes)?);
        let dev_inputs = self::inputs(dev.embeddings)?;
        let mut order: Vec<i64> = (0..train.classes.len() as i64).collect();
        let mut best = (0, 0, classifier.copy());
        for epoch in 0..EPOCHS_MAX {
            order.shuffle(&mut random);
            for batch in order.chunks(BATCH) {
                let numbers = Tensor::f_from_slice(batch)?;
                let chosen = inputs.f_index_select(0, &numbers)?; // [batch, d]
                let logits = classifier.logits_with_dropout(&chosen, &mut random)?; // [batch, classes]
                let loss = logits.cross_entropy_for_logits(&targets.f_index_select(0, &numbers)?);
                optimizer.backward_step(&loss);
            }
            let right = hits(&classifier.classes_of(&dev_inputs)?, dev.classes);
            if right >= best.0 {
                let improved = if right > best.0 { epoch } else { best.1 };
                best = (right, improved, classifier.copy());
            }
            if epoch - best.1 >= PATIENCE {
                break;
            }
        }
        classifier = best.2;
        Ok(classifier)
    }

    /// The share of examples whose class is found, in percent.
    pub fn accuracy(&self, examples: &Examples<'_>) -> Result<f64, Error> {
        let found = self.classes_of(&inputs(examples.embeddings)?)?;
        Ok(100.0 * hits(&found, examples.classes) as f64 / examples.classes.len() as f64)
    }

    fn logits_with_dropout(&self, inputs: &Tensor, random: &mut ChaCha8Rng) -> Result<Tensor, Error> {
        let inputs = inputs.f_mul(&dropout_mask(inputs, random)?)?;
        let hidden = self.hidden.apply(&inputs)?.f_tanh()?; // [batch, hidden]
        let hidden = hidden.f_mul(&dropout_mask(&hidden, random)?)?;
        self.output.apply(&hidden)
    }

    fn classes_of(&self, inputs: &Tensor) -> Result<Vec<i64>, Error> {
        let logits = tch::no_grad(|| self.output.apply(&self.hidden.apply(inputs)?.f_tanh()?))?;
        let best = logits.f_argmax(1, false)?;
        let mut classes = vec![0; best.numel()];
        best.f_copy_data(&mut classes, best.numel())?;
        Ok(classes)
    }

    fn copy(&self) -> Self {
        Self { hidden: self.hidden.copy(), output: self.output.copy() }
    }
}

impl Layer {
    /// Uniform within 1 over the square root of the inputs, as libtorch's own linear layers begin.
    fn new(store: &VarStore, name: &str, inputs: usize, outputs: usize, random: &mut ChaCha8Rng) -> Result<Self, Error> {
        let bound = 1.0 / (inputs as f32).sqrt();
        let mut tensor = |name: &str, shape: &[i64]| {
            let count = shape.iter().product::<i64>() as usize;
            let values: Vec<f32> = (0..count).map(|_| random.random_range(-bound..bound)).collect();
            let tensor = store.root().f_zeros(name, shape)?;
            tch::no_grad(|| tensor.shallow_clone().f_copy_(&Tensor::f_from_slice(&values)?.f_view(shape)?))?;
            Ok::<_, Error>(tensor)
        };
        Ok(Self {
            weight: tensor(&format!("{name}_weight"), &[outputs as i64, inputs as i64])?,
            bias: tensor(&format!("{name}_bias"), &[outputs as i64])?,
        })
    }

    fn apply(&self, inputs: &Tensor) -> Result<Tensor, Error> {
        Ok(inputs.f_linear(&self.weight, Some(&self.bias))?)
    }

    fn copy(&self) -> Self {
        Self { weight: self.weight.detach().copy(), bias: self.bias.detach().copy() }
    }
}

/// 0 with the probability of dropout, otherwise what keeps the mean.
fn dropout_mask(like: &Tensor, random: &mut ChaCha8Rng) -> Result<Tensor, Error> {
    let mut keep = || if random.random::<f32>() < DROPOUT { 0.0 } else { 1.0 / (1.0 - DROPOUT) };
    let mask: Vec<f32> = (0..like.numel()).map(|_| keep()).collect();
    Ok(Tensor::f_from_slice(&mask)?.f_view(like.size().as_slice())?)
}

/// [examples, d]
fn inputs(embeddings: &Embeddings) -> Result<Tensor, Error> {
    let shape = [embeddings.len() as i64, embeddings.dimension() as i64];
    let tensor = Tensor::f_from_slice(embeddings.values())?.f_view(shape)?;
    Ok(tensor.f_mul_scalar((embeddings.dimension() as f64).sqrt())?.f_to_kind(Kind::Float)?)
}

fn hits(found: &[i64], classes: &[i64]) -> usize {
    found.iter().zip(classes).filter(|(found, class)| found == class).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` directions of the plane by turns around 0, 120 and 240 degrees, up to 30 degrees away, and their classes.
    fn fans(count: usize) -> (Embeddings, Vec<i64>) {
        let classes: Vec<i64> = (0..count as i64).map(|number| number % 3).collect();
        let angle = |(number, class): (usize, &i64)| ((number * 7 % 61) as f32 - 30.0 + *class as f32 * 120.0).to_radians();
        let values = classes.iter().enumerate().map(angle).flat_map(|angle| [angle.cos(), angle.sin()]);
        (Embeddings::normalized(values.collect(), 2).unwrap(), classes)
    }

    #[test]
    fn a_separable_problem_is_solved() {
        let ((embeddings, classes), (fresh, fresh_classes)) = (fans(600), fans(61));
        let train = Examples { embeddings: &embeddings, classes: &classes };
        let classifier = Classifier::train(&train, &train, 3, 1).unwrap();
        let test = Examples { embeddings: &fresh, classes: &fresh_classes };
        assert_eq!(classifier.accuracy(&test).unwrap(), 100.0);
    }

    #[test]
    fn what_embeddings_do_not_tell_is_not_learned() {
        // Every direction has both classes equally often: whatever is answered for it is right half of the time.
        let (embeddings, _) = fans(60);
        let twice = Embeddings::normalized([embeddings.values(), embeddings.values()].concat(), 2).unwrap();
        let classes: Vec<i64> = (0..120).map(|number| i64::from(number >= 60)).collect();
        let examples = Examples { embeddings: &twice, classes: &classes };
        let classifier = Classifier::train(&examples, &examples, 2, 1).unwrap();
        assert_eq!(classifier.accuracy(&examples).unwrap(), 50.0);
    }

    #[test]
    fn the_same_seed_gives_the_same_classifier_and_another_seed_another() {
        let (embeddings, classes) = fans(36);
        let examples = Examples { embeddings: &embeddings, classes: &classes };
        let weight = |seed| {
            // What others draw from libtorch's generator must not matter.
            let _ = Tensor::rand([3], (Kind::Float, Device::Cpu));
            let classifier = Classifier::train(&examples, &examples, 3, seed).unwrap();
            Vec::<f32>::try_from(classifier.hidden.weight.flatten(0, 1)).unwrap()
        };
        let first = weight(7);
        assert_eq!(first, weight(7));
        assert_ne!(first, weight(8));
    }
}
