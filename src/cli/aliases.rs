//! `dragoman aliases`: lists, sets and deletes aliases.

use clap::Subcommand;
use serde_json::json;

use super::client::{Call, Client};
use super::confirm::ConfirmArgs;
use super::error::{CliError, Outcome};
use super::listing::{ListColumn, list};
use super::output::{Column, format_cell};
use crate::domain::CollectionName;

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Lists all aliases with their collections.
    List,
    /// Points an alias to a collection; an existing alias switches immediately.
    Set {
        /// The alias.
        alias: CollectionName,
        /// Name of the collection.
        collection: CollectionName,
    },
    /// Deletes an alias, but not its collection.
    Delete {
        /// The alias.
        alias: CollectionName,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

pub fn run(action: Action, client: &Client) -> Result<Outcome, CliError> {
    match action {
        Action::List => {
            let columns: [ListColumn; 2] =
                [(Column::Text("ALIAS"), "/alias", format_cell), (Column::Text("COLLECTION"), "/collection", format_cell)];
            list(client, &Call::get(&["aliases"]), "aliases", &columns)?;
        }
        Action::Set { alias, collection } => {
            let call = Call::put(&["aliases", alias.as_str()]).json(json!({"collection": collection.as_str()}));
            let set = client.send(&call.repeatable())?;
            client.output.outcome(&set, &format!("alias {alias} points to collection {collection}"))?;
        }
        Action::Delete { alias, confirm } => {
            confirm.delete(client, &["aliases", alias.as_str()], &format!("alias {alias}"))?;
        }
    }
    Ok(Outcome::Done)
}
