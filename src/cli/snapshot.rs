//! `dragoman snapshot`: creates, lists, shows, downloads, uploads, restores and deletes snapshots.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::client::{Call, Client, Upload};
use super::confirm::ConfirmArgs;
use super::error::{CliError, Outcome};
use super::files::{Input, Sink};
use super::jobs;
use super::listing::{self, ListColumn};
use super::output::{Column, Output, Unit, bytes, count, format_cell, format_members, time};
use super::request_body::request_members;
use super::snapshot_target::TargetArgs;
use crate::domain::{CollectionName, hex};
use crate::new_id::new_uuid;

/// Stands for the newest snapshot, also in `Target::find`.
const LATEST: &str = "latest";
const ARCHIVE_EXTENSION: &str = ".tar.zst";

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Creates a snapshot of collections, by default all of them, on the server.
    Create {
        /// Names of the collections; all if omitted.
        #[arg(value_name = "COLLECTION")]
        collections: Vec<CollectionName>,
        /// Prints the job without waiting for it to finish.
        #[arg(long)]
        detach: bool,
    },
    /// Lists the snapshots on the server, or at a target.
    List(TargetArgs),
    /// Shows a snapshot in full.
    Show {
        /// Id of the snapshot.
        id: String,
    },
    /// Downloads a snapshot to a file.
    Download(DownloadArgs),
    /// Uploads a downloaded snapshot.
    Upload {
        /// Snapshot archive.
        file: PathBuf,
        /// Id (UUID) of the snapshot; defaults to the one in the file name, otherwise a new one.
        #[arg(long)]
        id: Option<Uuid>,
    },
    /// Restores collections from a snapshot.
    Restore(RestoreArgs),
    /// Deletes a snapshot.
    Delete {
        /// Id of the snapshot.
        id: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

#[derive(Debug, Args)]
pub struct DownloadArgs {
    /// Id of the snapshot, or latest.
    pub id: String,
    #[command(flatten)]
    pub target: TargetArgs,
    /// Output file, renamed into place when complete; defaults to ID.tar.zst.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// Id of the snapshot, or latest.
    pub id: String,
    #[command(flatten)]
    pub target: TargetArgs,
    /// Restores only this collection.
    #[arg(long, value_name = "NAME")]
    pub collection: Option<CollectionName>,
    /// Restores that collection under another name.
    #[arg(long, value_name = "NAME", requires = "collection")]
    pub rename_to: Option<CollectionName>,
    /// Replaces existing collections.
    #[arg(long)]
    pub replace: bool,
    /// Prints the job without waiting for it to finish.
    #[arg(long)]
    pub detach: bool,
    #[command(flatten)]
    pub confirm: ConfirmArgs,
}

pub fn run(action: Action, client: &Client) -> Result<Outcome, CliError> {
    match action {
        Action::Create { collections, detach } => {
            let body = request_members(&json!({"collections": collections}));
            return create(client, &Call::post(&["snapshots"]).json(body), detach);
        }
        Action::List(args) => match args.open()? {
            Some(target) => target.list(&client.output)?,
            None => list(client)?,
        },
        Action::Show { id } => show(&client.output, &client.send(&Call::get(&["snapshots", &id]))?)?,
        Action::Download(args) => download(client, &args)?,
        Action::Upload { file, id } => upload(client, &file, id)?,
        Action::Restore(args) => return restore(client, args),
        Action::Delete { id, confirm } => confirm.delete(client, &["snapshots", &id], &format!("snapshot {id}"))?,
    }
    Ok(Outcome::Done)
}

/// Creates a snapshot and prints its id.
fn create(client: &Client, call: &Call, detach: bool) -> Result<Outcome, CliError> {
    let job = client.send(call)?;
    let id = format_cell(&job["details"]["snapshot"]);
    let outcome = jobs::follow(client, job, detach)?;
    if !detach && !client.output.json {
        client.output.line(&id)?;
    }
    Ok(outcome)
}

fn restore(client: &Client, mut args: RestoreArgs) -> Result<Outcome, CliError> {
    let target = args.target.open()?;
    let found = target.as_ref().map(|target| target.find(&args.id)).transpose()?;
    args.id = match &found {
        Some(found) => found.snapshot.to_string(),
        None => id_on_server(client, &args.id)?,
    };
    if args.replace {
        let what = args.rename_to.as_ref().or(args.collection.as_ref()).map(|name| format!("collection {name}"));
        let what = what.unwrap_or_else(|| "all existing collections that the snapshot contains".to_owned());
        args.confirm.prompt(&format!("replace {what} with the contents of snapshot {}", args.id))?;
    }
    if let Some((target, found)) = target.zip(found) {
        target.upload(client, &found)?;
    }
    let body = request_members(&json!({"collection": args.collection, "rename_to": args.rename_to, "replace": args.replace}));
    let call = Call::post(&["snapshots", &args.id, "restore"]).json(body);
    let advice = "add --replace, or restore it under another name with --collection and --rename-to";
    let job = client.send(&call).map_err(|error| error.advise("collection_exists", advice))?;
    jobs::follow(client, job, args.detach)
}

/// Returns the id of the server's newest snapshot for `latest`, and any other id unchanged.
fn id_on_server(client: &Client, id: &str) -> Result<String, CliError> {
    if id != LATEST {
        return Ok(id.to_owned());
    }
    let newest = client.send(&Call::get(&["snapshots"]).with_query("limit", "1"))?;
    match newest["snapshots"][0]["id"].as_str() {
        Some(id) => Ok(id.to_owned()),
        None => Err(CliError::Failed("there are no snapshots on the server".to_owned())),
    }
}

fn list(client: &Client) -> Result<(), CliError> {
    let columns: [ListColumn; 4] = [
        (Column::Text("ID"), "/id", format_cell),
        (Column::Text("CREATED"), "/created_at", time),
        (Column::Text("COLLECTIONS"), "/collections", names),
        (Column::Number("SIZE"), "/archive_bytes", bytes),
    ];
    listing::list(client, &Call::get(&["snapshots"]), "snapshots", &columns)
}

fn names(collections: &Value) -> String {
    let names = collections.as_array().into_iter().flatten().map(|collection| format_cell(&collection["name"]));
    names.collect::<Vec<_>>().join(", ")
}

fn show(output: &Output, snapshot: &Value) -> Result<(), CliError> {
    if output.json {
        return output.object(snapshot);
    }
    let members = format_members(snapshot).into_iter().filter(|(name, _)| name != "collections");
    output.members(members)?;
    let row = |collection: &Value| {
        vec![
            format_cell(&collection["name"]),
            count(&collection["documents"]),
            format_cell(&collection["model"]),
            bytes(&collection["bytes"]),
        ]
    };
    let columns = [Column::Text("COLLECTION"), Column::Number("DOCUMENTS"), Column::Text("MODEL"), Column::Number("SIZE")];
    output.line("")?;
    output.table(&columns, snapshot["collections"].as_array().into_iter().flatten().map(row))
}

/// Downloads the archive to a file and verifies its checksum.
fn download(client: &Client, args: &DownloadArgs) -> Result<(), CliError> {
    if let Some(target) = args.target.open()? {
        let found = target.find(&args.id)?;
        let path = args.output.clone().unwrap_or_else(|| format!("{}{ARCHIVE_EXTENSION}", found.snapshot).into());
        return target.download(&client.output, &found, &path);
    }
    let id = id_on_server(client, &args.id)?;
    let about = client.send(&Call::get(&["snapshots", &id]))?;
    let mut download = client.open(&Call::get(&["snapshots", &id, "archive"]))?;
    let path = args.output.clone().unwrap_or_else(|| format!("{id}{ARCHIVE_EXTENSION}").into());
    let mut sink = Sink::open(Some(&path))?;
    let bar = client.output.progress(download.bytes, Unit::Bytes);
    let (mut digest, mut copied) = (Sha256::new(), 0);
    sink.copy(&mut *download.content, "read the snapshot to its end", |piece| {
        digest.update(piece);
        copied += piece.len() as u64;
        bar.inc(piece.len() as u64);
    })?;
    let got = hex(&digest.finalize());
    if about["archive_sha256"].as_str() != Some(got.as_str()) {
        let expected = format_cell(&about["archive_sha256"]);
        return Err(client.unexpected_response(format!("the archive has SHA-256 {got}, expected {expected}")));
    }
    sink.finish()?;
    bar.finish_and_clear();
    client.output.note(&format!("wrote {} to {}", bytes(&json!(copied)), path.display()));
    Ok(())
}

fn upload(client: &Client, file: &Path, id: Option<Uuid>) -> Result<(), CliError> {
    let id = id.or_else(|| id_in_name(file)).unwrap_or_else(new_uuid).to_string();
    let input = Input::open(Some(file), &client.output)?;
    let bar = client.output.progress(input.bytes, Unit::Bytes);
    let mut content = bar.wrap_read(input.content);
    let upload = Upload { content_type: "application/zstd", content_encoding: None, bytes: input.bytes, content: &mut content };
    let snapshot = client.upload(&Call::put(&["snapshots", &id, "archive"]), upload)?;
    bar.finish_and_clear();
    show(&client.output, &snapshot)
}

/// Returns the id in a file name that `download` chose.
fn id_in_name(path: &Path) -> Option<Uuid> {
    path.file_name()?.to_str()?.strip_suffix(ARCHIVE_EXTENSION)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_read_from_the_downloaded_file_name() {
        let id = "0199d1a0-0000-7000-8000-000000000001";
        assert_eq!(id_in_name(Path::new(&format!("backups/{id}.tar.zst"))).map(|id| id.to_string()).as_deref(), Some(id));
        assert_eq!(id_in_name(Path::new("monday.tar.zst")), None);
        assert_eq!(id_in_name(Path::new(id)), None);
    }
}
