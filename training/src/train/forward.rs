//! The forward and backward pass of a step: from a batch to the losses of the stage's objectives and their gradients.

use tch::{Device, Kind, Tensor};

use super::teachers::{Frozen, Teachers};
use crate::config::{AnchorConfig, Config, Distance, DistillationConfig, ModelConfig, StageConfig, VocabularyHeadConfig};
use crate::data::batch::{Batch, Translations};
use crate::model::encoder::{self, Pass};
use crate::model::heads;
use crate::model::parameters::{Parameters, RowGradient};
use crate::objective::additive_margin::additive_margin_loss;
use crate::objective::alignment::alignment_loss;
use crate::objective::anchor::{anchor_loss, translation_mining_loss};
use crate::objective::contrastive::{contrastive_loss, unit};
use crate::objective::distillation::{cosine_distance_loss, similarity_distribution_loss, squared_distance_loss};
use crate::objective::late_interaction::{late_interaction_loss, late_interaction_scores};
use crate::objective::similarity::similarity_loss;
use crate::objective::unified_generative::{masked_word_loss, unified_generative_loss};
use crate::objective::word_movers::word_movers_distances;
use crate::objective::xtr::xtr_loss;
use crate::objective::{Objective, Terms};

/// What stays the same from step to step.
pub struct Forward<'a> {
    /// The trained weights.
    pub parameters: &'a Parameters,
    /// The encoder's size.
    pub model: &'a ModelConfig,
    /// Objectives and their settings.
    pub stage: &'a StageConfig,
    /// The frozen encoders that the stage learns from.
    pub teachers: &'a Teachers,
}

/// Creates the missing weights that a stage needs.
pub fn create(parameters: &mut Parameters, config: &Config, stage: &StageConfig, vocabulary: i64, teachers: &Teachers) {
    encoder::create(parameters, &config.model, vocabulary, stage.encoder);
    if stage.question_encoder.is_some() {
        encoder::create_question_encoder(parameters);
    }
    if let Some(head) = &stage.vocabulary_head {
        heads::create_vocabulary(parameters, &config.model, head, vocabulary);
    }
    match &stage.late_interaction {
        Some(late) if late.own_table => encoder::create_late_table(parameters),
        Some(_) => encoder::create_token_weights(parameters),
        None => (),
    }
    if stage.has_projection() {
        heads::create_projection(parameters, &config.model);
    }
    if stage.masks_words() {
        encoder::create_mask(parameters, &config.model);
    }
    let copies_embeddings = stage.distillation.as_ref().is_some_and(|it| it.embedding.is_some());
    if let Some(teacher) = teachers.teacher.as_ref().filter(|_| copies_embeddings)
        && teacher.dimension() != config.model.dimension
    {
        heads::create_distillation(parameters, &config.model, teacher.dimension());
    }
}

/// The objectives that a stage runs, in the order of the log's columns.
pub fn objectives(stage: &StageConfig) -> Vec<Objective> {
    let runs = |objective: &Objective| match objective {
        Objective::Contrastive => stage.contrastive.is_some(),
        Objective::LateInteraction => stage.late_interaction.is_some(),
        Objective::Xtr => stage.xtr.is_some(),
        Objective::MaskedWord => stage.masked_word.is_some(),
        Objective::UnifiedGenerative => stage.unified_generative.is_some(),
        Objective::Alignment => stage.alignment.is_some(),
        Objective::Similarity => stage.similarity.is_some(),
        Objective::AdditiveMargin => stage.additive_margin.is_some(),
        Objective::Anchor => stage.anchor.is_some(),
        Objective::TranslationMining if stage.translation_mining.is_some() => true,
        Objective::TranslationMining => stage.anchor.as_ref().is_some_and(|it| it.translation_mining > 0.0),
        Objective::TeacherEmbedding => stage.distillation.as_ref().is_some_and(|it| it.embedding.is_some()),
        Objective::TeacherSimilarity => stage.distillation.as_ref().is_some_and(|it| it.similarity.is_some()),
    };
    Objective::ALL.into_iter().filter(runs).collect()
}

/// The results of a step, besides the gradients stored with the weights.
#[derive(Debug)]
pub struct Backward {
    /// The losses.
    pub terms: Terms,
    /// The gradients of the token table and of the separate late interaction table, for the rows that the batch uses.
    pub tables: Vec<RowGradient>,
}

