//! The shipped recipe in short: `ems-small.toml` with fewer pieces, steps and values goes from text to a bundle that finds
//! translations, and gives the same weights when it is run twice.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dragoman_training::commands::bundle_arguments::BundleArguments;
use dragoman_training::commands::export::ExportArguments;
use dragoman_training::config::{Config, EncoderKind};
use dragoman_training::data;
use dragoman_training::data::augmenter::Augmenter;
use dragoman_training::eval::retrieval::precision_at_1;
use dragoman_training::eval::{SentenceEncoder as _, TextEncoder};
use dragoman_training::export::NewBundle;
use dragoman_training::train::{self, Options, Outcome};
use tch::Device;

const SUBJECTS: [[&str; 3]; 4] = [
    ["the dog", "der Hund", "le chien"],
    ["the cat", "die Katze", "le chat"],
    ["my brother", "mein Bruder", "mon frère"],
    ["the teacher", "der Lehrer", "le professeur"],
];
const VERBS: [[&str; 3]; 3] = [["sees", "sieht", "voit"], ["likes", "mag", "aime"], ["finds", "findet", "trouve"]];
const OBJECTS: [[&str; 3]; 4] = [
    ["the house", "das Haus", "la maison"],
    ["the river", "den Fluss", "la rivière"],
    ["a book", "ein Buch", "un livre"],
    ["the bread", "das Brot", "le pain"],
];

/// All sentences in English, German or French: language 0, 1 or 2.
fn sentences(language: usize) -> Vec<String> {
    let mut sentences = Vec::new();
    for subject in SUBJECTS {
        for verb in VERBS {
            for object in OBJECTS {
                sentences.push(format!("{} {} {}.", subject[language], verb[language], object[language]));
            }
        }
    }
    sentences
}

/// The shipped configuration, small enough for a test.
fn config() -> Config {
    let mut config: Config = toml::from_str(include_str!("../configs/ems-small.toml")).unwrap();
    config.tokenizer.vocabulary = 120;
    config.tokenizer.candidate_count_min = 2;
    config.sampling.run_pairs = 8;
    config.model.dimension = 32;
    config.model.feed_forward = 64;
    for stage in &mut config.stages {
        stage.steps = if stage.encoder == EncoderKind::Bag { 150 } else { 60 };
        stage.batch_pairs = 24;
        stage.warmup_steps = 5;
        stage.learning_rate *= 4.0;
    }
    config.check().unwrap();
    config
}

fn train(config: &Config, folder: &Path, run: &str) {
    let tokenizer = dragoman::text::Tokenizer::load(&folder.join("tokenizer.json")).unwrap();
    let options = Options {
        data: folder.join("shards"),
        run: folder.join(run),
        vocabulary: tokenizer.vocabulary_size() as i64,
        augmenter: Some(Arc::new(Augmenter::new(tokenizer))),
        device: Device::Cpu,
        checkpoint_every: Duration::from_secs(3600),
        stop_after_steps: None,
        stop: Default::default(),
    };
    assert_eq!(train::train(config, &options).unwrap(), Outcome::Finished);
}

#[test]
fn the_recipe_is_reproducible_and_its_bundle_finds_translations() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let config = config();
    std::fs::write(path("config.toml"), toml::to_string(&config).unwrap()).unwrap();
    std::fs::create_dir(path("raw")).unwrap();
    for (language, code) in ["en", "de", "fr"].into_iter().enumerate() {
        std::fs::write(path(&format!("raw/tiny.{code}.txt")), sentences(language).join("\n")).unwrap();
    }
    data::tokenizer::train(&config, &path("raw"), &path("tokenizer.json")).unwrap();
    data::prepare::prepare(&path("raw"), &[], &path("tokenizer.json"), &path("shards")).unwrap();
    train(&config, folder.path(), "first");
    train(&config, folder.path(), "again");
    let weights = |run: &str| std::fs::read(path(run).join("retrieve.safetensors")).unwrap();
    assert!(weights("first") == weights("again"), "two runs with the same seed gave different weights");

    let bundle_arguments = BundleArguments {
        config: path("config.toml"),
        weights: path("first/retrieve.safetensors"),
        new_bundle: NewBundle { bundle_version: "0.0.1".to_owned(), out: path("bundle"), relevance: None, notes: None },
        calibration: Some(path("raw")),
        evaluation: None,
    };
    let export = ExportArguments {
        bundle_arguments,
        tokenizer: path("tokenizer.json"),
        corpora: None,
        baseline_weights: Some(path("first/bag.safetensors")),
        previous: None,
        encoder_of: None,
        language_head: None,
    };
    export.run().unwrap();
    let mut encoder = TextEncoder::open_bundle(&path("bundle"), 1).unwrap();
    let [english, german] = [0, 1].map(|language| encoder.encode(&sentences(language)).unwrap());
    let found = precision_at_1(&german, &english).unwrap();
    // Chance would be one in 48.
    assert!(found.forward >= 80.0 && found.backward >= 80.0, "{found:?}");
}
