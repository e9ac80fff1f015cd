//! A small encoder memorizes one batch with each objective: if it cannot, something between the data and the loss is broken.

mod support;

use std::path::Path;

use dragoman_training::checkpoint::{self, State};
use dragoman_training::config::*;
use dragoman_training::data::batch::Batch;
use dragoman_training::data::sampler::{Sampler, SamplingTools, Sentence};
use dragoman_training::model::encoder::{self, LATE_TOKENS, LATE_WEIGHTS, TOKEN_WEIGHTS, TOKENS};
use dragoman_training::model::parameters::Parameters;
use dragoman_training::objective::{Objective, Terms};
use dragoman_training::optim::{Adam, learning_rate};
use dragoman_training::train::forward::{self, Forward};
use dragoman_training::train::teachers::Teachers;
use tch::Device;

/// All sixteen pairs, with the same language on the left.
fn pairs(config: &Config, folder: &Path) -> Vec<(Sentence, Sentence)> {
    support::write_shard(folder);
    let mut pairs: Vec<(Sentence, Sentence)> = Vec::new();
    let stage = StageConfig { batch_pairs: 4000, ..config.stages[0].clone() };
    for pair in Sampler::open(config, folder).unwrap().batch(0, &stage, SamplingTools::default()) {
        let pair = if pair.0.ids[0] < 26 { pair } else { (pair.1, pair.0) };
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    assert_eq!(pairs.len(), 16);
    pairs
}

/// Masks the third word of a left sentence, or the same word of a right one, where it comes first. The other two words
/// distinguish all sentences, so the masked word can be learned.
fn hidden() -> Vec<Option<usize>> {
    let places = |side: usize, place: usize| (0..16).map(move |pair| (pair % 2 == side).then_some(place));
    places(0, 2).chain(places(1, 0)).collect()
}

/// Trains on all sixteen pairs at once and returns the losses of the last step.
fn overfit(kind: EncoderKind, norm: Norm, steps: u64, change: impl Fn(&mut StageConfig)) -> Terms {
    train(kind, norm, steps, change).0
}

/// Like `overfit`; also returns the weights before the first step and after the last one.
fn train(kind: EncoderKind, norm: Norm, steps: u64, change: impl Fn(&mut StageConfig)) -> (Terms, Parameters, Parameters) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = support::config(kind, norm, steps);
    let mut pairs = pairs(&config, folder.path());
    change(&mut config.stages[0]);
    pairs.iter_mut().for_each(|(left, _)| left.question = config.stages[0].question_encoder.is_some());
    config.check().unwrap();
    let stage = &config.stages[0];
    tch::manual_seed(1);
    let mut state = State::new(Device::Cpu);
    let teachers = Teachers::open(stage, support::VOCABULARY, Device::Cpu).unwrap();
    forward::create(&mut state.parameters, &config, stage, support::VOCABULARY, &teachers);
    let batch = match stage.masks_words() {
        true => Batch::masked(&pairs, 64, &hidden()).with_targets(&pairs),
        false => Batch::new(&pairs, 64).with_targets(&pairs).with_interaction(&pairs, 64),
    };
    let mut before = Parameters::new(Device::Cpu);
    state.parameters.iter().for_each(|(name, weight)| before.set(name, weight));
    let mut adam = Adam::default();
    for step in 0..steps {
        let forward = Forward { parameters: &state.parameters, model: &config.model, stage, teachers: &teachers };
        let backward = forward.backward(&batch, 1);
        let _ = adam.step(&state.parameters, &backward.tables, learning_rate(stage, step), stage);
    }
    // The same seed as in the steps, so that random choices within the batch are the same.
    let forward = Forward { parameters: &state.parameters, model: &config.model, stage, teachers: &teachers };
    let terms = forward.backward(&batch, 1).terms;
    (terms, before, state.parameters)
}

fn check(losses: &Terms, objective: Objective, below: f64) {
    let got = losses.get(objective).unwrap().double_value(&[]);
    assert!(got < below, "{} is {got} after overfitting, expected below {below}", objective.name());
}

fn weight(weight: f64) -> Option<ObjectiveConfig> {
    Some(ObjectiveConfig { weight })
}

fn head(language_token: bool, shared_embedding: bool) -> Option<VocabularyHeadConfig> {
    Some(VocabularyHeadConfig { pairs_max: 16, language_token, shared_embedding })
}