impl Forward<'_> {
    /// The losses of a batch.
    pub fn losses(&self, batch: &Batch) -> Terms {
        let rows = encoder::gather(self.parameters, batch);
        let embeddings = encoder::encode_rows(self.parameters, self.model, &rows, batch, self.pass());
        let late = self.late_table().map(|table| encoder::table_rows(self.parameters, table, batch));
        self.losses_of(&embeddings, late.as_ref().unwrap_or(&rows), batch)
    }

    /// Computes the losses of a batch and stores their gradients with the weights, except for the token tables'. `seed` seeds
    /// dropout.
    pub fn backward(&self, batch: &Batch, seed: i64) -> Backward {
        tch::manual_seed(seed);
        let learns = self.stage.token_rate_scale > 0.0;
        let leaf = |table| encoder::table_rows(self.parameters, table, batch).set_requires_grad(learns);
        let leaves: Vec<(&str, Tensor)> =
            std::iter::once(encoder::TOKENS).chain(self.late_table()).map(|table| (table, leaf(table))).collect();
        let rows = encoder::with_mask(self.parameters, leaves[0].1.shallow_clone(), batch);
        let late = leaves.get(1).map(|(_, rows)| rows);
        let terms = if self.stage.gradient_cache {
            self.backward_cached(&rows, late, batch, seed)
        } else {
            let embeddings = encoder::encode_rows(self.parameters, self.model, &rows, batch, self.pass());
            let terms = self.losses_of(&embeddings, late.unwrap_or(&rows), batch);
            terms.total().backward();
            terms
        };
        let gradient =
            |(table, rows): (_, Tensor)| RowGradient { table, ids: batch.distinct.shallow_clone(), values: rows.grad() };
        Backward { terms, tables: leaves.into_iter().map(gradient).collect() }
    }

    /// The separate late interaction table, if the stage trains it.
    fn late_table(&self) -> Option<&'static str> {
        self.stage.late_interaction.as_ref().filter(|late| late.own_table).map(|_| encoder::LATE_TOKENS)
    }

    /// Gradient caching (Gao et al., 2021): the loss depends on the batch only through its embeddings. So its gradient with
    /// respect to the embeddings is computed first, and then propagated into the encoder group by group.
    fn backward_cached(&self, rows: &Tensor, late: Option<&Tensor>, batch: &Batch, seed: i64) -> Terms {
        let leaf = rows.detach().set_requires_grad(true);
        let embed = || encoder::encode_rows(self.parameters, self.model, &leaf, batch, self.pass());
        let embeddings = tch::no_grad(embed).set_requires_grad(true); // [2 x pairs, d]
        let losses = self.losses_of(&embeddings, late.unwrap_or(&leaf), batch);
        losses.total().backward();
        let gradient = embeddings.grad();
        let by_group = gradient.zeros_like().index_copy(0, &batch.order, &gradient); // in the order of the groups
        // Repeats the dropout of the first pass: the backward passes in between draw no random numbers.
        tch::manual_seed(seed);
        let mut first = 0;
        for group in &batch.groups {
            let count = group.ids.size()[0];
            let embeddings = encoder::encode_group(self.parameters, self.model, &leaf, group, self.pass());
            (embeddings * by_group.narrow(0, first, count)).sum(Kind::Float).backward();
            first += count;
        }
        (rows * leaf.grad()).sum(Kind::Float).backward();
        losses
    }

    fn pass(&self) -> Pass {
        Pass { kind: self.stage.encoder, dropout: self.stage.dropout, bf16: self.stage.bf16 }
    }

    /// The losses as a function of the sentence embeddings [2 x pairs, d], left sides first, and of late interaction's token
    /// vectors [distinct, d].
    fn losses_of(&self, embeddings: &Tensor, rows: &Tensor, batch: &Batch) -> Terms {
        let stage = self.stage;
        if let Some((passages, encoder)) = batch.passages.as_ref().zip(self.teachers.passages.as_ref()) {
            return self.losses_of_questions(embeddings, &encoder.embed(passages, stage.bf16));
        }
        let pairs = batch.pairs as i64;
        let halves = |rows: &Tensor| (rows.narrow(0, 0, pairs), rows.narrow(0, pairs, pairs));
        let (left, right) = halves(embeddings);
        let mut terms = Terms::default();
        let projected = stage.has_projection().then(|| halves(&heads::project(self.parameters, embeddings)));
        let seen = |projection: bool| projected.as_ref().filter(|_| projection).map_or((&left, &right), |(a, b)| (a, b));
        if let Some(contrastive) = &stage.contrastive {
            let (left, right) = seen(contrastive.projection);
            terms.add(Objective::Contrastive, contrastive.weight, contrastive_loss(left, right, contrastive.temperature));
        }
        if let Some((late, texts)) = stage.late_interaction.as_ref().zip(batch.interaction.as_ref()) {
            let weights = if late.own_table { encoder::LATE_WEIGHTS } else { encoder::TOKEN_WEIGHTS };
            let weights = self.parameters.get(weights).index_select(0, &batch.distinct);
            let loss = late_interaction_loss(&late_interaction_scores(rows, &weights, texts), late.temperature);
            terms.add(Objective::LateInteraction, late.weight, loss);
        }
        if let Some((head, targets)) = stage.vocabulary_head.as_ref().zip(batch.targets.as_ref()) {
            self.add_generative(&mut terms, head, (embeddings, targets), batch);
        }
        if let Some(alignment) = &stage.alignment {
            terms.add(Objective::Alignment, alignment.weight, alignment_loss(&left, &right));
        }
        if let Some(similarity) = &stage.similarity {
            terms.add(Objective::Similarity, similarity.weight, similarity_loss(&left, &right));
        }
        if let Some(margin) = &stage.additive_margin {
            let (left, right) = seen(margin.projection);
            let loss = additive_margin_loss(left, right, margin.margin, margin.temperature);
            terms.add(Objective::AdditiveMargin, margin.weight, loss);
        }
        if let Some(mining) = &stage.translation_mining {
            terms.add(Objective::TranslationMining, mining.weight, translation_mining_loss(&left, &right));
        }
        if let Some((config, anchor)) = stage.anchor.as_ref().zip(self.teachers.anchor.as_ref()) {
            self.add_anchor(&mut terms, config, anchor, (&left, &right), batch);
        }
        if let Some((config, teacher)) = stage.distillation.as_ref().zip(self.teachers.teacher.as_ref()) {
            self.add_distillation(&mut terms, config, teacher, embeddings, batch);
        }
        terms
    }

    /// The losses as a function of the question embeddings and the frozen passage embeddings, both [pairs, d].
    fn losses_of_questions(&self, questions: &Tensor, passages: &Tensor) -> Terms {
        let mut terms = Terms::default();
        if let Some(contrastive) = &self.stage.contrastive {
            let loss = contrastive_loss(questions, passages, contrastive.temperature);
            terms.add(Objective::Contrastive, contrastive.weight, loss);
        }
        terms
    }

    /// Adds XTR or UGT, and SMLM.
    fn add_generative(&self, terms: &mut Terms, head: &VocabularyHeadConfig, of: (&Tensor, &Tensor), batch: &Batch) {
        let ((embeddings, targets), stage) = (of, self.stage);
        let pairs = batch.pairs as i64;
        let seen = pairs.min(head.pairs_max as i64);
        let both = |rows: &Tensor| Tensor::cat(&[rows.narrow(0, 0, seen), rows.narrow(0, pairs, seen)], 0);
        // Left predicts right and right predicts left: sources and targets are the same rows with the halves swapped.
        let swap = |rows: &Tensor| Tensor::cat(&[rows.narrow(0, pairs, seen), rows.narrow(0, 0, seen)], 0);
        let predict =
            |sources: &Tensor, languages: &Tensor| heads::predict_tokens(self.parameters, head, sources, languages, stage.bf16);
        let masked = batch.masked.as_ref();
        if stage.xtr.is_some() || stage.unified_generative.is_some() {
            let log_probs = predict(&both(embeddings), &swap(&batch.languages));
            let targets = swap(targets);
            // The losses are means over both directions; doubling gives their sum.
            if let Some(xtr) = &stage.xtr {
                terms.add(Objective::Xtr, xtr.weight, xtr_loss(&log_probs, &targets) * 2.0);
            }
            if let Some((unified, masked)) = stage.unified_generative.as_ref().zip(masked) {
                let loss = unified_generative_loss(&log_probs, &targets, &both(masked)) * 2.0;
                terms.add(Objective::UnifiedGenerative, unified.weight, loss);
            }
        }
        if let Some((config, masked)) = stage.masked_word.as_ref().zip(masked) {
            let first = Tensor::arange(seen, (Kind::Int64, embeddings.device()));
            let on_right = masked.narrow(0, pairs, seen).ge(0).to_kind(Kind::Int64) * pairs;
            let own = &first + &on_right; // the row of the sentence that lacks a token
            let other = first + pairs - on_right;
            let languages = batch.languages.index_select(0, &own);
            let from = |rows: &Tensor| predict(&embeddings.index_select(0, rows), &languages);
            let loss = masked_word_loss(&from(&own), &from(&other), &masked.index_select(0, &own));
            terms.add(Objective::MaskedWord, config.weight, loss);
        }
    }

    fn add_anchor(&self, terms: &mut Terms, config: &AnchorConfig, anchor: &Frozen, sides: (&Tensor, &Tensor), batch: &Batch) {
        let pairs = batch.pairs as i64;
        let random = (config.random_pairs * pairs as f64).round() as i64;
        let order = random_partners(pairs, random, sides.0.device());
        let (mut tokens, mask) = anchor.embed_tokens(batch, self.stage.bf16);
        if config.unit_length {
            tokens = unit(&tokens);
        }
        let right = |rows: &Tensor| rows.narrow(0, pairs, pairs).index_select(0, &order);
        let left = |rows: &Tensor| rows.narrow(0, 0, pairs);
        let distances = word_movers_distances((&left(&tokens), &left(&mask)), (&right(&tokens), &right(&mask)));
        let (left, right) = (sides.0.shallow_clone(), sides.1.index_select(0, &order));
        if config.translation_mining > 0.0 {
            let weight = config.weight * config.translation_mining;
            terms.add(Objective::TranslationMining, weight, translation_mining_loss(&left, &right));
        }
        let scaled = |rows: Tensor| if config.unit_length { unit(&rows) } else { rows };
        terms.add(Objective::Anchor, config.weight, anchor_loss(&scaled(left), &scaled(right), &distances));
    }

    fn add_distillation(
        &self,
        terms: &mut Terms,
        config: &DistillationConfig,
        teacher: &Frozen,
        embeddings: &Tensor,
        batch: &Batch,
    ) {
        let (batch, embeddings) = match &batch.translations {
            None => (batch, embeddings.shallow_clone()),
            Some(Translations { batch: Some(translations), rows }) => (&**translations, embeddings.index_select(0, rows)),
            Some(Translations { batch: None, .. }) => return,
        };
        let pairs = batch.pairs as i64;
        let taught = teacher.embed(batch, self.stage.bf16); // [2 x pairs, teacher]
        let embeddings = &embeddings;
        if let Some(embedding) = &config.embedding {
            let widened = if teacher.dimension() == self.model.dimension {
                embeddings
            } else {
                &heads::project_to_teacher(self.parameters, embeddings)
            };
            let loss = match embedding.distance {
                Distance::Squared => squared_distance_loss(widened, &taught),
                Distance::Cosine => cosine_distance_loss(widened, &taught),
            };
            terms.add(Objective::TeacherEmbedding, embedding.weight, loss);
        }
        if let Some(similarity) = &config.similarity {
            let halves = |rows: &Tensor| (rows.narrow(0, 0, pairs), rows.narrow(0, pairs, pairs));
            let (student, taught) = (halves(embeddings), halves(&taught));
            let (student, taught) = ((&student.0, &student.1), (&taught.0, &taught.1));
            let loss = similarity_distribution_loss(student, taught, similarity.temperature);
            terms.add(Objective::TeacherSimilarity, similarity.weight, loss);
        }
    }
}

