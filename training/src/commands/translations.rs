//! The subcommands `translations` and `add-translations`: learn word translations from parallel text, and add them to a bundle.

use std::path::PathBuf;

use clap::Args;

use super::bundle_arguments::{notes_text, relevance_weights};
use crate::error::Error;
use crate::export::translations::{TranslationOptions, add_translations};
use crate::translations::{self, Sources};

/// Input and output of `translations`.
#[derive(Debug, Args)]
pub struct TranslationsArguments {
    /// Folder of corpora, as for `tokenizer`; can be repeated.
    #[arg(long, required = true)]
    pub raw: Vec<PathBuf>,
    /// Folder of parallel word lists and names, all of which are used; can be repeated.
    #[arg(long)]
    pub words: Vec<PathBuf>,
    /// Folder of additional text for the vocabulary only, not for learning translations; can be repeated.
    #[arg(long)]
    pub texts: Vec<PathBuf>,
    /// Folder whose lines and tab-separated fields must not enter training; can be repeated.
    #[arg(long)]
    pub exclude: Vec<PathBuf>,
    /// Maximum sentences per language.
    #[arg(long, default_value_t = 150_000)]
    pub pairs: usize,
    /// Maximum sentences per language and corpus.
    #[arg(long, default_value_t = 30_000)]
    pub corpus_pairs: usize,
    /// Maximum words per language: the most frequent ones. Words from the word lists are added on top.
    #[arg(long, default_value_t = 40_000)]
    pub words_per_language: usize,
    /// The table to write, for `add-translations`.
    #[arg(long)]
    pub out: PathBuf,
}

impl TranslationsArguments {
    /// Learns the table and writes it.
    pub fn run(self) -> Result<(), Error> {
        let Self { raw, words, texts, exclude, pairs, corpus_pairs, words_per_language, out } = self;
        let (pairs_max, corpus_pairs_max, words_max) = (pairs, corpus_pairs, words_per_language);
        let sources = Sources { raw, words, texts, exclude, pairs_max, corpus_pairs_max, words_max };
        let table = translations::learn(&sources)?;
        table.write(&out)?;
        println!("{} words in {}", table.len(), out.display());
        Ok(())
    }
}

/// Input and output of `add-translations`.
#[derive(Debug, Args)]
pub struct AddTranslationsArguments {
    /// The bundle to add to.
    #[arg(long)]
    pub bundle: PathBuf,
    /// The table, as written by `translations`.
    #[arg(long)]
    pub translations: PathBuf,
    /// Version of the new bundle.
    #[arg(long)]
    pub bundle_version: String,
    /// Folder of the new bundle; an existing one is replaced.
    #[arg(long)]
    pub out: PathBuf,
    /// JSON with the relevance weights of search, as written by `relevance`. Defaults to the bundle's.
    #[arg(long)]
    pub relevance: Option<PathBuf>,
    /// Markdown to include in the model card's section.
    #[arg(long)]
    pub notes: Option<PathBuf>,
}

impl AddTranslationsArguments {
    /// Writes the bundle.
    pub fn run(&self) -> Result<(), Error> {
        let notes = notes_text(self.notes.as_deref())?;
        let options = TranslationOptions {
            bundle: &self.bundle,
            version: &self.bundle_version,
            folder: &self.out,
            table: &self.translations,
            relevance: relevance_weights(self.relevance.as_deref())?,
            notes: notes.as_deref(),
        };
        print!("{}", add_translations(&options)?);
        Ok(())
    }
}
