//! The configuration: every setting with its flag, environment variable, unit and default. `sources` reads the settings, also
//! from a file; `environment` finds misspelled variables.

mod environment;
pub mod generated;
mod leading;
mod moving;
pub mod sources;

use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::domain::limits::{at_least_one, whole_number};
use crate::domain::{DeviceChoice, Limits, Secret};
pub use moving::MoveSettings;
pub use sources::{Loaded, ReadError, Setting, Source, read};

/// Maximum number of threads of the encoder: more than any machine has cores.
const THREADS_MAX: usize = 1_024;

/// Runs and manages a vector-search database that embeds and searches text across 62 languages.
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
    Serve(Box<Config>),
    /// Checks whether the server with these settings is alive; exits with 0 if it is and with 1 if it is not. Accepts the flags
    /// of serve.
    Health(Box<HealthSettings>),
    /// Inspects the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Moves all data of a server between a data directory and a PostgreSQL database, while no server uses either.
    Move(Box<MoveSettings>),
    /// Output that is generated from this command line.
    #[command(flatten)]
    Generate(Generated),
    /// The commands for a running server.
    #[command(flatten)]
    Client(Box<crate::cli::Command>),
}

/// What to generate.
#[derive(Debug, Subcommand)]
pub enum Generated {
    /// Prints completions of all commands and options for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Prints the manual page of the program, or writes one for each command.
    Man {
        /// The folder to write a page for each command to; created if it does not exist.
        #[arg(long, short, value_name = "FOLDER")]
        output: Option<PathBuf>,
    },
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Prints every setting with its value and its source, and reports errors. Accepts the flags of serve.
    Check(Box<Config>),
}

/// What `health` checks.
#[derive(Debug, Clone, Args)]
pub struct HealthSettings {
    /// Checks whether every collection can be searched in full, instead of whether the server is alive.
    #[arg(long)]
    pub ready: bool,

    /// Seconds within which the server must respond.
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = whole_number::<u64, 1, 86_400>)]
    pub timeout_s: u64,

    /// The server's settings.
    #[command(flatten)]
    pub server: Config,
}

/// How the server runs. A flag overrides its environment variable, which overrides the file, which overrides the default.
#[derive(Debug, Clone, Args)]
pub struct Config {
    /// TOML file with settings: the names of the flags, with underscores.
    #[arg(long, env = "DRAGOMAN_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Address and port to listen on; port 0 picks a free one, which the log shows.
    #[arg(long, env = "DRAGOMAN_LISTEN", value_name = "HOST:PORT", default_value = "127.0.0.1:7700")]
    pub listen: String,

    /// Data directory; created if it does not exist.
    #[arg(long, env = "DRAGOMAN_DATA", value_name = "FOLDER", default_value = "data")]
    pub data: PathBuf,

    /// The store.
    #[command(flatten)]
    pub store: StoreSettings,

    /// Folder of the model bundle. Defaults to models/ems-small in the working directory, or otherwise next to the program.
    #[arg(long, env = "DRAGOMAN_MODEL", value_name = "FOLDER")]
    pub model: Option<PathBuf>,

    /// Where the encoder runs: auto uses CUDA if available; with cuda:N, the server does not start without it.
    #[arg(long, env = "DRAGOMAN_DEVICE", value_name = "auto|cpu|cuda[:N]", default_value = "auto")]
    pub device: DeviceChoice,

    /// CPU threads of the encoder, for up to four batches at once; 0 means one per core.
    #[arg(long, env = "DRAGOMAN_THREADS", value_name = "COUNT", default_value_t = 0, value_parser = parse_threads)]
    pub threads: usize,

    /// Maximum size of padded batches over all concurrent forward passes: texts times tokens of the longest. Memory use grows
    /// with it.
    #[arg(long, env = "DRAGOMAN_BATCH_TOKENS_MAX", value_name = "TOKENS", default_value_t = 4_096, value_parser = at_least_one::<usize>)]
    pub batch_tokens_max: usize,

    /// What an acknowledged write survives. full: also power loss; relaxed: only a crash of the server, but writes are faster.
    /// A database server always uses full.
    #[arg(long, env = "DRAGOMAN_DURABILITY", value_enum, default_value_t = Durability::Full)]
    pub durability: Durability,

    /// Access: keys, TLS, browsers.
    #[command(flatten)]
    pub access: AccessSettings,

    /// Limits on traffic.
    #[command(flatten)]
    pub traffic: TrafficSettings,

    /// Limits on requests and queues.
    #[command(flatten)]
    pub limits: Limits,

    /// Scheduled snapshots.
    #[command(flatten)]
    pub snapshots: SnapshotSettings,

    /// Seconds for running requests to finish when the server is told to stop. A second signal cuts this short.
    #[arg(long, env = "DRAGOMAN_SHUTDOWN_GRACE_S", value_name = "SECONDS", default_value_t = 30, value_parser = whole_number::<u64, 0, 31_536_000>)]
    pub shutdown_grace_s: u64,

