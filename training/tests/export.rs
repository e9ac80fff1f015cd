//! From weights to a bundle: every kind of encoder is exported, verified and run as the server would run it.
//!
//! Weights are random and the tokenizer is trained on the golden texts, so these tests say nothing about model quality.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;
#[path = "support/untrained.rs"]
mod untrained;

use dragoman::bundle::{Bundle, GOLDEN, GoldenText, LATE_TABLE, MODEL_CARD, MODEL_FP16, MODEL_INT8, TOKEN_TABLE, TOKENIZER};
use dragoman::ranking::TokenTable;
use dragoman_training::checkpoint::{self, Position};
use dragoman_training::commands::from_bundle::begin;
use dragoman_training::config::{Activation, Config, EncoderKind, HardNegativesConfig, Norm, StageConfig};
use dragoman_training::data;
use dragoman_training::eval::{OnnxEncoder, SentenceEncoder as _, TextEncoder, TokenEncoder as _, TorchEncoder};
use dragoman_training::export::parity::Variant;
use dragoman_training::export::{ExportOptions, Origin, export};
use dragoman_training::model::encoder::{self, LATE_TOKENS, LATE_WEIGHTS, TOKEN_WEIGHTS, TOKENS};
use dragoman_training::train;
use tch::{Device, Kind, Tensor};
use untrained::{Model, WIDTH, alone, continued};

fn check(kind: EncoderKind, norm: Norm) {
    let model = Model::new(kind, norm);
    let exported = model.export().unwrap();
    let variants: Vec<Variant> = exported.parity.iter().map(|parity| parity.variant).collect();
    assert_eq!(variants, [Variant::Fp32, Variant::Fp16, Variant::Int8]);
    for parity in &exported.parity {
        println!("{kind:?} {norm:?} {parity:?}");
        assert!(parity.cosine_min >= parity.variant.cosine_min() && parity.sentences >= 60, "{parity:?}");
        assert!(parity.p_at_1 > 99.0, "{parity:?}");
    }
    let quality = exported.bundle.manifest.quality;
    assert!(quality["flores_p_at_1_english"] > 99.0 && quality["short_p_at_1"] > 99.0, "{quality:?}");
    check_golden(&model);
}

/// The bundle, opened as by the server, reproduces its own golden ids and embeddings.
fn check_golden(model: &Model) {
    let folder = model.path("models/tiny");
    let golden: Vec<GoldenText> = serde_json::from_slice(&std::fs::read(folder.join(GOLDEN)).unwrap()).unwrap();
    assert_eq!(golden.len(), 124);
    let mut encoder = TextEncoder::open_bundle(&folder, 1).unwrap();
    for golden in golden {
        assert_eq!(encoder.tokenizer.encode(&golden.text, encoder.tokens_max).unwrap().ids, golden.ids, "{}", golden.text);
        let embeddings = encoder.encode(std::slice::from_ref(&golden.text)).unwrap();
        for (got, expect) in embeddings.values().iter().zip(&golden.embedding_head) {
            assert!((got - expect).abs() < 0.01, "{}: {got} is not near {expect}", golden.text);
        }
    }
}

#[test]
fn a_post_norm_transformer_is_exported() {
    check(EncoderKind::Transformer, Norm::Post);
}

#[test]
fn a_pre_norm_transformer_is_exported() {
    check(EncoderKind::Transformer, Norm::Pre);
}

#[test]
fn a_bag_of_tokens_is_exported() {
    check(EncoderKind::Bag, Norm::Pre);
}

#[test]
fn a_bundle_lists_its_training_data_and_stays_small() {
    let model = Model::new(EncoderKind::Transformer, Norm::Post);
    let bundle = model.export().unwrap().bundle;
    let card = std::fs::read_to_string(bundle.path(MODEL_CARD)).unwrap();
    for part in ["# tiny 0.1.0", "| tales | org/tales | CC0-1.0 | open | 12 |", "dragoman-train eval", "| int8 |", "| joint |"] {
        assert!(card.contains(part), "{part:?} is not in\n{card}");
    }
    assert!(!card.contains("unused |"), "the card lists a corpus of weight 0");
    let bytes = |file: &str| std::fs::metadata(bundle.path(file)).unwrap().len() as usize;
    let parameters = model.weights(model.vocabulary).unwrap().parameters();
    assert!(bytes(MODEL_FP16) < 2 * parameters + 40_000, "{} bytes", bytes(MODEL_FP16));
    // One byte per weight, plus four bytes per row for its scale.
    assert!(bytes(MODEL_INT8) < parameters + parameters / WIDTH as usize * 4 + 60_000, "{} bytes", bytes(MODEL_INT8));
}

