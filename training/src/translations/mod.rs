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
#[derive(Debug, Clone, clap::Args)]
pub struct Sources {
    /// Folder of corpora, as for `tokenizer`; can be repeated.
    #[arg(long, required = true)]
    pub raw: Vec<PathBuf>,
    /// Folder of parallel word lists and names, all of which are used and count twice; can be repeated.
    #[arg(long)]
    pub words: Vec<PathBuf>,
    /// Folder of additional text for the vocabulary only, not for learning translations; can be repeated.
    #[arg(long)]
    pub texts: Vec<PathBuf>,
    /// Folder whose lines and tab-separated fields must not enter training; can be repeated.
    #[arg(long)]
    pub exclude: Vec<PathBuf>,
    /// Maximum sentences per language.
    #[arg(long = "pairs", value_name = "PAIRS", default_value_t = 150_000)]
    pub pairs_max: usize,
    /// Maximum sentences per language and corpus.
    #[arg(long = "corpus-pairs", value_name = "CORPUS_PAIRS", default_value_t = 30_000)]
    pub corpus_pairs_max: usize,
    /// Maximum words per language: the most frequent ones. Words from the word lists are added on top.
    #[arg(long = "words-per-language", value_name = "WORDS_PER_LANGUAGE", default_value_t = 40_000)]
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
