//! Checks the header row of a CSV or TSV file by the server's rules, so that no collection is created for a file that the server
//! refuses.

use std::io::{self, BufRead as _, BufReader, Cursor, Read};

use crate::cli::error::CliError;
use crate::cli::files::Input;
use crate::compression::decoder;
use crate::domain::{ColumnTypes, FileEncoding, FileFormat};
use crate::table::{BYTE_ORDER_MARK, Columns, read_row};

/// Maximum bytes to search for the header row. The server checks longer ones.
const HEAD_BYTES_MAX: u64 = 1 << 20;

/// Returns the complete input if its header row names usable columns, or if it has no header row because it is NDJSON.
pub fn check(
    mut input: Input,
    (format, compression): (FileFormat, FileEncoding),
    types: Option<&str>,
) -> Result<Input, CliError> {
    if format == FileFormat::Ndjson {
        return Ok(input);
    }
    let types = types.map_or(Ok(ColumnTypes::NONE), ColumnTypes::parse);
    let types = types.map_err(|problem| CliError::Usage(format!("--types {problem}")))?;
    let mut packed = Vec::new();
    let recorder = Recorder { content: &mut *input.content, read: &mut packed };
    // What cannot be unpacked is reported by the server.
    if let Ok(Err(problem)) = decoder(compression, recorder).and_then(|content| check_head(content, format, &types)) {
        return Err(CliError::Failed(format!("the header row {problem}")));
    }
    let Input { content, bytes, name } = input;
    Ok(Input { content: Box::new(Cursor::new(packed).chain(content)), bytes, name })
}

/// Checks the header row of a table. Returns what is wrong with it.
fn check_head(content: impl Read, format: FileFormat, types: &ColumnTypes) -> io::Result<Result<(), String>> {
    let mut reader = BufReader::new(content.take(HEAD_BYTES_MAX));
    if reader.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
        reader.consume(BYTE_ORDER_MARK.len());
    }
    let row = read_row(&mut reader, format == FileFormat::Csv, HEAD_BYTES_MAX as usize)?;
    let is_cut_off = reader.get_ref().limit() == 0 && reader.fill_buf()?.is_empty();
    Ok(if is_cut_off { Ok(()) } else { Columns::of_header(row, types).map(drop) })
}

/// Keeps the bytes that are read, so that they can be read again.
struct Recorder<'a> {
    content: &'a mut dyn Read,
    read: &'a mut Vec<u8>,
}

impl Read for Recorder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.content.read(buffer)?;
        self.read.extend_from_slice(&buffer[..bytes]);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(content: &[u8]) -> Input {
        Input { content: Box::new(Cursor::new(content.to_vec())), bytes: None, name: "file".to_owned() }
    }

    #[test]
    fn a_checked_input_is_complete() {
        let plain = format!("\u{feff}\n\"text\",year\n{}", "one,2026\n".repeat(200_000)).into_bytes();
        let gzip = {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            io::Write::write_all(&mut encoder, &plain).unwrap();
            encoder.finish().unwrap()
        };
        for (content, encoding) in [(&plain, FileEncoding::Identity), (&gzip, FileEncoding::Gzip)] {
            let mut checked = check(input(content), (FileFormat::Csv, encoding), Some("year:int")).unwrap();
            let mut read = Vec::new();
            checked.content.read_to_end(&mut read).unwrap();
            assert!(read == *content, "{encoding:?}");
        }
        assert!(check(input(b"{}"), (FileFormat::Ndjson, FileEncoding::Identity), None).is_ok());
    }

    #[test]
    fn unusable_header_rows_are_refused() {
        let refusal = |content: &str, format| check_head(content.as_bytes(), format, &ColumnTypes::NONE).unwrap().unwrap_err();
        assert_eq!(refusal("\n\n", FileFormat::Csv), "is missing: the file is empty");
        let expect = "got only \"id;text\"; CSV separates cells by commas, TSV by tabs";
        assert!(refusal("id;text\n", FileFormat::Csv).ends_with(expect));
        assert!(refusal("id,text", FileFormat::Tsv).ends_with("\"id,text\"; CSV separates cells by commas, TSV by tabs"));
        assert!(refusal("\"text\"x\n", FileFormat::Csv).contains("after a closing quote"));
        let types = check(input(b"text\n"), (FileFormat::Csv, FileEncoding::Identity), Some("year:number"));
        assert!(matches!(types, Err(CliError::Usage(_))));
    }

    #[test]
    fn the_server_reports_what_cannot_be_unpacked() {
        let mut checked = check(input(b"text\n"), (FileFormat::Csv, FileEncoding::Gzip), None).unwrap();
        let mut read = Vec::new();
        checked.content.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"text\n");
    }

    #[test]
    fn the_server_checks_a_header_row_that_is_too_long() {
        let long = vec![b'x'; HEAD_BYTES_MAX as usize];
        let check = |content: &[u8]| check_head(content, FileFormat::Csv, &ColumnTypes::NONE).unwrap();
        assert_eq!(check(&long), Ok(()));
        assert!(check(&long[1..]).is_err());
    }
}
