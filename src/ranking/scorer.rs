//! Late interaction against a collection: what a token of a question is near to is known from the model alone and remembered, and
//! each passage is then look-ups and maxima (`question`). Nothing is stored for a passage but its token ids.
//!
//! A token of the question weighs w_i = n_i u_i ln(1 + 1 / f_i): how often it occurs in the question, times what the model has
//! learned that it says (the table's weights), times how rare it is in the collection. f_i is the share of the passages that have
//! the token or one that is near to it, in any language, as if these occurred independently of each other: so "the" weighs little in a
//! question even where all passages are in Japanese.

use std::sync::Arc;

use super::question::Question;
use super::rows::{NEAR, NearToken, ONE, Rows, ScorerError};
use super::{TokenIndex, TokenTable};
use crate::domain::RelevanceWeights;

/// The least share of passages that counts, and one passage at least: what is in none weighs no more than what is in that many.
const SHARE_MIN: f32 = 1e-3;

/// A model's token table, ready for products.
pub struct TokenScorer {
    table: Arc<Rows>,
    relevance: RelevanceWeights,
}

impl TokenScorer {
    /// Takes a model's token table. Ids from 65,536 on are never looked for.
    pub fn new(table: TokenTable) -> Result<Self, ScorerError> {
        Ok(Self { table: Arc::new(Rows::new(table)?), relevance: RelevanceWeights::default() })
    }

    /// The same with the model's weights of all evidence.
    pub fn weighing(self, relevance: RelevanceWeights) -> Self {
        Self { relevance, ..self }
    }

    /// How this score and other evidence become one relevance.
    pub fn relevance(&self) -> RelevanceWeights {
        self.relevance
    }

    /// Compares the tokens of a question with those of all passages.
    pub fn question(&self, tokens: &[u32], index: &TokenIndex) -> Result<Question, ScorerError> {
        let counted = if index.is_empty() { Vec::new() } else { self.table.counted(tokens) };
        let ids: Vec<u16> = counted.iter().map(|&(token, _)| token).collect();
        let near = self.table.near(&ids)?;
        let passages = index.len() as f32;
        let share_min = SHARE_MIN.max(1.0 / (passages + 1.0));
        let weight = |(&(_, weight), near): (&(u16, f32), &Arc<[NearToken]>)| {
            let counted = near.iter().take_while(|near| f32::from(near.cosine) >= NEAR * ONE);
            // The share of the passages that have none of the tokens near to this one.
            let without: f32 = counted.map(|near| 1.0 - index.frequency(near.token) as f32 / passages).product();
            weight * (1.0 + 1.0 / (1.0 - without).max(share_min)).ln()
        };
        let weights = counted.iter().zip(&near).map(weight).collect();
        Question::new(Arc::clone(&self.table), &ids, weights, near)
    }
}
