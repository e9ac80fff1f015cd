//! `dragoman-train`: one subcommand per step from text to bundle.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Parser, Subcommand};
use dragoman_training::commands::add_questions::AddQuestionsArguments;
use dragoman_training::commands::eval::EvalArguments;
use dragoman_training::commands::export::ExportArguments;
use dragoman_training::commands::from_bundle::FromBundleArguments;
use dragoman_training::commands::language::{LanguageArguments, LanguageEvalArguments};
use dragoman_training::commands::relevance::RelevanceArguments;
use dragoman_training::commands::translations::TranslationsArguments;
use dragoman_training::config::Config;
use dragoman_training::error::Error;
use dragoman_training::export::translations::{TranslationOptions, add_translations};
use dragoman_training::train::Outcome;
use dragoman_training::{data, import, pack, progress, train};
use signal_hook::consts::signal::{SIGINT, SIGTERM};
use signal_hook::flag;

#[derive(Parser)]
#[command(name = "dragoman-train", version, about = "Trains the EMS sentence encoder and exports it as a bundle")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Trains the Unigram tokenizer on a folder of parallel text.
    Tokenizer {
        /// The configuration.
        #[arg(long)]
        config: PathBuf,
        /// Folder of corpora: NAME.xx-yy.tsv, NAME.xx.txt or NAME.xx-yy.xx, uncompressed or .zst.
        #[arg(long)]
        raw: PathBuf,
        /// The tokenizer.json to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// Tokenizes a folder of parallel text into shards, leaving out text that occurs in evaluations.
    Prepare {
        /// Folder of corpora, as for `tokenizer`.
        #[arg(long)]
        raw: PathBuf,
        /// Folder whose lines and tab-separated fields must not enter training; can be repeated.
        #[arg(long)]
        exclude: Vec<PathBuf>,
        /// The tokenizer.json.
        #[arg(long)]
        tokenizer: PathBuf,
        /// Folder of shards to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// Trains, or resumes a run. SIGINT and SIGTERM stop it after the current step, with a checkpoint.
    Train {
        /// The configuration.
        #[arg(long)]
        config: PathBuf,
        /// Folder of shards.
        #[arg(long)]
        data: PathBuf,
        /// The tokenizer.json that the shards were made with.
        #[arg(long)]
        tokenizer: PathBuf,
        /// Folder of the run: checkpoint, weights of each stage, loss log and curve, report.
        #[arg(long)]
        run: PathBuf,
        /// `cpu`, or `cuda:N` with a libtorch that supports CUDA.
        #[arg(long, default_value = "cpu", value_parser = parse_device)]
        device: tch::Device,
        /// Threads of libtorch; 0 means one per core.
        #[arg(long, default_value_t = 0)]
        threads: i32,
        /// Minutes between checkpoints.
        #[arg(long, default_value_t = 5.0)]
        checkpoint_minutes: f64,
        /// The seed of all randomness; overrides the configuration's.
        #[arg(long)]
        seed: Option<u64>,
        /// Stops after this many steps, with a checkpoint; run the same command to resume.
        #[arg(long)]
        stop_after_steps: Option<u64>,
    },
    /// Evaluates a bundle's int8 model or a run's weights, on one task or on all that have files.
    Eval(Box<EvalArguments>),
    /// Writes a bundle from a run's weights, and verifies that its ONNX graphs compute what was trained.
    Export(Box<ExportArguments>),
    /// Adds a question encoder to a bundle.
    AddQuestions(Box<AddQuestionsArguments>),
    /// Fits the relevance weights of search (embeddings, late interaction, words) on questions with known passages.
    Relevance(RelevanceArguments),
    /// Learns word translations in all languages from parallel text: the table with which search translates words.
    Translations(TranslationsArguments),
    /// Adds a translation table to a bundle.
    AddTranslations(TranslationOptions),
    /// Trains and evaluates the language head, which detects languages by the tokens of a tokenizer.
    Language(LanguageArguments),
    /// Evaluates language detection: by the bundle, by rules, and by whatlang alone.
    LanguageEval(LanguageEvalArguments),
    /// Writes the encoder's weights in float16, split into files of limited size, for copying to another machine.
    Pack {
        /// Weights of a stage, as written by `train`.
        #[arg(long)]
        weights: PathBuf,
        /// Folder of the files.
        #[arg(long)]
        out: PathBuf,
        /// Maximum size of a file in MiB.
        #[arg(long, default_value_t = 16)]
        piece_mib: usize,
    },
    /// Joins the files written by `pack` into weights that `eval` and `export` read.
    Unpack {
        /// Folder of the files.
        #[arg(long)]
        pieces: PathBuf,
        /// The weights to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// Starts a run from the weights of a bundle, to train it further or on other text.
    FromBundle(FromBundleArguments),
    /// Writes a bundle from the checkpoint and the SentencePiece model published by the EMS authors.
    ImportEms(Box<import::ImportOptions>),
    /// Draws the loss curve of a run as SVG.
    Plot {
        /// Folder of the run.
        #[arg(long)]
        run: PathBuf,
    },
}

/// The flag that the first SIGINT or SIGTERM sets; a second one ends the program at once.
fn stop_on_signals() -> Result<Arc<AtomicBool>, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order matters: at the first signal, `stop` is still false when this runs, and is set afterwards.
        flag::register_conditional_shutdown(signal, 1, stop.clone()).map_err(Error::Signal)?;
        flag::register(signal, stop.clone()).map_err(Error::Signal)?;
    }
    Ok(stop)
}

