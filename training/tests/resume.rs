//! A run that was stopped and went on ends where an unbroken one ends.

mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

use dragoman_training::checkpoint;
use dragoman_training::config::{EncoderKind, Norm};
use dragoman_training::train::{self, Options};
use tch::{Device, Kind};

/// libtorch has one random generator for the whole process: runs side by side would draw each other's numbers.
static GENERATOR: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_resumed_run_equals_an_unbroken_one() {
    let _alone = alone();
    let data = tempfile::tempdir().unwrap();
    support::write_shard(data.path());
    let mut config = support::config(EncoderKind::Transformer, Norm::Pre, 8);
    // Dropout draws random numbers, so it shows whether those are resumed too.
    config.stages[0].dropout = 0.1;
    config.stages[0].token_dropout = 0.2;
    tch::set_num_threads(1);
    let unbroken = tempfile::tempdir().unwrap();
    train::train(&config, &support::options(data.path(), unbroken.path())).unwrap();
    let broken = tempfile::tempdir().unwrap();
    let stop = Options { stop_after_steps: Some(3), ..support::options(data.path(), broken.path()) };
    train::train(&config, &stop).unwrap();
    train::train(&config, &support::options(data.path(), broken.path())).unwrap();
    let load = |folder: &std::path::Path| train::load_weights(&checkpoint::path(folder), Device::Cpu).unwrap();
    let (expect, got) = (load(unbroken.path()), load(broken.path()));
    for (name, tensor) in expect.iter() {
        let difference = (tensor - got.get(name)).abs().max().to_kind(Kind::Double).double_value(&[]);
        assert!(difference == 0.0, "{name} differs by {difference}");
    }
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
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(log.lines().last().unwrap().starts_with("smoke,5,"), "{log}");
}

#[test]
fn a_torn_checkpoint_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = checkpoint::path(folder.path());
    std::fs::write(&path, b"not a checkpoint").unwrap();
    assert!(checkpoint::load(&path, Device::Cpu).is_err());
}
