//! From raw text to token ids, passages and a language. The trainer and the server both go through here.

pub mod diacritics;
pub mod error;
pub mod language;
mod moses;
pub mod normalize;
mod preprocess;
pub mod segment;
pub mod terms;
pub mod tokenize;
mod words;

pub use crate::bundle::TEXT_VERSION;
pub use error::TextError;
pub use language::{LanguageDetector, head::LanguageHead};
pub use segment::{Cut, split_passages};
pub use tokenize::{Tokenizer, Tokens};