    /// Format of the log, which goes to standard error.
    #[arg(long, env = "DRAGOMAN_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What to log: a level, or levels by module, such as "info,dragoman::service=debug".
    #[arg(long, env = "DRAGOMAN_LOG", value_name = "FILTER", default_value = "info")]
    pub log: String,

    /// OpenTelemetry collector that accepts traces over HTTP, such as http://127.0.0.1:4318. Requires a program built with the
    /// feature otel.
    #[arg(long, env = "DRAGOMAN_OTEL_ENDPOINT", value_name = "URL")]
    pub otel_endpoint: Option<String>,

    /// Fraction of requests to trace, 0 to 1. A caller's own decision in the traceparent header takes precedence.
    #[arg(long, env = "DRAGOMAN_OTEL_SAMPLED", value_name = "NUMBER", default_value_t = 1.0, value_parser = parse_fraction)]
    pub otel_sampled: f64,
}

/// A store on a database server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Store on a database server")]
pub struct StoreSettings {
    /// The PostgreSQL database, with pgvector, that stores all data except the files of jobs and maps:
    /// postgres://USER@HOST/DATABASE. Several servers may share it. Other users of the machine can see flags, so put a password
    /// into the environment variable or the file. Defaults to the data directory.
    #[arg(long, env = "DRAGOMAN_STORE", value_name = "URL", hide_env_values = true)]
    pub store: Option<Secret>,

    /// Certificate authorities to trust for the database server, in PEM format. Defaults to those that browsers trust.
    #[arg(long, env = "DRAGOMAN_STORE_AUTHORITIES", value_name = "FILE")]
    pub store_authorities: Option<PathBuf>,

    /// Maximum connections to the database server, in addition to two that hold locks and follow other servers, and one more
    /// at the end of a re-embedding. The replica has the same limit.
    #[arg(long, env = "DRAGOMAN_STORE_CONNECTIONS_MAX", value_name = "COUNT", default_value_t = 16, value_parser = whole_number::<u32, 1, { u32::MAX as u64 }>)]
    pub store_connections_max: u32,

    /// A streaming replica of the database server, which answers reads: postgres://USER@HOST/DATABASE. Reads that it cannot
    /// answer go to the database server itself.
    #[arg(long, env = "DRAGOMAN_STORE_REPLICA", value_name = "URL", hide_env_values = true)]
    pub store_replica: Option<Secret>,

    /// Milliseconds that the replica may lag behind when it answers searches and lists. With 0, they see everything that was
    /// acknowledged before they began.
    #[arg(long, env = "DRAGOMAN_STORE_REPLICA_LAG_MAX_MS", value_name = "MILLISECONDS", default_value_t = 0)]
    pub store_replica_lag_max_ms: u64,
}

/// Who may call, and over which transport.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Access")]
pub struct AccessSettings {
    /// An admin key of at least 16 characters. If this or any key in /v1/keys exists, every request needs a key. Other users of
    /// the machine can see flags, so prefer the file.
    #[arg(long, env = "DRAGOMAN_ADMIN_KEY", value_name = "SECRET", hide_env_values = true)]
    pub admin_key: Option<Secret>,

    /// File whose first line is the admin key.
    #[arg(long, env = "DRAGOMAN_ADMIN_KEY_FILE", value_name = "FILE")]
    pub admin_key_file: Option<PathBuf>,

    /// Whether to serve other machines even if there is no key.
    #[arg(long, env = "DRAGOMAN_INSECURE", value_name = "true|false", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub insecure: bool,

    /// TLS certificates in PEM format, the server's own first. Reloaded when the file changes and on SIGHUP.
    #[arg(long, env = "DRAGOMAN_TLS_CERTIFICATE", value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,

    /// The TLS certificate's private key in PEM format.
    #[arg(long, env = "DRAGOMAN_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Origins of web pages that may call the server, such as `https://example.com`; * for all. Defaults to none.
    #[arg(long, env = "DRAGOMAN_CORS_ORIGINS", value_name = "ORIGIN", value_delimiter = ',')]
    pub cors_origins: Vec<String>,

    /// Host names that a server without keys answers to, besides localhost and its addresses; * for every name.
    #[arg(long, env = "DRAGOMAN_HOSTS", value_name = "NAME", value_delimiter = ',')]
    pub hosts: Vec<String>,

    /// Whether /metrics is readable without a key.
    #[arg(long, env = "DRAGOMAN_METRICS_OPEN", value_name = "true|false", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub metrics_open: bool,

    /// Whether to serve the Model Context Protocol at /mcp, for agents.
    #[arg(long, env = "DRAGOMAN_MCP", value_name = "true|false", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    pub mcp: bool,
}

/// Limits on concurrent traffic. A caller is a key, or an address if there is none.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Traffic")]
pub struct TrafficSettings {
    /// Maximum connections; beyond that, the connection that has been idle the longest is closed.
    #[arg(long, env = "DRAGOMAN_CONNECTIONS_MAX", value_name = "COUNT", default_value_t = 4_096, value_parser = at_least_one::<usize>)]
    pub connections_max: usize,

    /// Maximum concurrent requests. A caller never runs more than stay free for others, so a single caller gets at most half;
    /// more are refused.
    #[arg(long, env = "DRAGOMAN_REQUESTS_MAX", value_name = "COUNT", default_value_t = 1_024, value_parser = at_least_one::<usize>)]
    pub requests_max: usize,

