//! The `dragoman` program: reads the command line, starts the log, runs the app.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser as _;
use dragoman::config::{Command, CommandLine, Config};
use dragoman::{app, telemetry};

fn main() -> ExitCode {
    let Command::Serve(config) = CommandLine::parse().command;
    match serve(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

fn serve(config: Config) -> Result<(), Box<dyn Error>> {
    telemetry::start(&config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(app::run(config))?)
}

/// An error and its causes on one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text.replace('\n', " ")
}
