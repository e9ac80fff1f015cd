//! `dragoman documents`: stores, lists, shows, updates and deletes documents, one request at a time.
//!
//! `upsert` is for data that fits into a few requests. For large files, `import` runs as a job on the server.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::client::{Call, Client};
use super::confirm::ConfirmArgs;
use super::display::{one_line, truncate};
use super::error::{CliError, Outcome, Problem};
use super::files::Input;
use super::lines::Line;
use super::output::{Column, Output, Unit, count, format_cell, format_members, plural, time, with_title};
use super::request_body::{any_whole_number, json_filter, json_object, request_members};
use crate::domain::json::error_in_line;
use crate::domain::{CollectionName, Limits, UpsertCounts, Wait};

/// Maximum columns of a text in a list.
const TEXT_COLUMNS_MAX: usize = 60;
const BATCH_DOCUMENTS_MAX: usize = 200;
/// Maximum bytes per request, unless a single line is longer.
const BATCH_BYTES_MAX: usize = 4 << 20;
const FAILURES_PRINTED_MAX: u64 = 20;

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Stores documents from a file with one JSON object per line, in the format of the API.
    Upsert(UpsertArgs),
    /// Lists documents, by default ordered by id.
    List(ListArgs),
    /// Shows documents.
    Get(IdsArgs),
    /// Deletes documents, selected by ids or by a filter.
    Delete(DeleteArgs),
    /// Updates the metadata and the expiry of documents, selected by ids or by a filter.
    Update(UpdateArgs),
}

#[derive(Debug, Args, Serialize)]
#[command(group(ArgGroup::new("which").args(["filter", "ids"]).required(true)))]
#[command(group(ArgGroup::new("what").args(["metadata", "expires_at", "ttl_seconds", "no_expiry"]).required(true).multiple(true)))]
pub struct UpdateArgs {
    /// Name of the collection.
    #[serde(skip)]
    pub collection: CollectionName,
    /// Ids of the documents.
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Updates the documents that match this filter, such as {"field": "topic", "eq": "food"}; {"and": []} matches all.
    #[arg(long, short, value_name = "JSON", value_parser = json_filter)]
    pub filter: Option<Map<String, Value>>,
    /// Metadata changes, such as {"topic": "food", "draft": null}; null removes a member.
    #[arg(long, short, value_name = "JSON", value_parser = json_object)]
    pub metadata: Option<Map<String, Value>>,
    #[command(flatten)]
    #[serde(flatten)]
    pub expiry: ExpiryArgs,
}

#[derive(Debug, Args, Serialize)]
#[group(id = "expiry", multiple = false)]
pub struct ExpiryArgs {
    /// Expiry time, such as 2027-01-31T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub expires_at: Option<String>,
    /// Seconds until the documents expire.
    #[arg(long, value_name = "SECONDS", value_parser = any_whole_number::<u64>)]
    pub ttl_seconds: Option<u64>,
    /// Removes the expiry.
    #[arg(long)]
    #[serde(skip)]
    pub no_expiry: bool,
}

#[derive(Debug, Args)]
pub struct UpsertArgs {
    /// Name of the collection.
    pub collection: CollectionName,
    /// NDJSON file; - or no file for standard input.
    pub file: Option<PathBuf>,
    /// When the server responds to a request.
    #[arg(long, value_enum, default_value_t = Wait::Indexed)]
    pub wait: Wait,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Name of the collection.
    pub collection: CollectionName,
    /// Only documents that match this filter, such as {"field": "topic", "eq": "food"}.
    #[arg(long, short, value_name = "JSON", value_parser = json_filter)]
    pub filter: Option<Map<String, Value>>,
    /// Maximum documents to list.
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20, value_parser = any_whole_number::<usize>)]
    pub limit: usize,
    /// Orders by this field: a metadata path, id, created_at or updated_at. Documents without it come last.
    #[arg(long, value_name = "FIELD")]
    pub order_by: Option<String>,
    /// Reverses the order.
    #[arg(long)]
    pub descending: bool,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").args(["filter", "ids"]).required(true)))]
