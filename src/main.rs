//! The `dragoman` program: reads its settings, then serves, checks them, or runs a command of `cli`.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use dragoman::cli::health::{self, HealthCheck};
use dragoman::config::{self, Command, Config, ConfigCommand, HealthSettings, ReadError, Setting};
use dragoman::{app, cli, telemetry};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    app::disable_runtime_telemetry();
    let done = match config::read(std::env::args_os()) {
        Ok(loaded) => match loaded.command_line.command {
            Command::Client(command) => return cli::run(*command),
            Command::Serve(config) => serve(*config),
            Command::Health(settings) => check_health(&settings),
            Command::Move(settings) => return app::move_data(&settings),
            Command::Generate(what) => config::generated::write(what),
            Command::Config(ConfigCommand::Check(config)) => check(&config, &loaded.settings),
        },
        // clap prints the help or the error, with colors, and exits with the right code.
        Err(ReadError::CommandLine(error)) => error.exit(),
        Err(error) => Err(error.into()),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    telemetry::write_last_line(format!("error: {}", cli::chain(&*error)));
    ExitCode::FAILURE
}

fn serve(config: Config) -> Result<(), Box<dyn Error>> {
    app::bound_arenas();
    let telemetry = telemetry::start(&config)?;
    Ok(app::serve_until_signal(config, telemetry.dropped_lines())?)
}

fn check_health(settings: &HealthSettings) -> Result<(), Box<dyn Error>> {
    let HealthSettings { ready, timeout_s, server } = settings;
    let (certificate, timeout) = (server.access.tls_certificate.as_deref(), Duration::from_secs(*timeout_s));
    Ok(health::check(HealthCheck { listen: &server.listen, certificate, ready: *ready, timeout })?)
}

fn check(config: &Config, settings: &[Setting]) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    match settings.iter().try_for_each(|setting| writeln!(out, "{setting}")) {
        // The exit code reports the result of the check, even if the rest is not read.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => (),
        written => written?,
    }
    telemetry::check(config)?;
    app::check(config)?.into_iter().for_each(|warning| telemetry::write_last_line(format!("warning: {warning}")));
    Ok(())
}
