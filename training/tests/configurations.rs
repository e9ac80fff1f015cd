//! The shipped configurations: all are valid, and each row of the papers trains.

mod support;

use std::path::{Path, PathBuf};

use dragoman_training::config::{Config, ModelConfig, StageConfig};
use dragoman_training::train::{self, Options};

/// All configuration files below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn papers() -> Vec<(PathBuf, Config)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/papers");
    files(&folder).into_iter().map(|path| (path.clone(), Config::read(&path).unwrap())).collect()
}

#[test]
fn every_configuration_is_accepted() {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("configs"));
    assert!(files.iter().any(|path| path.ends_with("ems-62.toml")));
    for path in files {
        Config::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[test]
fn every_paper_configuration_trains_for_one_step() {
    let (data, frozen) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    support::write_shard(data.path());
    let rows = papers();
    // Rows with an anchor or a teacher learn from the encoders of other rows, made here by one training step.
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/papers");
    let frozen_of = |name: &str| {
        let (path, mut config) = rows.iter().find(|(path, _)| path.ends_with(name)).unwrap().clone();
        config.stages[0].steps = 1;
        let run = frozen.path().join(path.file_stem().unwrap());
        train::train(&config, &support::options(data.path(), &run)).unwrap();
        (configs.join(name), run.join(format!("{}.safetensors", config.stages[0].name)))
    };
    let (anchor, teacher) = (frozen_of("dueam/anchor.toml"), frozen_of("ems/ems.toml"));
    for (path, mut config) in rows.clone() {
        if let Some(it) = &mut config.stages[0].anchor {
            (it.config, it.weights) = anchor.clone();
        }
        if let Some(it) = &mut config.stages[0].distillation {
            (it.config, it.weights) = teacher.clone();
        }
        let run = tempfile::tempdir().unwrap();
        let options = Options { stop_after_steps: Some(1), ..support::options(data.path(), run.path()) };
        train::train(&config, &options).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let log = std::fs::read_to_string(run.path().join("loss.csv")).unwrap();
        assert_eq!(log.lines().count(), 2, "{}: {log}", path.display());
    }
}

#[test]
fn configurations_of_a_paper_differ_only_in_objectives_and_layers() {
    let without_objectives = |config: &Config| {
        let clear = |stage: &StageConfig| StageConfig {
            contrastive: None,
            additive_margin: None,
            vocabulary_head: None,
            xtr: None,
            unified_generative: None,
            masked_word: None,
            alignment: None,
            similarity: None,
            anchor: None,
            translation_mining: None,
            distillation: None,
            ..stage.clone()
        };
        let model = ModelConfig { layers: 0, ..config.model.clone() };
        Config { name: String::new(), model, stages: config.stages.iter().map(clear).collect(), ..config.clone() }
    };
    let rows = papers();
    for (paper, full, count) in
        [("ems", "ems.toml", 12), ("lightweight", "ugt-alignment-similarity.toml", 10), ("dueam", "unsupervised.toml", 5)]
    {
        let of_paper: Vec<_> = rows.iter().filter(|(path, _)| path.parent().unwrap().ends_with(paper)).collect();
        let (_, full) = of_paper.iter().find(|(path, _)| path.ends_with(full)).unwrap();
        assert_eq!(of_paper.len(), count, "{paper}");
        for (path, config) in of_paper {
            assert_eq!(config.name, format!("{paper}-{}", path.file_stem().unwrap().to_str().unwrap()));
            // The anchor is a separate encoder.
            if !path.ends_with("anchor.toml") {
                assert_eq!(without_objectives(config), without_objectives(full), "{}", path.display());
            }
        }
    }
}

#[test]
fn paper_configurations_predict_tokens_for_every_pair() {
    let mut heads = 0;
    for (path, config) in papers() {
        for stage in config.stages {
            if let Some(head) = stage.vocabulary_head {
                assert_eq!(head.pairs_max, stage.batch_pairs, "{}", path.display());
                heads += 1;
            }
        }
    }
    assert!(heads > 0, "no configuration predicts tokens");
}
