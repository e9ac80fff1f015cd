//! Combines all evidence into one relevance: how likely a passage answers a question, between 0 and 1.
//!
//! The relevance is a logistic function of a weighted sum. The weights belong to the model (`bundle::Manifest`). Those of the
//! first model with late interaction were fitted on questions and passages in 46 languages, within and across languages, that
//! the model was not trained on. Their proportions were fitted so that the passage that answers comes first (softmax over the
//! candidates of a question). Their scale was fitted so that 0.5 means that a passage is as likely correct as wrong, if a fifth
//! of the wrong passages are the closest ones and the rest are any passages of the collection.

use crate::domain::RelevanceWeights;

/// The evidence that a passage answers a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// The cosine of the embeddings, -1 to 1.
    pub dense: f32,
    /// The late interaction score, 0 to 1. `None` if the model has no token table.
    pub late: Option<f32>,
    /// BM25 as a share of the highest score for that many words (`lexical_share`).
    pub lexical: f32,
    /// BM25 over words in any language, as a share of the highest score that the question could reach (`WordIndex::score`). 0
    /// without translations.
    pub translated: f32,
    /// Number of distinct tokens of the passage. 0 if unknown.
    pub tokens: usize,
}

/// Returns BM25 as a share of what a question of this many terms could reach among this many passages, about 0 to 1.
pub fn lexical_share(bm25: f32, terms: usize, passages: usize) -> f32 {
    bm25 / (terms.max(1) as f32 * (1.0 + passages as f32).ln().max(1.0))
}

impl Evidence {
    /// Returns how likely the passage answers, 0 to 1.
    pub fn relevance(&self, weights: &RelevanceWeights) -> f32 {
        let Self { dense, late, lexical, translated, tokens } = *self;
        let sum = match late {
            // Accounts for the length, because a long passage has something near to every token.
            Some(late) => {
                let length = (1.0 + tokens as f32).ln();
                let words = weights.lexical * lexical + weights.translated * translated;
                weights.dense * dense + weights.late * late + words + weights.tokens * length + weights.bias
            }
            None => 6.96 * dense + 10.21 * lexical - 1.72,
        };
        1.0 / (1.0 + (-sum).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relevance(evidence: Evidence) -> f32 {
        evidence.relevance(&RelevanceWeights::default())
    }

    const SOME: Evidence = Evidence { dense: 0.4, late: Some(0.5), lexical: 0.1, translated: 0.0, tokens: 40 };

    #[test]
    fn every_kind_of_evidence_raises_the_relevance() {
        let base = relevance(SOME);
        for more in [Evidence { dense: 0.6, ..SOME }, Evidence { late: Some(0.7), ..SOME }, Evidence { lexical: 0.3, ..SOME }] {
            assert!(relevance(more) > base, "{more:?}");
        }
        assert!(relevance(Evidence { tokens: 100, ..SOME }) < base);
        let weights = RelevanceWeights { translated: 2.0, ..RelevanceWeights::default() };
        let translated = Evidence { translated: 0.5, ..SOME };
        assert!(translated.relevance(&weights) > SOME.relevance(&weights));
        assert_eq!(relevance(translated), base, "by default, translations have no weight");
    }

    #[test]
    fn relevance_is_a_probability() {
        let all = Evidence { dense: 1.0, late: Some(1.0), lexical: 1.0, translated: 0.0, tokens: 5 };
        let none = Evidence { dense: -1.0, late: Some(0.0), lexical: 0.0, translated: 0.0, tokens: 100 };
        assert!(relevance(all) > 0.9 && relevance(all) < 1.0, "{}", relevance(all));
        assert!(relevance(none) < 0.01 && relevance(none) > 0.0, "{}", relevance(none));
        assert!(relevance(Evidence { late: None, ..all }) > 0.9 && relevance(Evidence { late: None, ..none }) < 0.02);
    }

    #[test]
    fn the_lexical_share_is_at_most_about_one() {
        // BM25 of a term that occurs once, in only one of 10,000 passages, which has the mean length: its rarity.
        let bm25 = (1.0_f32 + (10_000.0 - 1.0 + 0.5) / 1.5).ln();
        let share = lexical_share(3.0 * bm25, 3, 10_000);
        assert!((0.9..1.0).contains(&share), "{share}");
        assert_eq!(lexical_share(0.0, 0, 0), 0.0);
    }
}
