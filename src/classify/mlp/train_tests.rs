//! Tests of training.

use std::sync::atomic::AtomicUsize;

use super::*;
use crate::domain::Activation;

/// Returns directions in the plane, within 30 degrees of 0, 120 and 240 degrees, and their classes.
fn fans(count: u32) -> (Vec<f32>, Vec<u32>) {
    let classes: Vec<u32> = (0..count).map(|number| number % 3).collect();
    let angle = |number: u32| ((number * 7 % 61) as f32 - 30.0 + (number % 3) as f32 * 120.0).to_radians();
    ((0..count).map(angle).flat_map(|angle| [angle.cos(), angle.sin()]).collect(), classes)
}

/// Uses the last third for validation.
fn last_third(count: u32) -> Split {
    Split { train: (0..count - count / 3).collect(), validation: (count - count / 3..count).collect() }
}

fn quick() -> MlpSettings {
    MlpSettings { learning_rate: 0.02, epochs_max: 30, patience: 5, runs: 2, ..MlpSettings::default() }
}

fn train(
    embeddings: &[f32],
    targets: Targets<'_>,
    split: &Split,
    parameters: &MlpSettings,
    threads: usize,
) -> Result<Trained, ClassifyError> {
    let training = Training { embeddings, dimension: 2, targets, labels: 3, split, parameters, threads };
    training.train(&|| false)
}

fn predicted(mlp: &Mlp, embeddings: &[f32]) -> Vec<u32> {
    mlp.logits(embeddings).unwrap().chunks_exact(3).map(|logits| predicted_labels(TargetKind::Class, logits)[0]).collect()
}

#[test]
fn a_separable_problem_is_solved() {
    let (embeddings, classes) = fans(180);
    let (fresh, fresh_classes) = fans(61);
    for activation in [Activation::Tanh, Activation::Relu] {
        let parameters = MlpSettings { activation, ..quick() };
        let trained = train(&embeddings, Targets::Classes(&classes), &last_third(180), &parameters, 1).unwrap();
        let best = trained.into_best();
        assert_eq!(best.best_epoch.validation.unwrap().quality, 1.0);
        assert_eq!(predicted(&best.mlp, &fresh), fresh_classes, "{activation:?}");
        let probabilities = best.mlp.probabilities(&fresh).unwrap();
        assert!(probabilities.chunks_exact(3).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5));
    }
}

#[test]
fn each_label_of_a_set_is_learned_independently() {
    // Label 0 is right of the origin, label 1 above it, label 2 nowhere: a direction has up to two of them.
    let embeddings: Vec<f32> =
        (0..180).map(|number| (number as f32 * 37.0 + 0.5).to_radians()).flat_map(|a| [a.cos(), a.sin()]).collect();
    let set = |row: &[f32]| (0..2).filter(|axis| row[*axis as usize] > 0.0).collect::<Vec<u32>>();
    let sets: Vec<Vec<u32>> = embeddings.chunks_exact(2).map(set).collect();
    let trained = train(&embeddings, Targets::LabelSets(&sets), &last_third(180), &quick(), 1).unwrap();
    let best = trained.into_best();
    assert!(best.best_epoch.validation.unwrap().quality > 0.97, "{:?}", best.best_epoch);
    let [right, above, nowhere] = best.mlp.probabilities(&[0.6, -0.8]).unwrap()[..] else { panic!("not three labels") };
    assert!(right > 0.9 && above < 0.1 && nowhere < 0.1, "{right} {above} {nowhere}");
}

#[test]
fn indistinguishable_classes_stay_at_chance_accuracy() {
    // Every direction has both classes, so any prediction is correct half of the time.
    let (once, _) = fans(30);
    let classes: Vec<u32> = (0..60).map(|number| u32::from(number >= 30)).collect();
    let split = Split { train: (0..60).collect(), validation: (0..60).collect() };
    let trained = train(&[once.clone(), once].concat(), Targets::Classes(&classes), &split, &quick(), 1).unwrap();
    assert_eq!(trained.into_best().best_epoch.validation.unwrap().quality, 0.5);
}

