//! A question encoder beside a frozen passage encoder: trained, added to a bundle, and run as the server would run it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;
#[path = "support/untrained.rs"]
mod untrained;

use std::path::PathBuf;

use dragoman::bundle::{Bundle, MODEL_CARD, TOKEN_TABLE, TOKENIZER};
use dragoman_training::commands::from_bundle::begin;
use dragoman_training::config::{Config, ContrastiveConfig, EncoderKind, Norm, RestingPassagesConfig};
use dragoman_training::error::Error;
use dragoman_training::eval::{SentenceEncoder as _, TextEncoder, TorchEncoder};
use dragoman_training::export::questions::{self, QuestionOptions};
use dragoman_training::export::{EncoderShape, EncoderWeights, NewBundle};
use dragoman_training::{data, train};
use tch::Device;
use untrained::{Model, alone, continued};

/// Like `continued`, but the next stage trains a question encoder.
fn asking(model: &Model, token_rate_scale: f64) -> Config {
    let mut config = continued(model);
    let stage = config.stages.last_mut().unwrap();
    stage.resting_passages = Some(RestingPassagesConfig { stage: "first".to_owned() });
    stage.contrastive = Some(ContrastiveConfig { weight: 1.0, temperature: 0.05, projection: false });
    (stage.xtr, stage.vocabulary_head, stage.token_rate_scale, stage.steps) = (None, None, token_rate_scale, 20);
    config
}

/// Trains a question encoder and adds it to the existing bundle; returns the path of the new one.
fn add_questions(model: &Model, config: &Config) -> Result<PathBuf, Error> {
    let (before, folder) = (model.path("models/tiny"), model.path("models/asking"));
    data::prepare::prepare(&model.path("raw"), &[], &before.join(TOKENIZER), &model.path("shards")).unwrap();
    begin(config, "first", &before, &model.path("run")).unwrap();
    let options = support::options(&model.path("shards"), &model.path("run"));
    {
        let _alone = alone();
        train::train(config, &train::Options { vocabulary: model.vocabulary as i64, ..options }).unwrap();
    }
    let parameters = train::load_weights(&model.path("run/next.safetensors"), Device::Cpu).unwrap();
    let shape = EncoderShape::new(&config.model, model.vocabulary, model.kind);
    let weights = EncoderWeights::from_tensors(shape, parameters.iter()).unwrap();
    std::fs::write(model.path("notes.md"), "Trained for a test.").unwrap();
    let notes = Some(model.path("notes.md"));
    let new_bundle = NewBundle { bundle_version: "0.2.0".to_owned(), out: folder.clone(), relevance: None, notes };
    let options = QuestionOptions {
        bundle: &before,
        new_bundle: &new_bundle,
        stage: (config, config.stages.last().unwrap()),
        calibration: &[],
        evaluation: Some(&model.path("evaluation")),
    };
    questions::add_questions(&options, &weights, &mut TorchEncoder::new(&parameters, &config.model))?;
    Ok(folder)
}

#[test]
fn adding_a_question_encoder_keeps_the_passage_embeddings() {
    let model = Model::new(EncoderKind::Transformer, Norm::Pre);
    let before = model.export().unwrap().bundle;
    let after = Bundle::open(&add_questions(&model, &asking(&model, 0.0)).unwrap()).unwrap();
    assert_eq!((after.fingerprint(), after.manifest.version.as_str()), (before.fingerprint(), "0.2.0"));
    let card = std::fs::read_to_string(after.path(MODEL_CARD)).unwrap();
    assert!(card.starts_with("# tiny 0.2.0\n") && card.contains("Trained for a test."), "{card}");
    let texts = ["a house by the sea", "the old bridge"].map(str::to_owned);
    let mut encoders = [&before, &after].map(|bundle| TextEncoder::open_bundle(&bundle.folder, 1).unwrap());
    let passages = encoders.each_mut().map(|encoder| encoder.encode(&texts).unwrap());
    assert_eq!(passages[0], passages[1]);
    let asked = encoders.each_mut().map(|encoder| encoder.encode_questions(&texts).unwrap());
    assert_eq!(asked[0], passages[0], "without a question encoder, questions are encoded like passages");
    assert_ne!(asked[1], asked[0]);
}

#[test]
fn a_question_encoder_with_a_changed_token_table_is_refused() {
    let model = Model::new(EncoderKind::Transformer, Norm::Pre);
    model.export().unwrap();
    let error = add_questions(&model, &asking(&model, 1.0)).unwrap_err().to_string();
    assert!(error.contains(TOKEN_TABLE) && error.contains("token_rate_scale 0"), "{error}");
}

#[test]
fn a_run_cannot_start_after_the_stage_that_embeds_its_passages() {
    let model = Model::new(EncoderKind::Transformer, Norm::Pre);
    model.export().unwrap();
    let mut config = asking(&model, 0.0);
    let mut second = config.stages[0].clone();
    second.name = "second".to_owned();
    config.stages.insert(1, second);
    let error = begin(&config, "second", &model.path("models/tiny"), &model.path("run")).unwrap_err().to_string();
    assert!(error.contains("are embedded by first, whose weights the bundle does not have; name second"), "{error}");
}
