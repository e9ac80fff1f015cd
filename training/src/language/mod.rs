//! The language head: multinomial logistic regression over the bundle's own tokens, trained on the encoder's training text.
//!
//! The steps: reading texts (`examples`), fitting (`fit`), dropping mislabeled texts and fitting again, int8 quantization, and
//! the temperature that calibrates the confidence (`calibration`). The file format is in `dragoman::text::language::head`.

pub mod calibration;
pub mod examples;
pub mod fit;

use std::collections::BTreeMap;

use dragoman::domain::Language;
use dragoman::text::LanguageHead;
use dragoman::text::language::head::Features;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use crate::export::quantize::quantize_rows;
use calibration::{Calibrated, calibrate};
use examples::{Example, Examples};
use fit::{FitOptions, Weights, fit, probabilities};

/// An example counts as mislabeled if the probability of its own label is below this.
const WRONG_LABEL: f32 = 0.02;
/// Number of folds of the corpora for checking labels.
const FOLDS: usize = 3;

/// A trained head and its evaluation.
#[derive(Debug)]
pub struct Trained {
    /// The head, int8.
    pub head: LanguageHead,
    /// On held-out examples of the training text.
    pub calibrated: Calibrated,
    /// Texts that were dropped as mislabeled, by corpus and language, with the total.
    pub wrong: Wrong,
}

/// By corpus and language: the number of texts that look mislabeled, and of all texts.
pub type Wrong = BTreeMap<(String, Language), (usize, usize)>;

/// Trains a head: checks the labels of each fold of the corpora with a head fitted to the other folds, drops mislabeled texts,
/// and fits again.
pub fn train(examples: &Examples, features: &Features, options: &FitOptions) -> Trained {
    let (clean, wrong) = drop_mislabeled(examples, features.rows(), options);
    let weights = fit(&clean, features.rows(), options);
    let mut head = quantize(&weights, features, options.exponent);
    let mut random = ChaCha8Rng::seed_from_u64(options.seed ^ 0xca1);
    let windows: Vec<(&[u32], usize)> =
        examples.held_out.iter().map(|example| (options.window(example, &mut random), example.language.index())).collect();
    let calibrated = calibrate(&head, &windows);
    head.temperature = calibrated.temperature;
    Trained { head, calibrated, wrong }
}

/// Returns the examples whose label is plausible to a head that saw neither their corpus nor related ones, and counts the
/// others. A head that saw a corpus with mostly wrong labels in a language would have learned its error.
fn drop_mislabeled<'a>(examples: &'a Examples, rows: usize, options: &FitOptions) -> (Vec<&'a Example>, Wrong) {
    let fold_of = folds(examples);
    let options = FitOptions { epochs: 1, per_epoch: options.per_epoch_first, ..options.clone() };
    let (mut right, mut counts) = (Vec::new(), Wrong::new());
    let mut scores = vec![0.0; Language::COUNT];
    for fold in 0..FOLDS {
        let (judged, others): (Vec<&Example>, Vec<&Example>) =
            examples.train.iter().partition(|example| fold_of[example.corpus] == fold);
        let weights = fit(&others, rows, &options);
        let mut known = [false; Language::COUNT];
        others.iter().for_each(|example| known[example.language.index()] = true);
        for example in judged {
            probabilities(&weights, &example.rows, options.exponent, &mut scores);
            let label = example.language.index();
            let wrong = known[label] && scores[label] < WRONG_LABEL;
            let count = counts.entry((examples.corpora[example.corpus].clone(), example.language)).or_default();
            count.0 += usize::from(wrong);
            count.1 += 1;
            if !wrong {
                right.push(example);
            }
        }
    }
    (right, counts)
}

/// Distributes the corpora over folds, largest first; corpora whose names are equal up to a hyphen stay together.
fn folds(examples: &Examples) -> Vec<usize> {
    let family = |name: &str| name.split('-').next().unwrap_or(name).to_owned();
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for example in &examples.train {
        *sizes.entry(family(&examples.corpora[example.corpus])).or_default() += 1;
    }
    let mut families: Vec<(usize, String)> = sizes.into_iter().map(|(name, size)| (size, name)).collect();
    families.sort_by(|a, b| b.cmp(a));
    let fold = |name: &String| families.iter().position(|(_, of)| *of == family(name)).unwrap_or(0) % FOLDS;
    examples.corpora.iter().map(fold).collect()
}

/// Quantizes to int8 with a scale per row. A row without weights gets the scale 0, so it contributes nothing.
pub fn quantize(weights: &Weights, features: &Features, exponent: f32) -> LanguageHead {
    let mut rows = quantize_rows(&weights.values, weights.width);
    for (scale, row) in rows.scales.iter_mut().zip(rows.values.chunks_exact(weights.width)) {
        if row.iter().all(|&value| value == 0) {
            *scale = 0.0;
        }
    }
    let languages = Language::all().collect();
    LanguageHead { languages, exponent, temperature: 1.0, features: features.clone(), scales: rows.scales, weights: rows.values }
}
