//! `dragoman models`: lists the models that a server has loaded.

use serde_json::json;

use super::client::{Call, Client};
use super::error::{CliError, Outcome};
use super::listing::{ListColumn, list};
use super::output::{Column, count, format_cell};

pub fn run((): (), client: &Client) -> Result<Outcome, CliError> {
    let columns: [ListColumn; 6] = [
        (Column::Text("NAME"), "/id", format_cell),
        (Column::Text("VERSION"), "/version", format_cell),
        (Column::Number("DIMENSION"), "/dimension", count),
        (Column::Number("TOKENS"), "/tokens_max", count),
        (Column::Number("LANGUAGES"), "/languages", |languages| count(&json!(languages.as_array().map_or(0, Vec::len)))),
        (Column::Text("DEVICE"), "/device", format_cell),
    ];
    list(client, &Call::get(&["models"]), "data", &columns)?;
    Ok(Outcome::Done)
}
