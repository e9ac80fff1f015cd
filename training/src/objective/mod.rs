//! Objectives: functions from tensors to a loss, without models or files. A step's loss is their weighted sum.

use tch::{Kind, Tensor};

/// Additive margin softmax (EMS, section V).
pub mod additive_margin;
/// Sentence alignment (lightweight, eq. 5).
pub mod alignment;
/// The anchor-learner (DuEAM, eq. 1 and 2).
pub mod anchor;
/// Sentence-level contrastive objective (EMS, eq. 8 and 9).
pub mod contrastive;
/// Distillation of a teacher.
pub mod distillation;
/// Late interaction of token vectors.
pub mod late_interaction;
/// Sentence similarity (lightweight, eq. 6).
pub mod similarity;
/// Single-word masked language model and unified generative task (lightweight, eq. 1 and 4).
pub mod unified_generative;
/// Word Mover's Distance.
pub mod word_movers;
/// Cross-lingual token reconstruction (EMS, eq. 6 and 7).
pub mod xtr;

/// The losses that a stage can minimize, in the order of the log's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Objective {
    /// EMS, eq. 8.
    Contrastive,
    /// EMS, eq. 6.
    Xtr,
    /// Lightweight, eq. 1.
    MaskedWord,
    /// Lightweight, eq. 2 with the labels of eq. 4.
    UnifiedGenerative,
    /// Lightweight, eq. 5.
    Alignment,
    /// Lightweight, eq. 6.
    Similarity,
    /// EMS, section V.
    AdditiveMargin,
    /// DuEAM, eq. 1.
    Anchor,
    /// DuEAM, eq. 2.
    TranslationMining,
    /// Distance to the teacher's embeddings.
    TeacherEmbedding,
    /// Divergence from the teacher's similarities.
    TeacherSimilarity,
    /// Sum of maxima over the token table.
    LateInteraction,
}

impl Objective {
    /// All objectives, in the order of the log's columns.
    pub const ALL: [Self; 12] = [
        Self::Contrastive,
        Self::Xtr,
        Self::MaskedWord,
        Self::UnifiedGenerative,
        Self::Alignment,
        Self::Similarity,
        Self::AdditiveMargin,
        Self::Anchor,
        Self::TranslationMining,
        Self::TeacherEmbedding,
        Self::TeacherSimilarity,
        Self::LateInteraction,
    ];

    /// Its column in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Contrastive => "contrastive",
            Self::Xtr => "xtr",
            Self::MaskedWord => "masked_word",
            Self::UnifiedGenerative => "unified_generative",
            Self::Alignment => "alignment",
            Self::Similarity => "similarity",
            Self::AdditiveMargin => "additive_margin",
            Self::Anchor => "anchor",
            Self::TranslationMining => "translation_mining",
            Self::TeacherEmbedding => "teacher_embedding",
            Self::TeacherSimilarity => "teacher_similarity",
            Self::LateInteraction => "late_interaction",
        }
    }
}

/// One term of a step's loss.
#[derive(Debug)]
pub struct Term {
    /// The objective.
    pub objective: Objective,
    /// Its weight in the sum.
    pub weight: f64,
    /// Its loss, an unweighted scalar.
    pub loss: Tensor,
}

/// The losses of one step, kept as tensors to avoid waiting for the device.
#[derive(Debug, Default)]
pub struct Terms {
    terms: Vec<Term>,
}

impl Terms {
    /// Adds a term.
    pub fn add(&mut self, objective: Objective, weight: f64, loss: Tensor) {
        self.terms.push(Term { objective, weight, loss });
    }

    /// The weighted sum to differentiate (EMS, eq. 12; lightweight, eq. 7; DuEAM, section 3.3); 0 without terms.
    pub fn total(&self) -> Tensor {
        let weighted = self.terms.iter().map(|term| &term.loss * term.weight);
        weighted.reduce(|sum, term| sum + term).unwrap_or_else(|| Tensor::zeros([], (Kind::Float, tch::Device::Cpu)))
    }

    /// The loss of one objective.
    pub fn get(&self, objective: Objective) -> Option<&Tensor> {
        self.terms.iter().find(|term| term.objective == objective).map(|term| &term.loss)
    }

    /// The terms, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Term> {
        self.terms.iter()
    }
}
