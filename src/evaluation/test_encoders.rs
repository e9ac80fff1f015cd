//! Test encoders whose embeddings can be computed by hand, and files for evaluations.

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

/// Embeds a text as a direction that depends on its first letter, which is one of the first letters of the alphabet: as many as
/// embeddings have values.
pub struct LetterEncoder(pub usize);

impl SentenceEncoder for LetterEncoder {
    fn encode(&mut self, texts: &[String]) -> Result<Embeddings, EvaluationError> {
        let mut values = vec![0.0; texts.len() * self.0];
        for (row, text) in texts.iter().enumerate() {
            values[row * self.0 + usize::from(text.as_bytes()[0] - b'a')] = 1.0;
        }
        Embeddings::normalized(values, self.0)
    }
}

/// Writes `files` (name and content) to a new folder and reads them with `read`.
pub fn with_files<T>(files: &[(&str, impl AsRef<[u8]>)], read: impl FnOnce(&Path) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    read(folder.path())
}

/// Evaluates the angle encoder on files.
pub fn measure_files<Report>(
    files: &[(&str, &str)],
    measure: impl FnOnce(&Path, &mut dyn SentenceEncoder) -> Result<Report, EvaluationError>,
) -> Result<Report, EvaluationError> {
    with_files(files, |folder| measure(folder, &mut AngleEncoder))
}