/// For each of `pairs` pairs, the pair whose right sentence it gets: a random other one for `random` of the pairs, its own for
/// the rest. Neighbors in a batch share corpus and languages, and are similar if hard negatives are mined, so the next pair
/// would not be random enough.
fn random_partners(pairs: i64, random: i64, device: Device) -> Tensor {
    let shuffled = Tensor::randperm(pairs, (Kind::Int64, device));
    let own = Tensor::arange(pairs, (Kind::Int64, device));
    // One cycle through all random pairs, so that no pair gets its own sentence.
    let circle = shuffled.narrow(0, 0, random);
    if random < 2 { own } else { own.index_copy(0, &circle, &circle.roll([1], [0])) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_partners_permute_the_pairs_and_never_pick_their_own() {
        tch::manual_seed(3);
        let partners = |pairs, random| Vec::<i64>::try_from(random_partners(pairs, random, Device::Cpu)).unwrap();
        let got = partners(200, 200);
        assert!(got.iter().enumerate().all(|(own, &partner)| own as i64 != partner));
        let neighbors = got.iter().enumerate().filter(|(own, partner)| (**partner - *own as i64).abs() == 1).count();
        assert!(neighbors < 10, "{neighbors} of 200 partners are neighbors");
        let mut sorted = got;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..200).collect::<Vec<_>>());
        assert_eq!(partners(200, 60).iter().enumerate().filter(|(own, partner)| *own as i64 != **partner).count(), 60);
        assert_eq!(partners(3, 1), [0, 1, 2]);
    }
}
