//! The one Config: every flag and environment variable with its unit and default.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A vector-search database that embeds and searches text across 62 languages.
#[derive(Debug, Parser)]
#[command(name = "dragoman", version, about)]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Starts the server.
    Serve(Config),
}

/// How the server runs. A flag wins over its environment variable.
#[derive(Debug, Clone, Args)]
pub struct Config {
    /// Address and port to listen on; port 0 takes a free one, which the log names.
    #[arg(long, env = "DRAGOMAN_LISTEN", value_name = "HOST:PORT", default_value = "127.0.0.1:7700")]
    pub listen: String,

    /// Data directory; made when it is not there.
    #[arg(long, env = "DRAGOMAN_DATA", value_name = "FOLDER", default_value = "data")]
    pub data: PathBuf,

    /// Model bundle. Without it: models/ems-small in the working directory, else beside the program.
    #[arg(long, env = "DRAGOMAN_MODEL", value_name = "FOLDER")]
    pub model: Option<PathBuf>,

    /// Where the encoder runs: auto takes CUDA when it can be had; cuda:N refuses to start without.
    #[arg(long, env = "DRAGOMAN_DEVICE", value_name = "auto|cpu|cuda[:N]", default_value = "auto", value_parser = parse_device)]
    pub device: DeviceSetting,

    /// Threads of one forward pass on the CPU; 0 means one per core.
    #[arg(long, env = "DRAGOMAN_THREADS", value_name = "COUNT", default_value_t = 0)]
    pub threads: usize,

    /// Upper bound on texts times tokens of the longest text in one forward pass. Memory grows with it.
    #[arg(long, env = "DRAGOMAN_BATCH_TOKENS_MAX", value_name = "TOKENS", default_value_t = 4_096)]
    pub batch_tokens_max: usize,

    /// Texts that may wait for the encoder; more are refused with 503.
    #[arg(long, env = "DRAGOMAN_EMBED_QUEUE_TEXTS_MAX", value_name = "COUNT", default_value_t = 20_000)]
    pub embed_queue_texts_max: usize,

    /// Write requests that may wait for one collection; more are refused with 503.
    #[arg(long, env = "DRAGOMAN_WRITE_QUEUE_MAX", value_name = "COUNT", default_value_t = 1_024)]
    pub write_queue_max: usize,

    /// Bytes of one request body.
    #[arg(long, env = "DRAGOMAN_BODY_BYTES_MAX", value_name = "BYTES", default_value_t = 32 << 20)]
    pub body_bytes_max: usize,

    /// What an acknowledged write survives: full, also power loss; relaxed, only a crash of the server, but writes are faster.
    #[arg(long, env = "DRAGOMAN_DURABILITY", value_enum, default_value_t = Durability::Full)]
    pub durability: Durability,

    /// Seconds that requests get to finish when the server is told to stop.
    #[arg(long, env = "DRAGOMAN_SHUTDOWN_GRACE_S", value_name = "SECONDS", default_value_t = 30)]
    pub shutdown_grace_s: u64,

    /// Form of the log, which goes to standard error.
    #[arg(long, env = "DRAGOMAN_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What is logged: a level, or levels by module, such as "info,dragoman::service=debug".
    #[arg(long, env = "DRAGOMAN_LOG", value_name = "FILTER", default_value = "info")]
    pub log: String,
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// Crash and power loss.
    Full,
    /// A crash of the process.
    Relaxed,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// The device that the operator asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceSetting {
    /// CUDA when it can be had, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// This CUDA device.
    Cuda(u32),
}

/// Which model to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSetting {
    /// The bundle in this folder.
    Bundle(PathBuf),
    /// `fake:64`: the deterministic stand-in with embeddings of 64 values. Only for tests of the program.
    Fake {
        /// Values per embedding.
        dimension: usize,
    },
}

