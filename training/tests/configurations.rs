//! The shipped configurations: all are accepted, and each row of the ablation trains.

mod support;

use std::path::{Path, PathBuf};

use dragoman_training::config::{Config, StageConfig};
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

fn ablation() -> Vec<(PathBuf, Config)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/ablation");
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
fn every_row_of_the_ablation_takes_a_step() {
    let data = tempfile::tempdir().unwrap();
    support::write_shard(data.path());
    for (path, config) in ablation() {
        let run = tempfile::tempdir().unwrap();
        let options = Options { stop_after_steps: Some(1), ..support::options(data.path(), run.path()) };
        train::train(&config, &options).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let log = std::fs::read_to_string(run.path().join("loss.csv")).unwrap();
        assert_eq!(log.lines().count(), 2, "{}: {log}", path.display());
    }
}

#[test]
fn rows_of_the_ablation_differ_in_their_objectives_alone() {
    let without_objectives = |config: &Config| {
        let clear = |stage: &StageConfig| StageConfig {
            contrastive: None,
            additive_margin: None,
            late_interaction: None,
            vocabulary_head: None,
            xtr: None,
            unified_generative: None,
            ..stage.clone()
        };
        Config { name: String::new(), stages: config.stages.iter().map(clear).collect(), ..config.clone() }
    };
    let rows = ablation();
    let (_, full) = rows.iter().find(|(path, _)| path.ends_with("ems.toml")).unwrap();
    assert_eq!(rows.len(), 10);
    for (path, config) in &rows {
        assert_eq!(without_objectives(config), without_objectives(full), "{}", path.display());
        assert_eq!(config.name, format!("ablation-{}", path.file_stem().unwrap().to_str().unwrap()));
    }
}
