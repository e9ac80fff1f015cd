//! How well a passage answers a question, as pure arithmetic on tokens and scores: no index, no store, no model.

pub mod late_interaction;
pub mod question;
pub mod relevance;
pub mod scorer;
pub mod token_index;
pub mod token_table;
pub mod translations;
pub mod word_index;

pub use late_interaction::LateInteraction;
pub use question::{Question, TokenMatch};
pub use relevance::{Evidence, lexical_share};
pub use scorer::{ScorerError, TokenScorer};
pub use token_index::TokenIndex;
pub use token_table::{TokenTable, TokenTableError};
pub use translations::{Sense, Translations, TranslationsError};
pub use word_index::{WordIndex, WordScores};

use crate::domain::PassageId;

/// The `limit` passages with the highest scores, highest first; of equal ones the older first.
fn best(mut scored: Vec<(PassageId, f32)>, limit: usize) -> Vec<(PassageId, f32)> {
    let better = |a: &(PassageId, f32), b: &(PassageId, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if scored.len() > limit {
        scored.select_nth_unstable_by(limit, better);
        scored.truncate(limit);
    }
    scored.sort_unstable_by(better);
    scored
}
