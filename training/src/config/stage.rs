//! The stages of a run: how long, how fast, and which objectives with which weights.
//!
//! Each objective is a table of its own; a stage runs those in its part of the file. None has a default, so that the file
//! says everything.

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
    /// Optimizer steps.
    pub steps: u64,
    /// Sentence pairs per step (the paper: 152).
    pub batch_pairs: usize,
    /// Maximum tokens to read of one text in this stage; at most the model's.
    pub tokens_max: i64,
    /// Highest learning rate (the paper: 3e-4).
    pub learning_rate: f64,
    /// The token table's learning rate relative to the others': below 1 preserves what an earlier stage taught it while new
    /// layers learn.
    pub token_rate_scale: f64,
    /// Steps of linear warm-up (the paper: 10,000).
    pub warmup_steps: u64,
    /// Last part of the stage over which the rate falls to zero, 0 to 1.
    pub decay_share: f64,
    /// Decoupled weight decay (the paper: 1e-5), not applied to biases, norms and the token table.
    pub weight_decay: f64,
    /// Dropout of hidden states and attention (the paper: 0.1).
    pub dropout: f64,
    /// Probability that a token is left out of a text.
    pub token_dropout: f64,
    /// Share of the pairs, 0 to 1, whose sides join two to four segments of the same corpus into one text, if they fit: for
    /// texts that are longer than a sentence.
    pub joined_share: f64,
    /// Maximum norm of the gradient; 0 means no limit.
    pub gradient_norm_max: f64,
    /// Whether to multiply matrices in bfloat16, with master weights in float32.
    pub bf16: bool,
    /// Embeds the batch without recording the graph, and again group by group with the gradient of the loss (Gao et al., 2021):
    /// memory for one group's activations instead of the batch's, at the price of a second forward pass. The gradient is the
    /// same.
    pub gradient_cache: bool,
    /// Pairs of a run that are hard to tell apart; without it, any pairs of a corpus and two languages.
    pub hard_negatives: Option<HardNegativesConfig>,
    /// Texts without diacritics, as some people type; without it all keep theirs.
    pub missing_diacritics: Option<MissingDiacriticsConfig>,
    /// Pairs with only a part of the text on one side; without it both sides are whole.
    pub cropping: Option<CroppingConfig>,
    /// Averages the weights over steps; without it the stage ends with those of its last step.
    pub averaging: Option<Averaging>,
    /// Interpolates the final weights of the stage with those of an earlier stage.
    pub interpolation: Option<InterpolationConfig>,
    /// EMS, section III-C.
    pub contrastive: Option<ContrastiveConfig>,
    /// Additive margin softmax instead of the contrastive objective (EMS, section V).
    pub additive_margin: Option<AdditiveMarginConfig>,
    /// Late interaction of the token table's own rows, by which the server scores a question and a passage.
    pub late_interaction: Option<LateInteractionConfig>,
    /// The head by which XTR, UGT and SMLM predict tokens.
    pub vocabulary_head: Option<VocabularyHeadConfig>,
    /// EMS, section III-B.
    pub xtr: Option<ObjectiveConfig>,
    /// UGT instead of XTR (lightweight, section 3.2).
    pub unified_generative: Option<ObjectiveConfig>,
    /// SMLM (lightweight, eq. 1).
    pub masked_word: Option<ObjectiveConfig>,
    /// Lightweight, eq. 5; the paper's weight beside UGT's 1 is 2.
    pub alignment: Option<ObjectiveConfig>,
    /// Lightweight, eq. 6; the paper's weight beside UGT's 1 is 2.
    pub similarity: Option<ObjectiveConfig>,
    /// DuEAM's translation mining without an anchor (eq. 2 alone).
    pub translation_mining: Option<ObjectiveConfig>,
    /// DuEAM.
    pub anchor: Option<AnchorConfig>,
    /// A teacher.
    pub distillation: Option<DistillationConfig>,
    /// Freezes the encoder of the right sides: what learns is a question encoder beside it.
    pub resting_passages: Option<RestingPassagesConfig>,
}

/// What runs in a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EncoderKind {
    /// The mean of the token vectors.
    Bag,
    /// The Transformer.
    Transformer,
}

/// Hard negatives mined with the model itself: of several pairs drawn for each one of a run, those near the first one are used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardNegativesConfig {
    /// The earlier stage of the run whose token table measures nearness.
    pub stage: String,
    /// Pairs drawn for each one that is used.
    pub pool: usize,
}

/// Texts without diacritics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingDiacriticsConfig {
    /// Share of the texts that lose them, above 0 and at most 1.
    pub share: f64,
}

