//! The stages of a run: length, learning rate, and the weighted objectives.
//!
//! Each objective has its own table; a stage runs the objectives whose tables it has. There are no defaults, so the file is the
//! complete description of the run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One stage of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageConfig {
    /// Its name in logs, and the name of its weights file.
    pub name: String,
    /// Whether the Transformer runs, or only the mean of the token vectors.
    pub encoder: EncoderKind,
    /// Number of optimizer steps.
    pub steps: u64,
    /// Sentence pairs per step (the paper: 152).
    pub batch_pairs: usize,
    /// Maximum tokens to read of one text in this stage; at most the model's.
    pub tokens_max: i64,
    /// Peak learning rate (the paper: 3e-4).
    pub learning_rate: f64,
    /// The token table's learning rate relative to the others': a value below 1 preserves what an earlier stage taught it while
    /// new layers learn.
    pub token_rate_scale: f64,
    /// Steps of linear warm-up (the paper: 10,000).
    pub warmup_steps: u64,
    /// Final share of the stage, 0 to 1, over which the rate falls to zero.
    pub decay_share: f64,
    /// Decoupled weight decay (the paper: 1e-5), not applied to biases, norms and the token table.
    pub weight_decay: f64,
    /// Dropout of hidden states and attention (the paper: 0.1).
    pub dropout: f64,
    /// Probability of dropping a token of a text.
    pub token_dropout: f64,
    /// Share of the pairs, 0 to 1, whose sides each concatenate two to four segments of the same corpus into one text, if they
    /// fit; teaches texts longer than a sentence.
    pub joined_share: f64,
    /// Maximum norm of the gradient; 0 means no limit.
    pub gradient_norm_max: f64,
    /// Whether to multiply matrices in bfloat16, with master weights in float32.
    pub bf16: bool,
    /// Embeds the batch without recording the graph, then again group by group with the gradient of the loss (Gao et al.,
    /// 2021). This needs memory for one group's activations instead of the batch's, and costs a second forward pass. The
    /// gradient is the same.
    pub gradient_cache: bool,
    /// Makes the pairs of a run hard to tell apart; without it, a run has random pairs of one corpus and two languages.
    pub hard_negatives: Option<HardNegativesConfig>,
    /// Strips the diacritics of this share of the texts, as many people type them; without it, all texts keep theirs.
    pub missing_diacritics: Option<ShareConfig>,
    /// Crops one side of this share of the pairs to at most half of its tokens while its translation stays whole: people search
    /// for a text by a few of its words. Without it, both sides are whole.
    pub cropping: Option<ShareConfig>,
    /// Subword regularization: this share of the tokens is replaced by two tokens with the same characters, chosen at random, so
    /// that the parts of rare and inflected words learn from frequent ones (like BPE-dropout: Provilkov et al., 2020, section
    /// 3). Without it, texts have the tokenizer's own tokens.
    pub subword_splits: Option<ShareConfig>,
    /// Averages the weights over steps; without it, the stage ends with the weights of its last step.
    pub averaging: Option<Averaging>,
    /// Interpolates the final weights of the stage with those of an earlier stage.
    pub interpolation: Option<InterpolationConfig>,
    /// EMS, section III-C.
    pub contrastive: Option<ContrastiveConfig>,
    /// Additive margin softmax instead of the contrastive objective (EMS, section V).
    pub additive_margin: Option<AdditiveMarginConfig>,
    /// Late interaction over the rows of the token table, which the server uses to score passages for a question.
    pub late_interaction: Option<LateInteractionConfig>,
    /// The head with which XTR, UGT and SMLM predict tokens.
    pub vocabulary_head: Option<VocabularyHeadConfig>,
    /// EMS, section III-B.
    pub xtr: Option<ObjectiveConfig>,
    /// UGT instead of XTR (lightweight, section 3.2).
    pub unified_generative: Option<ObjectiveConfig>,
    /// SMLM (lightweight, eq. 1).
    pub masked_word: Option<ObjectiveConfig>,
    /// Lightweight, eq. 5; the paper's weight is 2, with 1 for UGT.
    pub alignment: Option<ObjectiveConfig>,
    /// Lightweight, eq. 6; the paper's weight is 2, with 1 for UGT.
    pub similarity: Option<ObjectiveConfig>,
    /// DuEAM's translation mining without an anchor (L_B of eq. 2 alone).
    pub translation_mining: Option<ObjectiveConfig>,
    /// DuEAM's anchor-learner objective.
    pub anchor: Option<AnchorConfig>,
    /// Distillation from a teacher.
    pub distillation: Option<DistillationConfig>,
    /// Freezes the encoder of the right sides and trains a separate question encoder next to it.
    pub resting_passages: Option<RestingPassagesConfig>,
    /// Trains a separate question encoder together with the encoder of passages.
    pub question_encoder: Option<QuestionEncoderConfig>,
}