    /// Maximum concurrent streams of job events. A caller never has more than stay free for others, so a single caller gets at
    /// most half; more are refused.
    #[arg(long, env = "DRAGOMAN_EVENT_STREAMS_MAX", value_name = "COUNT", default_value_t = 256, value_parser = at_least_one::<usize>)]
    pub event_streams_max: usize,

    /// Maximum concurrent requests of one caller; more are refused with 429. 0 means no limit.
    #[arg(long, env = "DRAGOMAN_CALLER_REQUESTS_MAX", value_name = "COUNT", default_value_t = 0)]
    pub caller_requests_max: usize,

    /// Maximum requests per second of one caller, on average; more are refused with 429. 0 means no limit.
    #[arg(long, env = "DRAGOMAN_RATE_PER_S", value_name = "NUMBER", default_value_t = 0.0, value_parser = parse_rate)]
    pub rate_per_s: f64,

    /// Requests that a caller may send at once before its rate limit applies.
    #[arg(long, env = "DRAGOMAN_RATE_BURST", value_name = "COUNT", default_value_t = 20, value_parser = whole_number::<u32, 1, { u32::MAX as u64 }>)]
    pub rate_burst: u32,

    /// Seconds within which the response to a request must begin; imports and other streams are exempt.
    #[arg(long, env = "DRAGOMAN_REQUEST_TIMEOUT_S", value_name = "SECONDS", default_value_t = 60, value_parser = whole_number::<u64, 1, 31_536_000>)]
    pub request_timeout_s: u64,

    /// Seconds within which a connection must send the headers of its next request; otherwise it is closed.
    #[arg(long, env = "DRAGOMAN_HEADER_TIMEOUT_S", value_name = "SECONDS", default_value_t = 30, value_parser = whole_number::<u64, 1, 31_536_000>)]
    pub header_timeout_s: u64,
}

/// Scheduled snapshots.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Scheduled snapshots")]
pub struct SnapshotSettings {
    /// Where scheduled snapshots of the whole server are stored: a folder or s3://BUCKET/PREFIX that no other server uses.
    /// Defaults to none. A bucket needs the environment variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_REGION
    /// unless it is us-east-1.
    #[arg(long, env = "DRAGOMAN_SNAPSHOT_TARGET", value_name = "FOLDER|URL")]
    pub snapshot_target: Option<String>,

    /// Address of an S3-compatible store, such as http://127.0.0.1:9000. Defaults to Amazon's own.
    #[arg(long, env = "DRAGOMAN_SNAPSHOT_ENDPOINT", value_name = "URL")]
    pub snapshot_endpoint: Option<String>,

    /// Seconds between snapshots. If nothing has changed, no snapshot is made.
    #[arg(long, env = "DRAGOMAN_SNAPSHOT_INTERVAL_S", value_name = "SECONDS", default_value_t = 86_400, value_parser = whole_number::<u64, 1, 315_360_000>)]
    pub snapshot_interval_s: u64,

    /// How many snapshots to keep: the newest ones.
    #[arg(long, env = "DRAGOMAN_SNAPSHOT_KEEP", value_name = "COUNT", default_value_t = 7, value_parser = at_least_one::<usize>)]
    pub snapshot_keep: usize,
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// A crash of the server and power loss.
    Full,
    /// A crash of the server.
    Relaxed,
}

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Readable text.
    Text,
    /// One JSON object per line.
    Json,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSetting {
    Bundle(PathBuf),
    /// `fake:64`: the deterministic fake encoder with embeddings of 64 values. Only for tests of the program.
    Fake {
        dimension: usize,
    },
}

/// The bundle that the repository ships.
const DEFAULT_MODEL: &str = "models/ems-small";
/// Maximum values per embedding of the fake encoder.
const FAKE_DIMENSION_MAX: usize = 4_096;

impl Config {
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

/// Returns `relative` in the working directory, or otherwise in the program's folder. If it is in neither, returns the
/// former, so that the error names the path that a newcomer expects.
fn default_model(relative: &Path, program: Option<&Path>) -> PathBuf {
    let beside = program.and_then(Path::parent).map(|folder| folder.join(relative));
    match beside {
        Some(beside) if !relative.exists() && beside.exists() => beside,
        _ => relative.to_owned(),
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
    rate.ok_or_else(|| "expected a number of at least 0".to_owned())
}

fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| *threads <= THREADS_MAX);
    threads.ok_or_else(|| format!("expected a whole number of at most {THREADS_MAX}"))
}

fn parse_fraction(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(arguments: &[&str]) -> Config {
        let command_line = CommandLine::try_parse_from(["dragoman", "serve"].iter().chain(arguments)).unwrap();
        let Command::Serve(config) = command_line.command else { unreachable!("the arguments begin with serve") };
        *config
    }

    #[test]
    fn without_settings_the_limits_are_the_defaults() {
        assert_eq!(serve(&[]).limits, Limits::default());
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
    fn a_model_is_a_bundle_folder_or_the_fake_model() {
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
