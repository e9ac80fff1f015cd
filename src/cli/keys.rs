//! `dragoman keys`: creates, lists and revokes keys.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{Call, Client};
use super::confirm::ConfirmArgs;
use super::error::{CliError, Outcome};
use super::listing;
use super::output::{Column, Output, format_cell, time};
use super::server::Group;
use crate::domain::CreateKeyRequest;

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Lists all keys, without their secrets.
    List,
    /// Creates a key and prints its secret, which is never shown again.
    Create(CreateKeyRequest),
    /// Revokes a key, so that requests with it are refused.
    Revoke(RevokeArgs),
}

/// A revocation.
#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// Id of the key.
    pub id: String,
    /// Whether to ask for confirmation.
    #[command(flatten)]
    pub confirm: ConfirmArgs,
}

/// Runs the command.
pub fn run(args: Group<Action>) -> Result<Outcome, CliError> {
    let (output, client) = Client::connect(&args.server)?;
    match args.action {
        Action::List => list(&client, &output)?,
        Action::Create(args) => create(&client, &output, &args)?,
        Action::Revoke(args) => {
            args.confirm.ask(&format!("revoke key {}", args.id))?;
            client.send(&Call::delete(&["v1", "keys", &args.id]))?;
            output.note(&format!("revoked key {}", args.id));
        }
    }
    Ok(Outcome::Done)
}

fn list(client: &Client, output: &Output) -> Result<(), CliError> {
    let names = ["ID", "NAME", "SCOPE", "COLLECTIONS", "CREATED", "EXPIRES"];
    let row = |key: &Value| {
        let collections: Vec<String> = key["collections"].as_array().into_iter().flatten().map(format_cell).collect();
        let collections = if key["collections"].is_null() { "all".to_owned() } else { collections.join(", ") };
        let [id, name, scope] = ["id", "name", "scope"].map(|member| format_cell(&key[member]));
        vec![id, name, scope, collections, time(&key["created_at"]), time(&key["expires_at"])]
    };
    listing::list(client, output, &listing::first_page(&["v1", "keys"]), ("keys", &names.map(Column::Text)), row)
}

fn create(client: &Client, output: &Output, key: &CreateKeyRequest) -> Result<(), CliError> {
    let created = client.send(&Call::post(&["v1", "keys"]).json(&json!(key)))?.body;
    if output.json {
        return output.object(&created);
    }
    output.note(&format!("created key {}; its secret is shown only now", format_cell(&created["key"]["id"])));
    output.line(&format_cell(&created["secret"]))
}
