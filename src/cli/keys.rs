//! `dragoman keys`: creates, lists and revokes keys.

use clap::Subcommand;
use serde_json::{Value, json};

use super::client::{Call, Client};
use super::confirm::ConfirmArgs;
use super::error::{CliError, Outcome};
use super::listing::{self, ListColumn};
use super::output::{Column, format_cell, list_cell, time};
use crate::domain::CreateKeyRequest;

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Lists all keys, without their secrets.
    List,
    /// Creates a key and prints its secret, which is never shown again.
    Create(CreateKeyRequest),
    /// Revokes a key, so that requests with it are refused.
    Revoke {
        /// Id of the key.
        id: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

pub fn run(action: Action, client: &Client) -> Result<Outcome, CliError> {
    match action {
        Action::List => list(client)?,
        Action::Create(args) => create(client, &args)?,
        Action::Revoke { id, confirm } => {
            confirm.prompt(&format!("revoke key {id}"))?;
            client.send(&Call::delete(&["keys", &id]))?;
            client.output.note(&format!("revoked key {id}"));
        }
    }
    Ok(Outcome::Done)
}

fn list(client: &Client) -> Result<(), CliError> {
    let columns: [ListColumn; 6] = [
        (Column::Text("ID"), "/id", format_cell),
        (Column::Text("NAME"), "/name", format_cell),
        (Column::Text("SCOPE"), "/scope", format_cell),
        (Column::Text("COLLECTIONS"), "/collections", collections),
        (Column::Text("CREATED"), "/created_at", time),
        (Column::Text("EXPIRES"), "/expires_at", time),
    ];
    listing::list(client, &Call::get(&["keys"]), "keys", &columns)
}

fn collections(names: &Value) -> String {
    if names.is_array() { list_cell(names) } else { "all".to_owned() }
}

fn create(client: &Client, key: &CreateKeyRequest) -> Result<(), CliError> {
    let created = client.send(&Call::post(&["keys"]).json(json!(key)))?;
    if client.output.json {
        return client.output.object(&created);
    }
    client.output.note(&format!("created key {}; its secret is shown only now", format_cell(&created["key"]["id"])));
    client.output.line(&format_cell(&created["secret"]))
}
