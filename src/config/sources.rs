//! Where settings come from, in order of precedence: flags, environment, a TOML file, defaults.
//!
//! The file's values become the defaults of the command line, so one parser reads and checks every setting, wherever it comes
//! from.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command as Clap, CommandFactory as _, FromArgMatches as _};
use toml::{Table, Value};

use super::environment::{misspelled, nearest};
use super::leading::move_behind_command;
use super::{Command, CommandLine};

/// Settings that do nothing without another one, which follows.
const DEPENDENT_SETTINGS: [(&str, &str); 8] = [
    ("otel_sampled", "otel_endpoint"),
    ("rate_burst", "rate_per_s"),
    ("snapshot_endpoint", "snapshot_target"),
    ("snapshot_interval_s", "snapshot_target"),
    ("snapshot_keep", "snapshot_target"),
    ("store_authorities", "store"),
    ("store_connections_max", "store"),
    ("store_replica_lag_max_ms", "store_replica"),
];

/// A parsed command line with all its settings.
#[derive(Debug)]
pub struct Loaded {
    pub command_line: CommandLine,
    /// Every setting, for display.
    pub settings: Vec<Setting>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its key in the file.
    pub name: String,
    /// Its value as text; `None` if it has none. Secrets are hidden.
    pub value: Option<String>,
    pub source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Flag,
    Environment,
    File,
    Default,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A flag or variable is invalid, or the command line asks for help. The message is complete, and clap knows which stream
    /// it belongs on.
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    #[error(
        "the environment variable {name} is not a setting{}; dragoman serve --help lists all",
        nearest.as_ref().map(|nearest| format!(", the nearest name is {nearest}")).unwrap_or_default()
    )]
    Variable { name: String, nearest: Option<String> },
    #[error("the environment variable {name}: {problem}")]
    Value { name: String, problem: String },
    #[error("cannot read the configuration file {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("the configuration file {} is not valid TOML: {problem}", path.display())]
    Toml { path: PathBuf, problem: String },
    #[error("the configuration file {} has an invalid setting: {problem}", path.display())]
    Setting { path: PathBuf, problem: String },
    #[error("{setting} is set without {needed}, so it would do nothing")]
    Alone { setting: &'static str, needed: &'static str },
}

/// Reads the arguments of the program, the environment, and the file that either names.
pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Loaded, ReadError> {
    let arguments = move_behind_command(arguments.into_iter().collect());
    let clap = CommandLine::command();
    let matches = clap.clone().try_get_matches_from(&arguments);
    let mut matches = matches.map_err(|error| with_variable(error, clap.clone(), &arguments))?;
    if settings_of(&matches).is_some()
        && let Some((name, nearest)) = misspelled(&clap, std::env::vars_os())
    {
        return Err(ReadError::Variable { name, nearest });
    }
    let mut table = Table::new();
    let named = settings_of(&matches).and_then(|settings| settings.get_one::<PathBuf>("config").cloned());
    if let Some(path) = named {
        table = read_file(&path)?;
        let known = settings_command(&clap);
        let problem = table.iter().find_map(|(key, value)| problem(known, key, value));
        if let Some(problem) = problem {
            return Err(ReadError::Setting { path, problem });
        }
        matches = with_defaults(clap.clone(), &table).try_get_matches_from(&arguments)?;
    }
    let settings = settings_of(&matches).map(|settings| list(settings_command(&clap), settings, &table)).unwrap_or_default();
    let command_line = CommandLine::from_arg_matches(&matches)?;
    // The server whose health is checked may have other flags.
    if !matches!(command_line.command, Command::Health(_)) {
        check_dependent(&settings)?;
    }
    Ok(Loaded { command_line, settings })
}

/// Refuses settings that would be ignored, because the one that they belong to is missing.
fn check_dependent(settings: &[Setting]) -> Result<(), ReadError> {
    let is_set = |name: &str| settings.iter().any(|setting| setting.name == name && setting.source != Source::Default);
    match DEPENDENT_SETTINGS.into_iter().find(|(setting, needed)| is_set(setting) && !is_set(needed)) {
        Some((setting, needed)) => Err(ReadError::Alone { setting, needed }),
        None => Ok(()),
    }
}

/// Names the variable if the refused value came from one, because clap names only the corresponding flag.
fn with_variable(error: clap::Error, mut clap: Clap, arguments: &[OsString]) -> ReadError {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error.into() };
    clap.build();
    match variable_of(&clap, flag, arguments) {
        Some(name) => ReadError::Value { name, problem: first_paragraph(&error) },
        None => error.into(),
    }
}

/// The variable that has the value of the argument that clap calls `flag`, if no flag of the command line overrides it.
fn variable_of(command: &Clap, flag: &str, arguments: &[OsString]) -> Option<String> {
    let variable = command.get_arguments().find_map(|argument| {
        let name = argument.get_env().filter(|name| argument.to_string() == flag && std::env::var_os(name).is_some())?;
        let long = format!("--{}", argument.get_long()?);
        let short = argument.get_short().map(|short| format!("-{short}"));
        let is_given = arguments.iter().map(|given| given.to_string_lossy()).any(|given| {
            given.split('=').next() == Some(long.as_str())
                || short.as_ref().is_some_and(|short| given.starts_with(short.as_str()))
        });
        (!is_given).then(|| name.to_string_lossy().into_owned())
    });
    variable.or_else(|| command.get_subcommands().find_map(|command| variable_of(command, flag, arguments)))
}

