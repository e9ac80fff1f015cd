//! Writes the results of an import, one per line of the input, and defines the import's checkpoint.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::records::RecordPosition;
use crate::domain::{DocumentId, Job, UpsertCounts};
use crate::service::documents::input::InvalidDocument;
use crate::service::error::Error;
use crate::service::folders::{AtPath, open_regular, sync_dir};
use crate::service::jobs::result_lines::{count, open_results};

const RESULTS: &str = "results.ndjson";

/// One record of a batch.
pub(crate) struct Line {
    /// The line that it begins on.
    pub(crate) line: u64,
    /// `Ok` if its document is stored, otherwise why it was refused.
    pub(crate) outcome: Result<(), InvalidDocument>,
}

/// Everything that the job needs to continue after a restart.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    /// The position after the last record that was stored or refused.
    pub(crate) place: RecordPosition,
    created: u64,
    updated: u64,
    failed: u64,
    /// Length of the results file before the last batch's results, in bytes.
    results_bytes: u64,
    /// The last batch's results as lines of JSON.
    pub(crate) results: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Counts {
    lines: u64,
    #[serde(flatten)]
    documents: UpsertCounts,
}

impl Checkpoint {
    /// Makes the checkpoint before the first record.
    pub(crate) fn at(position: RecordPosition) -> Self {
        Self { place: position, created: 0, updated: 0, failed: 0, results_bytes: 0, results: String::new() }
    }

    /// Makes the checkpoint that follows another batch. `stored` has the id of each stored document, in order, and whether the
    /// document is new.
    pub(crate) fn after<'a>(
        mut self,
        position: RecordPosition,
        results_bytes: u64,
        lines: &[Line],
        mut stored: impl Iterator<Item = (&'a DocumentId, bool)>,
    ) -> Self {
        self.results.clear();
        for Line { line, outcome } in lines {
            let result = match outcome {
                Ok(()) => match stored.next() {
                    Some((id, true)) => {
                        self.created += 1;
                        json!({"line": line, "id": id, "status": "created"})
                    }
                    Some((id, false)) => {
                        self.updated += 1;
                        json!({"line": line, "id": id, "status": "updated"})
                    }
                    None => continue,
                },
                Err(refusal) => {
                    self.failed += 1;
                    let failure = refusal.failure("");
                    match &refusal.id {
                        Some(id) => json!({"line": line, "id": id, "status": "failed", "error": failure}),
                        None => json!({"line": line, "status": "failed", "error": failure}),
                    }
                }
            };
            self.results.push_str(&result.to_string());
            self.results.push('\n');
        }
        self.place = position;
        self.results_bytes = results_bytes;
        self
    }

    pub(crate) fn counts(&self) -> Counts {
        let documents = UpsertCounts { created: self.created, updated: self.updated, failed: self.failed };
        Counts { lines: self.place.line, documents }
    }
}

pub(crate) struct Results {
    path: PathBuf,
    file: File,
    bytes: u64,
    power_safe: bool,
}

impl Results {
    /// Opens the results file in the state of a checkpoint, or creates it. Repairs whatever a crash left of the last batch's
    /// results.
    pub(crate) fn open(folder: &Path, power_safe: bool, done: &Checkpoint) -> Result<Self, Error> {
        let path = folder.join(RESULTS);
        let mut file = open_regular(&path, File::options().create(true).truncate(false).write(true)).at(&path)?;
        file.set_len(done.results_bytes).at(&path)?;
        file.seek(SeekFrom::End(0)).at(&path)?;
        sync_dir(folder).at(&path)?;
        let mut results = Self { path, file, bytes: done.results_bytes, power_safe };
        results.append(&done.results)?;
        Ok(results)
    }

    /// Length of the complete lines in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends lines. Depending on the server's durability setting, they are durable when this returns.
    pub(crate) fn append(&mut self, lines: &str) -> Result<(), Error> {
        self.file.write_all(lines.as_bytes()).at(&self.path)?;
        if self.power_safe {
            self.file.sync_data().at(&self.path)?;
        }
        self.bytes += lines.len() as u64;
        Ok(())
    }
}

/// Opens the results of a job and returns their length in bytes, as `open_results`. `None` if the job has no results yet.
pub(crate) fn open(folder: &Path, job: &Job, is_shared: bool) -> Result<Option<(File, u64)>, Error> {
    let lines: u64 = ["created", "updated", "failed"].iter().map(|name| count(&job.details, name)).sum();
    match open_results(&folder.join(RESULTS), job, lines, is_shared) {
        Ok(opened) => Ok(Some(opened)),
        Err(Error::File { source, .. }) if lines == 0 && source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
