//! Validates configurations: values out of range, settings without effect, and contradictions.

use super::{Averaging, Config, EncoderKind, ShareConfig, StageConfig, VocabularyHeadConfig};
use crate::error::Error;

/// Rejects configurations that cannot be trained; the error names the setting.
pub fn check(config: &Config) -> Result<(), Error> {
    let vocabulary = config.tokenizer.vocabulary;
    expect("tokenizer.vocabulary", (16..=65_535).contains(&vocabulary), "16 to 65535", vocabulary)?;
    check_model(config)?;
    expect("sampling.run_pairs", config.sampling.run_pairs >= 1, "at least 1", config.sampling.run_pairs)?;
    share("sampling.english_share", config.sampling.english_share)?;
    at_least_0("sampling.pair_exponent", config.sampling.pair_exponent)?;
    config.sampling.views_max.map_or(Ok(()), |views| above("sampling.views_max", views))?;
    let languages = config.sampling.languages.as_ref().map_or(1, Vec::len);
    expect("sampling.languages", languages >= 1, "at least one code", languages)?;
    for group in &config.sampling.groups {
        expect("sampling.groups.corpora", !group.corpora.is_empty(), "at least one name", 0)?;
        above("sampling.groups.share", group.share)?;
        at_least_0("sampling.groups.pair_exponent", group.pair_exponent)?;
    }
    let shares: f64 = config.sampling.groups.iter().map(|group| group.share).sum();
    expect("sampling.groups.share", shares < 1.0, "less than 1 together", shares)?;
    at_least_0("corpora.default", config.corpora.default)?;
    config.corpora.weights.values().try_for_each(|weight| at_least_0("corpora.weights", *weight))?;
    expect("stages", !config.stages.is_empty(), "at least one", 0)?;
    for stage in &config.stages {
        let named = |error: Error| match error {
            Error::Setting { setting, problem } => {
                Error::Setting { setting, problem: format!("{problem} (stage {})", stage.name) }
            }
            other => other,
        };
        check_schedule(stage, config.model.tokens_max).map_err(named)?;
        check_objectives(stage).map_err(named)?;
        check_teachers(stage).map_err(named)?;
        check_both_encoders(stage).map_err(named)?;
        check_questions(stage).map_err(named)?;
    }
    check_order(config)
}

fn expect(setting: &'static str, holds: bool, expected: &str, got: impl std::fmt::Display) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Setting { setting, problem: format!("expected {expected}, got {got}") }) }
}

fn refuse(setting: &'static str, problem: &str) -> Result<(), Error> {
    Err(Error::Setting { setting, problem: problem.to_owned() })
}

fn check_model(config: &Config) -> Result<(), Error> {
    let model = &config.model;
    for (setting, value) in [
        ("model.dimension", model.dimension),
        ("model.layers", model.layers),
        ("model.feed_forward", model.feed_forward),
        ("model.tokens_max", model.tokens_max),
        ("model.language_dimension", model.language_dimension),
        ("model.projection_dimension", model.projection_dimension),
    ] {
        expect(setting, value >= 1, "at least 1", value)?;
    }
    let divides = model.heads >= 1 && model.dimension % model.heads == 0;
    expect("model.heads", divides, &format!("a divisor of the dimension {}", model.dimension), model.heads)
}

fn check_schedule(stage: &StageConfig, model_tokens: i64) -> Result<(), Error> {
    let plain = !stage.name.is_empty() && stage.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    expect("stages.name", plain && stage.name != "checkpoint", "letters, digits, - and _, not checkpoint", &stage.name)?;
    expect("stages.steps", stage.steps >= 1, "at least 1", stage.steps)?;
    expect("stages.batch_pairs", stage.batch_pairs >= 2, "at least 2", stage.batch_pairs)?;
    let reads = (1..=model_tokens).contains(&stage.tokens_max);
    expect("stages.tokens_max", reads, &format!("1 to {model_tokens}"), stage.tokens_max)?;
    above("stages.learning_rate", stage.learning_rate)?;
    at_least_0("stages.token_rate_scale", stage.token_rate_scale)?;
    share("stages.decay_share", stage.decay_share)?;
    at_least_0("stages.weight_decay", stage.weight_decay)?;
    for (setting, value) in [("stages.dropout", stage.dropout), ("stages.token_dropout", stage.token_dropout)] {
        expect(setting, (0.0..1.0).contains(&value), "0 to below 1", value)?;
    }
    share("stages.joined_share", stage.joined_share)?;
    at_least_0("stages.gradient_norm_max", stage.gradient_norm_max)?;
    if stage.gradient_cache && stage.encoder == EncoderKind::Bag {
        return refuse("stages.gradient_cache", "has no effect on a bag of tokens");
    }
    for (setting, share) in [
        ("stages.missing_diacritics.share", stage.missing_diacritics),
        ("stages.cropping.share", stage.cropping),
        ("stages.subword_splits.share", stage.subword_splits),
    ] {
        if let Some(ShareConfig { share }) = share {
            expect(setting, share > 0.0 && share <= 1.0, "above 0, at most 1", share)?;
        }
    }
    match stage.averaging {
        Some(Averaging::Exponential { decay }) => {
            expect("stages.averaging.decay", decay > 0.0 && decay < 1.0, "a number between 0 and 1", decay)
        }
        Some(Averaging::LastPart { share }) => {
            expect("stages.averaging.share", share > 0.0 && share <= 1.0, "above 0, at most 1", share)
        }
        None => Ok(()),
    }
}

