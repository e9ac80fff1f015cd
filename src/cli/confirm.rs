//! Asks for confirmation before something is deleted or replaced.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;

use super::client::{Call, Client};
use super::error::CliError;

/// The option that skips the question.
#[derive(Debug, Clone, Args)]
pub struct ConfirmArgs {
    /// Skips the confirmation prompt; required if there is no terminal.
    #[arg(long, short)]
    pub yes: bool,
}

impl ConfirmArgs {
    /// Deletes the resource at a path of the API, after the user has confirmed it.
    pub fn delete(&self, client: &Client, path: &[&str], what: &str) -> Result<(), CliError> {
        self.prompt(&format!("delete {what}"))?;
        client.send(&Call::delete(path))?;
        client.output.note(&format!("deleted {what}"));
        Ok(())
    }

    /// Asks the user to confirm `what`, and fails otherwise.
    pub fn prompt(&self, what: &str) -> Result<(), CliError> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(CliError::Usage(format!("to {what}, add --yes: there is no terminal for the question")));
        }
        let failed = CliError::io("ask on the terminal");
        let mut answer = String::new();
        let read = write!(io::stderr(), "{what}? [y/N] ").and_then(|()| io::stdin().lock().read_line(&mut answer));
        read.map_err(failed)?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(CliError::Failed("canceled; nothing was changed".to_owned())),
        }
    }
}
