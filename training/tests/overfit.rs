//! A small encoder learns one batch by heart with each objective: if it cannot, something between the data and the loss is broken.

mod support;

use dragoman_training::config::{EncoderKind, Norm, StageConfig};
use dragoman_training::data::batch::Batch;
use dragoman_training::data::sampler::{Sampler, Sentence};
use dragoman_training::model::parameters::Parameters;
use dragoman_training::optim::Adam;
use dragoman_training::train::{self, Losses};
use tch::Device;

/// Trains on all sixteen pairs at once and gives the losses of the last step.
fn overfit(kind: EncoderKind, norm: Norm, steps: u64, change: impl Fn(&mut StageConfig)) -> Losses {
    let folder = tempfile::tempdir().unwrap();
    support::write_shard(folder.path());
    let mut config = support::config(kind, norm, steps);
    change(&mut config.stages[0]);
    let stage = config.stages[0].clone();
    let mut pairs: Vec<(Sentence, Sentence)> = Vec::new();
    let sampler = Sampler::open(&config, folder.path()).unwrap();
    for pair in sampler.batch(0, 4000, 64, 0.0) {
        let pair = if pair.0.ids[0] < 26 { pair } else { (pair.1, pair.0) };
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    assert_eq!(pairs.len(), 16);
    tch::manual_seed(1);
    let mut parameters = Parameters::new(Device::Cpu);
    train::create(&mut parameters, &config, &stage, support::VOCABULARY);
    let batch = Batch::new(&pairs, 64);
    let mut adam = Adam::default();
    for _ in 0..steps {
        train::losses(&parameters, &config, &stage, &batch).total.backward();
        adam.step(&parameters, stage.learning_rate, &stage);
    }
    train::losses(&parameters, &config, &stage, &batch)
}

fn check(name: &str, got: &tch::Tensor, below: f64) {
    let got = got.double_value(&[]);
    assert!(got < below, "{name} is {got} after overfitting, expected below {below}");
}

#[test]
fn a_bag_of_tokens_learns_a_batch_by_contrast() {
    check("contrastive", &overfit(EncoderKind::Bag, Norm::Pre, 150, |_| {}).contrastive, 0.02);
}

#[test]
fn a_pre_norm_encoder_learns_a_batch_by_contrast_through_the_projection() {
    let losses = overfit(EncoderKind::Transformer, Norm::Pre, 150, |stage| stage.projection = true);
    check("contrastive", &losses.contrastive, 0.02);
}

#[test]
fn a_post_norm_encoder_learns_a_batch_with_the_joint_objective() {
    let joint = |stage: &mut StageConfig| {
        stage.projection = true;
        stage.xtr_weight = 1.0;
        stage.xtr_pairs = 16;
    };
    let losses = overfit(EncoderKind::Transformer, Norm::Post, 300, joint);
    check("contrastive", &losses.contrastive, 0.02);
    check("xtr", &losses.xtr, 0.1);
}

#[test]
fn bfloat16_learns_it_too() {
    check("contrastive", &overfit(EncoderKind::Transformer, Norm::Post, 200, |stage| stage.bf16 = true).contrastive, 0.05);
}
