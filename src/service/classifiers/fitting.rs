//! Fits the classifier kinds that learn no weights: all that they learn is the temperature of their probabilities. Also defines
//! what training returns, for every kind.

use std::collections::BTreeSet;

use super::embedded_text::{EmbeddedText, PredictionInput};
use super::error::ClassifierError;
use super::examples::{Example, Examples};
use super::neighbor_source::{LabelSource, LabeledNeighbor};
use super::trained::{LabelScores, count_votes, prototypes, with_fitted};
use crate::classify::knn::TEMPERATURE;
use crate::classify::{LabelNames, Prototypes, Targets, fit_temperature, reliability};
use crate::domain::{ClassifierDefinition, KnnSettings, LabelExamples, NeighborWeight, TrainingReport};
use crate::service::error::Error;

/// Number of bins of the calibration error.
pub(super) const BINS: usize = 10;
/// Maximum number of examples used to fit a temperature. More would not change the second digit of a share.
const FIT_EXAMPLES_MAX: usize = 500;
/// Candidate temperatures. The cosines of neighbors lie so close together that at the lowest temperature one neighbor decides
/// alone, and at the highest all count the same.
const TEMPERATURES: [f32; 10] = [0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.25, 0.5];
/// How much worse than the best loss, as a factor, still counts as nearly equal. Neighbors in the training language are nearer
/// than those in other languages, so the temperature that fits the training language best is too low for the others. Among
/// nearly equal temperatures, the highest works better across languages.
const NEARLY: f64 = 1.01;
/// Weight of a prior on the temperature: the squared log of its ratio to the usual temperature is added to the loss this many
/// times. Without the prior, a few examples that are all predicted correctly make a classifier certain of everything. Measured
/// on topics of sentences: with two to five examples per label the calibration error of English and foreign sentences falls by
/// half or more, and with ten or more nothing changes.
const USUAL_WEIGHT: f64 = 3.0;
/// Share of the probability mass that is spread over all labels before taking the logarithm, so that a unanimous but wrong vote
/// has a finite loss.
const SMOOTHING: f64 = 0.02;

pub(super) struct TrainingOutcome {
    pub(super) report: TrainingReport,
    pub(super) weights: Option<Vec<u8>>,
}

/// Returns the expected calibration error, or `None` without examples.
pub(super) fn calibration_error(probabilities: &[f32], classes: &[u32], labels: usize) -> Result<Option<f64>, ClassifierError> {
    if classes.is_empty() {
        return Ok(None);
    }
    let predictions = probabilities.chunks_exact(labels).zip(classes).map(|(row, class)| {
        let best = crate::classify::knn::highest(row).unwrap_or_default();
        (row[best as usize].clamp(0.0, 1.0), best == *class)
    });
    Ok(Some(reliability(predictions, BINS)?.expected_error))
}

/// Fits the temperature at which neighbors predict the examples' labels best. No example counts as its own neighbor. Blocks.
pub(super) fn calibrate_knn(
    definition: &ClassifierDefinition,
    label_source: &LabelSource,
    texts: &[EmbeddedText],
    examples: &Examples,
) -> Result<TrainingOutcome, Error> {
    let step = examples.rows.len().div_ceil(FIT_EXAMPLES_MAX).max(1);
    let chosen: Vec<(usize, &Example)> = examples.rows.iter().enumerate().step_by(step).collect();
    let collection = label_source.source.as_ref().map(|(collection, _)| &collection.row.name);
    // A `knn` takes no descriptions, so the request's examples are exactly its texts, in order.
    let inputs = chosen.iter().map(|(position, example)| PredictionInput {
        document: collection.cloned().zip(example.document.clone()),
        position: Some(*position),
        language: example.language,
        embedding: example.embedding.clone(),
    });
    let inputs: Vec<PredictionInput> = inputs.collect();
    let mut neighbor_source = label_source.neighbor_source(texts, inputs.len())?;
    let neighbors = neighbor_source.neighbors(&inputs.iter().collect::<Vec<_>>(), definition.knn.neighbors)?;
    let around: Vec<(&Example, Vec<LabeledNeighbor>)> = chosen.iter().map(|(_, example)| *example).zip(neighbors).collect();
    let fitted = match (definition.knn.weight, definition.knn.temperature) {
        (NeighborWeight::Softmax, None) => best_temperature(definition, &around, &examples.report().labels)?,
        _ => None,
    };
    let settings = with_fitted(&definition.knn, fitted);
    let (mut predictions, mut right) = (Vec::with_capacity(around.len()), 0);
    for (example, found) in &around {
        let scored = count_votes(found, &settings)?;
        let correct = match definition.multi_label {
            true => majority_labels(&scored) == example.labels,
            false => scored.ranked.first().is_some_and(|(label, _)| example.labels.contains(label)),
        };
        right += usize::from(correct);
        if let Some((_, share)) = scored.ranked.first() {
            predictions.push((share.clamp(0.0, 1.0), correct));
        }
    }
    let error = reliability(predictions, BINS)?.expected_error;
    let report = TrainingReport {
        validation_examples: around.len(),
        validation_quality: (!around.is_empty()).then(|| right as f64 / around.len() as f64),
        calibration_error: (!definition.multi_label && !around.is_empty()).then_some(error),
        temperature: fitted,
        ..examples.report()
    };
    Ok(TrainingOutcome { report, weights: None })
}