#[test]
fn the_result_depends_on_the_seed_but_not_on_the_thread_count() {
    let (embeddings, classes) = fans(36);
    let run = |seed, threads| {
        let parameters = MlpSettings { seed, runs: 3, epochs_max: 4, ..quick() };
        train(&embeddings, Targets::Classes(&classes), &last_third(36), &parameters, threads).unwrap()
    };
    let first = run(7, 1);
    assert_eq!(first, run(7, 1));
    assert_eq!(first, run(7, 3));
    assert_eq!(first.runs[1].mlp, run(8, 2).runs[0].mlp);
    assert_ne!(first.runs[0].mlp, first.runs[1].mlp);
}

#[test]
fn training_stops_when_validation_stops_improving() {
    let (embeddings, classes) = fans(180);
    let parameters = MlpSettings { epochs_max: 100, patience: 3, runs: 1, ..quick() };
    let (split, targets, threads) = (last_third(180), Targets::Classes(&classes), 1);
    let training =
        Training { embeddings: &embeddings, dimension: 2, targets, labels: 3, split: &split, parameters: &parameters, threads };
    let epochs = AtomicUsize::new(0);
    let count = || {
        epochs.fetch_add(1, Ordering::Relaxed);
        false
    };
    let best_epoch = training.train(&count).unwrap().into_best().best_epoch;
    // All predictions are soon correct. Then follow three more epochs, each as good as the best, and the latest is kept.
    assert!(epochs.load(Ordering::Relaxed) < 60, "{best_epoch:?}");
    assert_eq!(best_epoch.epoch + 1, epochs.into_inner());
    assert_eq!(best_epoch.validation.unwrap().quality, 1.0);
}

#[test]
fn without_validation_the_last_epoch_is_kept() {
    let (embeddings, classes) = fans(30);
    let split = Split { train: (0..30).collect(), validation: Vec::new() };
    let parameters = MlpSettings { epochs_max: 8, patience: 1, ..quick() };
    let trained = train(&embeddings, Targets::Classes(&classes), &split, &parameters, 1).unwrap();
    assert!(trained.runs.iter().all(|run| run.best_epoch.epoch == 7 && run.best_epoch.validation.is_none()));
    let losses = trained.runs.iter().map(|run| run.best_epoch.training_loss).collect::<Vec<_>>();
    assert!(losses[trained.best] <= losses[1 - trained.best]);
}

#[test]
fn the_better_run_has_the_higher_quality_then_the_lower_loss() {
    let (embeddings, classes) = fans(30);
    let trained = train(&embeddings, Targets::Classes(&classes), &last_third(30), &quick(), 1).unwrap();
    let with = |quality, loss| {
        let mut run = trained.runs[0].clone();
        run.best_epoch.validation = Some(ValidationScore { quality, loss });
        run
    };
    assert!(with(0.9, 2.0).is_better_than(&with(0.8, 1.0)));
    assert!(with(0.9, 1.0).is_better_than(&with(0.9, 2.0)));
    assert!(!with(0.9, 1.0).is_better_than(&with(0.9, 1.0)));
}

#[test]
fn training_asks_after_each_epoch_whether_to_stop() {
    let (embeddings, classes) = fans(30);
    let (split, parameters) = (last_third(30), MlpSettings { runs: 1, ..quick() });
    let targets = Targets::Classes(&classes);
    let threads = 1;
    let training =
        Training { embeddings: &embeddings, dimension: 2, targets, labels: 3, split: &split, parameters: &parameters, threads };
    let checks = AtomicUsize::new(0);
    assert_eq!(training.train(&|| checks.fetch_add(1, Ordering::Relaxed) == 2), Err(ClassifyError::Stopped));
    assert_eq!(checks.into_inner(), 3);
}

