//! The arguments of all commands that write a bundle.

use std::path::{Path, PathBuf};

use dragoman::domain::RelevanceWeights;

use crate::error::Error;

/// The bundle to write.
#[derive(Debug, Clone, clap::Args)]
pub struct NewBundle {
    /// Version of the bundle.
    #[arg(long)]
    pub bundle_version: String,
    /// Folder of the bundle; an existing one is replaced.
    #[arg(long)]
    pub out: PathBuf,
    /// JSON with the relevance weights of search, as written by `relevance`. Defaults to those of the existing bundle, or to
    /// those of the first models with late interaction.
    #[arg(long)]
    pub relevance: Option<PathBuf>,
    /// Markdown to include in the model card: what its tables do not say.
    #[arg(long)]
    pub notes: Option<PathBuf>,
}

impl NewBundle {
    /// The relevance weights, if a file is given.
    pub fn relevance_weights(&self) -> Result<Option<RelevanceWeights>, Error> {
        let Some(path) = &self.relevance else { return Ok(None) };
        serde_json::from_str(&read(path)?).map(Some).map_err(|error| {
            let problem = format!("expected dense, late, lexical, translated, tokens and bias as numbers: {error}");
            Error::Content { path: path.clone(), problem }
        })
    }

    /// The additional text of the model card.
    pub fn notes_text(&self) -> Result<Option<String>, Error> {
        self.notes.as_deref().map(read).transpose()
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::file(path, source))
}
