//! `dragoman jobs`: lists, shows, watches and cancels jobs, and prints the results of an import.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde_json::Value;

use super::client::{Call, Client};
use super::error::{CliError, Outcome};
use super::listing::{self, ListColumn};
use super::output::{Column, Output, Unit, count, format_cell, format_members, plural, time};
use crate::domain::CollectionName;

const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// Maximum consecutive event streams that break off without an event.
const SILENT_STREAMS_MAX: u32 = 30;

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Lists jobs, newest first.
    List(ListArgs),
    /// Shows a job in full.
    Show(IdArgs),
    /// Shows the progress of a job until it ends.
    Watch(IdArgs),
    /// Asks a job to stop.
    Cancel(IdArgs),
    /// Prints the result of each line of an import, as NDJSON.
    Results {
        /// Id of the job.
        id: String,
        /// Prints only failed lines.
        #[arg(long)]
        failed: bool,
    },
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only jobs in this state: queued, running, succeeded, failed or canceled.
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// Only jobs of this type: import, snapshot, restore, mine, duplicates, train, classify, evaluate, reembed, project.
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Only jobs of this collection.
    #[arg(long, value_name = "NAME")]
    pub collection: Option<CollectionName>,
}

#[derive(Debug, Args)]
pub struct IdArgs {
    /// Id of the job.
    pub id: String,
}

pub fn run(action: Action, client: &Client) -> Result<Outcome, CliError> {
    match action {
        Action::List(args) => list(client, &args).map(|()| Outcome::Done),
        Action::Show(args) => show(&client.output, &get(client, &args.id)?),
        Action::Watch(args) => {
            let job = get(client, &args.id)?;
            finish(client, &watch(client, job)?)
        }
        Action::Cancel(args) => show(&client.output, &client.send(&Call::post(&["jobs", &args.id, "cancel"]))?),
        Action::Results { id, failed } => {
            let only = if failed { ResultFilter::Failed } else { ResultFilter::All };
            results(client, &id, only, |line| client.output.line(line)).map(|()| Outcome::Done)
        }
    }
}

fn list(client: &Client, args: &ListArgs) -> Result<(), CliError> {
    let call = Call::get(&["jobs"])
        .with_optional_query("status", args.status.as_deref())
        .with_optional_query("type", args.kind.as_deref())
        .with_optional_query("collection", args.collection.as_ref().map(CollectionName::as_str));
    let columns: [ListColumn; 6] = [
        (Column::Text("ID"), "/id", format_cell),
        (Column::Text("TYPE"), "/type", format_cell),
        (Column::Text("COLLECTION"), "/collection", format_cell),
        (Column::Text("STATUS"), "/status", format_cell),
        (Column::Number("DONE"), "/progress", percent),
        (Column::Text("CREATED"), "/created_at", time),
    ];
    listing::list(client, &call, "jobs", &columns)
}

fn percent(progress: &Value) -> String {
    match (progress["done"].as_f64(), progress["total"].as_f64()) {
        (Some(done), Some(total)) if total > 0.0 => format!("{:.0}%", (done / total * 100.0).floor()),
        _ => String::new(),
    }
}

/// Shows a job, with a row for each member of its details and progress.
pub fn show(output: &Output, job: &Value) -> Result<Outcome, CliError> {
    if output.json {
        return output.object(job).map(|()| Outcome::Done);
    }
    let mut members = Vec::new();
    for (name, value) in format_members(job) {
        match &job[&name] {
            Value::Object(inner) => {
                let rows = format_members(&Value::Object(inner.clone())).into_iter();
                members.extend(rows.map(|(inner, value)| (format!("{name}.{inner}"), value)));
            }
            _ => members.push((name, value)),
        }
    }
    output.members(members).map(|()| Outcome::Done)
}

pub fn get(client: &Client, id: &str) -> Result<Value, CliError> {
    client.send(&Call::get(&["jobs", id]))
}

