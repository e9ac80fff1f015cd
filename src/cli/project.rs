//! `dragoman project`: computes a map of a collection's documents, and writes its points.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::client::{Call, Client};
use super::error::{CliError, Outcome};
use super::files::{Sink, is_standard};
use super::jobs;
use super::output::{format_cell, plural};
use super::request_body::{any_whole_number, request_members};
use crate::domain::CollectionName;

#[derive(Debug, Args)]
pub struct ProjectArgs {
    /// Name of the collection.
    pub collection: CollectionName,
    /// What to subtract from embeddings first: none, or language for the mean of the document's language.
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub center: String,
    /// Maximum points; a larger collection is sampled.
    #[arg(long, value_name = "COUNT", value_parser = any_whole_number::<u64>)]
    pub max_documents: Option<u64>,
    /// Number of neighbors per document to preserve in the map.
    #[arg(long, short = 'k', value_name = "COUNT", value_parser = any_whole_number::<u64>)]
    pub neighbors: Option<u64>,
    /// Writes a table of the points to this file, renamed into place when complete; - for standard output, as JSON with --json.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Adds the values of this metadata field to the table.
    #[arg(long, value_name = "NAME", requires = "output")]
    pub field: Option<String>,
    /// Prints the job once it is accepted, without waiting for it to finish.
    #[arg(long, conflicts_with = "output")]
    pub detach: bool,
}

pub fn run(args: ProjectArgs, client: &Client) -> Result<Outcome, CliError> {
    Sink::check(args.output.as_deref())?;
    let body = json!({"center": args.center, "max_documents": args.max_documents, "neighbors": args.neighbors});
    let path = ["collections", args.collection.as_str(), "projections"];
    let job = client.send(&Call::post(&path).json(request_members(&body)))?;
    if args.detach {
        return jobs::show(&client.output, &job);
    }
    client.output.note(&format!("job {} places the documents; it continues if you stop this command", format_cell(&job["id"])));
    let job = jobs::watch(client, job)?;
    let Some(file) = args.output.filter(|_| job["status"] == "succeeded") else {
        return jobs::finish(client, &job);
    };
    let path = ["collections", args.collection.as_str(), "projections", &args.center];
    let points = client.send(&Call::get(&path).with_optional_query("field", args.field.as_deref()))?;
    let mut sink = Sink::open(Some(&file))?;
    let written = if client.output.json && is_standard(&file) { format!("{points}\n") } else { table(&points) };
    sink.write_all(written.as_bytes())?;
    sink.finish()?;
    client.output.note(&plural(points["ids"].as_array().map_or(0, Vec::len) as u64, "point"));
    Ok(Outcome::Done)
}

/// Returns one tab-separated line per point.
fn table(points: &Value) -> String {
    let valued = points["values"].is_array();
    let mut table = format!("id\tx\ty\tlanguage{}\n", if valued { "\tvalue" } else { "" });
    let name_at = |of: &str, names: &str, index: usize| -> String {
        let name = points[of][index].as_u64().and_then(|number| points[names].get(usize::try_from(number).ok()?));
        cell(name.map(format_cell).unwrap_or_default())
    };
    for (index, id) in points["ids"].as_array().into_iter().flatten().enumerate() {
        let (x, y, language) = (&points["x"][index], &points["y"][index], name_at("language", "languages", index));
        let value = if valued { format!("\t{}", name_at("value", "values", index)) } else { String::new() };
        let _ = writeln!(table, "{}\t{x}\t{y}\t{language}{value}", cell(format_cell(id)));
    }
    table
}

/// Returns a text without tabs and line breaks.
fn cell(text: String) -> String {
    text.replace(['\t', '\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_written_as_a_table_with_language_and_value_names() {
        let points = json!({
            "ids": ["a", "b\tc"], "x": [0.5, -1.0], "y": [0.25, 1.0], "languages": ["de"], "language": [0, -1],
            "values": ["sport"], "value": [-1, 0],
        });
        let expect = "id\tx\ty\tlanguage\tvalue\na\t0.5\t0.25\tde\t\nb c\t-1.0\t1.0\t\tsport\n";
        assert_eq!(table(&points), expect);
    }
}