#[test]
fn a_bag_of_tokens_learns_a_batch_with_the_contrastive_objective() {
    check(&overfit(EncoderKind::Bag, Norm::Pre, 250, |_| {}), Objective::Contrastive, 0.02);
}

#[test]
fn encoders_of_questions_and_of_passages_learn_a_batch_together() {
    let questions = |stage: &mut StageConfig| {
        (stage.token_rate_scale, stage.question_encoder) = (0.0, Some(QuestionEncoderConfig { translation_share: 1.0 }));
    };
    let (losses, before, after) = train(EncoderKind::Transformer, Norm::Pre, 150, questions);
    check(&losses, Objective::Contrastive, 0.02);
    let moved = |name: &str| (after.get(name) - before.get(name)).abs().max().double_value(&[]);
    assert_eq!(moved(TOKENS), 0.0);
    for name in ["layers.0.feed_forward.down.weight", "embeddings.position.weight"] {
        let questions = format!("{}{name}", encoder::QUESTIONS);
        assert!(moved(name) > 1e-3 && moved(&questions) > 1e-3, "{name}");
        assert_eq!(before.get(name), before.get(&questions), "{name}: the question encoder starts as a copy");
        assert_ne!(after.get(name), after.get(&questions), "{name}");
    }
    let names = |parameters: &Parameters| parameters.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
    let passages = names(&after).into_iter().filter(|name| !name.starts_with(encoder::QUESTIONS)).collect::<Vec<_>>();
    assert_eq!(names(&encoder::question_encoder(&after).unwrap()), passages);
}

#[test]
fn the_token_table_learns_a_batch_by_late_interaction() {
    let late = |stage: &mut StageConfig| {
        stage.contrastive = None;
        stage.late_interaction = Some(LateInteractionConfig { weight: 1.0, temperature: 0.05, pairs_max: 16, own_table: false });
    };
    // Chance is 2 ln 16, 5.5. Only the nearest tokens move, so some pairs stay wrong if a wrong token was nearest at the start.
    check(&overfit(EncoderKind::Bag, Norm::Pre, 250, late), Objective::LateInteraction, 1.5);
}

#[test]
fn a_separate_late_interaction_table_learns_without_changing_the_encoder() {
    let late = |stage: &mut StageConfig| {
        stage.contrastive = None;
        stage.late_interaction = Some(LateInteractionConfig { weight: 1.0, temperature: 0.05, pairs_max: 16, own_table: true });
    };
    let (losses, before, after) = train(EncoderKind::Bag, Norm::Pre, 250, late);
    check(&losses, Objective::LateInteraction, 1.5);
    assert!(before.get(LATE_TOKENS).equal(before.get(TOKENS)), "late interaction's table starts as a copy of the token table");
    assert!(!after.get(LATE_TOKENS).equal(before.get(LATE_TOKENS)) && !after.get(LATE_WEIGHTS).equal(before.get(LATE_WEIGHTS)));
    for encoder in [TOKENS, TOKEN_WEIGHTS] {
        assert!(after.get(encoder).equal(before.get(encoder)), "{encoder} has changed");
    }
}

#[test]
fn embeddings_learn_together_with_a_separate_late_interaction_table() {
    let both = |stage: &mut StageConfig| {
        stage.late_interaction = Some(LateInteractionConfig { weight: 1.0, temperature: 0.05, pairs_max: 16, own_table: true });
    };
    let (losses, before, after) = train(EncoderKind::Transformer, Norm::Pre, 150, both);
    check(&losses, Objective::Contrastive, 0.02);
    check(&losses, Objective::LateInteraction, 2.5);
    assert!(!after.get(TOKENS).equal(before.get(TOKENS)));
}

#[test]
fn a_pre_norm_encoder_learns_a_batch_through_the_projection() {
    let through = |stage: &mut StageConfig| stage.contrastive.as_mut().unwrap().projection = true;
    check(&overfit(EncoderKind::Transformer, Norm::Pre, 150, through), Objective::Contrastive, 0.02);
}