/// Shows a job's progress on the terminal until it ends. Returns its final state.
///
/// Reads the server's event stream. If it breaks off, fetches the job and reconnects.
pub fn watch(client: &Client, job: Value) -> Result<Value, CliError> {
    let Some(id) = job["id"].as_str().map(str::to_owned) else {
        return Err(client.unexpected_response("it has no job with an id".to_owned()));
    };
    let mut bar = None;
    let mut latest = job;
    let mut silent = 0;
    show_progress(&mut bar, &client.output, &latest);
    while !has_ended(&latest) {
        let mut received = false;
        let call = Call::get(&["jobs", &id, "events"]);
        let stream = client.open(&call).map(|download| events(BufReader::new(download.content)));
        for event in stream.into_iter().flatten() {
            if event["status"].is_string() {
                received = true;
                latest = event;
                show_progress(&mut bar, &client.output, &latest);
            }
        }
        if has_ended(&latest) {
            break;
        }
        silent = if received { 0 } else { silent + 1 };
        latest = match get(client, &id) {
            Err(CliError::Unreachable { .. }) if silent <= SILENT_STREAMS_MAX => latest,
            result => result?,
        };
        show_progress(&mut bar, &client.output, &latest);
        if !has_ended(&latest) {
            std::thread::sleep(RECONNECT_DELAY);
        }
    }
    bar.iter().for_each(ProgressBar::finish_and_clear);
    Ok(latest)
}

/// Watches a job until it ends. Reports one that does not succeed, and fails.
pub fn wait(client: &Client, job: Value) -> Result<Value, CliError> {
    let job = watch(client, job)?;
    if job["status"] != "succeeded" {
        finish(client, &job)?;
    }
    Ok(job)
}

/// Watches a job until it ends and reports the outcome. With `detach`, only shows the job.
pub fn follow(client: &Client, job: Value, detach: bool) -> Result<Outcome, CliError> {
    if detach {
        return show(&client.output, &job);
    }
    finish(client, &watch(client, job)?)
}

pub fn finish(client: &Client, job: &Value) -> Result<Outcome, CliError> {
    client.output.outcome(job, &summary(job))?;
    match job["status"].as_str() {
        _ if imported_nothing(job) => Err(CliError::Failed("no document was stored".to_owned())),
        Some("succeeded") if job["details"]["failed"].as_u64().unwrap_or(0) > 0 => Ok(Outcome::SomeFailed),
        Some("succeeded") => Ok(Outcome::Done),
        Some("failed") => {
            let error = &job["error"];
            Err(CliError::Failed(format!("the job failed: {}: {}", format_cell(&error["code"]), format_cell(&error["detail"]))))
        }
        Some("canceled") => Err(CliError::Failed("the job was canceled".to_owned())),
        other => Err(client.unexpected_response(format!("the job ended with status {other:?}"))),
    }
}

/// Formats the job's type, its status and what it counted.
fn summary(job: &Value) -> String {
    let details = &job["details"];
    let counted = if job["type"] == "classify" { labeled(details) } else { numbers(details) };
    let details = if counted.is_empty() { String::new() } else { format!(": {}", counted.join(", ")) };
    let status = if imported_nothing(job) { "failed".to_owned() } else { format_cell(&job["status"]) };
    format!("{} {status}{details}", format_cell(&job["type"]))
}

/// Whether an import stored no document because all of them failed. Its status is `succeeded` also then.
fn imported_nothing(job: &Value) -> bool {
    let [created, updated, failed] = ["created", "updated", "failed"].map(|name| job["details"][name].as_u64().unwrap_or(0));
    job["type"] == "import" && job["status"] == "succeeded" && failed > 0 && created + updated == 0
}

/// Formats the numbers in a job's details, with the server's names.
fn numbers(details: &Value) -> Vec<String> {
    let numbers = details.as_object().into_iter().flatten().filter(|(_, value)| value.is_number());
    numbers.map(|(name, value)| format!("{name} {}", count(value))).collect()
}

/// Says how many documents a job labeled, and what happened to the others.
fn labeled(details: &Value) -> Vec<String> {
    let Some(documents) = details["documents"].as_u64() else { return Vec::new() };
    let others = [
        ("left", &details["abstained"], "without a label because the classifier abstained"),
        ("skipped", &details["changed"], "whose text changed meanwhile"),
        ("failed on", &details["failed"], "whose metadata cannot hold the label"),
    ];
    let others = others.into_iter().filter(|(_, number, _)| number.as_u64().is_some_and(|number| number > 0));
    let others = others.map(|(what, number, why)| format!("{what} {} {why}", count(number)));
    let labeled = format!("labeled {} of {}", count(&details["labeled"]), plural(documents, "document"));
    std::iter::once(labeled).chain(others).collect()
}

