//! Generates shell completions and manual pages from the definition of the command line.

use std::error::Error;
use std::io::Write as _;

use clap::CommandFactory as _;

use super::{CommandLine, Generated};

/// Writes it to standard output or into a folder.
pub fn write(what: Generated) -> Result<(), Box<dyn Error>> {
    let (mut command, mut text) = (CommandLine::command(), Vec::new());
    match what {
        Generated::Completions { shell } => clap_complete::generate(shell, &mut command, "dragoman", &mut text),
        Generated::Man { output: None } => clap_mangen::Man::new(command).render(&mut text)?,
        Generated::Man { output: Some(folder) } => std::fs::create_dir_all(&folder)
            .and_then(|()| clap_mangen::generate_to(command, &folder))
            .map_err(|error| format!("cannot write manual pages to {}: {error}", folder.display()))?,
    }
    match std::io::stdout().lock().write_all(&text) {
        // The reader has closed the pipe, because it has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