/// The bundle that the repository ships.
const DEFAULT_MODEL: &str = "models/ems-small";
/// Values per embedding of the stand-in, at most.
const FAKE_DIMENSION_MAX: usize = 4_096;

impl Config {
    /// Which model to load.
    pub fn model(&self) -> ModelSetting {
        let Some(model) = &self.model else {
            return ModelSetting::Bundle(default_model(Path::new(DEFAULT_MODEL), std::env::current_exe().ok().as_deref()));
        };
        let fake = model.to_str().and_then(|text| text.strip_prefix("fake:")).and_then(|number| number.parse().ok());
        match fake {
            Some(dimension @ 1..=FAKE_DIMENSION_MAX) => ModelSetting::Fake { dimension },
            _ => ModelSetting::Bundle(model.clone()),
        }
    }
}

/// `relative` in the working directory, else in the program's folder; when it is in neither, the first, so that the error
/// names what a newcomer expects.
fn default_model(relative: &Path, program: Option<&Path>) -> PathBuf {
    let beside = program.and_then(Path::parent).map(|folder| folder.join(relative));
    match beside {
        Some(beside) if !relative.exists() && beside.exists() => beside,
        _ => relative.to_owned(),
    }
}

fn parse_device(text: &str) -> Result<DeviceSetting, String> {
    match text {
        "auto" => Ok(DeviceSetting::Auto),
        "cpu" => Ok(DeviceSetting::Cpu),
        "cuda" => Ok(DeviceSetting::Cuda(0)),
        _ => {
            let number = text.strip_prefix("cuda:").and_then(|number| number.parse().ok());
            number.map(DeviceSetting::Cuda).ok_or_else(|| format!("expected auto, cpu, cuda or cuda:N, got {text:?}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(arguments: &[&str]) -> Config {
        let command_line = CommandLine::try_parse_from(["dragoman", "serve"].iter().chain(arguments)).unwrap();
        let Command::Serve(config) = command_line.command;
        config
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_flag_has_an_environment_variable_named_after_it() {
        use clap::CommandFactory as _;
        let command = CommandLine::command();
        let serve = command.find_subcommand("serve").unwrap();
        for argument in serve.get_arguments().filter(|argument| argument.get_long() != Some("help")) {
            let expect = format!("DRAGOMAN_{}", argument.get_long().unwrap().replace('-', "_").to_uppercase());
            assert_eq!(argument.get_env().and_then(|name| name.to_str()), Some(expect.as_str()));
        }
    }

    #[test]
    fn devices_are_read() {
        for (text, expect) in [
            ("auto", Some(DeviceSetting::Auto)),
            ("cpu", Some(DeviceSetting::Cpu)),
            ("cuda", Some(DeviceSetting::Cuda(0))),
            ("cuda:3", Some(DeviceSetting::Cuda(3))),
            ("cuda:", None),
            ("cuda:x", None),
            ("tpu", None),
            ("", None),
        ] {
            assert_eq!(parse_device(text).ok(), expect, "{text:?}");
        }
    }

    #[test]
    fn a_model_is_a_folder_or_the_stand_in() {
        for (text, expect) in [
            ("models/mine", ModelSetting::Bundle("models/mine".into())),
            ("fake:64", ModelSetting::Fake { dimension: 64 }),
            ("fake:0", ModelSetting::Bundle("fake:0".into())),
            ("fake:many", ModelSetting::Bundle("fake:many".into())),
        ] {
            assert_eq!(serve(&["--model", text]).model(), expect, "{text:?}");
        }
    }

    #[test]
    fn the_shipped_model_is_found_beside_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("dragoman");
        let (relative, nowhere) = (Path::new("some/model"), Path::new("no/model"));
        std::fs::create_dir_all(folder.path().join(relative)).unwrap();
        assert_eq!(default_model(relative, Some(&program)), folder.path().join(relative));
        assert_eq!(default_model(nowhere, Some(&program)), nowhere);
        assert_eq!(default_model(relative, None), relative);
    }
}
