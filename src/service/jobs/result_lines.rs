//! Opens files of results, which have one line per result, and checks that those of jobs that succeeded are complete.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _};
use std::path::Path;

use serde_json::Value;

use crate::domain::{Job, JobStatus, Metadata};
use crate::service::error::Error;
use crate::service::folders::{AtPath, open_with_length};

const BYTES_PER_READ: usize = 256 << 10;

/// Opens the results of a job, and returns their length in bytes. Fails if the job succeeded and the file has fewer lines
/// than `expected`, because it was truncated. `is_shared` says whether other servers run jobs of the same store, too. Blocks.
pub(crate) fn open_results(path: &Path, job: &Job, expected: u64, is_shared: bool) -> Result<(File, u64), Error> {
    let (mut file, bytes) = match open_with_length(path) {
        Err(error) if is_shared && has_begun(job, expected) && error.kind() == ErrorKind::NotFound => {
            return Err(Error::ResultsElsewhere { id: job.id.clone() });
        }
        opened => opened.at(path)?,
    };
    if job.status == JobStatus::Succeeded {
        let got = count_lines(&mut file).at(path)?;
        if got < expected {
            return Err(Error::ResultsTruncated { path: path.to_owned(), expected, got });
        }
    }
    Ok((file, bytes))
}

/// Whether there are results to read, perhaps none: the job has written a line, or has succeeded.
fn has_begun(job: &Job, expected: u64) -> bool {
    expected > 0 || job.status == JobStatus::Succeeded
}

/// Returns one of the counts in a job's details, or 0 if it is not there.
pub(crate) fn count(details: &Metadata, name: &str) -> u64 {
    details.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// Counts the line ends of a file, and goes back to its beginning.
fn count_lines(file: &mut File) -> io::Result<u64> {
    let mut piece = vec![0; BYTES_PER_READ];
    let mut lines = 0;
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            file.rewind()?;
            return Ok(lines);
        }
        lines += piece[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
    }
}