fn check_objectives(stage: &StageConfig) -> Result<(), Error> {
    for (setting, objective) in [
        ("stages.xtr.weight", &stage.xtr),
        ("stages.unified_generative.weight", &stage.unified_generative),
        ("stages.masked_word.weight", &stage.masked_word),
        ("stages.alignment.weight", &stage.alignment),
        ("stages.similarity.weight", &stage.similarity),
        ("stages.translation_mining.weight", &stage.translation_mining),
    ] {
        if let Some(objective) = objective {
            above(setting, objective.weight)?;
        }
    }
    if let Some(contrastive) = &stage.contrastive {
        above("stages.contrastive.weight", contrastive.weight)?;
        above("stages.contrastive.temperature", contrastive.temperature)?;
    }
    if let Some(late) = &stage.late_interaction {
        above("stages.late_interaction.weight", late.weight)?;
        above("stages.late_interaction.temperature", late.temperature)?;
        expect("stages.late_interaction.pairs_max", late.pairs_max >= 2, "at least 2", late.pairs_max)?;
    }
    if let Some(margin) = &stage.additive_margin {
        above("stages.additive_margin.weight", margin.weight)?;
        above("stages.additive_margin.temperature", margin.temperature)?;
        expect("stages.additive_margin.margin", margin.margin >= 0.0 && margin.margin < 2.0, "0 to below 2", margin.margin)?;
        if stage.contrastive.is_some() {
            return refuse("stages.additive_margin", "replaces stages.contrastive; give one of them");
        }
    }
    if stage.late_interaction.is_some() && stage.masks_words() {
        return refuse("stages.late_interaction", "would compare hidden tokens; leave unified_generative and masked_word out");
    }
    if stage.unified_generative.is_some() && stage.xtr.is_some() {
        return refuse("stages.unified_generative", "includes XTR's labels; give it or stages.xtr");
    }
    let predicts = stage.xtr.is_some() || stage.masks_words();
    match &stage.vocabulary_head {
        Some(head) => {
            expect("stages.vocabulary_head.pairs_max", head.pairs_max >= 1, "at least 1", head.pairs_max)?;
            if !predicts {
                return refuse("stages.vocabulary_head", "no objective uses it: expected xtr, unified_generative or masked_word");
            }
        }
        None if predicts => {
            return refuse("stages.vocabulary_head", "is missing; xtr, unified_generative and masked_word need it");
        }
        None => {}
    }
    if stage.contrastive.is_some() || stage.has_other_objectives() {
        return Ok(());
    }
    refuse("stages", "has no objective, so nothing to learn")
}

fn check_teachers(stage: &StageConfig) -> Result<(), Error> {
    if stage.translation_mining.is_some() && stage.anchor.is_some() {
        return refuse("stages.translation_mining", "stages.anchor has its own, by stages.anchor.translation_mining");
    }
    if let Some(anchor) = &stage.anchor {
        above("stages.anchor.weight", anchor.weight)?;
        at_least_0("stages.anchor.translation_mining", anchor.translation_mining)?;
        share("stages.anchor.random_pairs", anchor.random_pairs)?;
        if stage.masks_words() {
            return refuse(
                "stages.anchor",
                "the anchor would read sentences that lack a token; leave unified_generative and masked_word out",
            );
        }
    }
    if let Some(distillation) = &stage.distillation {
        if let Some(embedding) = &distillation.embedding {
            above("stages.distillation.embedding.weight", embedding.weight)?;
        }
        if let Some(similarity) = &distillation.similarity {
            above("stages.distillation.similarity.weight", similarity.weight)?;
            above("stages.distillation.similarity.temperature", similarity.temperature)?;
        }
        if distillation.embedding.is_none() && distillation.similarity.is_none() {
            return refuse("stages.distillation", "has nothing to distill: expected embedding, similarity or both");
        }
        if stage.masks_words() {
            return refuse(
                "stages.distillation",
                "the teacher would read sentences that lack a token; leave unified_generative and masked_word out",
            );
        }
    }
    Ok(())
}

