//! `dragoman-train`: one subcommand per step from text to bundle.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use dragoman_training::config::Config;
use dragoman_training::error::Error;
use dragoman_training::{commands, data, train};

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
        /// Folder of corpora: NAME.xx-yy.tsv, NAME.xx.txt or NAME.xx-yy.xx, plain or .zst.
        #[arg(long)]
        raw: PathBuf,
        /// The tokenizer.json to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// Tokenizes a folder of parallel text into shards, leaving out what evaluations will ask.
    Prepare {
        /// Folder of corpora, as for `tokenizer`.
        #[arg(long)]
        raw: PathBuf,
        /// Folder whose lines and tab-separated fields must not enter training; may be given several times.
        #[arg(long)]
        exclude: Vec<PathBuf>,
        /// The tokenizer.json.
        #[arg(long)]
        tokenizer: PathBuf,
        /// Folder of shards to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// Trains, or goes on with a run.
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
        /// Folder of the run: checkpoint, weights of each stage, loss log and curve.
        #[arg(long)]
        run: PathBuf,
        /// `cpu`, or `cuda:N` with a libtorch that has CUDA.
        #[arg(long, default_value = "cpu", value_parser = parse_device)]
        device: tch::Device,
        /// Threads of libtorch; 0 means one per core.
        #[arg(long, default_value_t = 0)]
        threads: i32,
        /// Minutes between checkpoints.
        #[arg(long, default_value_t = 5.0)]
        checkpoint_minutes: f64,
        /// Stops after this many steps, with a checkpoint; the same command goes on.
        #[arg(long)]
        stop_after_steps: Option<u64>,
    },
    /// Prints P@1 of a bundle's int8 model, or of a run's weights, on FLORES-like and short sentences.
    Eval {
        /// The bundle; its int8 ONNX is measured through the server's text pipeline.
        #[arg(long, conflicts_with = "weights", required_unless_present = "weights")]
        bundle: Option<PathBuf>,
        /// Weights of a run (needs --config and --tokenizer): measured in libtorch, float32.
        #[arg(long, requires = "config", requires = "tokenizer")]
        weights: Option<PathBuf>,
        /// The run's configuration.
        #[arg(long)]
        config: Option<PathBuf>,
        /// The run's tokenizer.json.
        #[arg(long)]
        tokenizer: Option<PathBuf>,
        /// Folder with flores.xx.txt (aligned lines) and short.xx-en.tsv (xx-text, tab, English); absent ones are passed over.
        #[arg(long)]
        data: PathBuf,
        /// Threads; 0 means one per core.
        #[arg(long, default_value_t = 0)]
        threads: usize,
    },
    /// Writes a bundle from a run's weights, and proves that its ONNX graphs compute what was trained.
    Export {
        /// The run's configuration.
        #[arg(long)]
        config: PathBuf,
        /// Weights of a stage, as `train` leaves them.
        #[arg(long)]
        weights: PathBuf,
        /// The tokenizer.json that the run was trained with.
        #[arg(long)]
        tokenizer: PathBuf,
        /// Version of the bundle.
        #[arg(long)]
        bundle_version: String,
        /// Folder of the bundle; one that is there is replaced.
        #[arg(long)]
        out: PathBuf,
        /// Folder of corpora to calibrate int8 on; without it, the golden sentences.
        #[arg(long)]
        calibration: Option<PathBuf>,
        /// Folder of evaluation files, as for `eval`: for the proof of parity and the measured quality.
        #[arg(long)]
        evaluation: Option<PathBuf>,
        /// MANIFEST.tsv of the corpora, for the model card.
        #[arg(long)]
        corpora: Option<PathBuf>,
    },
    /// Draws the loss curve of a run as SVG.
    Plot {
        /// Folder of the run.
        #[arg(long)]
        run: PathBuf,
    },
}

fn parse_device(text: &str) -> Result<tch::Device, String> {
    match text.split_once(':') {
        None if text == "cpu" => Ok(tch::Device::Cpu),
        Some(("cuda", number)) => number.parse().map(tch::Device::Cuda).map_err(|_| format!("expected cuda:N, got {text}")),
        _ => Err(format!("expected cpu or cuda:N, got {text}")),
    }
}

fn main() -> ExitCode {
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
        Command::Train { config, data, tokenizer, run, device, threads, checkpoint_minutes, stop_after_steps } => {
            if threads > 0 {
                tch::set_num_threads(threads);
            }
            let vocabulary = dragoman::text::Tokenizer::load(&tokenizer)?.vocabulary_size() as i64;
            let checkpoint_every = Duration::from_secs_f64(checkpoint_minutes * 60.0);
            let options = train::Options { data, run, vocabulary, device, checkpoint_every, stop_after_steps };
            train::train(&Config::read(&config)?, &options)?;
            commands::plot(&options.run)
        }
        Command::Eval { bundle, weights, config, tokenizer, data, threads } => match (bundle, weights, config, tokenizer) {
            (Some(bundle), ..) => commands::eval_bundle(&bundle, &data, threads),
            (None, Some(weights), Some(config), Some(tokenizer)) => {
                commands::eval_weights(&weights, &Config::read(&config)?, &tokenizer, &data)
            }
            _ => Err(Error::Setting {
                setting: "bundle",
                problem: "give --bundle, or --weights with --config and --tokenizer".into(),
            }),
        },
        Command::Export { config, weights, tokenizer, bundle_version, out, calibration, evaluation, corpora } => {
            let config = Config::read(&config)?;
            let (calibration, evaluation, corpora) = (calibration.as_deref(), evaluation.as_deref(), corpora.as_deref());
            let sources = commands::Sources { weights: &weights, tokenizer: &tokenizer, calibration, evaluation, corpora };
            commands::export(&config, &sources, &bundle_version, &out)
        }
        Command::Plot { run } => commands::plot(&run),
    }
}
