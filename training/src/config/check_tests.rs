//! Configurations that cannot be trained are refused, and the error names the setting.

use crate::config::*;

/// Checks the smoke configuration after `change` has edited its second stage, which runs all of EMS. `expect` is the
/// setting that the error must name, or empty for no error.
fn check(change: impl Fn(&mut StageConfig), expect: &str) {
    let mut config: Config = toml::from_str(include_str!("../../configs/smoke.toml")).unwrap();
    change(&mut config.stages[1]);
    let blamed = match config.check() {
        Ok(()) => "",
        Err(Error::Setting { setting, .. }) => setting,
        Err(other) => panic!("{other}"),
    };
    assert_eq!(blamed, expect);
}

fn objective(weight: f64) -> Option<ObjectiveConfig> {
    Some(ObjectiveConfig { weight })
}

#[test]
fn valid_settings_are_accepted() {
    check(|_| {}, "");
    check(|stage| stage.alignment = objective(2.0), "");
    check(|stage| (stage.xtr, stage.vocabulary_head) = (None, None), "");
    check(|stage| (stage.xtr, stage.unified_generative) = (None, objective(1.0)), "");
    check(|stage| stage.averaging = Some(Averaging::LastPart { share: 1.0 }), "");
}

#[test]
fn numbers_out_of_range_are_refused() {
    check(|stage| stage.batch_pairs = 1, "stages.batch_pairs");
    check(|stage| stage.tokens_max = 121, "stages.tokens_max");
    check(|stage| stage.learning_rate = f64::NAN, "stages.learning_rate");
    check(|stage| stage.dropout = 1.0, "stages.dropout");
    check(|stage| stage.xtr = objective(0.0), "stages.xtr.weight");
    check(|stage| stage.contrastive.as_mut().unwrap().temperature = 0.0, "stages.contrastive.temperature");
    check(|stage| stage.vocabulary_head.as_mut().unwrap().pairs_max = 0, "stages.vocabulary_head.pairs_max");
    check(|stage| stage.averaging = Some(Averaging::Exponential { decay: 1.0 }), "stages.averaging.decay");
    check(|stage| stage.averaging = Some(Averaging::LastPart { share: 0.0 }), "stages.averaging.share");
}

#[test]
fn invalid_sampling_settings_and_corpus_weights_are_refused() {
    let blamed = |change: fn(&mut Config)| {
        let mut config: Config = toml::from_str(include_str!("../../configs/smoke.toml")).unwrap();
        change(&mut config);
        config.check().unwrap_err().to_string()
    };
    assert!(blamed(|config| config.sampling.english_share = 1.5).contains("sampling.english_share"));
    assert!(blamed(|config| config.sampling.pair_exponent = -0.1).contains("sampling.pair_exponent"));
    assert!(blamed(|config| config.sampling.languages = Some(Vec::new())).contains("sampling.languages"));
    assert!(blamed(|config| config.corpora.default = f64::NAN).contains("corpora.default"));
    assert!(blamed(|config| config.corpora.weights = [("a".to_owned(), -1.0)].into()).contains("corpora.weights"));
}

#[test]
fn unsafe_reserved_or_duplicate_stage_names_are_refused() {
    check(|stage| stage.name = "../weights".to_owned(), "stages.name");
    check(|stage| stage.name = "checkpoint".to_owned(), "stages.name");
    check(|stage| stage.name = "smoke".to_owned(), "stages.name");
}

#[test]
fn conflicting_or_missing_objectives_are_refused() {
    check(|stage| stage.unified_generative = objective(1.0), "stages.unified_generative");
    let margin = AdditiveMarginConfig { weight: 1.0, margin: 0.3, temperature: 0.1, projection: true };
    check(|stage| stage.additive_margin = Some(margin.clone()), "stages.additive_margin");
    check(|stage| stage.vocabulary_head = None, "stages.vocabulary_head");
    check(|stage| stage.xtr = None, "stages.vocabulary_head");
    check(|stage| (stage.xtr, stage.vocabulary_head, stage.contrastive) = (None, None, None), "stages");
}

#[test]
fn a_teacher_without_a_loss_or_with_masked_words_is_refused() {
    let teacher = DistillationConfig {
        config: "a".into(),
        weights: "b".into(),
        translations_only: false,
        embedding: None,
        similarity: None,
    };
    check(|stage| stage.distillation = Some(teacher.clone()), "stages.distillation");
    let similarity = Some(TeacherSimilarityConfig { weight: 1.0, temperature: 0.1 });
    let teacher = DistillationConfig { similarity, ..teacher };
    check(|stage| stage.distillation = Some(teacher.clone()), "");
    check(|stage| (stage.distillation, stage.masked_word) = (Some(teacher.clone()), objective(1.0)), "stages.distillation");
}

