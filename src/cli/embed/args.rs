//! The arguments of `dragoman embed`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::request_body::any_whole_number;
use crate::domain::DeviceChoice;

#[derive(Debug, Args)]
pub struct EmbedArgs {
    /// File of texts; - or no file for standard input.
    pub file: Option<PathBuf>,
    /// Uses the model bundle in this folder instead of a server.
    #[arg(long, value_name = "FOLDER")]
    pub model: Option<PathBuf>,
    /// Device for the model: auto uses CUDA if available; cuda:N fails without it.
    #[arg(long, value_name = "auto|cpu|cuda[:N]", default_value = "auto", requires = "model")]
    pub device: DeviceChoice,
    /// Number of CPU threads for the model; 0 means one per core.
    #[arg(long, value_name = "COUNT", default_value_t = 0, requires = "model", value_parser = any_whole_number::<usize>)]
    pub threads: usize,
    /// Format of the input.
    #[arg(long, value_enum, default_value_t = InputFormat::Lines)]
    pub input: InputFormat,
    /// Format of the output; defaults to npy if the output file name ends in .npy, otherwise to ndjson.
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Output file; - or none for standard output. npy needs a file, because its header contains the number of texts.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InputFormat {
    /// One text per line.
    Lines,
    /// One JSON object per line, with `text` and optionally `id`; other members are ignored.
    Ndjson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object per text, with the line, the id (if the input has one) and the embedding.
    Ndjson,
    /// A float32 NumPy array with one row per input line.
    Npy,
}
