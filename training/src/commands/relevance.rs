//! The subcommand `relevance`: fits the relevance weights of search.

use std::path::PathBuf;

use clap::Args;

use super::write_json;
use crate::error::Error;
use crate::relevance;

/// Input and output of `relevance`.
#[derive(Debug, Args)]
pub struct RelevanceArguments {
    /// The bundle.
    #[arg(long)]
    pub bundle: PathBuf,
    /// Folder of retrieval.xx-yy.tsv (question, tab, passage) and of flores.xx.txt, for searches of a few words.
    #[arg(long)]
    pub data: PathBuf,
    /// Maximum questions per file: half of them (every second one) are for fitting, the others for evaluation.
    #[arg(long, default_value_t = 60)]
    pub questions: usize,
    /// The JSON to write, for `--relevance` of `export`, `add-questions` and `add-translations`.
    #[arg(long)]
    pub out: PathBuf,
}

impl RelevanceArguments {
    /// Fits the weights, writes them and prints their evaluation.
    pub fn run(&self) -> Result<(), Error> {
        let fitted = relevance::fit(&self.bundle, &self.data, self.questions)?;
        print!("{fitted}");
        write_json(&self.out, &fitted.weights)
    }
}
