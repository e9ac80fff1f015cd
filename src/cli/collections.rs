//! `dragoman collections`: lists, shows, creates, changes and deletes collections.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::{Call, Client};
use super::confirm::ConfirmArgs;
use super::error::{CliError, Outcome};
use super::jobs;
use super::listing::{self, ListColumn};
use super::output::{Column, Output, bytes, count, format_cell, format_members, plural};
use super::request_body::{any_whole_number, json_object, request_members};
use crate::domain::CollectionName;

const LANGUAGES_SHOWN: usize = 3;

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Lists all collections with their sizes.
    List,
    /// Shows a collection in full.
    Show {
        /// Name of the collection.
        collection: CollectionName,
    },
    /// Creates an empty collection.
    Create(CreateArgs),
    /// Changes settings of a collection.
    Patch {
        /// Name of the collection.
        collection: CollectionName,
        /// The members to change, as in the API documentation.
        #[arg(value_name = "JSON", value_parser = json_object)]
        settings: Map<String, Value>,
    },
    /// Re-embeds a collection with the server's model; searches keep working in the meantime.
    Reembed(ReembedArgs),
    /// Deletes a collection with all its documents.
    Delete {
        /// Name of the collection.
        collection: CollectionName,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Name of the collection.
    pub collection: CollectionName,
    /// Description of the collection.
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Embedding model; defaults to the server's.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Additional members of the request body, as in the API documentation.
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    pub settings: Option<Map<String, Value>>,
}

#[derive(Debug, Args)]
pub struct ReembedArgs {
    /// Name of the collection.
    pub collection: CollectionName,
    /// Maximum tokens per passage; defaults to the current value, or to the model's maximum if that is smaller.
    #[arg(long, value_name = "TOKENS", value_parser = any_whole_number::<u64>)]
    pub tokens_max: Option<u64>,
    /// Maximum tokens that a passage repeats from the previous one.
    #[arg(long, value_name = "TOKENS", requires = "tokens_max", value_parser = any_whole_number::<u64>)]
    pub overlap_tokens: Option<u64>,
    /// Prints the job without waiting for it to finish.
    #[arg(long)]
    pub detach: bool,
}

pub fn run(action: Action, client: &Client) -> Result<Outcome, CliError> {
    match action {
        Action::List => list(client)?,
        Action::Show { collection } => {
            show(&client.output, &client.send(&Call::get(&["collections", collection.as_str()]))?)?;
        }
        Action::Create(args) => show(&client.output, &create(client, args)?)?,
        Action::Patch { collection, settings } => {
            let call = Call::patch(&["collections", collection.as_str()]);
            show(&client.output, &client.send(&call.json(settings))?)?;
        }
        Action::Reembed(args) => return reembed(client, &args),
        Action::Delete { collection, confirm } => delete(client, collection.as_str(), &confirm)?,
    }
    Ok(Outcome::Done)
}

fn list(client: &Client) -> Result<(), CliError> {
    let columns: [ListColumn; 7] = [
        (Column::Text("NAME"), "/name", format_cell),
        (Column::Number("DOCUMENTS"), "/documents", count),
        (Column::Number("PENDING"), "/passages_pending", count),
        (Column::Text("LANGUAGES"), "/languages", |value| languages(value, LANGUAGES_SHOWN)),
        (Column::Text("MODEL"), "/model", format_cell),
        (Column::Number("SIZE"), "/disk_bytes", bytes),
        (Column::Text("STATE"), "/index_state", format_cell),
    ];
    listing::list(client, &Call::get(&["collections"]), "collections", &columns)
}

/// Formats the languages with their document counts, in descending order, and the number of languages left out.
fn languages(value: &Value, shown_max: usize) -> String {
    let all: Vec<&Value> = value.as_array().into_iter().flatten().collect();
    let with_count = |language: &&Value| {
        let code = language["language"].as_str().unwrap_or("none");
        format!("{code} {}", count(&language["documents"]))
    };
    let mut named: Vec<String> = all.iter().take(shown_max).map(with_count).collect();
    if all.len() > shown_max {
        named.push(format!("and {} more", all.len() - shown_max));
    }
    named.join(", ")
}

fn show(output: &Output, collection: &Value) -> Result<(), CliError> {
    if output.json {
        return output.object(collection);
    }
    let members = format_members(collection).into_iter().map(|(name, value)| match name.as_str() {
        "languages" => (name, languages(&collection["languages"], usize::MAX)),
        _ => (name, value),
    });
    output.members(members)
}

fn create(client: &Client, args: CreateArgs) -> Result<Value, CliError> {
    let mut body = args.settings.unwrap_or_default();
    body.extend(request_members(&json!({"name": args.collection, "description": args.description, "model": args.model})));
    client.send(&Call::post(&["collections"]).json(body))
}

fn reembed(client: &Client, args: &ReembedArgs) -> Result<Outcome, CliError> {
    let bounds = request_members(&json!({"tokens_max": args.tokens_max, "overlap_tokens": args.overlap_tokens}));
    let body = if bounds.is_empty() { json!({}) } else { json!({"passage_bounds": bounds}) };
    let call = Call::post(&["collections", args.collection.as_str(), "reembed"]).json(body);
    jobs::follow(client, client.send(&call)?, args.detach)
}

fn delete(client: &Client, name: &str, confirm: &ConfirmArgs) -> Result<(), CliError> {
    if !confirm.yes {
        let documents = client.send(&Call::get(&["collections", name]))?["documents"].as_u64();
        let documents = documents.map_or_else(|| "its documents".to_owned(), |documents| plural(documents, "document"));
        confirm.prompt(&format!("delete collection {name} with {documents}"))?;
    }
    client.send(&Call::delete(&["collections", name]))?;
    client.output.note(&format!("deleted collection {name}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_listed_up_to_a_maximum_count() {
        let value = json!([{"language": "fr", "documents": 1200}, {"documents": 3}, {"language": "de", "documents": 1}]);
        assert_eq!(languages(&value, 3), "fr 1,200, none 3, de 1");
        assert_eq!(languages(&value, 1), "fr 1,200, and 2 more");
        assert_eq!(languages(&json!([]), 3), "");
    }
}
