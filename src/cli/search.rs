//! `dragoman search`: searches a collection and shows the hits.

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::client::{Call, Client};
use super::display::{truncate, width, wrap};
use super::error::{CliError, Outcome};
use super::output::{Column, Output, format_cell, plural, score_cell, with_title};
use super::request_body::{DocumentSelectionArgs, any_whole_number, finite_number, json_object, request_members};
use crate::domain::{CollectionName, SearchModeName, WordMatching};

/// Maximum lines of a passage on a terminal.
const PASSAGE_LINES_MAX: usize = 3;
/// Minimum columns for a passage, however narrow the terminal is.
const PASSAGE_COLUMNS_MIN: usize = 20;
/// Maximum columns of an id on a terminal.
const ID_COLUMNS_MAX: usize = 32;
/// Columns between two cells.
const GAP: usize = 2;

#[derive(Debug, Args, Serialize)]
pub struct SearchArgs {
    /// Name of the collection.
    #[serde(skip)]
    pub collection: CollectionName,
    /// The query, in any language, as one argument or several. "Quotes" require a phrase, and -word excludes a word. Put --
    /// before a query with a minus sign.
    #[arg(required_unless_present_any = ["like", "settings"])]
    #[serde(skip)]
    pub query: Vec<String>,
    /// Searches for documents similar to the one with this id, instead of a query.
    #[arg(long, value_name = "ID", conflicts_with = "query")]
    pub like: Option<String>,
    /// Maximum number of hits.
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = any_whole_number::<u64>)]
    pub limit: Option<u64>,
    /// Number of hits to skip.
    #[arg(long, value_name = "COUNT", value_parser = any_whole_number::<u64>)]
    pub offset: Option<u64>,
    /// Minimum score of a hit.
    #[arg(long, value_name = "SCORE", value_parser = finite_number, allow_negative_numbers = true)]
    pub score_min: Option<f64>,
    #[command(flatten)]
    #[serde(flatten)]
    pub only: DocumentSelectionArgs,
    /// Languages to prefer among hits of similar relevance, most preferred first, as BCP 47 tags; auto means the query's
    /// language.
    #[arg(long, value_name = "TAG,…", value_delimiter = ',')]
    pub prefer_language: Vec<String>,
    /// Boosts scores, such as {"filter": {"field": "topic", "eq": "food"}, "weight": 2} or {"field": "published", "decay":
    /// {"half_life": 30}}. Can be repeated.
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    #[serde(rename = "boosts")]
    pub boost: Vec<Map<String, Value>>,
    /// Diversity of the hits, from 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = finite_number)]
    pub diversity: Option<f64>,
    /// Search mode; defaults to the server's default.
    #[arg(long, short, value_enum)]
    pub mode: Option<SearchModeName>,
    /// Whether a passage must contain any or all of the query's words. Not available with mode dense.
    #[arg(long, value_enum)]
    pub words: Option<WordMatching>,
    /// Searches for the query literally: quotes and minus signs are not operators.
    #[arg(long)]
    #[serde(skip)]
    pub literal: bool,
    /// Additional members of the request body, as in the API documentation.
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    #[serde(skip)]
    pub settings: Option<Map<String, Value>>,
}

pub fn run(args: SearchArgs, client: &Client) -> Result<Outcome, CliError> {
    let call = Call::post(&["collections", args.collection.as_str(), "search"]).repeatable();
    let response = client.send(&call.json(request(args)))?;
    if client.output.json {
        client.output.object(&response)?;
        return Ok(Outcome::Done);
    }
    let Some(hits) = response["hits"].as_array() else {
        return Err(client.unexpected_response("it has no array \"hits\"".to_owned()));
    };
    if !hits.is_empty() {
        table(&client.output, hits)?;
    }
    client.output.note(&summary(hits.len(), &response));
    Ok(Outcome::Done)
}

fn request(args: SearchArgs) -> Value {
    let members = request_members(&args);
    let mut body = args.settings.unwrap_or_default();
    body.extend(members);
    body.extend((!args.query.is_empty()).then(|| ("query".to_owned(), json!(args.query.join(" ")))));
    body.extend(args.literal.then(|| ("operators".to_owned(), json!(false))));
    Value::Object(body)
}

fn summary(hits: usize, response: &Value) -> String {
    let took = response["took_ms"].as_f64().map(|took| format!(" in {took:.1} ms")).unwrap_or_default();
    let cut_off = if response["query_truncated"] == true {
        "; the query was longer than the model reads, so its end was ignored"
    } else {
        ""
    };
    format!("{}{took}{cut_off}", plural(hits as u64, "hit"))
}

/// Prints one row per hit. A passage takes one line in a file or a pipe. On a terminal it is wrapped to the remaining width.
fn table(output: &Output, hits: &[Value]) -> Result<(), CliError> {
    let id = |hit: &Value| {
        let id = format_cell(&hit["id"]);
        if output.columns.is_some() { truncate(&id, ID_COLUMNS_MAX) } else { id }
    };
    let mut rows: Vec<Vec<String>> = hits
        .iter()
        .enumerate()
        .map(|(index, hit)| {
            vec![(index + 1).to_string(), score_cell(&hit["score"]), format_cell(&hit["language"]), id(hit), passage(hit)]
        })
        .collect();
    let columns =
        [Column::Number("#"), Column::Number("SCORE"), Column::Text("LANG"), Column::Text("ID"), Column::Text("PASSAGE")];
    if let Some(all) = output.columns {
        let widest =
            |index: usize, name: &str| rows.iter().map(|row| width(&row[index])).max().unwrap_or(0).max(name.len()) + GAP;
        let used = widest(0, "#") + widest(1, "SCORE") + widest(2, "LANG") + widest(3, "ID");
        let left = all.saturating_sub(used).max(PASSAGE_COLUMNS_MIN);
        for row in &mut rows {
            row[4] = wrap(&row[4], left, PASSAGE_LINES_MAX).join("\n");
        }
    }
    output.table(&columns, rows)
}

/// Returns the best passage, after its document's title, or the whole text if the response has no passage.
fn passage(hit: &Value) -> String {
    let passage = match &hit["passage"]["text"] {
        Value::Null => format_cell(&hit["text"]),
        text => format_cell(text),
    };
    with_title(&hit["title"], passage)
}
