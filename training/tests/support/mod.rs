//! A tiny run: few tokens, few pairs, a small encoder.

#![allow(dead_code, reason = "each test target uses its part")]

use std::path::Path;
use std::sync::Arc;

use dragoman::domain::Language;
use dragoman_training::config::{Config, EncoderKind, Norm};
use dragoman_training::data::shard;
use dragoman_training::train::Options;
use tch::Device;

/// Number of token ids in the tiny run.
pub const VOCABULARY: i64 = 50;

/// A configuration with one stage.
pub fn config(kind: EncoderKind, norm: Norm, steps: u64) -> Config {
    let mut config: Config = toml::from_str(include_str!("../../configs/smoke.toml")).unwrap();
    config.model.norm = norm;
    config.stages.truncate(1);
    let stage = &mut config.stages[0];
    stage.encoder = kind;
    stage.steps = steps;
    config
}

/// Writes sixteen pairs of a made-up language pair whose words translate one to one: token t of one is t + 24 of the other.
pub fn write_shard(folder: &Path) {
    let languages = ["de", "en"].map(|code| Language::parse(code).unwrap());
    let left: Vec<Vec<u16>> = (0..16u16).map(|row| vec![2 + row % 4, 6 + row / 4, 10 + (row * 7) % 14]).collect();
    let right = left.iter().map(|ids| ids.iter().rev().map(|id| id + 24).collect()).collect();
    shard::write(&folder.join("tiny.de-en.shard"), "tiny", "tiny.de-en", &languages, &[left, right]).unwrap();
}

/// The paths and settings of the tiny run.
pub fn options(data: &Path, run: &Path) -> Options {
    Options {
        data: data.to_owned(),
        run: run.to_owned(),
        vocabulary: VOCABULARY,
        augmenter: None,
        device: Device::Cpu,
        checkpoint_every: std::time::Duration::from_secs(3600),
        stop_after_steps: None,
        stop: Arc::default(),
    }
}
