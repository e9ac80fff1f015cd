//! The shipped model's tokenizer, for tests.

use std::path::Path;

use dragoman::text::Tokenizer;

/// The tokenizer.
pub fn tokenizer() -> Tokenizer {
    Tokenizer::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/ems-small/tokenizer.json")).unwrap()
}

/// The token ids of a text.
pub fn ids(text: &str) -> Vec<u16> {
    tokenizer().encode(text, usize::MAX).unwrap().ids.into_iter().map(|id| u16::try_from(id).unwrap()).collect()
}
