//! Turns raw text into token ids and passages, and detects languages. The trainer and the server share this.

pub mod context;
pub mod dates;
pub mod diacritics;
pub mod error;
mod graphemes;
pub mod keyboard;
pub mod language;
pub mod literal_parts;
pub mod marks;
mod months;
mod moses;
pub mod normalize;
pub mod plain_words;
mod preprocess;
pub mod query;
pub mod query_words;
mod runs;
mod sections;
pub mod segment;
pub mod sentence_spans;
mod sentences;
mod sound;
pub mod spellings;
pub mod stems;
mod structure;
pub mod terms;
pub mod tokenize;
mod unigram;
pub mod word_counts;
mod word_parts;
mod words;

pub use crate::bundle::TEXT_VERSION;
pub use error::TextError;
pub use language::{LanguageDetector, head::LanguageHead};
pub use segment::{PassageLimits, TextPassage, split_passages, split_text};
pub use tokenize::{Tokenize, Tokenizer, Tokens};