#[test]
fn an_embedding_does_not_depend_on_the_rest_of_its_batch() {
    let model = Model::new(EncoderKind::Transformer, Norm::Post);
    let bundle = model.export().unwrap().bundle;
    let mut encoder = OnnxEncoder::open(&bundle.path(MODEL_INT8), 1).unwrap();
    let texts: Vec<Vec<u32>> =
        (1..=24).map(|length| (0..length).map(|place| 2 + (length * 31 + place * 7) % 800).collect()).collect();
    let together = encoder.embed(&texts).unwrap();
    for (number, text) in texts.iter().enumerate() {
        let alone = encoder.embed(std::slice::from_ref(text)).unwrap();
        let cosine: f32 = alone.values().iter().zip(together.part(number, 1).values()).map(|(a, b)| a * b).sum();
        assert!(cosine > 0.9999, "text {number}: cosine {cosine}");
    }
}

#[test]
fn exporting_again_replaces_the_bundle() {
    let model = Model::new(EncoderKind::Bag, Norm::Pre);
    let first = model.export().unwrap().bundle.fingerprint();
    std::fs::write(model.path("models/tiny/stale"), "").unwrap();
    let second = model.export().unwrap().bundle;
    assert_eq!(second.fingerprint(), first);
    assert!(!second.path("stale").exists());
    assert!(!model.path("models/tiny.partial").exists());
}

#[test]
fn the_export_compares_with_the_previous_bundle_and_a_baseline() {
    let model = Model::new(EncoderKind::Transformer, Norm::Pre);
    model.export().unwrap();
    let bag = Model::new(EncoderKind::Bag, Norm::Pre);
    let baseline = bag.weights(bag.vocabulary).unwrap();
    let exported = model.export_beside(Some(&baseline), Some(&model.path("models/tiny"))).unwrap();
    let [this, previous, baseline] = exported.measured.as_slice() else { panic!("{:?}", exported.measured) };
    assert_eq!((this.name.as_str(), previous.name.as_str()), ("tiny 0.1.0", "tiny 0.1.0 (before)"));
    // The previous bundle is the same one, so everything but its speed is equal.
    assert_eq!((this.parameters, this.graph_bytes, &this.report), (previous.parameters, previous.graph_bytes, &previous.report));
    assert_eq!(baseline.parameters, Some(bag.vocabulary * WIDTH as usize));
    assert!(baseline.name == "bag of tokens" && baseline.report.is_some() && baseline.graph_bytes < this.graph_bytes);
    for measured in &exported.measured {
        assert!(measured.speed.query_ms > 0.0 && measured.speed.texts_per_second > 0.0, "{measured:?}");
    }
    let card = std::fs::read_to_string(exported.bundle.path(MODEL_CARD)).unwrap();
    assert!(card.contains("| int8 graphs | tiny 0.1.0 | tiny 0.1.0 (before) | bag of tokens |"), "{card}");
}

#[test]
fn a_parity_failure_leaves_no_bundle() {
    let mut model = Model::new(EncoderKind::Bag, Norm::Pre);
    let weights = model.weights(model.vocabulary).unwrap();
    let other = model.parameters.get(encoder::TOKENS).neg();
    model.parameters.set(encoder::TOKENS, &other);
    let (tokenizer, folder) = (model.path(TOKENIZER), model.path("models/tiny"));
    let options = ExportOptions {
        name: &model.config.name,
        origin: Origin::Trained(&model.config),
        version: "0.1.0",
        tokenizer: &tokenizer,
        folder: &folder,
        calibration: &[],
        evaluation: None,
        corpora: None,
        language_head: None,
        notes: None,
        baseline: None,
        previous: None,
        encoder_of: None,
        relevance: None,
    };
    let mut reference = TorchEncoder::new(&model.parameters, &model.config.model);
    let error = export(&options, &weights, &mut reference).unwrap_err().to_string();
    assert!(error.contains("parity of fp32: the least cosine"), "{error}");
    assert!(Bundle::open(&folder).is_err());
}

