//! A test encoder whose embeddings can be computed by hand.

use std::path::Path;

use super::encoder::{Embeddings, SentenceEncoder};
use super::error::EvaluationError;

/// Embeds a sentence, which must be a number, as the direction at that angle in degrees.
pub struct AngleEncoder;

impl SentenceEncoder for AngleEncoder {
    fn encode(&mut self, texts: &[String]) -> Result<Embeddings, EvaluationError> {
        let angles = texts.iter().map(|text| text.parse::<f32>().unwrap().to_radians());
        Embeddings::normalized(angles.flat_map(|angle| [angle.cos(), angle.sin()]).collect(), 2)
    }
}

/// Writes `files` (name and content) to a new folder and evaluates the angle encoder on them.
pub fn measure_files<Report>(
    files: &[(&str, &str)],
    measure: impl FnOnce(&Path, &mut dyn SentenceEncoder) -> Result<Report, EvaluationError>,
) -> Result<Report, EvaluationError> {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    measure(folder.path(), &mut AngleEncoder)
}