/// Returns the temperature that predicts the examples' labels best, or `None` unless at least two labels have several examples.
/// A label's only example cannot get its label from the others at any temperature. Its constant loss would make all temperatures
/// seem nearly equal, so that the highest one is chosen and only frequent labels win votes.
fn best_temperature(
    definition: &ClassifierDefinition,
    around: &[(&Example, Vec<LabeledNeighbor>)],
    labels: &[LabelExamples],
) -> Result<Option<f32>, Error> {
    let several: BTreeSet<&str> = labels.iter().filter(|label| label.examples > 1).map(|label| label.label.as_str()).collect();
    if several.len() < 2 {
        return Ok(None);
    }
    let loss_counts = LossCounts { several: &several, labels: labels.len(), multi_label: definition.multi_label };
    let mut losses = Vec::with_capacity(TEMPERATURES.len());
    for temperature in TEMPERATURES {
        let (loss, examples) = loss_of(around, &with_fitted(&definition.knn, Some(temperature)), &loss_counts)?;
        let unusual = USUAL_WEIGHT * f64::from(temperature / TEMPERATURE).ln().powi(2);
        losses.extend((examples > 0).then(|| (temperature, (loss + unusual) / examples as f64)));
    }
    Ok(highest_good_temperature(&losses))
}

/// Returns the highest temperature that is nearly as good as the best. `losses` must be sorted by rising temperature.
fn highest_good_temperature(losses: &[(f32, f64)]) -> Option<f32> {
    let loss_min = losses.iter().map(|(_, loss)| *loss).reduce(f64::min)?;
    losses.iter().rev().find(|(_, loss)| *loss <= loss_min * NEARLY).map(|(temperature, _)| *temperature)
}

/// What counts in the loss.
struct LossCounts<'a> {
    /// The labels that have several examples; others do not count.
    several: &'a BTreeSet<&'a str>,
    /// Number of all labels.
    labels: usize,
    multi_label: bool,
}

/// Returns the negative log likelihood of the examples' labels under the votes of their neighbors, and how many examples count.
fn loss_of(
    around: &[(&Example, Vec<LabeledNeighbor>)],
    settings: &KnnSettings,
    counts: &LossCounts<'_>,
) -> Result<(f64, usize), ClassifierError> {
    let (mut loss, mut examples) = (0.0, 0_usize);
    for (example, found) in around {
        let mut expected = example.labels.iter().map(String::as_str).filter(|label| counts.several.contains(label));
        let scored = count_votes(found, settings)?;
        let share =
            |label: &str| scored.ranked.iter().find(|(name, _)| name == label).map_or(0.0, |(_, share)| f64::from(*share));
        if counts.multi_label {
            let near = scored.ranked.iter().map(|(label, _)| label.as_str()).filter(|label| counts.several.contains(label));
            for label in near.chain(expected.filter(|label| share(label) == 0.0)) {
                let likely = share(label) * (1.0 - SMOOTHING) + SMOOTHING / 2.0;
                loss -= if example.labels.iter().any(|known| known == label) { likely.ln() } else { (1.0 - likely).ln() };
            }
        } else {
            let Some(label) = expected.next() else { continue };
            loss -= (share(label) * (1.0 - SMOOTHING) + SMOOTHING / counts.labels.max(1) as f64).ln();
        }
        examples += 1;
    }
    Ok((loss, examples))
}

/// Returns the labels with at least half of the votes, sorted by name.
fn majority_labels(scored: &LabelScores) -> Vec<String> {
    let mut labels: Vec<String> =
        scored.ranked.iter().filter(|(_, share)| *share >= 0.5).map(|(label, _)| label.clone()).collect();
    labels.sort_unstable();
    labels
}

