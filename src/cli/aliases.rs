//! `dragoman aliases`: lists, sets and deletes aliases.

use clap::{Args, Subcommand};
use serde_json::json;

use super::client::{Call, Client};
use super::confirm::ConfirmArgs;
use super::error::{CliError, Outcome};
use super::listing;
use super::output::{Column, format_cell};
use super::server::Group;
use crate::domain::CollectionName;

/// What to do with aliases.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Lists all aliases with their collections.
    List,
    /// Points an alias to a collection; an existing alias switches immediately.
    Set(SetArgs),
    /// Deletes an alias, but not its collection.
    Delete(DeleteArgs),
}

/// An alias and its collection.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// The alias.
    #[arg(value_parser = CollectionName::parse)]
    pub alias: CollectionName,
    /// Name of the collection.
    #[arg(value_parser = CollectionName::parse)]
    pub collection: CollectionName,
}

/// A deletion.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// The alias.
    #[arg(value_parser = CollectionName::parse)]
    pub alias: CollectionName,
    /// Whether to ask for confirmation.
    #[command(flatten)]
    pub confirm: ConfirmArgs,
}

/// Runs the command.
pub fn run(args: Group<Action>) -> Result<Outcome, CliError> {
    let (output, client) = Client::connect(&args.server)?;
    match args.action {
        Action::List => {
            let columns = [Column::Text("ALIAS"), Column::Text("COLLECTION")];
            let call = listing::first_page(&["v1", "aliases"]);
            listing::list(&client, &output, &call, ("aliases", &columns), |row| {
                vec![format_cell(&row["alias"]), format_cell(&row["collection"])]
            })?;
        }
        Action::Set(SetArgs { alias, collection }) => {
            let call = Call::put(&["v1", "aliases", alias.as_str()]).json(&json!({"collection": collection.as_str()}));
            let set = client.send(&call.repeatable())?.body;
            match output.json {
                true => output.object(&set)?,
                false => output.note(&format!("alias {alias} points to collection {collection}")),
            }
        }
        Action::Delete(DeleteArgs { alias, confirm }) => {
            confirm.ask(&format!("delete alias {alias}"))?;
            client.send(&Call::delete(&["v1", "aliases", alias.as_str()]))?;
            output.note(&format!("deleted alias {alias}"));
        }
    }
    Ok(Outcome::Done)
}