fn parse_device(text: &str) -> Result<tch::Device, String> {
    match text.split_once(':') {
        None if text == "cpu" => Ok(tch::Device::Cpu),
        Some(("cuda", _)) if !tch::Cuda::is_available() => {
            Err("this libtorch finds no CUDA device; see \"On a GPU\" in training/README.md".to_owned())
        }
        Some(("cuda", number)) => match (number.parse::<usize>(), tch::Cuda::device_count()) {
            (Ok(number), count) if i64::try_from(number).is_ok_and(|number| number < count) => Ok(tch::Device::Cuda(number)),
            (Ok(_), count) => Err(format!("this machine has {count} CUDA devices, counted from 0, got {text}")),
            (Err(_), _) => Err(format!("expected cuda:N, got {text}")),
        },
        _ => Err(format!("expected cpu or cuda:N, got {text}")),
    }
}

fn main() -> ExitCode {
    // ONNX Runtime sends telemetry as soon as it is loaded, unless this is set; see src/app/runtime_telemetry.rs.
    #[expect(unsafe_code, reason = "the environment must not change while other threads run, and there are none yet")]
    unsafe {
        std::env::set_var("ORT_DISABLE_TELEMETRY", "1");
    }
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                eprintln!("  caused by: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Tokenizer { config, raw, out } => data::tokenizer::train(&Config::read(&config)?, &raw, &out),
        Command::Prepare { raw, exclude, tokenizer, out } => data::prepare::prepare(&raw, &exclude, &tokenizer, &out),
        Command::Train { config, data, tokenizer, run, device, threads, checkpoint_minutes, seed, stop_after_steps } => {
            if threads > 0 {
                tch::set_num_threads(threads);
            }
            let tokenizer = dragoman::text::Tokenizer::load(&tokenizer)?;
            let vocabulary = tokenizer.vocabulary_size() as i64;
            let augmenter = Some(Arc::new(data::augmenter::Augmenter::new(tokenizer)));
            let checkpoint_every = Duration::try_from_secs_f64(checkpoint_minutes * 60.0).map_err(|error| Error::Setting {
                setting: "checkpoint_minutes",
                problem: format!("got {checkpoint_minutes}: {error}"),
            })?;
            let stop = stop_on_signals()?;
            let options = train::Options { data, run, vocabulary, augmenter, device, checkpoint_every, stop_after_steps, stop };
            let config = Config::read(&config)?;
            let config = Config { seed: seed.unwrap_or(config.seed), ..config };
            match train::train(&config, &options)? {
                Outcome::Finished => println!("finished; the report is {}", options.run.join("report.md").display()),
                Outcome::Stopped { stage, step } => {
                    println!("stopped with a checkpoint at stage {stage}, step {step}; run the same command to resume");
                }
            }
            Ok(())
        }
        Command::Eval(arguments) => arguments.run(),
        Command::Export(arguments) => arguments.run(),
        Command::Relevance(arguments) => arguments.run(),
        Command::Translations(arguments) => arguments.run(),
        Command::AddTranslations(options) => add_translations(&options).map(|section| print!("{section}")),
        Command::AddQuestions(arguments) => arguments.run(),
        Command::Pack { weights, out, piece_mib } => {
            let pieces = pack::pack(&weights, &out, piece_mib << 20)?;
            println!("{pieces} pieces written to {}", out.display());
            Ok(())
        }
        Command::Unpack { pieces, out } => pack::unpack(&pieces, &out),
        Command::FromBundle(arguments) => arguments.run(),
        Command::ImportEms(options) => import::import_ems(&options).map(|exported| print!("{exported}")),
        Command::Language(arguments) => arguments.run(),
        Command::LanguageEval(arguments) => arguments.run(),
        Command::Plot { run } => progress::plot(&run),
    }
}