#[test]
fn a_late_interaction_table_is_exported_and_loaded_into_a_run() {
    let mut model = Model::new(EncoderKind::Transformer, Norm::Pre);
    model.add_late_table();
    let bundle = model.export().unwrap().bundle;
    let late = TokenTable::read(&bundle.late_interaction_table().unwrap()).unwrap();
    let tokens = TokenTable::read(&bundle.path(TOKEN_TABLE)).unwrap();
    let flipped: Vec<i8> = tokens.rows.chunks_exact(WIDTH as usize).flat_map(|row| row.iter().rev().copied()).collect();
    assert_eq!((late.rows, &late.weights), (flipped, &tokens.weights));
    assert!(bundle.path(LATE_TABLE).is_file());
    begin(&continued(&model), "first", &bundle.folder, &model.path("run")).unwrap();
    let begun = train::load_weights(&model.path("run/first.safetensors"), Device::Cpu).unwrap();
    let off = (begun.get(LATE_TOKENS) - model.parameters.get(LATE_TOKENS)).abs().max().double_value(&[]);
    assert!(off < 0.02 && begun.has(LATE_WEIGHTS), "{off}");
}

#[test]
fn exporting_with_the_encoder_of_a_bundle_keeps_its_fingerprint() {
    let mut model = Model::new(EncoderKind::Transformer, Norm::Pre);
    let before = model.export().unwrap().bundle;
    begin(&continued(&model), "first", &before.folder, &model.path("run")).unwrap();
    model.parameters = train::load_weights(&model.path("run/first.safetensors"), Device::Cpu).unwrap();
    model.add_late_table();
    let after = model.export_on().unwrap().bundle;
    assert_eq!(after.fingerprint(), before.fingerprint());
    assert!(after.manifest.files.contains_key(LATE_TABLE) && !before.manifest.files.contains_key(LATE_TABLE));
}

#[test]
fn an_encoder_that_changed_since_the_bundle_fails_parity() {
    let mut model = Model::new(EncoderKind::Bag, Norm::Pre);
    model.export().unwrap();
    let other = Tensor::randn([model.vocabulary as i64, WIDTH], (Kind::Float, Device::Cpu));
    model.parameters.set(TOKENS, &other);
    let error = model.export_on().unwrap_err().to_string();
    assert!(error.contains("parity of fp16: the least cosine"), "{error}");
}

#[test]
fn a_tokenizer_with_a_different_size_is_refused() {
    let mut model = Model::new(EncoderKind::Bag, Norm::Pre);
    model.vocabulary += 1;
    model.parameters.set(encoder::TOKENS, &Tensor::ones([model.vocabulary as i64, WIDTH], (Kind::Float, Device::Cpu)));
    let error = model.export().unwrap_err().to_string();
    assert!(error.contains(&format!("has {} pieces, but the model has {}", model.vocabulary - 1, model.vocabulary)), "{error}");
}

#[test]
fn a_run_starts_with_a_bundles_weights_after_the_named_stage() {
    for (kind, norm) in
        [(EncoderKind::Transformer, Norm::Pre), (EncoderKind::Transformer, Norm::Post), (EncoderKind::Bag, Norm::Pre)]
    {
        let model = Model::new(kind, norm);
        model.export().unwrap();
        begin(&continued(&model), "first", &model.path("models/tiny"), &model.path("run")).unwrap();
        let state = checkpoint::load(&checkpoint::path(&model.path("run")), Device::Cpu).unwrap();
        assert_eq!(state.position, Position { stage: 1, step: 0 });
        let stage = train::load_weights(&model.path("run/first.safetensors"), Device::Cpu).unwrap();
        // The bundle additionally has the tokens' weights, here the lengths of their rows.
        assert_eq!(stage.iter().count(), model.parameters.iter().count() + 1);
        let lengths = model.parameters.get(TOKENS).square().sum_dim_intlist(1i64, false, Kind::Float).sqrt();
        assert!((stage.get(TOKEN_WEIGHTS).exp() - lengths).abs().max().double_value(&[]) < 1e-5);
        for (name, trained) in model.parameters.iter() {
            for got in [stage.get(name), state.parameters.get(name)] {
                // For the token table, half a quantization step of its row. Otherwise, the 11 bits of a float16, and values
                // below its smallest normal number; queries are stored at a quarter of their size.
                let rounding = match name {
                    TOKENS => trained.abs().amax(1i64, true) / 253.9,
                    _ => trained.abs() * 2f64.powi(-11),
                };
                let beyond = (got - trained).abs() - rounding;
                let beyond = beyond.max().double_value(&[]);
                assert!(got.size() == trained.size() && beyond <= 2f64.powi(-23), "{kind:?} {norm:?} {name}: {beyond}");
            }
        }
    }
}

