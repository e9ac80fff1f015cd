//! Serializes a classifier: a header of 36 bytes, the parameters, and a CRC-32 of everything before it. Numbers are
//! little-endian.
//!
//! `DRAGOMLP`, format (u32), activation (u8: 0 tanh, 1 ReLU), kind of target (u8: 0 class, 1 label set), two zero bytes,
//! dimension, hidden, labels (u32 each), temperature (f32), reserved zero (u32); then f32: hidden weights [hidden, dimension] and
//! biases, label weights [labels, hidden] and biases.

use super::network::Shape;
use super::{DIMENSION_MAX, HIDDEN_MAX, LABELS_MAX, Mlp};
use crate::classify::error::SavedError;
use crate::classify::{ClassifyError, TargetKind};
use crate::domain::Activation;

const MAGIC: &[u8; 8] = b"DRAGOMLP";
const FORMAT: u32 = 1;
const HEADER_BYTES: usize = 36;
const CHECKSUM_BYTES: usize = 4;

impl Mlp {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + 4 * self.parameters.len() + CHECKSUM_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&[
            u8::from(self.activation == Activation::Relu),
            u8::from(self.target_kind == TargetKind::LabelSet),
            0,
            0,
        ]);
        for size in [self.shape.dimension, self.shape.hidden, self.shape.labels] {
            bytes.extend_from_slice(&(size as u32).to_le_bytes());
        }
        bytes.extend_from_slice(&self.temperature.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        self.parameters.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Deserializes the output of `to_bytes`. Refuses damaged bytes, and never uses more memory than twice their size.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ClassifyError> {
        Ok(read(bytes)?)
    }
}

fn read(bytes: &[u8]) -> Result<Mlp, SavedError> {
    let length = |expected: usize| SavedError::Length { expected: expected as u64, got: bytes.len() as u64 };
    if !bytes.starts_with(MAGIC) {
        return Err(SavedError::Magic);
    }
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or_else(|| length(HEADER_BYTES + CHECKSUM_BYTES))?;
    let word = |offset: usize| u32::from_le_bytes([header[offset], header[offset + 1], header[offset + 2], header[offset + 3]]);
    if word(8) != FORMAT {
        return Err(SavedError::Version { expected: FORMAT, got: word(8) });
    }
    let size = |offset: usize, max: usize, name| match word(offset) as usize {
        size if (1..=max).contains(&size) => Ok(size),
        _ => Err(SavedError::Value(name)),
    };
    let shape = Shape {
        dimension: size(16, DIMENSION_MAX, "dimension")?,
        hidden: size(20, HIDDEN_MAX, "hidden")?,
        labels: size(24, LABELS_MAX, "labels")?,
    };
    let expected = HEADER_BYTES + 4 * shape.parameters() + CHECKSUM_BYTES;
    let (values, checksum) = match rest.split_last_chunk::<CHECKSUM_BYTES>() {
        Some(both) if bytes.len() == expected => both,
        _ => return Err(length(expected)),
    };
    let (expected, got) = (u32::from_le_bytes(*checksum), crc32fast::hash(&bytes[..expected - CHECKSUM_BYTES]));
    if expected != got {
        return Err(SavedError::Checksum { expected, got });
    }
    let activation = match header[12] {
        0 => Activation::Tanh,
        1 => Activation::Relu,
        _ => return Err(SavedError::Value("activation")),
    };
    let target_kind = match header[13] {
        0 => TargetKind::Class,
        1 => TargetKind::LabelSet,
        _ => return Err(SavedError::Value("answer")),
    };
    if header[14..16] != [0; 2] || word(32) != 0 {
        return Err(SavedError::Value("reserved"));
    }
    let temperature = f32::from_bits(word(28));
    if !(temperature.is_finite() && temperature > 0.0) {
        return Err(SavedError::Value("temperature"));
    }
    let parameters: Vec<f32> = values.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
    match parameters.iter().all(|value| value.is_finite()) {
        true => Ok(Mlp { shape, activation, target_kind, temperature, parameters }),
        false => Err(SavedError::Value("parameters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Mlp {
        let shape = Shape { dimension: 3, hidden: 2, labels: 4 };
        let parameters = (0..shape.parameters()).map(|number| number as f32 / 8.0 - 1.0).collect();
        Mlp { shape, activation: Activation::Relu, target_kind: TargetKind::LabelSet, temperature: 1.5, parameters }
    }

    /// Replaces the bytes at `offset` with `new` and updates the checksum.
    fn changed(offset: usize, new: &[u8]) -> Vec<u8> {
        let mut bytes = example().to_bytes();
        bytes[offset..offset + new.len()].copy_from_slice(new);
        let end = bytes.len() - CHECKSUM_BYTES;
        let checksum = crc32fast::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    #[track_caller]
    fn check(bytes: &[u8], expect: SavedError) {
        assert_eq!(Mlp::from_bytes(bytes), Err(ClassifyError::Saved(expect)));
    }

    #[test]
    fn a_saved_network_round_trips() {
        let bytes = example().to_bytes();
        assert_eq!(bytes.len(), 36 + 4 * (2 * 4 + 4 * 3) + 4);
        assert_eq!(Mlp::from_bytes(&bytes), Ok(example()));
    }

    #[test]
    fn invalid_fields_are_refused_despite_a_valid_checksum() {
        check(b"", SavedError::Magic);
        check(&changed(0, b"X"), SavedError::Magic);
        check(MAGIC, SavedError::Length { expected: 40, got: 8 });
        check(&[example().to_bytes(), vec![0]].concat(), SavedError::Length { expected: 120, got: 121 });
        check(&changed(8, &[2]), SavedError::Version { expected: 1, got: 2 });
        check(&changed(12, &[2]), SavedError::Value("activation"));
        check(&changed(13, &[2]), SavedError::Value("answer"));
        check(&changed(15, &[1]), SavedError::Value("reserved"));
        check(&changed(16, &[0]), SavedError::Value("dimension"));
        check(&changed(16, &[0xff; 4]), SavedError::Value("dimension"));
        check(&changed(20, &[0xff; 4]), SavedError::Value("hidden"));
        check(&changed(24, &[0xff; 4]), SavedError::Value("labels"));
        check(&changed(24, &[5]), SavedError::Length { expected: 132, got: 120 });
        check(&changed(28, &f32::NAN.to_le_bytes()), SavedError::Value("temperature"));
        check(&changed(28, &0_f32.to_le_bytes()), SavedError::Value("temperature"));
        check(&changed(32, &[1]), SavedError::Value("reserved"));
        check(&changed(36, &f32::INFINITY.to_le_bytes()), SavedError::Value("parameters"));
    }

    proptest! {
        #[test]
        fn damaged_bytes_are_refused(offset in 0_usize..120, bit in 0_u32..8) {
            let mut bytes = example().to_bytes();
            bytes[offset] ^= 1 << bit;
            prop_assert!(Mlp::from_bytes(&bytes).is_err());
        }

        #[test]
        fn truncated_and_extended_bytes_are_refused(cut in 0_usize..120, more in prop::collection::vec(any::<u8>(), 1..9)) {
            let bytes = example().to_bytes();
            prop_assert!(Mlp::from_bytes(&bytes[..cut]).is_err());
            prop_assert!(Mlp::from_bytes(&[bytes, more].concat()).is_err());
        }
    }
}
