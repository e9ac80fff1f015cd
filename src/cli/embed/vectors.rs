//! Writes vectors as NDJSON or as a NumPy array.

use std::path::Path;

use serde::Serialize;

use super::args::Format;
use super::encoder::Vector;
use super::npy::NpyWriter;
use super::texts::Item;
use crate::cli::error::CliError;
use crate::cli::files::{Sink, Target};

pub enum Vectors {
    Lines {
        sink: Sink,
        /// Dimension of the vectors; 0 before the first.
        dimension: usize,
    },
    Npy {
        file: NpyWriter<Target>,
        name: String,
    },
}

#[derive(Serialize)]
struct Row<'a> {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding: Option<&'a [f32]>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl Vectors {
    /// Opens the output. `dimension` is known for a local model.
    pub fn open(format: Format, path: Option<&Path>, dimension: Option<usize>) -> Result<Self, CliError> {
        let dimension = dimension.unwrap_or(0);
        match (format, path) {
            (Format::Npy, Some(path)) => {
                let (file, name) = (Target::create(path)?, path.display().to_string());
                let file = NpyWriter::new(file, dimension).map_err(CliError::io(format!("write {name}")))?;
                Ok(Self::Npy { file, name })
            }
            _ => Ok(Self::Lines { sink: Sink::open(path)?, dimension }),
        }
    }

    pub fn write(&mut self, item: &Item, vector: &Vector) -> Result<(), CliError> {
        let row = Row {
            line: item.line,
            id: item.id.as_deref(),
            embedding: Some(&vector.values),
            truncated: vector.truncated,
            error: None,
        };
        match self {
            Self::Npy { file, name } => file.write(&vector.values).map_err(CliError::io(format!("write {name}"))),
            Self::Lines { sink, dimension } => {
                *dimension = vector.values.len();
                sink.write_all(&row.json_line()?)
            }
        }
    }

    /// Writes a line without a vector: a blank one, or one with a problem. A NumPy array cannot contain it, so it is an error
    /// there.
    pub fn write_without(&mut self, item: &Item, problem: Option<&str>) -> Result<(), CliError> {
        let Self::Lines { sink, .. } = self else {
            let problem = problem.unwrap_or("is blank");
            return Err(CliError::Failed(format!("line {}: {problem}; an array cannot leave out its row", item.line)));
        };
        let row = Row { line: item.line, id: item.id.as_deref(), embedding: None, truncated: false, error: problem };
        sink.write_all(&row.json_line()?)
    }

    /// Completes the output. Returns the dimension, or 0 if there were no vectors.
    pub fn finish(self) -> Result<usize, CliError> {
        match self {
            Self::Lines { sink, dimension } => sink.finish().map(|()| dimension),
            Self::Npy { file, name } => {
                let (file, dimension) = file.finish().map_err(CliError::io(format!("write {name}")))?;
                file.finish().map(|()| dimension)
            }
        }
    }
}

impl Row<'_> {
    fn json_line(&self) -> Result<Vec<u8>, CliError> {
        // Serializes directly: a `Value` would widen each number to 64 bits and need twice the digits.
        let mut line = serde_json::to_vec(self).map_err(|error| CliError::io("write JSON")(error.into()))?;
        line.push(b'\n');
        Ok(line)
    }
}
