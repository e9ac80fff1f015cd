//! What is generated from the definition of the command line: completions for shells, and manual pages.

use std::error::Error;
use std::io::Write as _;

use clap::CommandFactory as _;

use super::{CommandLine, Generated};

/// Generates it, to standard output or a folder.
pub fn write(what: Generated) -> Result<(), Box<dyn Error>> {
    let (mut command, mut text) = (CommandLine::command(), Vec::new());
    match what {
        Generated::Completions { shell } => clap_complete::generate(shell, &mut command, "dragoman", &mut text),
        Generated::Man { output: None } => clap_mangen::Man::new(command).render(&mut text)?,
        Generated::Man { output: Some(folder) } => clap_mangen::generate_to(command, &folder)
            .map_err(|error| format!("cannot write manual pages to {}: {error}", folder.display()))?,
    }
    match std::io::stdout().lock().write_all(&text) {
        // Whoever reads has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
