//! The arguments of `dragoman embed`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::EXIT_CODES;
use crate::cli::server::ServerArgs;
use crate::embed::DeviceChoice;

/// The command's arguments.
#[derive(Debug, Args)]
#[command(after_long_help = EXIT_CODES)]
pub struct EmbedArgs {
    /// The file of texts; standard input for - and when left out.
    pub file: Option<PathBuf>,
    /// Embeds with the model bundle in this folder, without a server.
    #[arg(long, value_name = "FOLDER")]
    pub model: Option<PathBuf>,
    /// Where the model runs: auto takes CUDA when it can be had; cuda:N fails without.
    #[arg(long, value_name = "auto|cpu|cuda[:N]", default_value = "auto", requires = "model", value_parser = parse_device)]
    pub device: DeviceChoice,
    /// Threads of the model on the CPU; 0 means one per core.
    #[arg(long, value_name = "COUNT", default_value_t = 0, requires = "model")]
    pub threads: usize,
    /// What a line of the file is.
    #[arg(long, value_enum, default_value_t = InputFormat::Lines)]
    pub input: InputFormat,
    /// What is written; npy when the name of the output ends so, else ndjson.
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// The file to write; standard output when left out. npy needs one, because its head has the number of texts.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The options that all commands have.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What a line of the input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InputFormat {
    /// A text.
    Lines,
    /// A JSON object with `text` and perhaps `id`; its other members are not looked at.
    Ndjson,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A JSON object per text: line, id if the input has one, embedding.
    Ndjson,
    /// One array of float32 for NumPy, a row per line of the input.
    Npy,
}

/// Reads a device by the server's names.
fn parse_device(text: &str) -> Result<DeviceChoice, String> {
    match text {
        "auto" => Ok(DeviceChoice::Auto),
        "cpu" => Ok(DeviceChoice::Cpu),
        "cuda" => Ok(DeviceChoice::Cuda(0)),
        _ => {
            let number = text.strip_prefix("cuda:").and_then(|number| number.parse().ok());
            number.map(DeviceChoice::Cuda).ok_or_else(|| "expected auto, cpu, cuda or cuda:N".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_as_the_server_reads_them() {
        assert_eq!(parse_device("cuda:2"), Ok(DeviceChoice::Cuda(2)));
        assert_eq!(parse_device("cpu"), Ok(DeviceChoice::Cpu));
        assert!(parse_device("tpu").is_err() && parse_device("cuda:").is_err());
    }
}