pub struct DeleteArgs {
    /// Name of the collection.
    pub collection: CollectionName,
    /// Ids of the documents.
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Deletes the documents that match this filter, such as {"field": "topic", "eq": "food"}, after confirmation;
    /// {"and": []} matches all.
    #[arg(long, short, value_name = "JSON", value_parser = json_filter)]
    pub filter: Option<Map<String, Value>>,
    #[command(flatten)]
    pub confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub struct IdsArgs {
    /// Name of the collection.
    pub collection: CollectionName,
    /// Ids of the documents.
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
}

pub fn run(action: Action, client: &Client) -> Result<Outcome, CliError> {
    match action {
        Action::Upsert(args) => upsert(client, &args),
        Action::List(args) => list(client, &args),
        Action::Get(args) => for_each_id(&client.output, &args.collection, &args.ids, |path| {
            let document = client.send(&Call::get(path))?;
            if client.output.json { client.output.object(&document) } else { client.output.members(format_members(&document)) }
        }),
        Action::Delete(args) => delete(client, &args),
        Action::Update(args) => update(client, &args),
    }
}

/// Creates a POST request to `/v1/collections/{collection}/documents/{operation}`.
fn post(collection: &CollectionName, operation: &str) -> Call {
    Call::post(&["collections", collection.as_str(), "documents", operation])
}

fn delete(client: &Client, args: &DeleteArgs) -> Result<Outcome, CliError> {
    let DeleteArgs { collection, ids, filter, confirm } = args;
    let Some(filter) = filter else {
        return for_each_id(&client.output, collection, ids, |path| client.send(&Call::delete(path)).map(drop));
    };
    let body = json!({ "filter": filter });
    if !confirm.yes {
        let found = client.send(&post(collection, "count").json(body.clone()).repeatable())?["documents"].as_u64();
        let documents = found.map_or_else(|| "documents".to_owned(), |found| plural(found, "document"));
        confirm.prompt(&format!("delete {documents} from collection {collection}"))?;
    }
    let response = client.send(&post(collection, "delete").json(body))?;
    client.output.outcome(&response, &format!("deleted {}", plural(response["deleted"].as_u64().unwrap_or(0), "document")))?;
    Ok(Outcome::Done)
}

fn update(client: &Client, args: &UpdateArgs) -> Result<Outcome, CliError> {
    let mut body = request_members(args);
    body.extend(args.expiry.no_expiry.then(|| ("expires_at".to_owned(), Value::Null)));
    let response = client.send(&post(&args.collection, "update").json(body))?;
    let matched = response["matched"].as_u64().unwrap_or(0);
    client.output.outcome(&response, &format!("updated {} of {}", count(&response["updated"]), plural(matched, "document")))?;
    let named = args.ids.iter().collect::<HashSet<_>>().len() as u64;
    match named.saturating_sub(matched) {
        0 => Ok(Outcome::Done),
        _ if matched == 0 => Err(CliError::Failed("none of the documents exists".to_owned())),
        missing => {
            client.output.note(&format!("{missing} of {} not found", plural(named, "document")));
            Ok(Outcome::SomeFailed)
        }
    }
}

/// Calls `act` with the path of each document. Reports missing documents and continues.
fn for_each_id(
    output: &Output,
    collection: &CollectionName,
    ids: &[String],
    act: impl Fn(&[&str]) -> Result<(), CliError>,
) -> Result<Outcome, CliError> {
    let mut failed = 0;
    for id in ids {
        match act(&["collections", collection.as_str(), "documents", id]) {
            Err(error) if ids.len() > 1 && error.code() == Some("document_not_found") => {
                failed += 1;
                error.report(output.json);
            }
            result => result?,
        }
    }
    match failed {
        0 => Ok(Outcome::Done),
        _ if failed == ids.len() => Err(CliError::Failed("none of the documents exists".to_owned())),
        _ => Ok(Outcome::SomeFailed),
    }
}

fn list(client: &Client, args: &ListArgs) -> Result<Outcome, CliError> {
    let mut rows = Vec::new();
    let mut left = args.limit;
    let mut cursor: Option<String> = None;
    let mut more = false;
    while left > 0 {
        let call = post(&args.collection, "scroll").repeatable();
        let direction = if args.descending { "desc" } else { "asc" };
        let field = args.order_by.as_deref().unwrap_or("id");
        let order = json!({"field": field, "direction": direction});
        let body = request_members(&json!({"order_by": order, "filter": args.filter, "cursor": cursor}));
        // Uses the server's default page size, because the server may refuse a larger one.
        let page = client.send(&call.json(body))?;
        let documents = page["documents"].as_array().map(Vec::as_slice).unwrap_or_default();
        let shown = &documents[..documents.len().min(left)];
        more = shown.len() < documents.len();
        left -= shown.len();
        for document in shown {
            if client.output.json {
                client.output.object(document)?;
            } else {
                rows.push(row(document, &client.output));
            }
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    if !rows.is_empty() {
        let columns = [Column::Text("ID"), Column::Text("LANG"), Column::Text("UPDATED"), Column::Text("TEXT")];
        client.output.table(&columns, rows)?;
    }
    if more || cursor.is_some() {
        client.output.note("there are more; show them with --limit, or get all with `dragoman export`");
    }
    Ok(Outcome::Done)
}

fn row(document: &Value, output: &Output) -> Vec<String> {
    let text = with_title(&document["title"], format_cell(&document["text"]));
    let text = if output.columns.is_some() { truncate(&text, TEXT_COLUMNS_MAX) } else { text };
    vec![format_cell(&document["id"]), format_cell(&document["language"]), time(&document["updated_at"]), text]
}

#[derive(Default)]
struct Batch {
    documents: Vec<Value>,
    lines: Vec<u64>,
    /// The ids of the documents that have one.
    ids: HashSet<String>,
    /// The size of the lines in the file; the JSON of the request is about as large.
    bytes: usize,
}

fn upsert(client: &Client, args: &UpsertArgs) -> Result<Outcome, CliError> {
    let input = Input::open(args.file.as_deref(), &client.output)?;
    let bar = client.output.progress(input.bytes, Unit::Bytes);
    let mut counts = UpsertCounts::default();
    let mut batch = Batch::default();
    for line in input.lines(Limits::default().body_bytes_max) {
        let Line { number, text, bytes } = line?;
        let document = text.and_then(|text| match text.trim() {
            "" => Ok(None),
            text => {
                let invalid = |error| format!("is not valid JSON: {}", error_in_line(&error));
                serde_json::from_str(text).map(Some).map_err(invalid)
            }
        });
        match document {
            Ok(None) => {}
            Ok(Some(document)) => {
                // The server refuses an id that occurs twice in a request. In separate requests, the last document is stored.
                if batch.has_id_of(&document) {
                    send(client, args, std::mem::take(&mut batch), &mut counts)?;
                }
                batch.push(document, number, bytes);
            }
            Err(problem) => report_failure(&mut counts, &client.output, number, None, &problem)?,
        }
        if batch.documents.len() >= BATCH_DOCUMENTS_MAX || batch.bytes >= BATCH_BYTES_MAX {
            send(client, args, std::mem::take(&mut batch), &mut counts)?;
        }
        bar.inc(bytes);
    }
    if !batch.documents.is_empty() {
        send(client, args, batch, &mut counts)?;
    }
    bar.finish_and_clear();
    let UpsertCounts { created, updated, failed } = counts;
    client.output.outcome(&counts, &format!("created {created}, updated {updated}, failed {failed}"))?;
    match (failed, created + updated) {
        (0, _) => Ok(Outcome::Done),
        (_, 0) => Err(CliError::Failed("no document was stored".to_owned())),
        _ => Ok(Outcome::SomeFailed),
    }
}

/// Sends one request. If no document was stored, the server responds with an error that lists their locations.
fn send(client: &Client, args: &UpsertArgs, batch: Batch, counts: &mut UpsertCounts) -> Result<(), CliError> {
    let call = Call::post(&["collections", args.collection.as_str(), "documents"]).with_query("wait", args.wait.name());
    // The server creates missing ids, so a retry would store a second document.
    let named = batch.documents.iter().all(|document| document["id"].is_string());
    let call = call.json(json!({ "documents": batch.documents }));
    let call = if named { call.repeatable() } else { call };
    match client.rows(&call, "results", batch.documents.len(), "a result for each document") {
        Ok(results) => take_results(&client.output, &batch, &results, counts),
        Err(CliError::Refused(refusal)) => {
            let problem = |Problem { location, detail }: &Problem| Some((index(location)?, locate_problem(location, detail)));
            let problems: Vec<_> = refusal.problems.iter().map(problem).collect();
            if problems.is_empty() || problems.iter().any(Option::is_none) {
                return Err(CliError::Refused(refusal));
            }
            // A document may have several errors.
            let mut reasons: BTreeMap<usize, String> = BTreeMap::new();
            for (index, detail) in problems.into_iter().flatten() {
                let reason = reasons.entry(index).or_default();
                reason.push_str(if reason.is_empty() { "" } else { "; " });
                reason.push_str(&detail);
            }
            for (index, detail) in reasons {
                let id = batch.documents.get(index).and_then(|document| document["id"].as_str());
                report_failure(counts, &client.output, batch.lines.get(index).copied().unwrap_or(0), id, &detail)?;
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn take_results(output: &Output, batch: &Batch, results: &[Value], counts: &mut UpsertCounts) -> Result<(), CliError> {
    for (result, line) in results.iter().zip(&batch.lines) {
        match result["status"].as_str() {
            Some("created") => counts.created += 1,
            Some("updated") => counts.updated += 1,
            _ => {
                let error = &result["error"];
                let (pointer, detail) = (error["pointer"].as_str().unwrap_or_default(), error["detail"].as_str());
                report_failure(
                    counts,
                    output,
                    *line,
                    result["id"].as_str(),
                    &locate_problem(pointer, detail.unwrap_or("failed")),
                )?;
            }
        }
    }
    Ok(())
}

/// Returns the index of the document in a JSON pointer into the request.
fn index(pointer: &str) -> Option<usize> {
    pointer.strip_prefix("/documents/")?.split('/').next()?.parse().ok()
}

/// Prefixes the problem with its location within the document.
fn locate_problem(pointer: &str, detail: &str) -> String {
    match pointer.splitn(4, '/').nth(3) {
        Some(member) => format!("/{member}: {detail}"),
        None => detail.to_owned(),
    }
}

impl Batch {
    fn has_id_of(&self, document: &Value) -> bool {
        document["id"].as_str().is_some_and(|id| self.ids.contains(id))
    }

    fn push(&mut self, document: Value, line: u64, bytes: u64) {
        self.ids.extend(document["id"].as_str().map(str::to_owned));
        self.documents.push(document);
        self.lines.push(line);
        self.bytes += bytes as usize;
    }
}

/// Counts and reports a document that was not stored. JSON output reports all of them, text output only the first ones.
fn report_failure(
    counts: &mut UpsertCounts,
    output: &Output,
    line: u64,
    id: Option<&str>,
    problem: &str,
) -> Result<(), CliError> {
    counts.failed += 1;
    if output.json {
        return output.json_status(&json!({ "line": line, "status": "failed", "detail": problem }));
    }
    match counts.failed {
        ..=FAILURES_PRINTED_MAX => {
            let id = id.map(|id| format!(" ({})", one_line(id))).unwrap_or_default();
            output.problem(&format!("line {line}{id}: {}", one_line(problem)));
        }
        n if n == FAILURES_PRINTED_MAX + 1 => output.problem("more lines failed; --json lists all"),
        _ => {}
    }
    Ok(())
}
