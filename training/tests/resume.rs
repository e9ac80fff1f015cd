//! A run that was stopped and resumed ends with the same weights as an uninterrupted one.

mod support;

use std::path::Path;
use std::sync::atomic::Ordering;

use dragoman_training::checkpoint::{self, State};
use dragoman_training::config::{
    Averaging, Config, DistillationConfig, EncoderKind, HardNegativesConfig, Norm, ObjectiveConfig, QuestionEncoderConfig,
    TeacherSimilarityConfig, VocabularyHeadConfig,
};
use dragoman_training::error::Error;
use dragoman_training::train::{self, Options, Outcome};
use parking_lot::{Mutex, MutexGuard};
use tch::{Device, Kind, TchError, Tensor};

/// libtorch has one random generator per process, so concurrent runs would draw each other's numbers.
static GENERATOR: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    GENERATOR.lock()
}

/// Trains `config` in one call, and in calls that stop after three steps each; all weights must be equal.
fn check_resumed(config: &Config) {
    let _alone = alone();
    let data = tempfile::tempdir().unwrap();
    support::write_shard(data.path());
    tch::set_num_threads(1);
    let unbroken = tempfile::tempdir().unwrap();
    train::train(config, &support::options(data.path(), unbroken.path())).unwrap();
    let broken = tempfile::tempdir().unwrap();
    let stop = Options { stop_after_steps: Some(3), ..support::options(data.path(), broken.path()) };
    train::train(config, &stop).unwrap();
    train::train(config, &stop).unwrap();
    assert_eq!(train::train(config, &support::options(data.path(), broken.path())).unwrap(), Outcome::Finished);
    let file = format!("{}.safetensors", config.stages.last().unwrap().name);
    let load = |folder: &Path| train::load_weights(&folder.join(&file), Device::Cpu).unwrap();
    let (expect, got) = (load(unbroken.path()), load(broken.path()));
    for (name, tensor) in expect.iter() {
        let difference = (tensor - got.get(name)).abs().max().to_kind(Kind::Double).double_value(&[]);
        assert!(difference == 0.0, "{name} differs by {difference}");
    }
}

/// Dropout draws random numbers, so it shows whether those are resumed too.
fn random(norm: Norm) -> Config {
    let mut config = support::config(EncoderKind::Transformer, norm, 8);
    config.stages[0].dropout = 0.1;
    config.stages[0].token_dropout = 0.2;
    config
}

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    check_resumed(&random(Norm::Pre));
}

#[test]
fn a_resumed_run_masks_the_same_tokens_and_averages_the_same_weights() {
    for averaging in [Averaging::Exponential { decay: 0.9 }, Averaging::LastPart { share: 0.7 }] {
        let mut config = random(Norm::Post);
        let stage = &mut config.stages[0];
        stage.averaging = Some(averaging);
        stage.unified_generative = Some(ObjectiveConfig { weight: 1.0 });
        stage.vocabulary_head = Some(VocabularyHeadConfig { pairs_max: 12, language_token: true, shared_embedding: false });
        check_resumed(&config);
    }
}

#[test]
fn a_run_resumed_between_stages_equals_an_uninterrupted_one() {
    let mut config = random(Norm::Post);
    let mut first = config.stages[0].clone();
    (first.name, first.encoder, first.steps) = ("bag".to_owned(), EncoderKind::Bag, 3);
    config.stages.insert(0, first);
    check_resumed(&config);
}

#[test]
fn a_resumed_run_mines_the_same_hard_negatives() {
    let mut config = random(Norm::Pre);
    config.sampling.run_pairs = 4;
    let mut first = config.stages[0].clone();
    (first.name, first.encoder, first.steps) = ("bag".to_owned(), EncoderKind::Bag, 2);
    config.stages.insert(0, first);
    config.stages[1].hard_negatives = Some(HardNegativesConfig { stage: "bag".to_owned(), pool: 4 });
    check_resumed(&config);
}

