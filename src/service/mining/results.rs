//! Writes files of results as lines of JSON. A file gets its name only when it is complete, so an existing file is always
//! complete.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use serde::Serialize;

use crate::service::error::Error;
use crate::service::folders::{AtPath, create_file, rename_durably};
use crate::service::upload_receiver::check_disk_space;

/// Bytes written between two checks of the free disk space.
const BYTES_PER_CHECK: u64 = 16 << 20;
const PARTIAL: &str = "results.partial";

pub(crate) struct ResultsFile {
    folder: PathBuf,
    name: &'static str,
    disk_reserve: u64,
    file: BufWriter<File>,
    bytes: u64,
    next_check: u64,
    line: Vec<u8>,
}

impl ResultsFile {
    pub(crate) fn create(folder: PathBuf, name: &'static str, disk_reserve: u64) -> Result<Self, Error> {
        let path = folder.join(PARTIAL);
        let file = create_file(&path).at(&path)?;
        Ok(Self { folder, name, disk_reserve, file: BufWriter::new(file), bytes: 0, next_check: 0, line: Vec::new() })
    }

    pub(crate) fn add(&mut self, value: &impl Serialize) -> Result<(), Error> {
        if self.bytes >= self.next_check {
            check_disk_space(&self.folder, BYTES_PER_CHECK, self.disk_reserve)?;
            self.next_check = self.bytes + BYTES_PER_CHECK;
        }
        self.line.clear();
        let written = serde_json::to_writer(&mut self.line, value).map_err(std::io::Error::from);
        self.line.push(b'\n');
        self.bytes += self.line.len() as u64;
        written.and_then(|()| self.file.write_all(&self.line)).at(&self.path())
    }

    /// Completes the file durably and renames it.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        let complete = self.path();
        self.file.flush().at(&complete)?;
        self.file.get_ref().sync_all().at(&complete)?;
        rename_durably(&self.folder.join(PARTIAL), &complete).at(&complete)
    }

    fn path(&self) -> PathBuf {
        self.folder.join(self.name)
    }
}
