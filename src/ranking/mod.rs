//! How well a passage answers a question, as pure arithmetic on tokens: no index, no store, no model.

pub mod late_interaction;
pub mod token_table;

pub use late_interaction::LateInteraction;
pub use token_table::{TokenTable, TokenTableError};
