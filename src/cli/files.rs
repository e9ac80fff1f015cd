//! Input and output of commands: a file or standard input, and an output file that is renamed into place when complete.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Read, Seek, SeekFrom, Stdout, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempPath;

use super::error::CliError;
use super::lines::{Line, Lines};
use super::output::{Output, stdout_error};
use crate::disk::{parent, sync};
use crate::domain::Limits;

const BUFFER_BYTES: usize = 1 << 18;
const PIECE_BYTES: usize = 1 << 16;

pub struct Input {
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
    /// The temporary file until then; `None` if `path` is not a regular file, such as a device. If it cannot be deleted, its
    /// name shows that it is incomplete, and the next run overwrites it.
    partial: Option<TempPath>,
}

pub enum Sink {
    Stdout(BufWriter<Stdout>),
    File(Target),
}

impl Input {
    /// Opens the file, or standard input if the path is `-` or missing.
    pub fn open(path: Option<&Path>, output: &Output) -> Result<Self, CliError> {
        let Some(path) = path.filter(|path| !is_standard(path)) else {
            if io::stdin().is_terminal() {
                output.note("reading from the terminal; end with Ctrl-D on an empty line");
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

    /// Returns the lines, of at most `bytes_max` bytes each.
    pub fn lines(self, bytes_max: usize) -> impl Iterator<Item = Result<Line, CliError>> {
        let Self { content, name, .. } = self;
        let lines = Lines::new(BufReader::with_capacity(BUFFER_BYTES, content), bytes_max);
        lines.map(move |line| line.map_err(CliError::io(format!("read {name}"))))
    }

    /// Parses the lines, of at most `bytes_max` bytes each. The first invalid one is an error.
    pub fn parse_lines<T>(
        self,
        bytes_max: usize,
        parse: impl Fn(String) -> Result<T, String>,
    ) -> impl Iterator<Item = Result<T, CliError>> {
        let name = self.name.clone();
        self.lines(bytes_max).map(move |line| {
            let Line { number, text, .. } = line?;
            text.and_then(&parse).map_err(|problem| CliError::Usage(format!("line {number} of {name} {problem}")))
        })
    }
}

/// Whether a path means standard input or output.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Whether a line has no text. Commands whose results have line numbers skip it; others give it an empty result, so that their
/// output lines up with the input.
pub fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Returns the texts, or the lines of the file if there are none.
pub fn texts_or_lines(
    texts: Vec<String>,
    file: Option<&Path>,
    output: &Output,
) -> Result<Box<dyn Iterator<Item = Result<String, CliError>>>, CliError> {
    if !texts.is_empty() {
        return Ok(Box::new(texts.into_iter().map(Ok)));
    }
    Ok(Box::new(Input::open(file, output)?.parse_lines(Limits::default().text_bytes_max, Ok)))
}

/// Asks about `size` items at a time, without those that are blank. Shows each with its response, which is empty for a blank one.
pub fn answer_each<T>(
    items: impl Iterator<Item = Result<T, CliError>>,
    size: usize,
    is_blank: impl Fn(&T) -> bool,
    ask: impl Fn(&[&T]) -> Result<Vec<Value>, CliError>,
    show: impl Fn(&T, Value) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let flush = |batch: &[T]| {
        let filled: Vec<&T> = batch.iter().filter(|item| !is_blank(item)).collect();
        let mut results = if filled.is_empty() { Vec::new() } else { ask(&filled)? }.into_iter();
        let mut next = |item: &T| if is_blank(item) { None } else { results.next() };
        batch.iter().try_for_each(|item| show(item, next(item).unwrap_or_else(|| json!({}))))
    };
    let mut batch = Vec::new();
    for item in items {
        batch.push(item?);
        if batch.len() == size {
            flush(&batch)?;
            batch.clear();
        }
    }
    flush(&batch)
}

/// Returns the columns of a line with exactly two, separated by a tab.
pub fn two_columns(line: &str) -> Option<(&str, &str)> {
    line.split_once('\t').filter(|(_, second)| !second.contains('\t'))
}

impl Target {
    pub fn create(path: &Path) -> Result<Self, CliError> {
        let ordinary = fs::metadata(path).map_or(true, |about| about.is_file());
        let partial = ordinary.then(|| {
            let mut name = path.as_os_str().to_owned();
            name.push(".partial");
            PathBuf::from(name)
        });
        let opened = File::create(partial.as_deref().unwrap_or(path));
        let opened = opened.and_then(|file| Ok((file, partial.map(TempPath::try_from_path).transpose()?)));
        let (file, partial) = opened.map_err(CliError::io(format!("write {}", path.display())))?;
        Ok(Self { writer: BufWriter::with_capacity(BUFFER_BYTES, file), path: path.to_owned(), partial })
    }

    /// Flushes the file to disk and renames it durably.
    pub fn finish(self) -> Result<(), CliError> {
        let failed = self.write_error();
        self.rename().map_err(failed)
    }

    fn rename(mut self) -> io::Result<()> {
        self.writer.flush()?;
        if let Some(partial) = self.partial {
            self.writer.get_ref().sync_all()?;
            partial.persist(&self.path)?;
            // A folder that may be written but not read cannot be synced.
            let _ = sync(parent(&self.path));
        }
        Ok(())
    }

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

impl Sink {
    /// Checks that the file, if there is one, can be written, so that no work is done whose result would be lost.
    pub fn check(path: Option<&Path>) -> Result<(), CliError> {
        let Some(path) = path.filter(|path| !is_standard(path)) else { return Ok(()) };
        let failed = CliError::io(format!("write {}", path.display()));
        match fs::metadata(path) {
            Ok(about) if about.is_dir() => Err(failed(io::Error::from(io::ErrorKind::IsADirectory))),
            // Opening a pipe could disturb who reads it.
            Ok(about) if !about.is_file() => Ok(()),
            _ => {
                // Under another name than the temporary file's, which another command may be writing.
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                tempfile::tempfile_in(folder).map(drop).map_err(failed)
            }
        }
    }

    /// Opens the file, or standard output if the path is `-` or missing.
    pub fn open(path: Option<&Path>) -> Result<Self, CliError> {
        match path.filter(|path| !is_standard(path)) {
            Some(path) => Target::create(path).map(Self::File),
            None => Ok(Self::Stdout(BufWriter::new(io::stdout()))),
        }
    }

    pub fn write_all(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        match self {
            Self::Stdout(stream) => stream.write_all(bytes).map_err(stdout_error),
            Self::File(file) => file.write_all(bytes).map_err(file.write_error()),
        }
    }

    /// Copies a stream to its end, and calls `each` with every piece. `what` names the action in an error of the stream.
    pub fn copy(&mut self, from: &mut dyn Read, what: &str, mut each: impl FnMut(&[u8])) -> Result<(), CliError> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let bytes = match from.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(bytes) => &piece[..bytes],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(CliError::io(what)(error)),
            };
            self.write_all(bytes)?;
            each(bytes);
        }
    }

    pub fn finish(self) -> Result<(), CliError> {
        match self {
            Self::Stdout(mut stream) => stream.flush().map_err(stdout_error),
            Self::File(file) => file.finish(),
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
    fn a_hyphen_is_standard_output() {
        assert!(matches!(Sink::open(Some(Path::new("-"))), Ok(Sink::Stdout(_))));
        assert!(matches!(Sink::open(None), Ok(Sink::Stdout(_))));
        Sink::check(Some(Path::new("-"))).unwrap();
    }

    #[test]
    fn a_check_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        Sink::check(Some(&folder.path().join("out"))).unwrap();
        Sink::check(None).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let refused = Sink::check(Some(&folder.path().join("missing/out"))).unwrap_err().to_string();
        assert!(refused.contains("missing/out"), "{refused}");
        assert!(Sink::check(Some(folder.path())).is_err(), "a folder");
    }

    #[test]
    fn a_device_file_is_written_directly() {
        let mut target = Target::create(Path::new("/dev/null")).unwrap();
        target.write_all(b"gone").unwrap();
        target.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
