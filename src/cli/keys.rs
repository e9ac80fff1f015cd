//! `dragoman keys`: creates, lists and revokes keys.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::EXIT_CODES;
use super::client::{Call, Client};
use super::confirm::ConfirmArgs;
use super::error::{CliError, Outcome};
use super::listing;
use super::output::{Column, Output, shown, time};
use super::server::ServerArgs;
use crate::domain::CollectionName;

/// The command's arguments.
#[derive(Debug, Args)]
#[command(after_long_help = EXIT_CODES)]
pub struct KeysArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
    /// The options that every command has.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Lists all keys, without their secrets.
    List,
    /// Creates a key and prints its secret, which is shown only this once.
    Create(CreateArgs),
    /// Revokes a key: requests with it are refused from then on.
    Revoke(RevokeArgs),
}

/// A new key.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// What the key is for, in your words.
    pub name: String,
    /// What it may do: search and read; also write documents; also everything else.
    #[arg(long, value_parser = ["read", "write", "admin"])]
    pub scope: String,
    /// The only collections that it may access; all by default.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = CollectionName::parse)]
    pub collections: Vec<CollectionName>,
    /// When it expires, as in 2027-01-31T00:00:00Z; never by default.
    #[arg(long, value_name = "TIME")]
    pub expires_at: Option<String>,
}

/// A revocation.
#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// Id of the key.
    pub id: String,
    /// Whether to ask.
    #[command(flatten)]
    pub confirm: ConfirmArgs,
}

/// Runs the command.
pub fn run(args: KeysArgs) -> Result<Outcome, CliError> {
    let output = Output::new(&args.server);
    let client = Client::new(&args.server, &output)?;
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
        let collections: Vec<String> = key["collections"].as_array().into_iter().flatten().map(shown).collect();
        let collections = if key["collections"].is_null() { "all".to_owned() } else { collections.join(", ") };
        let [id, name, scope] = ["id", "name", "scope"].map(|member| shown(&key[member]));
        vec![id, name, scope, collections, time(&key["created_at"]), time(&key["expires_at"])]
    };
    listing::list(client, output, &listing::first_page(&["v1", "keys"]), ("keys", &names.map(Column::Text)), row)
}

fn create(client: &Client, output: &Output, args: &CreateArgs) -> Result<(), CliError> {
    let mut body = json!({"name": args.name, "scope": args.scope});
    if !args.collections.is_empty() {
        body["collections"] = args.collections.iter().map(CollectionName::as_str).collect();
    }
    if let Some(time) = &args.expires_at {
        body["expires_at"] = json!(time);
    }
    let created = client.send(&Call::post(&["v1", "keys"]).json(&body))?.body;
    if output.json {
        return output.object(&created);
    }
    output.note(&format!("created key {}; its secret is shown only now", shown(&created["key"]["id"])));
    output.line(&shown(&created["secret"]))
}