#[test]
fn a_resumed_run_moves_the_question_encoder_also_in_steps_without_questions() {
    let mut config = random(Norm::Pre);
    let stage = &mut config.stages[0];
    // Two of the first eight batches have no question.
    (stage.batch_pairs, stage.weight_decay) = (4, 0.1);
    stage.question_encoder = Some(QuestionEncoderConfig { translation_share: 0.3 });
    check_resumed(&config);
}

#[test]
fn a_finished_stage_and_its_checkpoint_contain_the_averaged_weights() {
    let _alone = alone();
    let data = tempfile::tempdir().unwrap();
    support::write_shard(data.path());
    let run = tempfile::tempdir().unwrap();
    let mut config = support::config(EncoderKind::Bag, Norm::Pre, 4);
    config.stages[0].averaging = Some(Averaging::LastPart { share: 0.5 });
    let mut second = config.stages[0].clone();
    (second.name, second.steps) = ("second".to_owned(), 2);
    config.stages.push(second);
    let tokens = |file: &str| {
        let weights = train::load_weights(&run.path().join(file), Device::Cpu).unwrap();
        weights.get("embeddings.token.weight").detach()
    };
    // Averages steps 3 and 4 by hand: the checkpoint of a run that stops after a step has the weights of that step.
    let mut by_hand = Vec::new();
    let step = Options { stop_after_steps: Some(1), ..support::options(data.path(), run.path()) };
    for _ in 0..3 {
        train::train(&config, &step).unwrap();
        by_hand.push(tokens("checkpoint.safetensors"));
    }
    let stopped = Outcome::Stopped { stage: "second".to_owned(), step: 0 };
    assert_eq!(train::train(&config, &step).unwrap(), stopped);
    let averaged = tokens("smoke.safetensors");
    let unaveraged = &averaged * 2.0 - &by_hand[2];
    config.stages[0].averaging = None;
    let plain = tempfile::tempdir().unwrap();
    train::train(&config, &support::options(data.path(), plain.path())).unwrap();
    let expect = train::load_weights(&plain.path().join("smoke.safetensors"), Device::Cpu).unwrap();
    let difference = |a: &Tensor, b: &Tensor| (a - b).abs().max().to_kind(Kind::Double).double_value(&[]);
    assert!(difference(&unaveraged, expect.get("embeddings.token.weight")) < 1e-5);
    assert!(difference(&averaged, &by_hand[2]) > 1e-4);
    // The second stage starts from the average.
    assert_eq!(difference(&averaged, &tokens("checkpoint.safetensors")), 0.0);
}

#[test]
fn a_stopped_stage_loads_its_average_so_far_and_can_be_shortened() {
    let _alone = alone();
    let data = tempfile::tempdir().unwrap();
    support::write_shard(data.path());
    let run = tempfile::tempdir().unwrap();
    let mut config = support::config(EncoderKind::Bag, Norm::Pre, 8);
    config.stages[0].averaging = Some(Averaging::Exponential { decay: 0.5 });
    let mut second = config.stages[0].clone();
    (second.name, second.steps) = ("second".to_owned(), 2);
    config.stages.push(second);
    let stop = Options { stop_after_steps: Some(4), ..support::options(data.path(), run.path()) };
    train::train(&config, &stop).unwrap();
    let path = checkpoint::path(run.path());
    let state = checkpoint::load(&path, Device::Cpu).unwrap();
    let learned = train::load_weights(&path, Device::Cpu).unwrap();
    let learned = learned.get("embeddings.token.weight");
    assert_eq!(learned, &state.average.weights["embeddings.token.weight"]);
    assert_ne!(learned, state.parameters.get("embeddings.token.weight"));

    config.stages[0].steps = 2;
    assert_eq!(train::train(&config, &stop).unwrap(), Outcome::Finished);
    let ended = train::load_weights(&run.path().join("smoke.safetensors"), Device::Cpu).unwrap();
    assert_eq!(ended.get("embeddings.token.weight"), learned);
}