#[test]
fn a_run_started_from_a_bundle_trains_the_next_stage() {
    let model = Model::new(EncoderKind::Transformer, Norm::Pre);
    model.export().unwrap();
    data::prepare::prepare(&model.path("raw"), &[], &model.path("models/tiny").join(TOKENIZER), &model.path("shards")).unwrap();
    begin(&continued(&model), "first", &model.path("models/tiny"), &model.path("run")).unwrap();
    let options = train::Options {
        vocabulary: model.vocabulary as i64,
        stop_after_steps: Some(1),
        ..support::options(&model.path("shards"), &model.path("run"))
    };
    let outcome = {
        let _alone = alone();
        train::train(&continued(&model), &options).unwrap()
    };
    assert_eq!(outcome, train::Outcome::Stopped { stage: "next".to_owned(), step: 1 });
    let trained = train::load_weights(&checkpoint::path(&model.path("run")), Device::Cpu).unwrap();
    let change = (trained.get(encoder::TOKENS) - model.parameters.get(encoder::TOKENS)).abs().max().double_value(&[]);
    assert!((1e-6..0.1).contains(&change), "one step changes a token vector by {change}");
}

#[test]
fn a_run_refuses_a_bundle_that_does_not_match_its_configuration() {
    let model = Model::new(EncoderKind::Transformer, Norm::Pre);
    model.export().unwrap();
    let refused = |config: &Config, stage: &str, expect: &str| {
        let error = begin(config, stage, &model.path("models/tiny"), &model.path("run")).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let config = continued(&model);
    refused(&config, "last", "setting stage: expected one of [\"first\", \"next\"], got \"last\"");
    let mut bag = config.clone();
    bag.stages[0].encoder = EncoderKind::Bag;
    refused(&bag, "first", "expected 0 layers, as the stage first has");
    let mut wide = config.clone();
    wide.model.feed_forward *= 2;
    refused(&wide, "first", "layers.0.feed_forward.up.weight has the shape [96, 48], expected [192, 48]");
    let mut broad = config.clone();
    broad.model.dimension *= 2;
    refused(&broad, "first", "has 144 outputs, expected 288");
    refused(&config, "next", "next is the last one");
    let model_of = |change: fn(&mut Config)| {
        let mut config = config.clone();
        change(&mut config);
        config
    };
    refused(&model_of(|config| config.model.heads = 6), "first", "model.heads 3, but the configuration says 6");
    refused(&model_of(|config| config.model.norm = Norm::Post), "first", "model.norm Pre, but the configuration says Post");
    let swish = |config: &mut Config| config.model.activation = Activation::Swish;
    refused(&model_of(swish), "first", "model.activation Gelu, but the configuration says Swish");
    let mut mined = config.clone();
    mined.stages.insert(0, StageConfig { name: "bag".to_owned(), ..mined.stages[0].clone() });
    mined.stages[2].hard_negatives = Some(HardNegativesConfig { stage: "bag".to_owned(), pool: 2 });
    refused(&mined, "first", "are mined with bag, whose weights the bundle does not have; name first");
    assert!(!model.path("run").exists(), "a refused bundle leaves no run folder");
    begin(&config, "first", &model.path("models/tiny"), &model.path("run")).unwrap();
    refused(&config, "first", "a run already exists");
}
