//! The encoder under evaluation. Embeddings from any source are scaled to unit length here.

use super::EvaluationError;

/// Embeds texts: one embedding per text, in the same order.
pub trait SentenceEncoder {
    /// Embeds `texts`.
    fn encode(&mut self, texts: &[String]) -> Result<Embeddings, EvaluationError>;

    /// Embeds questions, for comparison with passages from `encode`. Most encoders treat both alike.
    fn encode_questions(&mut self, questions: &[String]) -> Result<Embeddings, EvaluationError> {
        self.encode(questions)
    }

    /// Scores each passage for each question by late interaction, [questions, passages]. Returns `None` without a token table.
    fn late_scores(&mut self, _questions: &[String], _passages: &[String]) -> Result<Option<Vec<f32>>, EvaluationError> {
        Ok(None)
    }
}

/// Unit-length embeddings, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    values: Vec<f32>,
    dimension: usize,
}

impl Embeddings {
    /// Scales the rows of `values` to unit length. The error for a row without a direction contains its number.
    pub fn normalized(mut values: Vec<f32>, dimension: usize) -> Result<Self, EvaluationError> {
        for (number, row) in values.chunks_exact_mut(dimension).enumerate() {
            let norm = row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
            if !norm.is_finite() || norm == 0.0 {
                let problem = format!("the embedding of text {number} has the length {norm}");
                return Err(EvaluationError::Unusable { problem });
            }
            row.iter_mut().for_each(|value| *value = (f64::from(*value) / norm) as f32);
        }
        Ok(Self { values, dimension })
    }

    /// The number of embeddings.
    pub fn len(&self) -> usize {
        self.values.len() / self.dimension
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Values per embedding.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// All values, row by row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Iterates over the embeddings.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.dimension)
    }

    /// Returns `count` embeddings from index `start`.
    pub fn part(&self, start: usize, count: usize) -> Self {
        let values = self.values[start * self.dimension..][..count * self.dimension].to_vec();
        Self { values, dimension: self.dimension }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_scaled_to_unit_length() {
        let embeddings = Embeddings::normalized(vec![3.0, 4.0, 0.0, -2.0], 2).unwrap();
        assert_eq!(embeddings.values(), [0.6, 0.8, 0.0, -1.0]);
        assert_eq!(embeddings.part(1, 1).values(), [0.0, -1.0]);
    }

    #[test]
    fn errors_name_the_text_whose_embedding_has_no_direction() {
        for bad in [0.0, f32::NAN, f32::INFINITY] {
            let error = Embeddings::normalized(vec![1.0, 0.0, bad, 0.0], 2).unwrap_err();
            assert!(error.to_string().contains("text 1"), "{error}");
        }
    }
}
