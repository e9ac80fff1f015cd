//! The subcommands `language` and `language-eval`: train and evaluate the language head.

use std::path::PathBuf;

use clap::Args;
use dragoman::bundle::{Bundle, LANGUAGE_HEAD};
use dragoman::text::language::head::Features;
use dragoman::text::{LanguageHead, Tokenizer};

use crate::config::Config;
use crate::error::Error;
use crate::eval::language::LanguageReport;
use crate::eval::language_baselines::{baselines, compare};
use crate::export::card_language::render;
use crate::language::examples::{Examples, Selection};
use crate::language::fit::FitOptions;
use crate::language::train;

/// Maximum texts per corpus and language, times the corpus's weight.
const PER_CORPUS: usize = 3_000;
/// Maximum texts per language.
const PER_LANGUAGE: usize = 20_000;
/// Number of rows for token pairs.
const PAIRS: usize = 1 << 14;
/// Share of a corpus's texts in a language that must look mislabeled for it to be reported.
const WRONG_SHARE: f64 = 0.2;
/// Minimum number of such texts.
const WRONG_TEXTS: usize = 50;

/// Input and output of `language`.
#[derive(Args)]
pub struct LanguageArguments {
    /// The configuration: weights of the corpora, seed.
    #[arg(long)]
    pub config: PathBuf,
    /// Folder of corpora, as for `tokenizer`.
    #[arg(long)]
    pub raw: PathBuf,
    /// The tokenizer.json.
    #[arg(long)]
    pub tokenizer: PathBuf,
    /// Folder whose lines and tab-separated fields must not enter training; can be repeated.
    #[arg(long)]
    pub exclude: Vec<PathBuf>,
    /// Corpus to hold out from training, for calibrating the confidence; can be repeated.
    /// Without it, one in fifty texts of all corpora is held out.
    #[arg(long)]
    pub hold_out: Vec<String>,
    /// Folder of evaluation files, as for `eval`.
    #[arg(long)]
    pub evaluation: Option<PathBuf>,
    /// The head to write.
    #[arg(long)]
    pub out: PathBuf,
}

impl LanguageArguments {
    /// Trains a head, writes it and prints its evaluation.
    pub fn run(&self) -> Result<(), Error> {
        let config = Config::read(&self.config)?;
        let tokenizer = Tokenizer::load(&self.tokenizer)?;
        let features = Features::new(&tokenizer, PAIRS);
        let selection = Selection {
            raw: &self.raw,
            exclude: &self.exclude,
            hold_out: &self.hold_out,
            per_corpus: PER_CORPUS,
            per_language: PER_LANGUAGE,
        };
        let examples = Examples::read(&selection, &tokenizer, &features, |name| config.corpora.weight(name))?;
        println!("{} texts to train on, {} held out", examples.train.len(), examples.held_out.len());
        let options = FitOptions { seed: config.seed, ..FitOptions::default() };
        let trained = train(&examples, &features, &options);
        let dropped: usize = trained.wrong.values().map(|(wrong, _)| wrong).sum();
        println!("{dropped} texts dropped as mislabeled; the most by corpus and language:");
        for ((corpus, language), (wrong, all)) in &trained.wrong {
            if *wrong >= WRONG_TEXTS && *wrong as f64 >= WRONG_SHARE * *all as f64 {
                println!("  {corpus} {language}: {wrong} of {all}");
            }
        }
        let found = &trained.calibrated;
        println!(
            "held out, whole and parts: {} texts, {:.2}% correct, temperature {:.3}, calibration error {:.4} (without: {:.4})",
            found.texts,
            100.0 * found.accuracy,
            found.temperature,
            found.error,
            found.error_before
        );
        let bytes = trained.head.to_bytes();
        std::fs::write(&self.out, &bytes).map_err(|source| Error::file(&self.out, source))?;
        println!("{} bytes written to {}", bytes.len(), self.out.display());
        match &self.evaluation {
            Some(folder) => print(&compare(trained.head, tokenizer, folder)?),
            None => Ok(()),
        }
    }
}

/// Input of `language-eval`.
#[derive(Args)]
pub struct LanguageEvalArguments {
    /// The bundle.
    #[arg(long, conflicts_with = "head", required_unless_present = "head")]
    pub bundle: Option<PathBuf>,
    /// A head, as written by `language` (needs --tokenizer).
    #[arg(long, requires = "tokenizer")]
    pub head: Option<PathBuf>,
    /// The tokenizer.json that the head was trained with.
    #[arg(long)]
    pub tokenizer: Option<PathBuf>,
    /// Folder of evaluation files, as for `eval`.
    #[arg(long)]
    pub data: PathBuf,
}

impl LanguageEvalArguments {
    /// Prints how well the head in a file, or in a bundle, detects the languages of the evaluation texts, next to the
    /// alternatives. For a bundle without a head, only the alternatives.
    pub fn run(&self) -> Result<(), Error> {
        let (head, tokenizer) = match (&self.bundle, &self.head, &self.tokenizer) {
            (Some(folder), ..) => {
                let bundle = Bundle::open(folder)?;
                if !bundle.manifest.files.contains_key(LANGUAGE_HEAD) {
                    println!("the bundle has no {LANGUAGE_HEAD}");
                    return print(&baselines(&self.data)?);
                }
                (LanguageHead::load(&bundle.path(LANGUAGE_HEAD))?, Tokenizer::open(&bundle)?)
            }
            (None, Some(head), Some(tokenizer)) => (LanguageHead::load(head)?, Tokenizer::load(tokenizer)?),
            _ => return Err(Error::Setting { setting: "bundle", problem: "give --bundle, or --head with --tokenizer".into() }),
        };
        print(&compare(head, tokenizer, &self.data)?)
    }
}

fn print(reports: &[LanguageReport]) -> Result<(), Error> {
    for report in reports {
        print!("{report}");
    }
    println!("{}", render(reports));
    Ok(())
}
