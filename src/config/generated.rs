//! What is generated from the definition of the command line: completions for shells, and manual pages.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{CommandFactory as _, Subcommand};
use clap_complete::Shell;

use super::CommandLine;

/// What to generate.
#[derive(Debug, Subcommand)]
pub enum Generated {
    /// Prints completions of all commands and options for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Prints the manual page of the program, or writes one for each command.
    Man {
        /// The folder to write a page for each command to, which must exist.
        #[arg(long, short, value_name = "FOLDER")]
        output: Option<PathBuf>,
    },
}

impl Generated {
    /// Generates it.
    pub fn write(self) -> Result<(), Box<dyn Error>> {
        let (mut command, mut text) = (CommandLine::command(), Vec::new());
        match self {
            Self::Completions { shell } => clap_complete::generate(shell, &mut command, "dragoman", &mut text),
            Self::Man { output: None } => clap_mangen::Man::new(command).render(&mut text)?,
            Self::Man { output: Some(folder) } => clap_mangen::generate_to(command, &folder)
                .map_err(|error| format!("cannot write manual pages to {}: {error}", folder.display()))?,
        }
        match std::io::stdout().lock().write_all(&text) {
            // Whoever reads has read enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => Ok(written?),
        }
    }
}
