//! Writes NumPy's `.npy` format, version 1.0: a header of fixed size, then the values row by row.
//!
//! The header contains the number of rows, which is known only at the end, so it is written twice. Until then it says 0 rows.

use std::io::{self, Seek, SeekFrom, Write};

use crate::cli::output::plural;

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
/// Size of the header in bytes; the format requires a multiple of 64.
const HEAD_BYTES: usize = 128;

/// A two-dimensional array of little-endian float32.
pub struct NpyWriter<W> {
    file: W,
    rows: u64,
    dimension: usize,
}

impl<W: Write + Seek> NpyWriter<W> {
    /// Starts the file. `dimension` may be 0 until the first row is written.
    pub fn new(mut file: W, dimension: usize) -> io::Result<Self> {
        file.write_all(&head(0, dimension))?;
        Ok(Self { file, rows: 0, dimension })
    }

    /// Adds a row. All rows must have the same length as the first one, or `dimension` if it was not 0.
    pub fn write(&mut self, row: &[f32]) -> io::Result<()> {
        if self.dimension == 0 {
            self.dimension = row.len();
        }
        if row.len() != self.dimension {
            let detail = format!("a row of {} among rows of {}", plural(row.len() as u64, "value"), self.dimension);
            return Err(io::Error::new(io::ErrorKind::InvalidData, detail));
        }
        let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.rows += 1;
        self.file.write_all(&bytes)
    }

    /// Writes the number of rows into the header; returns the file and the length of its rows.
    pub fn finish(mut self) -> io::Result<(W, usize)> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&head(self.rows, self.dimension))?;
        Ok((self.file, self.dimension))
    }
}

fn head(rows: u64, dimension: usize) -> Vec<u8> {
    let shape = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimension}), }}");
    let dictionary_bytes = HEAD_BYTES - MAGIC.len() - size_of::<u16>();
    let mut head = MAGIC.to_vec();
    head.extend((dictionary_bytes as u16).to_le_bytes());
    head.extend(shape.bytes());
    head.resize(HEAD_BYTES - 1, b' ');
    head.push(b'\n');
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(rows: &[&[f32]], dimension: usize) -> Vec<u8> {
        let mut writer = NpyWriter::new(io::Cursor::new(Vec::new()), dimension).unwrap();
        rows.iter().for_each(|row| writer.write(row).unwrap());
        writer.finish().unwrap().0.into_inner()
    }

    #[test]
    fn the_header_has_the_final_shape_and_values_follow() {
        let file = written(&[&[1.0, -2.0], &[0.5, 0.0]], 0);
        assert_eq!(&file[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let head = std::str::from_utf8(&file[10..HEAD_BYTES]).unwrap();
        assert_eq!(head.trim_end(), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }");
        assert!(head.ends_with('\n'));
        let values: Vec<u8> = [1.0_f32, -2.0, 0.5, 0.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(&file[HEAD_BYTES..], values);
    }

    #[test]
    fn writing_no_rows_gives_an_empty_array_of_the_given_width() {
        let file = written(&[], 256);
        assert!(String::from_utf8_lossy(&file[10..]).contains("'shape': (0, 256)"));
        assert_eq!(file.len(), HEAD_BYTES);
    }

    #[test]
    fn the_largest_shape_fits_the_header() {
        assert_eq!(head(u64::MAX, usize::MAX).len(), HEAD_BYTES);
    }

    #[test]
    fn rows_of_the_wrong_length_are_refused() {
        let mut writer = NpyWriter::new(io::Cursor::new(Vec::new()), 2).unwrap();
        assert!(writer.write(&[1.0]).is_err());
    }
}
