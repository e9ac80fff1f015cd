//! Learns word translations in all languages from parallel text: the table with which search translates words
//! (`ranking::Translations`).
//!
//! For each language, IBM Model 1 (`model1`) finds the English words that translate its words. The stems of these English words
//! are the concepts; an English word has its own stem as its concept. The concepts of a word are mixed with those of its stem,
//! so that inflected forms without translations of their own are covered (`language`). Then the languages are combined
//! (`table`).

pub mod language;
pub mod model1;
pub mod pairs;
pub mod table;
pub mod vocabulary;

use std::path::PathBuf;

use dragoman::domain::Language;
use dragoman::ranking::Translations;

use crate::data::prepare::excluded_texts;
use crate::error::Error;
use pairs::Pairs;
use table::Table;

/// The pivot language, whose stems are the concepts.
pub const PIVOT: &str = "en";

/// The sources of a table.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Folders of parallel text.
    pub raw: Vec<PathBuf>,
    /// Folders of parallel words and names: all lines are used and count twice.
    pub words: Vec<PathBuf>,
    /// Folders of additional text, for the vocabulary only.
    pub texts: Vec<PathBuf>,
    /// Folders whose lines and fields must not be used.
    pub exclude: Vec<PathBuf>,
    /// Maximum sentence pairs per language.
    pub pairs_max: usize,
    /// Maximum sentence pairs per language and corpus.
    pub corpus_pairs_max: usize,
    /// Maximum words per language: the most frequent ones.
    pub words_max: usize,
}

/// Learns the table; prints a line for each language.
pub fn learn(sources: &Sources) -> Result<Translations, Error> {
    let english = Language::parse(PIVOT).ok_or(Error::Content { path: PIVOT.into(), problem: "no language".to_owned() })?;
    let excluded = excluded_texts(&sources.exclude)?;
    let folders = || sources.raw.iter().chain(&sources.words).chain(&sources.texts);
    let mut vocabularies = vocabulary::count(folders().map(PathBuf::as_path))?;
    let mut table = Table::default();
    for language in Language::all().filter(|language| *language != english) {
        let pairs = Pairs::read(sources, language, english, &excluded)?;
        let vocabulary = vocabularies.remove(&language).unwrap_or_default();
        if pairs.sentences.is_empty() && pairs.words.is_empty() {
            continue;
        }
        let known = language::learn(&pairs, &vocabulary, [language, english], sources.words_max);
        println!("{language}: {} sentences, {} words, {} known", pairs.sentences.len(), pairs.words.len(), known.len());
        table.add(known);
    }
    if table.is_empty() {
        return Err(Error::NoData { path: sources.raw.first().cloned().unwrap_or_default() });
    }
    table.add_pivot(vocabularies.remove(&english).unwrap_or_default(), english, sources.words_max);
    Ok(table.finish())
}
