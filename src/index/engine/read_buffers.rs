//! The 8-bit integers of a vector, and buffers to read the values of nodes.

/// The possible arithmetic error of a cosine.
const ROUNDING: f32 = 1e-5;

/// Buffers for the values of one node.
pub struct ReadBuffers {
    pub(super) integers: Vec<i8>,
    pub(super) bits: Vec<i16>,
    pub(super) halves: Vec<half::f16>,
    pub(super) values: Vec<f32>,
    /// Length of the shortest integer vector read so far.
    shortest: f32,
}

/// Returns a vector's direction in 8-bit integers, the largest of which is 127.
pub fn integers(values: &[f32]) -> Vec<i8> {
    let largest = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    let scale = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    values.iter().map(|value| (value * scale).round() as i8).collect()
}

/// Returns the length of a vector of integers.
pub fn length(integers: &[i8]) -> f32 {
    let squares: i32 = integers.iter().map(|value| i32::from(*value) * i32::from(*value)).sum();
    (squares as f32).sqrt()
}

impl ReadBuffers {
    pub fn new(dimension: usize) -> Self {
        Self {
            integers: vec![0; dimension],
            bits: vec![0; dimension],
            halves: vec![half::f16::ZERO; dimension],
            values: vec![0.0; dimension],
            shortest: f32::INFINITY,
        }
    }

    /// Returns the maximum error of a cosine computed from values that were read so far. Each integer was rounded by at most a
    /// half, so the distance between the integers and the exact values is at most the root of a quarter of the dimension. That
    /// bounds the sine of the angle between the two, and the chord of that angle bounds the change of any cosine.
    pub fn error(&self) -> f32 {
        if self.shortest.is_infinite() {
            return 0.0;
        }
        let sine = (0.5 * (self.values.len() as f32).sqrt() / self.shortest).min(1.0);
        2.0 * (sine.asin() / 2.0).sin() + ROUNDING
    }

    /// Scales integers to a vector of unit length.
    pub fn scaled(&mut self, integers: &[i8]) -> &[f32] {
        self.integers.copy_from_slice(integers);
        self.scale_integers();
        &self.values
    }

    /// Does the same for the integers of a node, which were read last.
    pub(super) fn scale_integers(&mut self) {
        let length = length(&self.integers);
        self.shortest = self.shortest.min(length);
        let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
        for (value, integer) in self.values.iter_mut().zip(&self.integers) {
            *value = f32::from(*integer) * scale;
        }
    }
}