#[test]
fn a_missing_teacher_fails_before_the_first_step() {
    let data = tempfile::tempdir().unwrap();
    support::write_shard(data.path());
    let run = tempfile::tempdir().unwrap();
    let mut config = support::config(EncoderKind::Bag, Norm::Pre, 4);
    let mut taught = config.stages[0].clone();
    taught.name = "taught".to_owned();
    taught.distillation = Some(DistillationConfig {
        config: "nowhere/teacher.toml".into(),
        weights: "nowhere/encoder.safetensors".into(),
        translations_only: false,
        embedding: None,
        similarity: Some(TeacherSimilarityConfig { weight: 1.0, temperature: 0.05 }),
    });
    config.stages.push(taught);
    let error = train::train(&config, &support::options(data.path(), run.path())).unwrap_err();
    assert!(error.to_string().contains("nowhere/teacher.toml"), "{error}");
    assert!(!checkpoint::path(run.path()).exists());
}

#[test]
fn a_stop_request_leaves_a_checkpoint_to_resume_from() {
    let _alone = alone();
    let data = tempfile::tempdir().unwrap();
    support::write_shard(data.path());
    let run = tempfile::tempdir().unwrap();
    let config = support::config(EncoderKind::Bag, Norm::Pre, 5);
    let options = support::options(data.path(), run.path());
    options.stop.store(true, Ordering::Relaxed);
    let stopped = Outcome::Stopped { stage: "smoke".to_owned(), step: 0 };
    assert_eq!(train::train(&config, &options).unwrap(), stopped);
    assert!(checkpoint::path(run.path()).is_file());
    options.stop.store(false, Ordering::Relaxed);
    assert_eq!(train::train(&config, &options).unwrap(), Outcome::Finished);
}

#[test]
fn a_finished_run_leaves_weights_per_stage_and_a_loss_log() {
    let _alone = alone();
    let data = tempfile::tempdir().unwrap();
    support::write_shard(data.path());
    let run = tempfile::tempdir().unwrap();
    train::train(&support::config(EncoderKind::Bag, Norm::Pre, 5), &support::options(data.path(), run.path())).unwrap();
    assert!(run.path().join("smoke.safetensors").is_file());
    let log = std::fs::read_to_string(run.path().join("loss.csv")).unwrap();
    assert!(log.starts_with("stage,step,contrastive,learning_rate,"), "{log}");
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(log.lines().last().unwrap().starts_with("smoke,5,"), "{log}");
    let report = std::fs::read_to_string(run.path().join("report.md")).unwrap();
    assert!(report.contains("| smoke | bag | 5 of 5 | 80 |") && report.contains("de 50.00, en 50.00"), "{report}");
    assert!(run.path().join("loss.svg").is_file());
}

#[test]
fn an_invalid_checkpoint_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = checkpoint::path(folder.path());
    let mut state = State::new(Device::Cpu);
    state.parameters.constant("embeddings.token.weight", &[support::VOCABULARY, 8], 0.5);
    checkpoint::save(&path, &state).unwrap();
    checkpoint::load(&path, Device::Cpu).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let load = || checkpoint::load(&path, Device::Cpu).unwrap_err();
    // Cut off in the header's length, in the header and in the weights.
    for length in [0, 4, 8, 40, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let error = load();
        assert!(matches!(error, Error::Torch(TchError::SafeTensorError { .. })), "{length} of {} bytes: {error}", whole.len());
    }
    let (tensor, position) = (Tensor::from_slice(&[0.5f32]), Tensor::from_slice(&[0i64; 4]));
    Tensor::write_safetensors(&[("weight/x", &tensor)], &path).unwrap();
    assert!(load().to_string().contains("has no position"), "{}", load());
    Tensor::write_safetensors(&[("weight/x", &tensor), ("first/x", &tensor), ("position", &position)], &path).unwrap();
    assert!(load().to_string().contains("one of x's two moments is missing"), "{}", load());
}
