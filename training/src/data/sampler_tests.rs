//! The sampler draws what its configuration says.

use super::*;
use crate::config::{CorporaConfig, SamplingConfig};
use crate::data::shard;

fn config(english_share: f64, pair_exponent: f64) -> Config {
    let mut config: Config = toml::from_str(include_str!("../../configs/ems-small.toml")).unwrap();
    config.sampling = SamplingConfig { pair_exponent, english_share };
    config.corpora = CorporaConfig { default: 1.0, weights: [("words".to_owned(), 0.25)].into() };
    config
}

fn shards(folder: &Path, corpora: &[(&str, &[&str], usize)]) {
    for (name, codes, rows) in corpora {
        let languages: Vec<_> = codes.iter().map(|code| Language::parse(code).unwrap()).collect();
        let columns: Vec<_> = (0..codes.len()).map(|column| vec![vec![column as u16 + 2; 3]; *rows]).collect();
        shard::write(&folder.join(format!("{name}.shard")), name, name, &languages, &columns).unwrap();
    }
}

#[test]
fn the_same_step_gives_the_same_batch_and_another_step_another() {
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("a", &["de", "en", "fr"], 100)]);
    let sampler = Sampler::open(&config(0.5, 0.6), folder.path()).unwrap();
    assert_eq!(sampler.batch(7, 20, 64, 0.3), sampler.batch(7, 20, 64, 0.3));
    assert_ne!(sampler.batch(7, 20, 64, 0.3), sampler.batch(8, 20, 64, 0.3));
}

#[test]
fn english_has_its_share_of_the_pairs() {
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("a", &["de", "en", "fr", "it", "ru"], 50)]);
    let sampler = Sampler::open(&config(0.75, 0.6), folder.path()).unwrap();
    let english = Language::parse("en").unwrap().index() as i64;
    let batch = sampler.batch(1, 4000, 64, 0.0);
    let with = batch.iter().filter(|(a, b)| a.language == english || b.language == english).count();
    assert!((0.72..0.78).contains(&(with as f64 / 4000.0)), "{with} of 4000");
}

#[test]
fn corpora_and_language_pairs_are_weighted_as_computed_by_hand() {
    // de-en: 400 x 0.25 + 100 = 200 -> 200^0.5; en-fr: 50 -> 50^0.5; so de-en has 2/3, and each of its corpora half of that.
    let folder = tempfile::tempdir().unwrap();
    shards(folder.path(), &[("words", &["de", "en"], 400), ("talk", &["de", "en"], 100), ("other", &["en", "fr"], 50)]);
    let sampler = Sampler::open(&config(1.0, 0.5), folder.path()).unwrap();
    let mut before = 0.0;
    for (unit, sum) in sampler.units.iter().zip(&sampler.cumulative) {
        assert!((sum - before - 1.0 / 3.0).abs() < 1e-9, "{}", sampler.shards[unit.shard].name);
        before = *sum;
    }
}

#[test]
fn a_folder_without_pairs_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Sampler::open(&config(1.0, 0.5), folder.path()), Err(Error::NoData { .. })));
}