/// Returns clap's explanation of what is wrong, on one line and without hints.
fn first_paragraph(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.join(" ").trim_start_matches("error: ").to_owned()
}

/// The matches of the subcommand that takes the settings: `serve`, or `config check`.
fn settings_of(matches: &ArgMatches) -> Option<&ArgMatches> {
    let mut matches = matches;
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner;
    }
    matches.try_contains_id("config").is_ok().then_some(matches)
}

/// The command whose arguments are the settings; `serve` has the same as `config check`.
fn settings_command(clap: &Clap) -> &Clap {
    clap.find_subcommand("serve").unwrap_or(clap)
}

/// The arguments that are settings: those with an environment variable. Their ids are the keys of the file.
fn setting_arguments(command: &Clap) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| argument.get_env().is_some())
}

fn read_file(path: &Path) -> Result<Table, ReadError> {
    let text = std::fs::read_to_string(path).map_err(|source| ReadError::File { path: path.to_owned(), source })?;
    text.parse().map_err(|error: toml::de::Error| {
        // The full error message quotes the line, which may contain a secret.
        let newlines = |end: usize| text.bytes().take(end).filter(|byte| *byte == b'\n').count();
        let line = error.span().map_or(0, |span| newlines(span.start) + 1);
        ReadError::Toml { path: path.to_owned(), problem: format!("line {line}: {}", error.message()) }
    })
}

/// What is wrong with one key of the file, if anything.
fn problem(command: &Clap, key: &str, value: &Value) -> Option<String> {
    let Some(argument) = setting_arguments(command).find(|argument| argument.get_id() == key && key != "config") else {
        let keys = setting_arguments(command).map(|argument| argument.get_id().to_string());
        let known: BTreeSet<String> = keys.filter(|key| key != "config").collect();
        let nearest = nearest(key, &known).map(|nearest| format!(", the nearest name is {nearest}")).unwrap_or_default();
        return Some(format!("{key} is unknown{nearest}; `dragoman config check` lists all settings"));
    };
    let texts = match to_arguments(value) {
        Some(texts) if texts.len() == 1 || is_list(argument) => texts,
        _ => return Some(format!("{key} must be {}, got {}", expected(argument), value.type_str())),
    };
    // The environment and other arguments must not interfere here.
    let alone = Clap::new("file").no_binary_name(true).arg(argument.clone().env(None).default_values(Vec::<String>::new()));
    let flags = texts.iter().map(|text| format!("--{}={text}", argument.get_long().unwrap_or(key)));
    let error = alone.try_get_matches_from(flags).err()?;
    let line = error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    Some(format!("{key}: {line}"))
}

fn is_list(argument: &Arg) -> bool {
    argument.get_value_delimiter().is_some()
}

fn expected(argument: &Arg) -> &'static str {
    if is_list(argument) { "a list of strings" } else { "a string, a number or a boolean" }
}

fn to_arguments(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Integer(number) => Some(vec![number.to_string()]),
        Value::Float(number) => Some(vec![number.to_string()]),
        Value::Boolean(truth) => Some(vec![truth.to_string()]),
        Value::Array(values) => values.iter().map(|value| value.as_str().map(str::to_owned)).collect(),
        Value::Table(_) | Value::Datetime(_) => None,
    }
}

/// The command line with the file's values as defaults.
fn with_defaults(clap: Clap, table: &Table) -> Clap {
    let apply = |command: Clap| {
        table.iter().fold(command, |command, (key, value)| {
            let texts = to_arguments(value).unwrap_or_default();
            command.mut_arg(key, |argument| argument.default_values(texts))
        })
    };
    clap.mut_subcommand("serve", apply)
        .mut_subcommand("health", apply)
        .mut_subcommand("config", |config| config.mut_subcommand("check", apply))
}