#[test]
fn one_adam_step_matches_a_hand_calculation() {
    // After one step, both bias-corrected moments equal the gradient, so each parameter moves by the learning rate against its
    // sign.
    let (embeddings, classes) = fans(3);
    let (split, parameters) = (Split { train: vec![0, 1, 2], validation: Vec::new() }, quick());
    let (targets, threads) = (Targets::Classes(&classes), 1);
    let training =
        Training { embeddings: &embeddings, dimension: 2, targets, labels: 3, split: &split, parameters: &parameters, threads };
    let mut learner = Learner::new(&training, 1);
    let before = learner.parameters.clone();
    learner.gradient.iter_mut().enumerate().for_each(|(number, slope)| *slope = [0.5, -3.0, 0.0][number % 3]);
    learner.step(0.02);
    for (number, (before, after)) in before.iter().zip(&learner.parameters).enumerate() {
        assert!((after - before - [-0.02, 0.02, 0.0][number % 3]).abs() < 1e-5, "{number}: {before} {after}");
    }
}

#[test]
fn errors_name_the_invalid_input() {
    let (embeddings, classes) = fans(30);
    let split = last_third(30);
    #[track_caller]
    fn check(result: Result<Trained, ClassifyError>, expect: &str) {
        assert_eq!(result.unwrap_err().to_string(), expect);
    }
    let with = |parameters: MlpSettings| train(&embeddings, Targets::Classes(&classes), &split, &parameters, 1);
    check(with(MlpSettings { hidden: Some(0), ..quick() }), "hidden: expected 1 to 4096, got 0");
    check(with(MlpSettings { dropout: 1.0, ..quick() }), "dropout: expected a share from 0 to below 1, got 1");
    check(
        with(MlpSettings { learning_rate: f32::NAN, ..quick() }),
        "learning_rate: expected a number above 0, at most 1, got NaN",
    );
    check(with(MlpSettings { runs: 101, ..quick() }), "runs: expected 1 to 100, got 101");
    let targets = Targets::Classes(&classes);
    check(train(&embeddings[1..], targets, &split, &quick(), 1), "embeddings: expected 60 values, got 59");
    let nan = [&embeddings[..8], &[f32::NAN], &embeddings[9..]].concat();
    check(train(&nan, targets, &split, &quick(), 1), "the embedding of example 4 is not finite");
    let other: Vec<u32> = classes.iter().map(|class| class + 1).collect();
    let expect = "example 2 has label number 3, but there are only 3 labels";
    check(train(&embeddings, Targets::Classes(&other), &split, &quick(), 1), expect);
    let out_of_range = Split { train: vec![0, 30], validation: Vec::new() };
    check(train(&embeddings, targets, &out_of_range, &quick(), 1), "split: expected numbers of examples below 30, got 30");
    let nothing = Split { train: Vec::new(), validation: vec![1] };
    check(train(&embeddings, targets, &nothing, &quick(), 1), "examples to learn from: expected 1 to 4294967295, got 0");
}

#[test]
fn a_saved_classifier_returns_the_same_probabilities() {
    let (embeddings, classes) = fans(30);
    let trained = train(&embeddings, Targets::Classes(&classes), &last_third(30), &quick(), 1).unwrap();
    let mlp = trained.into_best().mlp.with_temperature(2.0).unwrap();
    let read = Mlp::from_bytes(&mlp.to_bytes()).unwrap();
    assert_eq!(read.probabilities(&embeddings), mlp.probabilities(&embeddings));
    assert_eq!((read.dimension(), read.labels(), read.target_kind, read.temperature()), (2, 3, TargetKind::Class, 2.0));
    // Twice the temperature halves the logits.
    let cold = mlp.clone().with_temperature(1.0).unwrap();
    let (hot, cold) = (mlp.probabilities(&embeddings[..2]).unwrap(), cold.probabilities(&embeddings[..2]).unwrap());
    assert!(((hot[0] / hot[1]).ln() * 2.0 - (cold[0] / cold[1]).ln()).abs() < 1e-3, "{hot:?} {cold:?}");
    assert!(mlp.with_temperature(0.0).is_err());
}
