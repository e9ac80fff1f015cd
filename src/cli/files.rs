//! Files that commands read and write: an input file or standard input, and an output file that appears only when complete.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::error::CliError;
use super::output::Output;

/// Size of the buffers.
const BUFFER_BYTES: usize = 1 << 18;

/// A file, or standard input.
pub struct Input {
    /// Its content.
    pub content: Box<dyn Read>,
    /// Its size, if it is a file.
    pub bytes: Option<u64>,
    /// How errors name it.
    pub name: String,
}

/// A file that gets its name only when it is complete, so that a broken run leaves no half of it.
pub struct Target {
    writer: BufWriter<File>,
    path: PathBuf,
    /// The path it is written to until then; none if the path is not a regular file, such as a device.
    partial: Option<PathBuf>,
}

impl Input {
    /// Opens the file, or standard input for `-` and without a path.
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

    /// Its content behind a buffer.
    pub fn buffered(self) -> BufReader<Box<dyn Read>> {
        BufReader::with_capacity(BUFFER_BYTES, self.content)
    }
}

impl Target {
    /// Starts the file.
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

    /// Writes the rest to the disk and gives the file its name.
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

    /// A failed write to this file.
    pub fn failed(&self) -> impl FnOnce(io::Error) -> CliError + use<> {
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
            // The name shows that a leftover is incomplete, and the next run overwrites it.
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_complete() {
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
    fn a_device_is_written_as_it_is() {
        let mut target = Target::create(Path::new("/dev/null")).unwrap();
        target.write_all(b"gone").unwrap();
        target.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
