//! Embeddings as written by `dragoman embed`.

use std::path::Path;

/// Reads up to `rows` rows of `dimension` f32 values from a file.
pub fn read(path: &Path, dimension: usize, rows: usize) -> Vec<Vec<f32>> {
    let bytes = std::fs::read(path).expect("a file of embeddings");
    let head = usize::from(u16::from_le_bytes([bytes[8], bytes[9]])) + 10;
    let value = |four: &[u8]| f32::from_le_bytes(four.try_into().expect("four bytes"));
    let row = |row: &[u8]| row.chunks_exact(4).map(value).collect();
    bytes[head..].chunks_exact(dimension * 4).take(rows).map(row).collect()
}
