//! From raw text to token ids, passages and a language. The trainer and the server both go through here.

pub mod error;
mod frequent_words;
pub mod language;
pub mod normalize;
pub mod segment;
pub mod tokenize;

pub use crate::bundle::TEXT_VERSION;
pub use error::TextError;
pub use language::LanguageDetector;
pub use segment::split_passages;
pub use tokenize::{Tokenizer, Tokens};