/// A part of a text, at most half of its tokens, beside the whole translation: people search for a text by a few of its words.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CroppingConfig {
    /// Share of the pairs, above 0 and at most 1.
    pub share: f64,
}

/// How the final weights of a stage are averaged over its steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case", deny_unknown_fields)]
pub enum Averaging {
    /// Each step moves the average towards the weights by 1 - decay; after n steps by at least 9 / (10 + n), so that the average
    /// forgets where it started.
    Exponential {
        /// The decay of the average, between 0 and 1.
        decay: f64,
    },
    /// The plain average over the steps of the stage's last part.
    LastPart {
        /// That part, above 0 and at most 1.
        share: f64,
    },
}

/// A stage that teaches something new forgets some of what was learned before; on the straight line between the weights before
/// and after, there are some that have most of both (WiSE-FT, Wortsman et al., 2022).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterpolationConfig {
    /// The earlier stage. Weights that it does not have stay as the later one learned them.
    pub stage: String,
    /// How far to go from its weights to the later ones, above 0 and at most 1.
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
    /// Whether it sees the sentence embedding through the two-layer projection (EMS, eq. 10 and 11; the paper: yes).
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
    /// Whether it sees the sentence embedding through the two-layer projection: LaBSE-EMS-MLP and -joint do, -vanilla does not.
    pub projection: bool,
}

/// Late interaction: each token of the left text looks for its nearest token in the right one (ColBERT's sum of maxima, over the
/// rows of the token table).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateInteractionConfig {
    /// Weight in the sum.
    pub weight: f64,
    /// Temperature of the softmax over the batch's right texts; scores are weighted means of cosines, -1 to 1.
    pub temperature: f64,
    /// Maximum pairs per batch for this objective: every left token is compared with every right one.
    pub pairs_max: usize,
    /// Whether it learns a table of its own, which starts as the token table and leaves that to the embeddings.
    pub own_table: bool,
}

/// The head that predicts tokens from a sentence embedding (EMS, eq. 4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VocabularyHeadConfig {
    /// Maximum pairs per batch for this head; the softmax over the vocabulary is the most expensive part of a small model's step.
    pub pairs_max: usize,
    /// Whether it gets the language to predict in (EMS, eq. 2 and 3; the paper: yes).
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
    /// λ, weight of the translation mining loss of equation 2 relative to equation 1's (the paper: 0.003); 0 leaves it out.
    pub translation_mining: f64,
    /// Share of the pairs whose right sentence comes from another pair, 0 to 1: DuEAM's unsupervised pairs are random, 1.
    pub random_pairs: f64,
    /// Whether the anchor's token embeddings and the learner's sentence embeddings are scaled to unit length before distances are
    /// computed. The paper's equations do not; but e^(-distance) is 0 in float32 if embeddings are long, as those of a pre-norm
    /// encoder are.
    pub unit_length: bool,
    /// Configuration of the frozen anchor.
    pub config: PathBuf,
    /// Its weights, as `train` leaves them after a stage. It has the tokenizer of the run.
    pub weights: PathBuf,
}

/// Distillation of a teacher: of its embeddings, of its similarities, or of both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistillationConfig {
    /// Configuration of the teacher; its width and layers may differ from the student's.
    pub config: PathBuf,
    /// Its weights, as written by `train` after a stage. It must have the tokenizer of the run.
    pub weights: PathBuf,
    /// Whether it teaches only translation pairs: questions and passages are then free to move.
    pub translations_only: bool,
    /// The teacher's embeddings. If the dimensions differ, the student's go through a linear layer that exists only in training.
    pub embedding: Option<TeacherEmbeddingConfig>,
    /// The teacher's similarities within the batch.
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

/// A separate question encoder: it learns to find the embeddings that an earlier encoder gives to passages, which stay
/// as they are (query-side fine-tuning: Lee et al., 2021, DensePhrases, section 4.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestingPassagesConfig {
    /// The earlier stage whose encoder embeds the passages.
    pub stage: String,
}

impl StageConfig {
    /// Whether any objective sees the sentence embedding through the two-layer projection.
    pub fn has_projection(&self) -> bool {
        self.contrastive.as_ref().is_some_and(|it| it.projection) || self.additive_margin.as_ref().is_some_and(|it| it.projection)
    }

    /// Whether it trains late interaction's own table alone, and no encoder.
    pub fn leaves_encoder(&self) -> bool {
        let own_table = self.late_interaction.as_ref().is_some_and(|late| late.own_table);
        own_table && self.contrastive.is_none() && !self.has_other_than_late_and_contrastive()
    }

    /// Whether it has an objective besides the contrastive one.
    pub fn has_other_than_contrastive(&self) -> bool {
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
