//! An encoder for tests whose embeddings can be computed by hand.

use std::path::Path;

use super::encoder::{Embeddings, SentenceEncoder};
use super::error::EvaluationError;

/// Embeds a sentence that is a number as that angle in degrees.
pub struct Angles;

impl SentenceEncoder for Angles {
    fn encode(&mut self, texts: &[String]) -> Result<Embeddings, EvaluationError> {
        let angles = texts.iter().map(|text| text.parse::<f32>().unwrap().to_radians());
        Embeddings::normalized(angles.flat_map(|angle| [angle.cos(), angle.sin()]).collect(), 2)
    }
}

/// Writes `files`, by name and content, into a new folder and evaluates the angle encoder on them.
pub fn measure_files<Report>(
    files: &[(&str, &str)],
    measure: impl FnOnce(&Path, &mut dyn SentenceEncoder) -> Result<Report, EvaluationError>,
) -> Result<Report, EvaluationError> {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    measure(folder.path(), &mut Angles)
}
