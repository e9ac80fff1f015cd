//! Late interaction in a collection. The near tokens of a question's token depend only on the model and are computed once,
//! so scoring a passage only takes lookups and maxima (`question`). Of a passage, only the token ids are stored.
//!
//! A token of the question has the weight w_i = (n_i u_i)^0.4 ln(1 + 1 / f_i): how often it occurs in the question, times its
//! learned weight (from the table), both with an exponent, times its rarity in the collection. f_i is the share of passages that
//! have the token or a near one, in any language, estimated as if these occurred independently of each other. So "the" has little
//! weight in a question even if all passages are in Japanese.

use std::sync::Arc;

use super::precompute::Precomputation;
use super::question::Question;
use super::rows::{NEAR, NearToken, ONE, Rows, ScorerError};
use super::{TokenIndex, TokenTable};
use crate::domain::RelevanceWeights;

/// Lower bound of the share of passages. A token that occurs in no passage weighs no more than one that occurs in this share,
/// or in one passage.
const SHARE_MIN: f32 = 1e-3;

/// Exponent of a token's learned weight, which makes the weights more alike. `training/README.md` shows how it was chosen.
const LEARNED_POWER: f32 = 0.4;
/// The same for deciding which tokens are significant. A higher one tells words that say little from others.
const SIGNIFICANT_POWER: f32 = 0.7;
/// Minimum weight of a token, as a share of the average in its question, for a match with it to be significant.
const SIGNIFICANT_MIN: f32 = 0.5;
/// The same as a share of the weight of an average token of the vocabulary that is as rare as possible. Either is enough,
/// because even next to a rare number, the words of a question still say something. In the shipped table, articles and
/// prepositions have up to 0.2 and pieces of nouns 0.3 or more.
const SIGNIFICANT_ALONE: f32 = 0.3;

/// A model's token table, prepared for scoring.
pub struct TokenScorer {
    table: Arc<Rows>,
    /// The mean of the learned weights, with `SIGNIFICANT_POWER`.
    average: f32,
    precomputation: Precomputation,
    relevance: RelevanceWeights,
}

impl TokenScorer {
    /// Takes a model's token table. Ids from 65,536 on are never searched for.
    pub fn new(table: TokenTable) -> Self {
        let learned: f32 = table.weights.iter().map(|weight| weight.powf(SIGNIFICANT_POWER)).sum();
        Self {
            average: learned / table.weights.len().max(1) as f32,
            table: Arc::new(Rows::new(table)),
            precomputation: Precomputation::default(),
            relevance: RelevanceWeights::default(),
        }
    }

    /// Sets the model's weights of all evidence.
    pub fn with_relevance(self, relevance: RelevanceWeights) -> Self {
        Self { relevance, ..self }
    }

    /// Returns the weights that combine this score and other evidence into one relevance.
    pub fn relevance(&self) -> RelevanceWeights {
        self.relevance
    }

    /// Starts computing the parts of the table that questions need, in the background. The first question also starts this.
    pub fn precompute(&self) {
        self.precomputation.start(&self.table);
    }

    /// Returns the learned weight of a token as a multiple of the mean.
    pub fn relative_weight(&self, token: u32) -> f32 {
        self.table.weight(token).powf(SIGNIFICANT_POWER) / self.average
    }

    /// Compares the tokens of a question with those of all passages.
    pub fn question(&self, tokens: &[u32], index: &TokenIndex) -> Result<Question, ScorerError> {
        let counted = if index.is_empty() { Vec::new() } else { self.table.weigh_tokens(tokens) };
        let ids: Vec<u16> = counted.iter().map(|&(token, _)| token).collect();
        let near: Vec<Arc<[NearToken]>> = ids.iter().map(|id| self.table.near_tokens(*id)).collect();
        self.precompute();
        let passages = index.len() as f32;
        let share_min = SHARE_MIN.max(1.0 / (passages + 1.0));
        let rarity = |near: &Arc<[NearToken]>| {
            let counted = near.iter().take_while(|near| f32::from(near.cosine) >= NEAR * ONE);
            // The share of passages that have none of the tokens near this one.
            let without: f32 = counted.map(|near| 1.0 - index.frequency(near.token) as f32 / passages).product();
            (1.0 + 1.0 / (1.0 - without).max(share_min)).ln()
        };
        let rarities: Vec<f32> = near.iter().map(rarity).collect();
        let weights = |power: f32| {
            let weight = move |((_, learned), rarity): (&(u16, f32), &f32)| learned.powf(power) * rarity;
            counted.iter().zip(&rarities).map(weight).collect::<Vec<f32>>()
        };
        let significances = weights(SIGNIFICANT_POWER);
        let mean = significances.iter().sum::<f32>() / ids.len().max(1) as f32;
        let average = self.average * (1.0 + 1.0 / share_min).ln();
        let significant_min = (SIGNIFICANT_MIN * mean).min(SIGNIFICANT_ALONE * average);
        let significant = significances.into_iter().map(|significance| significance >= significant_min).collect();
        Question::new(Arc::clone(&self.table), &ids, (weights(LEARNED_POWER), significant), near)
    }
}
