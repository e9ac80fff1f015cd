//! Fits the weights: softmax regression with Adagrad (Duchi, Hazan and Singer, 2011), one text or part of a text at a time.
//!
//! Every language is seen equally often. Most of the time, only some consecutive words of a text are seen, so that short texts
//! are learned too. A Gaussian prior keeps the weights of rare tokens small; its gradient is spread over the occurrences of a
//! token.

use dragoman::domain::Language;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::examples::Example;

/// Initial sum of squared gradients of a weight, so that gradients much smaller than its root move a weight little.
const SQUARES_START: f32 = 0.01;

/// Options of a fit.
#[derive(Debug, Clone)]
pub struct FitOptions {
    /// Number of epochs; each sees `per_epoch` examples of every language.
    pub epochs: usize,
    /// Examples per language in an epoch.
    pub per_epoch: usize,
    /// Examples per language in the single epoch of a fit that only checks labels.
    pub per_epoch_first: usize,
    /// The exponent of the number of rows by which a sum of weights is divided.
    pub exponent: f32,
    /// Initial step size; decreases linearly to 0.
    pub rate: f32,
    /// Strength of the prior: each weight is penalized by half its square times this.
    pub prior: f32,
    /// Share of examples that are seen whole.
    pub whole_share: f64,
    /// Maximum words of a partial example.
    pub words_max: usize,
    /// Seed of the sampling.
    pub seed: u64,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self {
            epochs: 6,
            per_epoch: 20_000,
            per_epoch_first: 10_000,
            exponent: 0.5,
            rate: 1.0,
            prior: 0.1,
            whole_share: 0.1,
            words_max: 6,
            seed: 1,
        }
    }
}

impl FitOptions {
    /// Draws the part of `example` to see this time: all of it, or one to `words_max` words in a row.
    pub fn window<'a>(&self, example: &'a Example, random: &mut ChaCha8Rng) -> &'a [u32] {
        if random.random::<f64>() < self.whole_share || example.words.is_empty() {
            return &example.rows;
        }
        let words = random.random_range(1..=self.words_max).min(example.words.len());
        let first = random.random_range(0..=example.words.len() - words);
        let end = example.words.get(first + words).map_or(example.rows.len(), |&end| usize::from(end));
        &example.rows[usize::from(example.words[first])..end]
    }
}

/// A weight per row, a token's or a pair's, and language.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// Languages.
    pub width: usize,
    /// [rows, width]
    pub values: Vec<f32>,
}

/// Fits weights to `examples`; a language without any stays at 0.
pub fn fit(examples: &[&Example], rows: usize, options: &FitOptions) -> Weights {
    let width = Language::COUNT;
    let mut by_language: Vec<Vec<&Example>> = vec![Vec::new(); width];
    for example in examples {
        by_language[example.language.index()].push(example);
    }
    by_language.retain(|of| !of.is_empty());
    let mut fitting = Fitting {
        weights: Weights { width, values: vec![0.0; rows * width] },
        squares: vec![SQUARES_START; rows * width],
        decay: decays(&by_language, rows, options),
        scores: vec![0.0; width],
        exponent: options.exponent,
    };
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    let steps = options.epochs * options.per_epoch;
    for step in 0..steps {
        let rate = options.rate * (1.0 - step as f32 / steps as f32);
        for of in &by_language {
            let example = of[random.random_range(0..of.len())];
            let seen = options.window(example, &mut random);
            fitting.step(seen, example.language.index(), rate);
        }
    }
    fitting.weights
}

/// Writes the probabilities of the languages of a text into `scores`.
pub fn probabilities(weights: &Weights, rows: &[u32], exponent: f32, scores: &mut [f32]) {
    scores.fill(0.0);
    for &row in rows {
        let of = &weights.values[row as usize * weights.width..][..weights.width];
        scores.iter_mut().zip(of).for_each(|(score, weight)| *score += weight);
    }
    let divisor = (rows.len().max(1) as f32).powf(exponent);
    let max = scores.iter().copied().fold(f32::MIN, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = ((*score - max) / divisor).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// The part of the prior that applies each time a token occurs, so that over an epoch the parts add up to the prior. [rows]
fn decays(by_language: &[Vec<&Example>], rows: usize, options: &FitOptions) -> Vec<f32> {
    let mut occurrences = vec![0.0_f64; rows];
    for of in by_language {
        let each = options.per_epoch as f64 / of.len() as f64;
        for example in of {
            example.rows.iter().for_each(|&row| occurrences[row as usize] += each);
        }
    }
    occurrences.into_iter().map(|count| if count > 0.0 { f64::from(options.prior) / count } else { 0.0 } as f32).collect()
}

struct Fitting {
    weights: Weights,
    /// [rows, width]
    squares: Vec<f32>,
    /// [rows]
    decay: Vec<f32>,
    /// [width], scratch
    scores: Vec<f32>,
    exponent: f32,
}

impl Fitting {
    /// Moves the weights of `rows` against the gradient of the label's negative logarithmic probability.
    fn step(&mut self, rows: &[u32], label: usize, rate: f32) {
        let width = self.weights.width;
        probabilities(&self.weights, rows, self.exponent, &mut self.scores);
        self.scores[label] -= 1.0;
        let divisor = (rows.len() as f32).powf(self.exponent);
        self.scores.iter_mut().for_each(|score| *score /= divisor);
        for &row in rows {
            let offset = row as usize * width;
            let decay = self.decay[row as usize];
            let weights = &mut self.weights.values[offset..offset + width];
            let squares = &mut self.squares[offset..offset + width];
            for ((weight, square), score) in weights.iter_mut().zip(squares).zip(&self.scores) {
                let gradient = score + decay * *weight;
                *square += gradient * gradient;
                *weight -= rate * gradient / square.sqrt();
            }
        }
    }
}
