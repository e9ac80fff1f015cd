//! Adds a translation table to an existing bundle.

use std::path::Path;

use dragoman::bundle::TRANSLATIONS;
use dragoman::domain::RelevanceWeights;
use dragoman::ranking::Translations;
use serde_json::json;

use super::bundle_update::BundleUpdate;
use crate::error::Error;

/// The section of the model card.
const SECTION: &str = "## Translations";

/// The inputs of the new bundle.
#[derive(Debug, Clone, Copy)]
pub struct TranslationOptions<'a> {
    /// The bundle to add to.
    pub bundle: &'a Path,
    /// Semantic version of the new bundle.
    pub version: &'a str,
    /// The folder to write; an existing one is replaced.
    pub folder: &'a Path,
    /// The table, as written by `Translations::write`.
    pub table: &'a Path,
    /// The relevance weights of search; `None` keeps the bundle's.
    pub relevance: Option<RelevanceWeights>,
    /// Additional text of the card's section, as Markdown.
    pub notes: Option<&'a str>,
}

/// Writes the bundle. Returns the section of the model card.
pub fn add_translations(options: &TranslationOptions<'_>) -> Result<String, Error> {
    let mut bundle_update = BundleUpdate::begin(options.bundle, options.folder)?;
    let table = Translations::read(options.table)?;
    table.write(&bundle_update.partial().join(TRANSLATIONS))?;
    options.version.clone_into(&mut bundle_update.manifest.version);
    bundle_update.manifest.relevance = options.relevance.or(bundle_update.manifest.relevance);
    bundle_update.manifest.training["translations"] = json!({ "words": table.len() });
    bundle_update.files.insert(TRANSLATIONS.to_owned());
    let notes = options.notes.map(|notes| format!("{}\n\n", notes.trim())).unwrap_or_default();
    let section = format!(
        "{SECTION}\n\n`{TRANSLATIONS}` has the meanings of {} words of all languages, as far as parallel text shows them. With it,\nsearch also finds the translations of a query's words.\n\n{notes}",
        table.len()
    );
    bundle_update.finish(SECTION, &section)?;
    Ok(section)
}
