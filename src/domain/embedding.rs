//! A sentence embedding: the unit-length output of a bundle's encoder.

/// A vector of unit length. Cosine similarity of two embeddings is their dot product.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding(Vec<f32>);

impl Embedding {
    /// Scales `values` to unit length. Gives `None` when they hold NaN or infinity, or have no length at all.
    pub fn normalized(mut values: Vec<f32>) -> Option<Self> {
        let norm = values.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        if !norm.is_finite() || norm == 0.0 {
            return None;
        }
        for value in &mut values {
            *value = (f64::from(*value) / norm) as f32;
        }
        Some(Self(values))
    }

    /// The number of values.
    pub fn dimension(&self) -> usize {
        self.0.len()
    }

    /// The values.
    pub fn as_slice(&self) -> &[f32] {
        &self.0
    }

    /// Cosine similarity, -1 to 1. Both must have the same dimension.
    pub fn cosine(&self, other: &Self) -> f32 {
        debug_assert_eq!(self.dimension(), other.dimension());
        self.0.iter().zip(&other.0).map(|(a, b)| a * b).sum()
    }

    /// Little-endian f32 bytes, as stored in SQLite.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// Reads what `to_bytes` wrote. Gives `None` when the bytes are no embedding of unit length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if !bytes.len().is_multiple_of(4) {
            return None;
        }
        let values = bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect();
        let embedding = Self(values);
        let squared: f32 = embedding.0.iter().map(|x| x * x).sum();
        ((squared - 1.0).abs() < 1e-3).then_some(embedding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalized_has_unit_length() {
        assert_eq!(Embedding::normalized(vec![3.0, 4.0]), Some(Embedding(vec![0.6, 0.8])));
    }

    #[test]
    fn nothing_without_direction_is_an_embedding() {
        for bad in [vec![0.0, 0.0], vec![f32::NAN, 1.0], vec![f32::INFINITY, 1.0], vec![]] {
            assert_eq!(Embedding::normalized(bad), None);
        }
    }

    #[test]
    fn bytes_round_trip_and_torn_bytes_are_refused() {
        let embedding = Embedding::normalized(vec![1.0, -2.0, 0.5]).unwrap();
        let bytes = embedding.to_bytes();
        assert_eq!(Embedding::from_bytes(&bytes), Some(embedding));
        assert_eq!(Embedding::from_bytes(&bytes[..7]), None);
        assert_eq!(Embedding::from_bytes(&[0; 12]), None);
    }
}