#[test]
fn a_post_norm_encoder_learns_a_batch_with_the_joint_objective() {
    let joint = |stage: &mut StageConfig| {
        stage.contrastive.as_mut().unwrap().projection = true;
        (stage.xtr, stage.vocabulary_head) = (weight(1.0), head(true, false));
    };
    let losses = overfit(EncoderKind::Transformer, Norm::Post, 300, joint);
    check(&losses, Objective::Contrastive, 0.02);
    check(&losses, Objective::Xtr, 0.1);
}

#[test]
fn xtr_learns_a_batch_with_the_token_table_as_output() {
    let shared = |stage: &mut StageConfig| {
        (stage.contrastive, stage.xtr, stage.vocabulary_head) = (None, weight(1.0), head(false, true));
    };
    check(&overfit(EncoderKind::Transformer, Norm::Post, 300, shared), Objective::Xtr, 0.1);
    let told = |stage: &mut StageConfig| {
        (stage.contrastive, stage.xtr, stage.vocabulary_head) = (None, weight(1.0), head(true, true));
    };
    check(&overfit(EncoderKind::Bag, Norm::Pre, 300, told), Objective::Xtr, 0.1);
}

#[test]
fn objectives_of_the_lightweight_paper_learn_a_batch_together() {
    let lightweight = |stage: &mut StageConfig| {
        stage.contrastive = None;
        (stage.unified_generative, stage.alignment, stage.similarity) = (weight(1.0), weight(2.0), weight(2.0));
        stage.vocabulary_head = head(false, true);
    };
    let losses = overfit(EncoderKind::Transformer, Norm::Post, 400, lightweight);
    check(&losses, Objective::UnifiedGenerative, 0.1);
    check(&losses, Objective::Alignment, 0.02);
    check(&losses, Objective::Similarity, 0.02);
}

#[test]
fn a_masked_word_is_learned_from_its_sentence_and_translation() {
    let hidden = |stage: &mut StageConfig| {
        (stage.contrastive, stage.masked_word, stage.vocabulary_head) = (None, weight(1.0), head(true, false));
    };
    check(&overfit(EncoderKind::Transformer, Norm::Post, 300, hidden), Objective::MaskedWord, 0.1);
}

#[test]
fn additive_margin_softmax_learns_a_batch() {
    let margin = |projection: bool| {
        move |stage: &mut StageConfig| {
            stage.contrastive = None;
            stage.additive_margin = Some(AdditiveMarginConfig { weight: 1.0, margin: 0.3, temperature: 0.1, projection });
        }
    };
    // A bag adds up its words: the four first and the four second words can be as far apart as the corners of a tetrahedron,
    // cosine -1/3, so that of the 15 other sentences, the 6 that share one of the two have cosine 1/3 and 9 have -1/3. The best
    // possible loss of a bag is 2 ln(1 + 6 e^((1/3 - 0.7) / 0.1) + 9 e^((-1/3 - 0.7) / 0.1)) = 0.285882.
    check(&overfit(EncoderKind::Bag, Norm::Pre, 400, margin(false)), Objective::AdditiveMargin, 0.29);
    check(&overfit(EncoderKind::Transformer, Norm::Post, 300, margin(true)), Objective::AdditiveMargin, 0.2);
}

/// Writes the configuration and the weights of a frozen encoder of another size; returns their paths.
fn frozen(folder: &Path, kind: EncoderKind) -> (std::path::PathBuf, std::path::PathBuf) {
    let mut config = support::config(kind, Norm::Post, 1);
    (config.model.dimension, config.model.layers) = (48, 3);
    let (path, weights) = (folder.join("teacher.toml"), folder.join("teacher.safetensors"));
    std::fs::write(&path, toml::to_string(&config).unwrap()).unwrap();
    tch::manual_seed(9);
    let mut state = State::new(Device::Cpu);
    encoder::create(&mut state.parameters, &config.model, support::VOCABULARY, kind);
    checkpoint::save(&weights, &state).unwrap();
    (path, weights)
}

#[test]
fn the_learner_adopts_the_distances_of_the_anchor() {
    let folder = tempfile::tempdir().unwrap();
    for kind in [EncoderKind::Bag, EncoderKind::Transformer] {
        let (config, weights) = frozen(folder.path(), kind);
        let anchored = |stage: &mut StageConfig| {
            stage.contrastive = None;
            stage.anchor = Some(AnchorConfig {
                weight: 1.0,
                translation_mining: 0.003,
                random_pairs: 0.5,
                unit_length: true,
                config: config.clone(),
                weights: weights.clone(),
            });
        };
        // The minimum of equation 1 is 1; untrained, it is above 1.05.
        check(&overfit(EncoderKind::Transformer, Norm::Post, 300, anchored), Objective::Anchor, 1.01);
    }
}

