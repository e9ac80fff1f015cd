//! Tests that the program contains the lexicon of the text.

use std::fs;
use std::path::Path;

use super::TRANSLATIONS;
use crate::domain::ConceptWord;
use crate::ranking::{Lexicon, Translations};
use crate::text::lexicon::source::{FOLDER, lines, words_of};
use crate::text::lexicon::{PHRASES, WORDS};

#[test]
fn the_program_contains_the_lexicon_of_the_text() {
    let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/ems-small");
    let table = Translations::read(&bundle.join(TRANSLATIONS)).unwrap();
    let concepts: Vec<Vec<ConceptWord>> = lines().map(|line| words_of(line, |word| table.has(word))).collect();
    let bytes = Lexicon::new(&concepts).to_bytes().unwrap();
    if std::env::var_os("DRAGOMAN_BLESS").is_some() {
        let names = ["words.safetensors", "phrases.safetensors"];
        names.iter().zip(bytes).for_each(|(name, bytes)| fs::write(Path::new(FOLDER).join(name), bytes).unwrap());
        return;
    }
    let help = "the tables are older than the text or the bundle: DRAGOMAN_BLESS=1 cargo test --lib lexicon";
    assert!(bytes == [WORDS, PHRASES], "{help}");
    assert!(Lexicon::from_bytes(WORDS, PHRASES).is_ok());
}
