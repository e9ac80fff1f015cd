//! Snapshots at a target of scheduled snapshots: lists and downloads them, and uploads them to a server, for example to recover
//! a server that lost its data.

use std::future::Future;
use std::io::{self, Write as _};
use std::path::Path;

use clap::Args;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use super::client::{Call, Client, Upload};
use super::error::CliError;
use super::files;
use super::listing::{self, ListColumn};
use super::output::{Column, Output, Unit, bytes, format_cell, list_cell, time};
use crate::domain::chain;
use crate::domain::timestamps::rfc3339;
use crate::targets::{Listing, StoredSnapshot, Target, TargetError};

/// The target to use instead of the server's own snapshots.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// Uses the scheduled snapshots at this target instead of the server's: a folder, or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "FOLDER|URL")]
    target: Option<String>,
    /// Endpoint of an S3-compatible store.
    #[arg(long, value_name = "URL", requires = "target")]
    endpoint: Option<String>,
}

pub struct OpenTarget {
    target: Target,
    runtime: Runtime,
}

impl TargetArgs {
    pub fn open(&self) -> Result<Option<OpenTarget>, CliError> {
        let Some(name) = &self.target else { return Ok(None) };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(CliError::io("start a thread".to_owned()))?;
        let target = Target::open_existing(name, self.endpoint.as_deref()).map_err(|error| failed(&error))?;
        Ok(Some(OpenTarget { target, runtime }))
    }
}

impl OpenTarget {
    /// Lists the snapshots at the target, newest first. Reports damaged ones on standard error.
    pub fn list(&self, output: &Output) -> Result<(), CliError> {
        let Listing { snapshots, damaged } = self.wait(self.target.list_with_damaged())?;
        let columns: [ListColumn; 4] = [
            (Column::Text("ID"), "/snapshot", format_cell),
            (Column::Text("CREATED"), "/created_at_ms", |ms| time(&json!(rfc3339(ms.as_i64().unwrap_or(0))))),
            (Column::Text("COLLECTIONS"), "/collections", list_cell),
            (Column::Number("SIZE"), "/archive_bytes", bytes),
        ];
        listing::print(output, "snapshots", &columns, |each| snapshots.iter().rev().try_for_each(|about| each(json!(about))))?;
        damaged.iter().for_each(|error| output.problem(&format!("damaged: {}", chain(error))));
        Ok(())
    }

    /// Finds a snapshot by its id, or the newest as `latest`.
    pub fn find(&self, id: &str) -> Result<StoredSnapshot, CliError> {
        self.wait(self.target.find(id))
    }

    /// Downloads a snapshot's archive to a file, which is renamed into place once it is verified.
    pub fn download(&self, output: &Output, about: &StoredSnapshot, path: &Path) -> Result<(), CliError> {
        let mut file = files::Target::create(path)?;
        let bar = output.progress(Some(about.archive_bytes), Unit::Bytes);
        self.wait(self.target.fetch(about, &mut file, |bytes| bar.set_position(bytes)))?;
        file.flush().map_err(file.write_error())?;
        file.finish()?;
        bar.finish_and_clear();
        output.note(&format!("wrote {} to {}", bytes(&json!(about.archive_bytes)), path.display()));
        Ok(())
    }

    /// Uploads a snapshot to the server, which verifies it. Does nothing if the server already has it.
    pub fn upload(&self, client: &Client, about: &StoredSnapshot) -> Result<(), CliError> {
        let id = about.snapshot.as_str();
        match client.send(&Call::get(&["snapshots", id])) {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some("snapshot_not_found") => (),
            Err(error) => return Err(error),
        }
        let (reader, mut writer) = io::pipe().map_err(CliError::io("make a pipe".to_owned()))?;
        let (target, snapshot) = (self.target.clone(), about.clone());
        let fetching = self.runtime.spawn(async move { target.fetch(&snapshot, &mut writer, |_| ()).await });
        let bar = client.output.progress(Some(about.archive_bytes), Unit::Bytes);
        let mut content = bar.wrap_read(reader);
        let bytes = Some(about.archive_bytes);
        let upload = Upload { content_type: "application/zstd", content_encoding: None, bytes, content: &mut content };
        let uploaded = client.upload(&Call::put(&["snapshots", id, "archive"]), upload);
        // Closes the pipe, so that the task that writes to it cannot block.
        drop(content);
        bar.finish_and_clear();
        match (uploaded, self.runtime.block_on(fetching)) {
            (Ok(_), _) => Ok(()),
            // The download from the target failed, which is the cause of the failed upload.
            (Err(_), Ok(Err(error))) if !matches!(error, TargetError::File { .. }) => Err(failed(&error)),
            (Err(error), _) => Err(error),
        }
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, TargetError>>) -> Result<T, CliError> {
        self.runtime.block_on(work).map_err(|error| failed(&error))
    }
}

fn failed(error: &TargetError) -> CliError {
    CliError::Failed(chain(error))
}
