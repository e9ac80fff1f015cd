//! The subcommand `translations`: learns word translations from parallel text.

use std::path::PathBuf;

use clap::Args;

use crate::error::Error;
use crate::translations::{self, Sources};

/// Input and output of `translations`.
#[derive(Debug, Args)]
pub struct TranslationsArguments {
    /// The texts to learn from.
    #[command(flatten)]
    pub sources: Sources,
    /// The table to write, for `add-translations`.
    #[arg(long)]
    pub out: PathBuf,
}

impl TranslationsArguments {
    /// Learns the table and writes it.
    pub fn run(&self) -> Result<(), Error> {
        let table = translations::learn(&self.sources)?;
        table.write(&self.out)?;
        println!("{} words in {}", table.len(), self.out.display());
        Ok(())
    }
}