#[test]
fn the_student_adopts_embeddings_and_similarities_of_a_wider_teacher() {
    let folder = tempfile::tempdir().unwrap();
    let (config, weights) = frozen(folder.path(), EncoderKind::Transformer);
    for (distance, below) in [(Distance::Cosine, 0.02), (Distance::Squared, 0.5)] {
        let taught = |stage: &mut StageConfig| {
            stage.contrastive = None;
            stage.distillation = Some(DistillationConfig {
                config: config.clone(),
                weights: weights.clone(),
                translations_only: false,
                embedding: Some(TeacherEmbeddingConfig { weight: 1.0, distance }),
                similarity: Some(TeacherSimilarityConfig { weight: 1.0, temperature: 0.1 }),
            });
        };
        let losses = overfit(EncoderKind::Transformer, Norm::Post, 300, taught);
        check(&losses, Objective::TeacherEmbedding, below);
        check(&losses, Objective::TeacherSimilarity, 0.05);
    }
}

#[test]
fn a_translations_only_teacher_ignores_pairs_that_are_not_translations() {
    let folder = tempfile::tempdir().unwrap();
    let (teacher, weights) = frozen(folder.path(), EncoderKind::Transformer);
    let mut config = support::config(EncoderKind::Transformer, Norm::Post, 1);
    let mut pairs = pairs(&config, folder.path());
    let stage = &mut config.stages[0];
    stage.contrastive = None;
    stage.distillation = Some(DistillationConfig {
        config: teacher,
        weights,
        translations_only: true,
        embedding: Some(TeacherEmbeddingConfig { weight: 1.0, distance: Distance::Cosine }),
        similarity: None,
    });
    let stage = &config.stages[0];
    let teachers = Teachers::open(stage, support::VOCABULARY, Device::Cpu).unwrap();
    let mut state = State::new(Device::Cpu);
    forward::create(&mut state.parameters, &config, stage, support::VOCABULARY, &teachers);
    let loss = |pairs: &[(Sentence, Sentence)]| {
        let batch = Batch::new(pairs, 64).with_translations(pairs, 64);
        let forward = Forward { parameters: &state.parameters, model: &config.model, stage, teachers: &teachers };
        forward.losses(&batch).get(Objective::TeacherEmbedding).map(|loss| loss.double_value(&[]))
    };
    let translations = loss(&pairs[..6]).unwrap();
    for (left, right) in &mut pairs[6..] {
        (left.translated, right.translated) = (false, false);
    }
    let got = loss(&pairs).unwrap();
    assert!((got - translations).abs() < 1e-5, "{got}, expected {translations}");
    assert_eq!(loss(&pairs[6..]), None);
}

#[test]
fn a_teacher_with_another_vocabulary_or_shorter_texts_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (config, weights) = frozen(folder.path(), EncoderKind::Transformer);
    let mut stage = support::config(EncoderKind::Transformer, Norm::Post, 1).stages.remove(0);
    let similarity = Some(TeacherSimilarityConfig { weight: 1.0, temperature: 0.1 });
    stage.distillation = Some(DistillationConfig { config, weights, translations_only: false, embedding: None, similarity });
    let error = Teachers::open(&stage, support::VOCABULARY + 1, Device::Cpu).unwrap_err().to_string();
    assert!(
        error.contains("teacher.safetensors") && error.contains("expected [51, 48]") && error.contains("got [50, 48]"),
        "{error}"
    );
    stage.tokens_max = 121;
    let error = Teachers::open(&stage, support::VOCABULARY, Device::Cpu).unwrap_err().to_string();
    assert_eq!(error, "setting stages.distillation.config: reads 120 tokens, the stage smoke reads 121");
}

#[test]
fn an_encoder_learns_a_batch_in_bfloat16() {
    let narrow = overfit(EncoderKind::Transformer, Norm::Post, 200, |stage| stage.bf16 = true);
    check(&narrow, Objective::Contrastive, 0.05);
}
