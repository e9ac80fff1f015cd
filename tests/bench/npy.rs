//! Embeddings as `dragoman embed` writes them.

use std::path::Path;

/// Up to `rows` of a file of f32 rows of `dimension` values.
pub fn read(path: &Path, dimension: usize, rows: usize) -> Vec<Vec<f32>> {
    let bytes = std::fs::read(path).expect("a file of embeddings");
    let head = usize::from(u16::from_le_bytes([bytes[8], bytes[9]])) + 10;
    let value = |four: &[u8]| f32::from_le_bytes(four.try_into().expect("four bytes"));
    let row = |row: &[u8]| row.chunks_exact(4).map(value).collect();
    bytes[head..].chunks_exact(dimension * 4).take(rows).map(row).collect()
}
