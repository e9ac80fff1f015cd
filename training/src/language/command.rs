//! What the subcommands `language` and `language-eval` do.

use std::path::{Path, PathBuf};

use dragoman::bundle::{Bundle, LANGUAGE_HEAD, TOKENIZER};
use dragoman::text::language::head::Features;
use dragoman::text::{LanguageHead, Tokenizer};

use super::examples::{Examples, Selection};
use super::fit::FitOptions;
use super::train;
use crate::config::Config;
use crate::error::Error;
use crate::eval::language::LanguageReport;
use crate::eval::language_peers::{compare, peers};
use crate::export::card_language::render;

/// Texts of one corpus and language at most, times the corpus's weight.
const PER_CORPUS: usize = 3_000;
/// Texts of one language at most.
const PER_LANGUAGE: usize = 20_000;
/// Rows for pairs of tokens.
const PAIRS: usize = 1 << 14;
/// Share of a corpus's texts in a language that must look labelled wrong for it to be named.
const WRONG_SHARE: f64 = 0.2;
/// Number of texts that must, too.
const WRONG_TEXTS: usize = 50;

/// What training a head reads and writes.
#[derive(Debug)]
pub struct Files<'a> {
    /// The configuration: weights of the corpora, seed.
    pub config: &'a Path,
    /// Folder of corpora.
    pub raw: &'a Path,
    /// The tokenizer.json.
    pub tokenizer: &'a Path,
    /// Folders of texts that must not be trained on.
    pub exclude: &'a [PathBuf],
    /// Corpora of which nothing is trained on: the head is calibrated on them.
    pub hold_out: &'a [String],
    /// Folder of evaluation files.
    pub evaluation: Option<&'a Path>,
    /// The head to write.
    pub out: &'a Path,
}

/// Trains a head, writes it and prints what was measured.
pub fn train_head(files: &Files<'_>) -> Result<(), Error> {
    let config = Config::read(files.config)?;
    let tokenizer = Tokenizer::load(files.tokenizer)?;
    let features = Features::new(&tokenizer, PAIRS);
    let selection = Selection {
        raw: files.raw,
        exclude: files.exclude,
        hold_out: files.hold_out,
        per_corpus: PER_CORPUS,
        per_language: PER_LANGUAGE,
    };
    let examples = Examples::read(&selection, &tokenizer, &features, |name| config.corpora.weight(name))?;
    println!("{} texts to train on, {} held out", examples.train.len(), examples.held_out.len());
    let options = FitOptions { seed: config.seed, ..FitOptions::default() };
    let trained = train(&examples, &features, &options);
    let dropped: usize = trained.wrong.values().map(|(wrong, _)| wrong).sum();
    println!("{dropped} texts left out as labelled wrong; the most by corpus and language:");
    for ((corpus, language), (wrong, all)) in &trained.wrong {
        if *wrong >= WRONG_TEXTS && *wrong as f64 >= WRONG_SHARE * *all as f64 {
            println!("  {corpus} {language}: {wrong} of {all}");
        }
    }
    let found = &trained.calibrated;
    println!(
        "held out, whole and parts: {} texts, {:.2} % right, temperature {:.3}, calibration error {:.4} (without: {:.4})",
        found.texts,
        100.0 * found.accuracy,
        found.temperature,
        found.error,
        found.error_before
    );
    let bytes = trained.head.to_bytes();
    std::fs::write(files.out, &bytes).map_err(|source| Error::file(files.out, source))?;
    println!("{} bytes written to {}", bytes.len(), files.out.display());
    match files.evaluation {
        Some(folder) => print(&compare(trained.head, tokenizer, folder)?),
        None => Ok(()),
    }
}

/// Prints how well the head of a file, or the one of a bundle, recognizes the evaluation texts, beside what it is compared with.
pub fn evaluate(head: &Path, tokenizer: &Path, data: &Path) -> Result<(), Error> {
    print(&compare(LanguageHead::load(head)?, Tokenizer::load(tokenizer)?, data)?)
}

/// The same for a bundle, which may have no head: then only what it would be compared with is measured.
pub fn evaluate_bundle(folder: &Path, data: &Path) -> Result<(), Error> {
    let bundle = Bundle::open(folder)?;
    if bundle.manifest.files.contains_key(LANGUAGE_HEAD) {
        return evaluate(&bundle.path(LANGUAGE_HEAD), &bundle.path(TOKENIZER), data);
    }
    println!("the bundle has no {LANGUAGE_HEAD}");
    print(&peers(data)?)
}

fn print(reports: &[LanguageReport]) -> Result<(), Error> {
    for report in reports {
        print!("{report}");
    }
    println!("{}", render(reports));
    Ok(())
}