/// Checks a stage that trains both encoders together.
fn check_both_encoders(stage: &StageConfig) -> Result<(), Error> {
    let Some(questions) = &stage.question_encoder else { return Ok(()) };
    share("stages.question_encoder.translation_share", questions.translation_share)?;
    if stage.encoder == EncoderKind::Bag {
        return refuse("stages.question_encoder", "needs the Transformer: a bag has no layers of its own");
    }
    if stage.resting_passages.is_some() {
        return refuse("stages.question_encoder", "trains both encoders; give it or stages.resting_passages");
    }
    if stage.contrastive.is_none() && stage.additive_margin.is_none() {
        return refuse("stages.question_encoder", "needs stages.contrastive or stages.additive_margin");
    }
    Ok(())
}

/// Checks a stage that trains a question encoder next to frozen passages: no objective may need embeddings of both sides from it.
fn check_questions(stage: &StageConfig) -> Result<(), Error> {
    if stage.resting_passages.is_none() {
        return Ok(());
    }
    if stage.contrastive.as_ref().is_none_or(|contrastive| contrastive.projection) {
        return refuse("stages.resting_passages", "needs stages.contrastive, without projection");
    }
    if stage.has_other_objectives() {
        return refuse("stages.resting_passages", "works with stages.contrastive only: other objectives train both sides");
    }
    if stage.gradient_cache {
        return refuse("stages.gradient_cache", "goes through both sides; leave it out with stages.resting_passages");
    }
    Ok(())
}

/// Checks consistency across stages, since each starts from the weights of the one before.
fn check_order(config: &Config) -> Result<(), Error> {
    let shape = |head: &VocabularyHeadConfig| (head.language_token, head.shared_embedding);
    for (number, stage) in config.stages.iter().enumerate() {
        let before = &config.stages[..number];
        let unique = before.iter().all(|other| other.name != stage.name);
        expect("stages.name", unique, "a unique name for each stage", &stage.name)?;
        if let Some(hard) = &stage.hard_negatives {
            let earlier = before.iter().any(|other| other.name == hard.stage);
            expect("stages.hard_negatives.stage", earlier, "the name of an earlier stage", &hard.stage)?;
            expect("stages.hard_negatives.pool", hard.pool >= 2, "at least 2", hard.pool)?;
        }
        if let Some(passages) = &stage.resting_passages {
            let earlier = before.iter().any(|other| other.name == passages.stage);
            expect("stages.resting_passages.stage", earlier, "the name of an earlier stage", &passages.stage)?;
        }
        if let Some(between) = &stage.interpolation {
            let is_same = |other: &StageConfig| {
                other.encoder == stage.encoder && other.question_encoder.is_some() == stage.question_encoder.is_some()
            };
            let earlier = before.iter().any(|other| other.name == between.stage && is_same(other));
            expect("stages.interpolation.stage", earlier, "an earlier stage of the same encoders", &between.stage)?;
            let part = between.share > 0.0 && between.share <= 1.0;
            expect("stages.interpolation.share", part, "above 0, at most 1", between.share)?;
        }
        let after_layers = before.iter().any(|other| other.encoder == EncoderKind::Transformer);
        if stage.encoder == EncoderKind::Bag && after_layers && !stage.trains_only_late_table() {
            return refuse("stages.encoder", "a bag after a transformer would train the table without the layers that read it");
        }
        check_both_encoders_order(config, stage, before)?;
        let heads = |stage: &StageConfig| stage.vocabulary_head.as_ref().map(shape);
        let differs = |other: &StageConfig| heads(other).is_some() && heads(other) != heads(stage);
        if heads(stage).is_some() && before.iter().any(differs) {
            return refuse("stages.vocabulary_head", "language_token and shared_embedding must be those of the stages before");
        }
    }
    Ok(())
}

/// Checks that a question encoder that learns with the passages has something to read, and that no later stage changes the
/// encoder of passages without it.
fn check_both_encoders_order(config: &Config, stage: &StageConfig, before: &[StageConfig]) -> Result<(), Error> {
    match &stage.question_encoder {
        None if before.iter().any(|other| other.question_encoder.is_some()) && !stage.trains_only_late_table() => refuse(
            "stages.question_encoder",
            "is missing: an earlier stage has it, and its question encoder would not fit what this stage learns",
        ),
        Some(questions) if questions.translation_share == 0.0 && !config.sampling.groups.iter().any(|group| group.directed) => {
            refuse(
                "stages.question_encoder.translation_share",
                "is 0, and no group is directed, so the encoder would read nothing",
            )
        }
        _ => Ok(()),
    }
}

fn above(setting: &'static str, value: f64) -> Result<(), Error> {
    expect(setting, value > 0.0 && value.is_finite(), "a number above 0", value)
}

fn at_least_0(setting: &'static str, value: f64) -> Result<(), Error> {
    expect(setting, value >= 0.0 && value.is_finite(), "a number of 0 or more", value)
}

fn share(setting: &'static str, value: f64) -> Result<(), Error> {
    expect(setting, (0.0..=1.0).contains(&value), "0 to 1", value)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
