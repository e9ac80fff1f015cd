//! The subcommand `translations`: learns word translations from parallel text.

use std::path::PathBuf;

use clap::Args;

use crate::error::Error;
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
