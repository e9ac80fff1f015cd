//! `dragoman models`: lists the models that a server has loaded.

use clap::Args;
use serde_json::json;

use super::EXIT_CODES;
use super::client::Client;
use super::error::{CliError, Outcome};
use super::listing;
use super::output::{Column, count, format_cell};
use super::server::ServerArgs;

/// The command's arguments.
#[derive(Debug, Args)]
#[command(after_long_help = EXIT_CODES)]
pub struct ModelsArgs {
    /// Options of every command.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Runs the command.
pub fn run(args: ModelsArgs) -> Result<Outcome, CliError> {
    let (output, client) = Client::connect(&args.server)?;
    let columns = [
        Column::Text("NAME"),
        Column::Text("VERSION"),
        Column::Number("DIMENSION"),
        Column::Number("TOKENS"),
        Column::Number("LANGUAGES"),
        Column::Text("DEVICE"),
    ];
    listing::list(&client, &output, &listing::first_page(&["v1", "models"]), ("data", &columns), |model| {
        let [name, version, device] = ["id", "version", "device"].map(|member| format_cell(&model[member]));
        let [dimension, tokens] = ["dimension", "tokens_max"].map(|member| count(&model[member]));
        let languages = count(&json!(model["languages"].as_array().map_or(0, Vec::len)));
        vec![name, version, dimension, tokens, languages, device]
    })?;
    Ok(Outcome::Done)
}