/// Computes a direction for each label, and calibrates on the examples with these labels if there are any. Blocks.
pub(super) fn fit_prototypes(texts: &[EmbeddedText], mut examples: Examples) -> Result<TrainingOutcome, Error> {
    let described = texts.iter().filter(|text| text.description).flat_map(|text| text.labels.iter().cloned());
    let names = LabelNames::of(described);
    let prototypes = prototypes(&names, texts)?;
    let class = |example: &Example| example.labels.first().and_then(|label| names.number(label));
    examples.rows.retain(|example| class(example).is_some());
    let classes: Vec<u32> = examples.rows.iter().filter_map(class).collect();
    let mut cosines = Vec::with_capacity(classes.len() * names.len());
    for example in &examples.rows {
        cosines.extend(prototypes.cosines(&example.embedding)?);
    }
    let fit = fit_temperature(&cosines, Targets::Classes(&classes), names.len())?;
    let temperature = fit.unwrap_or(Prototypes::TEMPERATURE);
    let calibrated = prototypes.with_temperature(temperature)?;
    let (mut probabilities, mut right) = (Vec::with_capacity(cosines.len()), 0);
    for (example, class) in examples.rows.iter().zip(&classes) {
        let row = calibrated.probabilities(&example.embedding)?;
        right += usize::from(crate::classify::knn::highest(&row) == Some(*class));
        probabilities.extend(row);
    }
    let found = examples.report();
    let with_none = |label: &str| found.labels.iter().find(|count| count.label == label).map_or(0, |count| count.examples);
    let report = TrainingReport {
        labels: names.iter().map(|label| LabelExamples { label: label.to_owned(), examples: with_none(label) }).collect(),
        validation_examples: classes.len(),
        validation_quality: (!classes.is_empty()).then(|| right as f64 / classes.len() as f64),
        calibration_error: calibration_error(&probabilities, &classes, names.len())?,
        temperature: Some(temperature),
        ..found
    };
    Ok(TrainingOutcome { report, weights: None })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::{ClassifierKind, Embedding, MlpSettings, PassageId};

    fn knn(multi_label: bool) -> ClassifierDefinition {
        ClassifierDefinition {
            kind: ClassifierKind::Knn,
            description: None,
            multi_label,
            threshold: None,
            source: None,
            knn: KnnSettings::default(),
            mlp: MlpSettings::default(),
        }
    }

    fn example(label: &str) -> Example {
        let embedding = Embedding::normalized(vec![1.0, 0.0]).unwrap();
        Example { document: None, labels: vec![label.to_owned()], language: None, embedding }
    }

    /// One neighbor with the first label, and three that are less near with the second.
    fn neighbors(nearest: &str, others: &str) -> Vec<LabeledNeighbor> {
        let labels = |label: &str| -> Arc<[String]> { Arc::from([label.to_owned()]) };
        let neighbor = |position, labels, score| LabeledNeighbor { location: PassageId(position), labels, score };
        let three = (1..4).map(|position| neighbor(position, labels(others), 0.6));
        [neighbor(0, labels(nearest), 0.9)].into_iter().chain(three).collect()
    }

    fn counted(labels: &[(&str, usize)]) -> Vec<LabelExamples> {
        labels.iter().map(|(label, examples)| LabelExamples { label: (*label).to_owned(), examples: *examples }).collect()
    }

    #[test]
    fn the_highest_of_nearly_equal_temperatures_is_chosen() {
        assert_eq!(highest_good_temperature(&[(0.03, 1.2), (0.05, 1.082), (0.07, 1.087), (0.1, 1.117)]), Some(0.07));
        assert_eq!(highest_good_temperature(&[(0.05, 1.0), (0.07, 1.02)]), Some(0.05));
        assert_eq!(highest_good_temperature(&[(0.05, 0.0), (0.07, 0.0)]), Some(0.07));
        assert_eq!(highest_good_temperature(&[]), None);
    }

    #[test]
    fn labels_with_one_example_do_not_raise_the_temperature() {
        let (large, small, rare) = (example("large"), example("small"), example("rare"));
        let known = [(&large, neighbors("large", "small")), (&small, neighbors("small", "large"))];
        let known = std::iter::repeat_n(known, 50).flatten().collect::<Vec<_>>();
        let alone = (0..100).map(|_| (&rare, neighbors("large", "small")));
        let all: Vec<_> = known.iter().cloned().chain(alone).collect();
        let labels = counted(&[("large", 50), ("rare", 1), ("small", 50)]);
        for multi_label in [false, true] {
            let definition = knn(multi_label);
            let fitted = best_temperature(&definition, &known, &labels).unwrap().unwrap();
            assert!(fitted < 0.07, "{fitted}");
        }
        assert_eq!(
            best_temperature(&knn(false), &all, &labels).unwrap(),
            best_temperature(&knn(false), &known, &labels).unwrap()
        );
    }

    #[test]
    fn a_few_examples_hardly_change_the_temperature() {
        let (large, small) = (example("large"), example("small"));
        let few = [(&large, neighbors("large", "small")), (&small, neighbors("small", "large"))];
        let fitted = |around: &[_], examples| {
            best_temperature(&knn(false), around, &counted(&[("large", examples), ("small", examples)])).unwrap().unwrap()
        };
        assert!((0.05..=0.07).contains(&fitted(&few, 2)), "{}", fitted(&few, 2));
        let many: Vec<_> = std::iter::repeat_n(few, 500).flatten().collect();
        assert!(fitted(&many, 500) < 0.05, "{}", fitted(&many, 500));
    }

    #[test]
    fn the_default_temperature_holds_unless_two_labels_have_several_examples() {
        let large = example("large");
        let around = [(&large, neighbors("large", "large"))];
        for labels in [&[("large", 100), ("rare", 1)][..], &[("rare", 1), ("rarer", 1)], &[("large", 100)]] {
            assert_eq!(best_temperature(&knn(false), &around, &counted(labels)).unwrap(), None, "{labels:?}");
        }
        assert!(best_temperature(&knn(false), &around, &counted(&[("large", 100), ("rare", 2)])).unwrap().is_some());
    }
}