fn list(command: &Clap, matches: &ArgMatches, table: &Table) -> Vec<Setting> {
    let setting = |argument: &Arg| {
        let name = argument.get_id().as_str();
        let source = match matches.value_source(name) {
            Some(ValueSource::CommandLine) => Source::Flag,
            Some(ValueSource::EnvVariable) => Source::Environment,
            Some(_) if table.contains_key(name) => Source::File,
            _ => Source::Default,
        };
        let values =
            matches.get_raw(name).map(|values| values.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>());
        let hidden = argument.is_hide_env_values_set();
        let value = values.filter(|values| !values.is_empty());
        let value = value.map(|values| if hidden { "(hidden)".to_owned() } else { values.join(",") });
        Setting { name: name.to_owned(), value, source }
    };
    setting_arguments(command).map(setting).collect()
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::File => "file",
            Self::Default => "default",
        })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, source } = self;
        write!(f, "{name} = {}  # {source}", value.as_deref().unwrap_or("(none)"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigCommand};
    use super::*;

    fn load(file: Option<&str>, flags: &[&str]) -> Result<(Config, Vec<Setting>), ReadError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dragoman.toml");
        let mut arguments: Vec<OsString> = ["dragoman", "config", "check"].iter().map(OsString::from).collect();
        if let Some(text) = file {
            std::fs::write(&path, text).unwrap();
            arguments.extend(["--config".into(), path.into_os_string()]);
        }
        arguments.extend(flags.iter().map(OsString::from));
        let loaded = read(arguments)?;
        match loaded.command_line.command {
            Command::Config(ConfigCommand::Check(config)) => Ok((*config, loaded.settings)),
            _ => unreachable!("the arguments say config check"),
        }
    }

    fn refuse(file: &str, words: &[&str]) {
        let error = load(Some(file), &[]).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{word:?} is not in {error:?}");
        }
        assert!(!error.contains('\n'), "{error}");
    }

    fn setting(settings: &[Setting], name: &str) -> (Option<String>, Source) {
        let found = settings.iter().find(|setting| setting.name == name).unwrap();
        (found.value.clone(), found.source)
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let file =
            "threads = 3\ntext_bytes_max = 100\nrate_per_s = 2.5\ninsecure = true\ncors_origins = ['http://a', 'http://b']\n";
        let (config, settings) = load(Some(file), &["--text-bytes-max", "200"]).unwrap();
        assert_eq!((config.threads, config.limits.text_bytes_max, config.traffic.rate_per_s), (3, 200, 2.5));
        assert!(config.access.insecure);
        assert_eq!(config.access.cors_origins, ["http://a", "http://b"]);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(setting(&settings, "threads"), (some("3"), Source::File));
        assert_eq!(setting(&settings, "text_bytes_max"), (some("200"), Source::Flag));
        assert_eq!(setting(&settings, "cors_origins"), (some("http://a,http://b"), Source::File));
        assert_eq!(setting(&settings, "body_bytes_max"), (some("33554432"), Source::Default));
        assert_eq!(setting(&settings, "model"), (None, Source::Default));
        let (config, _) = load(Some("insecure = true"), &["--insecure=false"]).unwrap();
        assert!(!config.access.insecure);
        assert!(load(None, &["--insecure"]).unwrap().0.access.insecure);
    }

    #[test]
    fn secrets_are_never_shown() {
        let secret = "correct horse battery staple";
        let (config, settings) = load(Some(&format!("admin_key = '{secret}'")), &[]).unwrap();
        assert_eq!(config.access.admin_key.as_ref().map(|key| key.expose().to_owned()), Some(secret.to_owned()));
        assert_eq!(setting(&settings, "admin_key"), (Some("(hidden)".to_owned()), Source::File));
        assert!(!format!("{config:?}").contains("horse"));
        refuse(&format!("admin_key = '{secret}"), &["line 1"]);
        let error = load(Some(&format!("admin_key = '{secret}")), &[]).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("horse"), "{error:?}");
    }

    #[test]
    fn a_setting_that_needs_another_one_is_refused_without_it() {
        for (alone, needed, message) in [
            ("otel_sampled = 0.5", "otel_endpoint = 'http://127.0.0.1:4318'", "otel_sampled is set without otel_endpoint,"),
            ("rate_burst = 5", "rate_per_s = 2.5", "rate_burst is set without rate_per_s,"),
            ("snapshot_endpoint = 'http://a'", "snapshot_target = 's3://a'", "snapshot_endpoint is set without snapshot_target,"),
            ("snapshot_interval_s = 60", "snapshot_target = 'a'", "snapshot_interval_s is set without snapshot_target,"),
            ("snapshot_keep = 7", "snapshot_target = 'a'", "snapshot_keep is set without snapshot_target,"),
            ("store_authorities = 'a.pem'", "store = 'postgres://a'", "store_authorities is set without store,"),
            ("store_connections_max = 4", "store = 'postgres://a'", "store_connections_max is set without store,"),
            (
                "store = 'postgres://a'\nstore_replica_lag_max_ms = 5",
                "store_replica = 'postgres://b'",
                "store_replica_lag_max_ms is set without store_replica,",
            ),
        ] {
            refuse(alone, &[message]);
            load(Some(&format!("{alone}\n{needed}\n")), &[]).unwrap();
        }
    }

    #[test]
    fn a_setting_and_the_one_that_it_needs_may_come_from_different_sources() {
        load(Some("snapshot_interval_s = 60"), &["--snapshot-target", "copies"]).unwrap();
        load(Some("snapshot_target = 'copies'"), &["--snapshot-interval-s", "60"]).unwrap();
    }

    #[test]
    fn a_check_of_health_accepts_a_setting_whose_other_one_is_a_flag_of_the_server() {
        read(["dragoman", "health", "--snapshot-interval-s", "60"].map(OsString::from)).unwrap();
    }
}