#[test]
fn a_bag_after_a_transformer_may_only_train_the_late_interaction_table() {
    let blamed = |change: fn(&mut StageConfig)| {
        let mut config: Config = toml::from_str(include_str!("../../configs/ems-small.toml")).unwrap();
        change(config.stages.iter_mut().find(|stage| stage.name == "late").unwrap());
        config.check().err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(blamed(|_| {}), "");
    assert!(blamed(|stage| stage.late_interaction.as_mut().unwrap().own_table = false).contains("stages.encoder"));
    let contrastive = |stage: &mut StageConfig| {
        stage.contrastive = Some(ContrastiveConfig { weight: 1.0, temperature: 0.05, projection: false });
    };
    assert!(blamed(contrastive).contains("stages.encoder"));
}

#[test]
fn interpolation_requires_an_earlier_stage_with_the_same_encoder() {
    let between = |stage: &str, share| Some(InterpolationConfig { stage: stage.to_owned(), share });
    check(|stage| stage.interpolation = between("later", 0.5), "stages.interpolation.stage");
    check(|stage| stage.interpolation = between("smoke", 0.5), "stages.interpolation.stage");
    let bag = |share| {
        move |stage: &mut StageConfig| {
            (stage.encoder, stage.interpolation) = (EncoderKind::Bag, between("smoke", share));
        }
    };
    check(bag(1.5), "stages.interpolation.share");
    check(bag(0.5), "");
}

#[test]
fn a_question_encoder_accepts_only_the_contrastive_objective() {
    let contrastive = |projection| Some(ContrastiveConfig { weight: 1.0, temperature: 0.05, projection });
    let questions = |stage: &mut StageConfig| {
        (stage.xtr, stage.vocabulary_head, stage.contrastive) = (None, None, contrastive(false));
        stage.resting_passages = Some(RestingPassagesConfig { stage: "smoke".to_owned() });
    };
    check(questions, "");
    let changed = |change: fn(&mut StageConfig)| {
        move |stage: &mut StageConfig| {
            questions(stage);
            change(stage);
        }
    };
    check(changed(|stage| stage.alignment = objective(1.0)), "stages.resting_passages");
    check(changed(|stage| stage.contrastive.as_mut().unwrap().projection = true), "stages.resting_passages");
    check(changed(|stage| stage.gradient_cache = true), "stages.gradient_cache");
    check(changed(|stage| stage.resting_passages.as_mut().unwrap().stage = "joint".to_owned()), "stages.resting_passages.stage");
}

#[test]
fn a_question_encoder_that_learns_beside_the_passages_needs_layers_and_passages_that_learn() {
    let questions = |translation_share| Some(QuestionEncoderConfig { translation_share });
    check(|stage| stage.question_encoder = questions(0.3), "");
    check(|stage| stage.question_encoder = questions(1.1), "stages.question_encoder.translation_share");
    check(|stage| stage.question_encoder = questions(0.0), "stages.question_encoder.translation_share");
    let bag = |stage: &mut StageConfig| (stage.encoder, stage.question_encoder) = (EncoderKind::Bag, questions(0.0));
    check(bag, "stages.question_encoder");
    let between = |stage: &mut StageConfig| {
        stage.question_encoder = questions(0.3);
        stage.interpolation = Some(InterpolationConfig { stage: "smoke".to_owned(), share: 0.5 });
    };
    check(between, "stages.interpolation.stage");
    check(|stage| (stage.contrastive, stage.question_encoder) = (None, questions(0.0)), "stages.question_encoder");
    let resting = |stage: &mut StageConfig| {
        stage.resting_passages = Some(RestingPassagesConfig { stage: "smoke".to_owned() });
        stage.question_encoder = questions(0.0);
    };
    check(resting, "stages.question_encoder");
}

#[test]
fn stages_after_a_question_encoder_keep_training_it_or_train_the_late_table() {
    let blamed = |change: fn(&mut Vec<StageConfig>)| {
        let mut config: Config = toml::from_str(include_str!("../../configs/ems-small.toml")).unwrap();
        change(&mut config.stages);
        config.check().err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(blamed(|stages| stages.last_mut().unwrap().question_encoder = None).contains("stages.question_encoder"));
    let late = |stages: &mut Vec<StageConfig>| {
        let late = stages.iter().find(|stage| stage.name == "late").unwrap();
        stages.push(StageConfig { name: "again".to_owned(), ..late.clone() });
    };
    assert_eq!(blamed(late), "");
}

#[test]
fn hard_negatives_require_an_earlier_stage_and_a_pool_of_two_or_more() {
    let hard = |stage: &str, pool| Some(HardNegativesConfig { stage: stage.to_owned(), pool });
    check(|stage| stage.hard_negatives = hard("smoke", 2), "");
    check(|stage| stage.hard_negatives = hard("joint", 2), "stages.hard_negatives.stage");
    check(|stage| stage.hard_negatives = hard("smoke", 1), "stages.hard_negatives.pool");
}

#[test]
fn the_missing_diacritics_share_must_be_above_0_and_at_most_1() {
    for (share, setting) in
        [(0.2, ""), (1.0, ""), (0.0, "stages.missing_diacritics.share"), (1.1, "stages.missing_diacritics.share")]
    {
        check(|stage| stage.missing_diacritics = Some(ShareConfig { share }), setting);
    }
}

#[test]
fn the_cropping_share_must_be_above_0_and_at_most_1() {
    for (share, setting) in [(0.2, ""), (1.0, ""), (0.0, "stages.cropping.share"), (1.1, "stages.cropping.share")] {
        check(|stage| stage.cropping = Some(ShareConfig { share }), setting);
    }
}

#[test]
fn the_share_of_split_tokens_must_be_above_0_and_at_most_1() {
    for (share, setting) in [(0.1, ""), (1.0, ""), (0.0, "stages.subword_splits.share"), (1.1, "stages.subword_splits.share")] {
        check(|stage| stage.subword_splits = Some(ShareConfig { share }), setting);
    }
}

#[test]
fn a_gradient_cache_for_a_bag_and_a_bag_after_a_transformer_are_refused() {
    check(|stage| (stage.encoder, stage.gradient_cache) = (EncoderKind::Bag, true), "stages.gradient_cache");
    let mut config: Config = toml::from_str(include_str!("../../configs/smoke.toml")).unwrap();
    config.stages.reverse();
    assert!(config.check().unwrap_err().to_string().contains("stages.encoder"));
}

#[test]
fn an_error_names_the_stage() {
    let mut config: Config = toml::from_str(include_str!("../../configs/smoke.toml")).unwrap();
    config.stages[1].steps = 0;
    assert_eq!(config.check().unwrap_err().to_string(), "setting stages.steps: expected at least 1, got 0 (stage joint)");
}
