//! A bundle's token table: one file that both of its graphs and late interaction read.
//!
//! It is a safetensors file. `rows`, int8 [vocabulary, dimension], and `scales`, float32 [vocabulary, 1], give the token
//! vectors: a token's vector is its row times its scale. `weights`, float32, has one value per token: how much the token weighs
//! in a question, above 0. The graphs refer to `rows` and `scales` as external data, by their position in the file.

use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::table_file::{TableError, read_table, write_table};

/// The name of the tensor of rows.
pub const ROWS: &str = "rows";
/// The name of the tensor of scales.
pub const SCALES: &str = "scales";
/// The name of the tensor of weights.
pub const WEIGHTS: &str = "weights";

/// What an error calls the file.
const KIND: &str = "token table";

/// The token vectors of a model, quantized to bytes, and the weights of the tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenTable {
    /// Number of values of a token's vector.
    pub dimension: usize,
    /// [vocabulary, dimension]
    pub rows: Vec<i8>,
    /// One for each token.
    pub scales: Vec<f32>,
    /// One for each token, above 0.
    pub weights: Vec<f32>,
}

/// The position of a tensor's bytes in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorLocation {
    /// Offset from the beginning of the file, in bytes.
    pub offset: usize,
    /// Length in bytes.
    pub length: usize,
}

impl TokenTable {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, TableError> {
        read_table(path, KIND, Self::from_bytes)
    }

    /// Writes a file.
    pub fn write(&self, path: &Path) -> Result<(), TableError> {
        write_table(path, KIND, self.to_bytes())
    }

    /// Returns the number of token ids.
    pub fn vocabulary(&self) -> usize {
        self.scales.len()
    }

    /// Returns the token vectors. [vocabulary, dimension]
    pub fn vectors(&self) -> Vec<f32> {
        let rows = self.rows.chunks_exact(self.dimension).zip(&self.scales);
        rows.flat_map(|(row, scale)| row.iter().map(move |&value| f32::from(value) * scale)).collect()
    }

    /// Returns the position of the tensor `name` in a file with the content `bytes`.
    pub fn locate(bytes: &[u8], name: &str) -> Option<TensorLocation> {
        let tensors = SafeTensors::deserialize(bytes).ok()?;
        let data = tensors.tensor(name).ok()?.data();
        Some(TensorLocation { offset: data.as_ptr() as usize - bytes.as_ptr() as usize, length: data.len() })
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
        let rows = tensor(&tensors, ROWS, Dtype::I8)?;
        let &[vocabulary, dimension] = rows.shape() else {
            return Err(format!("{ROWS} has the shape {:?}, expected two dimensions", rows.shape()));
        };
        if dimension == 0 {
            return Err(format!("{ROWS} has empty rows"));
        }
        let floats = |name: &str, shape: &[usize]| {
            let view = tensor(&tensors, name, Dtype::F32)?;
            if view.shape() != shape {
                return Err(format!("{name} has the shape {:?}, expected {shape:?}", view.shape()));
            }
            let values = view.data().as_chunks::<4>().0.iter().map(|&four| f32::from_le_bytes(four));
            let values: Vec<f32> = values.collect();
            match values.iter().position(|value| !(*value > 0.0 && value.is_finite())) {
                Some(token) => Err(format!("{name} of token {token} is {}, expected a number above 0", values[token])),
                None => Ok(values),
            }
        };
        let (scales, weights) = (floats(SCALES, &[vocabulary, 1])?, floats(WEIGHTS, &[vocabulary])?);
        Ok(Self { dimension, rows: rows.data().iter().map(|&byte| byte as i8).collect(), scales, weights })
    }

    fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let rows: Vec<u8> = self.rows.iter().map(|&value| value as u8).collect();
        let (scales, weights) = (bytes(&self.scales), bytes(&self.weights));
        let vocabulary = self.vocabulary();
        let view = |kind, shape: &[usize], data| TensorView::new(kind, shape.to_vec(), data).map_err(|error| error.to_string());
        let tensors = [
            (ROWS, view(Dtype::I8, &[vocabulary, self.dimension], &rows)?),
            (SCALES, view(Dtype::F32, &[vocabulary, 1], &scales)?),
            (WEIGHTS, view(Dtype::F32, &[vocabulary], &weights)?),
        ];
        safetensors::serialize(tensors, None).map_err(|error| error.to_string())
    }
}

fn tensor<'t>(tensors: &SafeTensors<'t>, name: &str, kind: Dtype) -> Result<TensorView<'t>, String> {
    let view = tensors.tensor(name).map_err(|error| error.to_string())?;
    if view.dtype() == kind { Ok(view) } else { Err(format!("{name} holds {:?}, expected {kind:?}", view.dtype())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TokenTable {
        TokenTable {
            dimension: 2,
            rows: vec![127, 0, -3, 4, 0, -127],
            scales: vec![0.5, 1.0, 0.01],
            weights: vec![1.0, 0.2, 3.0],
        }
    }

    #[test]
    fn a_table_round_trips() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.safetensors");
        table().write(&path).unwrap();
        assert_eq!(TokenTable::read(&path).unwrap(), table());
        assert_eq!(table().vectors(), [63.5, 0.0, -3.0, 4.0, 0.0, -1.27]);
    }

    #[test]
    fn a_tensors_bytes_are_located_in_the_file() {
        let bytes = table().to_bytes().unwrap();
        let rows = TokenTable::locate(&bytes, ROWS).unwrap();
        assert_eq!(bytes[rows.offset..][..rows.length], [127, 0, 253, 4, 0, 129]);
        let scales = TokenTable::locate(&bytes, SCALES).unwrap();
        assert_eq!((scales.length, scales.offset % 4), (12, 0));
        assert_eq!(bytes[scales.offset..][..4], 0.5f32.to_le_bytes());
    }

    #[test]
    fn an_invalid_table_is_refused_with_a_specific_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.safetensors");
        for (table, expect) in [
            (TokenTable { scales: vec![1.0, f32::NAN, 1.0], ..table() }, "scales of token 1"),
            (TokenTable { weights: vec![1.0, 1.0, 0.0], ..table() }, "weights of token 2"),
        ] {
            let error = table.write(&path).and_then(|()| TokenTable::read(&path)).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        }
        std::fs::write(&path, b"no table").unwrap();
        assert!(TokenTable::read(&path).unwrap_err().to_string().contains("tokens.safetensors"));
        let uneven = TokenTable { weights: vec![1.0; 2], ..table() };
        assert!(uneven.write(&path).unwrap_err().to_string().contains("(3)"));
    }
}