/// Which encoder a stage runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EncoderKind {
    /// The mean of the token vectors.
    Bag,
    /// The Transformer.
    Transformer,
}

/// Hard negatives mined with the model itself: of several pairs drawn for each pair of a run, those nearest to the first are
/// used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardNegativesConfig {
    /// The earlier stage of the run whose token table measures similarity.
    pub stage: String,
    /// Pairs drawn for each one that is used.
    pub pool: usize,
}

/// A change of texts with no setting but how often it is made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareConfig {
    /// Share of what it is applied to, above 0 and at most 1.
    pub share: f64,
}

/// How the final weights of a stage are averaged over its steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case", deny_unknown_fields)]
pub enum Averaging {
    /// Each step moves the average towards the weights by 1 - decay; after n steps by at least 9 / (10 + n), so that the
    /// average forgets its starting point.
    Exponential {
        /// The decay of the average, between 0 and 1.
        decay: f64,
    },
    /// The plain average over the last steps of the stage.
    LastPart {
        /// The share of the stage's steps to average, above 0 and at most 1.
        share: f64,
    },
}

/// Interpolation with the weights of an earlier stage. A stage that teaches something new forgets some of what was learned
/// before; on the straight line between the weights before and after, some points keep most of both (WiSE-FT, Wortsman et al.,
/// 2022).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterpolationConfig {
    /// The earlier stage. Weights that it does not have keep their values from the later stage.
    pub stage: String,
    /// The later stage's share of the interpolated weights, above 0 and at most 1.
    pub share: f64,
}

/// An objective with no setting but its weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectiveConfig {
    /// Weight in the sum (EMS, eq. 12: 1).
    pub weight: f64,
}

/// The contrastive objective (EMS, eq. 8).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContrastiveConfig {
    /// Weight in the sum; the paper: 1.
    pub weight: f64,
    /// Temperature T (the paper: 0.1).
    pub temperature: f64,
    /// Whether it uses the two-layer projection of the sentence embedding (EMS, eq. 10 and 11; the paper: yes).
    pub projection: bool,
}

/// Additive margin softmax (EMS, section V).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdditiveMarginConfig {
    /// Weight in the sum; the paper: 1.
    pub weight: f64,
    /// Margin in cosine by which a translation must be nearer than all other sentences (the paper: 0.3).
    pub margin: f64,
    /// Temperature (the paper: 0.1).
    pub temperature: f64,
    /// Whether it uses the two-layer projection of the sentence embedding: LaBSE-EMS-MLP and -joint do, -vanilla does not.
    pub projection: bool,
}

/// Late interaction: each token of the left text is matched with its nearest token in the right text (ColBERT's sum of maxima,
/// over the rows of the token table).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateInteractionConfig {
    /// Weight in the sum.
    pub weight: f64,
    /// Temperature of the softmax over the batch's right texts; scores are weighted means of cosines, -1 to 1.
    pub temperature: f64,
    /// Maximum pairs per batch for this objective, because every left token is compared with every right one.
    pub pairs_max: usize,
    /// Whether it trains a separate table, initialized from the token table, which then belongs to the embeddings alone.
    pub own_table: bool,
}

/// The head that predicts tokens from a sentence embedding (EMS, eq. 4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VocabularyHeadConfig {
    /// Maximum pairs per batch for this head, because the softmax over the vocabulary is the most expensive part of a small
    /// model's step.
    pub pairs_max: usize,
    /// Whether the head gets the target language as an input (EMS, eq. 2 and 3; the paper: yes).
    pub language_token: bool,
    /// Whether the token table is also its output embedding, as in the lightweight paper; EMS has separate weights.
    pub shared_embedding: bool,
}

