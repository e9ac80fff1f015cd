//! Input and output of commands: a file or standard input, and an output file that is renamed into place when complete.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::error::CliError;
use super::output::Output;

/// Size of the buffers.
const BUFFER_BYTES: usize = 1 << 18;

/// A file, or standard input.
pub struct Input {
    /// The content.
    pub content: Box<dyn Read>,
    /// The size in bytes, if it is a regular file.
    pub bytes: Option<u64>,
    /// Its name in error messages.
    pub name: String,
}

/// An output file that is renamed into place when complete, so that a failed run leaves no partial file under its name.
pub struct Target {
    writer: BufWriter<File>,
    path: PathBuf,
    /// The temporary path until then; `None` if `path` is not a regular file, such as a device.
    partial: Option<PathBuf>,
}

impl Input {
    /// Opens the file, or standard input if the path is `-` or missing.
    pub fn open(path: Option<&Path>, output: &Output) -> Result<Self, CliError> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            if io::stdin().is_terminal() {
                output.note("reading from the terminal; end with Ctrl-D on a line of its own");
            }
            return Ok(Self { content: Box::new(io::stdin().lock()), bytes: None, name: "standard input".to_owned() });
        };
        let failed = || CliError::io(format!("read {}", path.display()));
        let file = File::open(path).map_err(failed())?;
        let about = file.metadata().map_err(failed())?;
        if about.is_dir() {
            return Err(failed()(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        let bytes = about.is_file().then_some(about.len());
        Ok(Self { content: Box::new(file), bytes, name: path.display().to_string() })
    }

    /// Returns the content as a buffered reader.
    pub fn buffered(self) -> BufReader<Box<dyn Read>> {
        BufReader::with_capacity(BUFFER_BYTES, self.content)
    }
}

impl Target {
    /// Creates the temporary file.
    pub fn create(path: &Path) -> Result<Self, CliError> {
        let ordinary = fs::metadata(path).map_or(true, |about| about.is_file());
        let partial = ordinary.then(|| {
            let mut name = path.as_os_str().to_owned();
            name.push(".partial");
            PathBuf::from(name)
        });
        let opened = File::create(partial.as_deref().unwrap_or(path));
        let file = opened.map_err(CliError::io(format!("write {}", path.display())))?;
        Ok(Self { writer: BufWriter::with_capacity(BUFFER_BYTES, file), path: path.to_owned(), partial })
    }

    /// Flushes the file to disk and renames it.
    pub fn finish(mut self) -> Result<(), CliError> {
        let name = self.path.display().to_string();
        let failed = || CliError::io(format!("write {name}"));
        self.writer.flush().map_err(failed())?;
        if let Some(partial) = &self.partial {
            self.writer.get_ref().sync_all().map_err(failed())?;
            fs::rename(partial, &self.path).map_err(failed())?;
            self.partial = None;
        }
        Ok(())
    }

    /// Wraps a failed write to this file.
    pub fn write_error(&self) -> impl FnOnce(io::Error) -> CliError + use<> {
        CliError::io(format!("write {}", self.path.display()))
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Seek for Target {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.writer.seek(to)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // If this fails, the name of the remaining file shows that it is incomplete, and the next run overwrites it.
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_file_appears_only_once_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.npy");
        let names = || fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        let mut target = Target::create(&path).unwrap();
        target.write_all(b"old").unwrap();
        assert_eq!(names(), ["out.npy.partial"]);
        target.finish().unwrap();
        assert_eq!(names(), ["out.npy"]);
        let mut given_up = Target::create(&path).unwrap();
        given_up.write_all(b"new").unwrap();
        drop(given_up);
        assert_eq!(names(), ["out.npy"]);
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_device_file_is_written_directly() {
        let mut target = Target::create(Path::new("/dev/null")).unwrap();
        target.write_all(b"gone").unwrap();
        target.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
