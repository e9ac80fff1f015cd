//! Embeddings: the unit-length output of a bundle's encoder for a text, or a caller's own vector.

use serde::Serialize;

/// Finite values. The output of an encoder, and everything compared by cosine, has unit length; callers' vectors compared by
/// dot product or distance may have any length.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Embedding(Vec<f32>);

/// Parallel sums in `dot` and `squared_distance`, so that the compiler can use vector instructions.
const LANES: usize = 16;

/// Trailing byte of a stored embedding whose length is not one. Without this byte, an embedding must have unit length, so
/// damage is detected.
const NOT_UNIT_LENGTH: u8 = 1;

impl Embedding {
    /// Scales `values` to unit length. Returns `None` if they contain NaN or infinity, or have length zero.
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

    /// The direction of the sum of `embeddings`, all of the same dimension. Returns `None` if there are none, or if they cancel
    /// each other out.
    pub fn mean(embeddings: &[Self]) -> Option<Self> {
        let mut sum = vec![0.0_f32; embeddings.first()?.dimension()];
        for embedding in embeddings {
            sum.iter_mut().zip(&embedding.0).for_each(|(sum, value)| *sum += value);
        }
        // Rounding errors of embeddings that cancel each other out are not a direction.
        let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
        Self::normalized(sum).filter(|_| length > 1e-4 * embeddings.len() as f32)
    }

    /// Like `mean`, but of embeddings of any length, which all count the same.
    pub fn mean_direction(embeddings: &[Self]) -> Option<Self> {
        let units = embeddings.iter().filter_map(|embedding| Self::normalized(embedding.0.clone()));
        Self::mean(&units.collect::<Vec<_>>())
    }

    /// Keeps `values` unscaled. Returns `None` if there are none, or if they contain NaN or infinity.
    pub fn unscaled(values: Vec<f32>) -> Option<Self> {
        (!values.is_empty() && values.iter().all(|value| value.is_finite())).then_some(Self(values))
    }

    /// The number of values.
    pub fn dimension(&self) -> usize {
        self.0.len()
    }

    /// The values.
    pub fn as_slice(&self) -> &[f32] {
        &self.0
    }

    /// Cosine similarity of two embeddings of unit length, -1 to 1. Both must have the same dimension.
    pub fn cosine(&self, other: &Self) -> f32 {
        debug_assert_eq!(self.dimension(), other.dimension());
        dot(&self.0, &other.0)
    }

    /// The Euclidean length.
    pub fn norm(&self) -> f32 {
        dot(&self.0, &self.0).sqrt()
    }

    /// Little-endian f32 bytes, as stored in SQLite, with one more byte if the length is not one.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.0.iter().flat_map(|value| value.to_le_bytes()).collect();
        if !self.has_unit_length() {
            bytes.push(NOT_UNIT_LENGTH);
        }
        bytes
    }

    /// Reads the output of `to_bytes`. Returns `None` if the bytes are not an embedding.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (values, rest) = bytes.as_chunks::<4>();
        let embedding = Self::unscaled(values.iter().map(|four| f32::from_le_bytes(*four)).collect())?;
        match rest {
            [] if embedding.has_unit_length() => Some(embedding),
            [NOT_UNIT_LENGTH] => Some(embedding),
            _ => None,
        }
    }

    /// Whether the length is one, up to rounding.
    pub fn has_unit_length(&self) -> bool {
        (dot(&self.0, &self.0) - 1.0).abs() < 1e-3
    }
}

/// The dot product. Both must have the same number of values.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    reduce(a, b, |x, y| x * y)
}

/// The square of the Euclidean distance. Both must have the same number of values.
pub fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
    reduce(a, b, |x, y| (x - y) * (x - y))
}

fn reduce(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += term(a[lane], b[lane]);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(x, y)| term(*x, *y)).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalized_embeddings_have_unit_length() {
        assert_eq!(Embedding::normalized(vec![3.0, 4.0]), Some(Embedding(vec![0.6, 0.8])));
    }

    #[test]
    fn vectors_without_a_direction_cannot_be_normalized() {
        for bad in [vec![0.0, 0.0], vec![f32::NAN, 1.0], vec![f32::INFINITY, 1.0], vec![]] {
            assert_eq!(Embedding::normalized(bad), None);
        }
    }

    #[test]
    fn the_mean_lies_between_embeddings_and_opposites_have_none() {
        let axis = |x: f32, y: f32| Embedding::normalized(vec![x, y]).unwrap();
        let mean = Embedding::mean(&[axis(1.0, 0.0), axis(0.0, 1.0)]).unwrap();
        assert!((mean.cosine(&axis(1.0, 1.0)) - 1.0).abs() < 1e-6);
        assert_eq!(Embedding::mean(&[axis(0.3, 0.4), axis(-0.3, -0.4)]), None);
        assert_eq!(Embedding::mean(&[]), None);
    }

    #[test]
    fn unscaled_embeddings_must_be_finite_and_nonempty() {
        assert_eq!(Embedding::unscaled(vec![0.0, 2.0]), Some(Embedding(vec![0.0, 2.0])));
        for bad in [vec![f32::NAN, 1.0], vec![f32::NEG_INFINITY], vec![]] {
            assert_eq!(Embedding::unscaled(bad), None);
        }
    }

    #[test]
    fn bytes_round_trip_and_invalid_bytes_are_refused() {
        let embedding = Embedding::normalized(vec![1.0, -2.0, 0.5]).unwrap();
        let bytes = embedding.to_bytes();
        assert_eq!(Embedding::from_bytes(&bytes), Some(embedding));
        assert_eq!(Embedding::from_bytes(&bytes[..7]), None);
        assert_eq!(Embedding::from_bytes(&bytes[..8]), None);
        assert_eq!(Embedding::from_bytes(&[0; 12]), None);
        assert_eq!(Embedding::from_bytes(&[]), None);
    }

    #[test]
    fn embeddings_without_unit_length_round_trip_with_a_marker_byte() {
        for values in [vec![1.0, -2.0, 0.5], vec![0.0, 0.0, 0.0]] {
            let embedding = Embedding::unscaled(values).unwrap();
            let bytes = embedding.to_bytes();
            assert_eq!(bytes.len(), 13);
            assert_eq!(Embedding::from_bytes(&bytes), Some(embedding));
            assert_eq!(Embedding::from_bytes(&bytes[..12]), None);
        }
    }

    #[test]
    fn dot_products_and_distances_match_their_definitions() {
        for dimension in [1, 15, 16, 17, 100] {
            let a: Vec<f32> = (0..dimension).map(|index| (index % 7) as f32 - 3.0).collect();
            let b: Vec<f32> = (0..dimension).map(|index| (index % 5) as f32 - 1.0).collect();
            assert_eq!(dot(&a, &b), a.iter().zip(&b).map(|(x, y)| x * y).sum::<f32>());
            assert_eq!(squared_distance(&a, &b), a.iter().zip(&b).map(|(x, y)| (x - y) * (x - y)).sum::<f32>());
        }
    }
}