/// The anchor-learner (DuEAM, eq. 1 and 2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchorConfig {
    /// Weight of equation 1 in the sum.
    pub weight: f64,
    /// λ, the weight of the translation mining loss of equation 2 relative to equation 1 (the paper: 0.003); 0 turns it off.
    pub translation_mining: f64,
    /// Share of the pairs whose right sentence comes from another pair, 0 to 1. DuEAM's unsupervised pairs are all random: 1.
    pub random_pairs: f64,
    /// Whether the anchor's token embeddings and the learner's sentence embeddings are scaled to unit length before distances
    /// are computed. The paper's equations do not scale them, but e^(-distance) is 0 in float32 for long embeddings such as
    /// those of a pre-norm encoder.
    pub unit_length: bool,
    /// Configuration of the frozen anchor.
    pub config: PathBuf,
    /// Its weights, as written by `train` after a stage. The anchor must have the tokenizer of the run.
    pub weights: PathBuf,
}

/// Distillation from a teacher: of its embeddings, its similarities, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistillationConfig {
    /// Configuration of the teacher; its width and layers may differ from the student's.
    pub config: PathBuf,
    /// Its weights, as written by `train` after a stage. The teacher must have the tokenizer of the run.
    pub weights: PathBuf,
    /// Whether to distill on translation pairs only, which leaves questions and passages free to move.
    pub translations_only: bool,
    /// Distills the teacher's embeddings. If the dimensions differ, the student's embeddings go through a linear layer that
    /// exists only in training.
    pub embedding: Option<TeacherEmbeddingConfig>,
    /// Distills the teacher's similarities within the batch.
    pub similarity: Option<TeacherSimilarityConfig>,
}

/// Distillation of embeddings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeacherEmbeddingConfig {
    /// Weight in the sum.
    pub weight: f64,
    /// The distance to minimize.
    pub distance: Distance,
}

/// The distance of two embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distance {
    /// Squared Euclidean distance.
    Squared,
    /// 1 - cosine.
    Cosine,
}

/// Distillation of similarities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeacherSimilarityConfig {
    /// Weight in the sum.
    pub weight: f64,
    /// Temperature of both distributions.
    pub temperature: f64,
}

/// A separate question encoder: it learns to find the embeddings that an earlier, frozen encoder gives to passages (query-side
/// fine-tuning: Lee et al., 2021, DensePhrases, section 4.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestingPassagesConfig {
    /// The earlier stage whose encoder embeds the passages.
    pub stage: String,
}

/// A separate encoder of questions that learns together with the encoder of passages (two towers: DPR, Karpukhin et al., 2020,
/// section 3.1). Both read the same token table. It starts as a copy of the encoder of passages, and reads the left sides of
/// directed pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionEncoderConfig {
    /// Share of the translations, 0 to 1, whose left side it reads too, since people also search by a sentence.
    pub translation_share: f64,
}

impl StageConfig {
    /// Whether any objective uses the two-layer projection of the sentence embedding.
    pub fn has_projection(&self) -> bool {
        self.contrastive.as_ref().is_some_and(|it| it.projection) || self.additive_margin.as_ref().is_some_and(|it| it.projection)
    }

    /// Whether the stage trains only the separate late interaction table, and no encoder.
    pub fn trains_only_late_table(&self) -> bool {
        let own_table = self.late_interaction.as_ref().is_some_and(|late| late.own_table);
        own_table && self.contrastive.is_none() && !self.has_other_than_late_and_contrastive()
    }

    /// Whether the stage has an objective besides the contrastive one.
    pub fn has_other_objectives(&self) -> bool {
        self.late_interaction.is_some() || self.has_other_than_late_and_contrastive()
    }

    fn has_other_than_late_and_contrastive(&self) -> bool {
        self.additive_margin.is_some()
            || self.vocabulary_head.is_some()
            || self.alignment.is_some()
            || self.similarity.is_some()
            || self.translation_mining.is_some()
            || self.anchor.is_some()
            || self.distillation.is_some()
    }

    /// Whether one token of each pair is hidden from the encoder.
    pub fn masks_words(&self) -> bool {
        self.unified_generative.is_some() || self.masked_word.is_some()
    }
}
