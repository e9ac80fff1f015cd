//! The token tables of a bundle (`dragoman::ranking::token_table`): the model's, written once for both of its graphs and for
//! late interaction, and the optional separate table for late interaction.

use std::path::Path;

use dragoman::bundle::{LATE_TABLE, TOKEN_TABLE};
use dragoman::ranking::TokenTable;
use dragoman::ranking::token_table::{ROWS, SCALES, TensorLocation};

use super::quantize::quantize_rows;
use super::weights::{EncoderWeights, Weight};
use crate::error::Error;
use crate::model::encoder::{LATE_TOKENS, LATE_WEIGHTS, TOKEN_WEIGHTS, TOKENS};

/// Where a bundle's token table is in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableFile {
    /// The position of the rows, int8 [vocabulary, d].
    pub rows: TensorLocation,
    /// The position of their scales, float32 [vocabulary, 1].
    pub scales: TensorLocation,
}

impl TableFile {
    /// Writes the token table of `weights` into the bundle in `folder`.
    pub fn write(folder: &Path, weights: &EncoderWeights) -> Result<Self, Error> {
        token_table(weights)?.write(&folder.join(TOKEN_TABLE))?;
        Self::open(folder)
    }

    /// The token table of the bundle in `folder`.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(TOKEN_TABLE);
        let bytes = std::fs::read(&path).map_err(|source| Error::file(&path, source))?;
        let locate = |name: &str| {
            let problem = || Error::Content { path: path.clone(), problem: format!("{name} is missing") };
            TokenTable::locate(&bytes, name).ok_or_else(problem)
        };
        Ok(Self { rows: locate(ROWS)?, scales: locate(SCALES)? })
    }
}

/// The token table of `weights`. If late interaction was not trained, a token's weight is the length of its row.
pub fn token_table(weights: &EncoderWeights) -> Result<TokenTable, Error> {
    Ok(quantized(weights.get(TOKENS)?, weights.find(TOKEN_WEIGHTS)))
}

/// Writes late interaction's own table into the bundle in `folder`; returns whether `weights` have one.
pub fn write_late_table(folder: &Path, weights: &EncoderWeights) -> Result<bool, Error> {
    let Some(table) = weights.find(LATE_TOKENS) else { return Ok(false) };
    quantized(table, weights.find(LATE_WEIGHTS)).write(&folder.join(LATE_TABLE))?;
    Ok(true)
}

fn quantized(table: &Weight, log_weights: Option<&Weight>) -> TokenTable {
    let dimension = table.shape[1];
    let quantized = quantize_rows(&table.values, dimension);
    let weights = match log_weights {
        Some(logs) => logs.values.iter().map(|log| log.exp()).collect(),
        None => {
            let length = |row: &[f32]| row.iter().map(|value| value * value).sum::<f32>().sqrt().max(1e-6);
            table.values.chunks_exact(dimension).map(length).collect()
        }
    };
    TokenTable { dimension, rows: quantized.values, scales: quantized.scales, weights }
}