fn has_ended(job: &Value) -> bool {
    matches!(job["status"].as_str(), Some("succeeded" | "failed" | "canceled"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultFilter {
    All,
    Failed,
}

/// Calls `each` with the result of each line of an import, as a line of JSON.
pub fn results(
    client: &Client,
    id: &str,
    only: ResultFilter,
    mut each: impl FnMut(&str) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let call =
        Call::get(&["jobs", id, "results"]).with_optional_query("status", (only == ResultFilter::Failed).then_some("failed"));
    for line in BufReader::new(client.open(&call)?.content).lines() {
        each(&line.map_err(CliError::io("read the results to their end"))?)?;
    }
    Ok(())
}

/// Parses the JSON data of server-sent events until the stream ends or breaks off.
fn events(stream: BufReader<impl Read>) -> impl Iterator<Item = Value> {
    let mut data = String::new();
    stream.lines().map_while(Result::ok).filter_map(move |line| {
        if line.is_empty() {
            return serde_json::from_str(&std::mem::take(&mut data)).ok();
        }
        if let Some(more) = line.strip_prefix("data:") {
            if !data.is_empty() {
                data.push('\n');
            }
            data.push_str(more.strip_prefix(' ').unwrap_or(more));
        }
        None
    })
}

/// Shows a job's progress. The first call creates the bar, because the job determines its unit.
fn show_progress(bar: &mut Option<ProgressBar>, output: &Output, job: &Value) {
    let progress = &job["progress"];
    let total = progress["total"].as_u64().filter(|total| *total > 0);
    let bar = bar.get_or_insert_with(|| match format_cell(&progress["unit"]).as_str() {
        "bytes" => output.progress(total, Unit::Bytes),
        "" => output.progress(total, Unit::Items("done")),
        unit => output.progress(total, Unit::Items(unit)),
    });
    if let Some(total) = total {
        bar.set_length(total);
    }
    bar.set_position(progress["done"].as_u64().unwrap_or(0));
    bar.set_message(format_cell(&job["status"]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_are_parsed_across_comments_and_buffer_boundaries() {
        let stream = ": hello\n\nevent: progress\ndata: {\"status\":\ndata: \"running\"}\n\ndata:{\"status\":\"succeeded\"}\r\n\r\n\
                      data: no json\n\ndata: {\"cut\": 1}";
        let found: Vec<Value> = events(BufReader::with_capacity(4, stream.as_bytes())).collect();
        assert_eq!(found, [json!({"status": "running"}), json!({"status": "succeeded"})]);
    }

    #[test]
    fn progress_is_shown_as_a_percentage() {
        assert_eq!(percent(&json!({"done": 999, "total": 1000})), "99%");
        assert_eq!(percent(&json!({"done": 0, "total": 0})), "");
        assert_eq!(percent(&json!(null)), "");
    }

    #[test]
    fn the_summary_shows_the_status_and_counts() {
        let job = json!({"type": "import", "status": "succeeded", "details": {"created": 1200, "failed": 0, "format": "csv"}});
        assert_eq!(summary(&job), "import succeeded: created 1,200, failed 0");
        let job = json!({"type": "import", "status": "succeeded", "details": {"created": 0, "updated": 0, "failed": 3}});
        assert_eq!(summary(&job), "import failed: created 0, updated 0, failed 3");
        assert_eq!(summary(&json!({"type": "restore", "status": "canceled"})), "restore canceled");
    }

    #[test]
    fn the_summary_of_labeled_documents_says_what_happened_to_the_others() {
        let check = |counts: [u64; 5], expect: &str| {
            let [documents, labeled, abstained, changed, failed] = counts;
            let details = json!({"classifier": "topics", "documents": documents, "labeled": labeled, "abstained": abstained,
                "changed": changed, "failed": failed});
            assert_eq!(summary(&json!({"type": "classify", "status": "succeeded", "details": details})), expect);
        };
        check([1, 1, 0, 0, 0], "classify succeeded: labeled 1 of 1 document");
        check(
            [1_300, 1_290, 1, 2, 7],
            "classify succeeded: labeled 1,290 of 1,300 documents, left 1 without a label because the classifier abstained, \
             skipped 2 whose text changed meanwhile, failed on 7 whose metadata cannot hold the label",
        );
        let unread = json!({"type": "classify", "status": "canceled", "details": {"classifier": "topics"}});
        assert_eq!(summary(&unread), "classify canceled");
    }
}
