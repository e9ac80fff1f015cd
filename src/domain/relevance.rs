//! The weights that combine the evidence for a passage into one relevance. They belong to a model, because they are fitted to
//! its scores.

use serde::{Deserialize, Serialize};

/// The weights of a logistic function of the evidence (`ranking::Evidence`), fitted for a model on held-out questions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelevanceWeights {
    /// Of the cosine of the embeddings.
    pub dense: f32,
    /// Of late interaction.
    pub late: f32,
    /// Of BM25 as a share of the highest possible score.
    pub lexical: f32,
    /// Of words in any language, as a share of the highest possible score; 0 for models without translations.
    #[serde(default)]
    pub translated: f32,
    /// Of the logarithm of 1 + the passage's distinct tokens.
    pub tokens: f32,
    /// The intercept.
    pub bias: f32,
}

/// The weights for bundles whose manifest has none.
impl Default for RelevanceWeights {
    fn default() -> Self {
        Self { dense: 3.81, late: 6.08, lexical: 3.97, translated: 0.0, tokens: -0.51, bias: -1.04 }
    }
}
