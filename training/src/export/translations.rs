//! Adds a translation table to an existing bundle.

use std::path::PathBuf;

use dragoman::bundle::TRANSLATIONS;
use dragoman::ranking::Translations;
use serde_json::json;

use super::bundle_update::BundleUpdate;
use super::new_bundle::NewBundle;
use crate::error::Error;

/// The section of the model card.
const SECTION: &str = "## Translations";

/// The command line of `add-translations`.
#[derive(Debug, Clone, clap::Args)]
pub struct TranslationOptions {
    /// The bundle to add to.
    #[arg(long)]
    pub bundle: PathBuf,
    /// The table, as written by `translations`.
    #[arg(long)]
    pub translations: PathBuf,
    /// The bundle to write.
    #[command(flatten)]
    pub new_bundle: NewBundle,
}

/// Writes the bundle. Returns the section of the model card.
pub fn add_translations(options: &TranslationOptions) -> Result<String, Error> {
    let (relevance, notes) = (options.new_bundle.relevance_weights()?, options.new_bundle.notes_text()?);
    let mut bundle_update = BundleUpdate::begin(&options.bundle, &options.new_bundle.out)?;
    let table = Translations::read(&options.translations)?;
    table.write(&bundle_update.partial().join(TRANSLATIONS))?;
    options.new_bundle.bundle_version.clone_into(&mut bundle_update.manifest.version);
    bundle_update.manifest.relevance = relevance.or(bundle_update.manifest.relevance);
    bundle_update.manifest.training["translations"] = json!({ "words": table.len() });
    bundle_update.files.insert(TRANSLATIONS.to_owned());
    let notes = notes.map(|notes| format!("{}\n\n", notes.trim())).unwrap_or_default();
    let section = format!(
        "{SECTION}\n\n`{TRANSLATIONS}` has the meanings of {} words of all languages, as far as parallel text shows them. With it,\nsearch also finds the translations of a query's words.\n\n{notes}",
        table.len()
    );
    bundle_update.finish(SECTION, &section)?;
    Ok(section)
}
