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
