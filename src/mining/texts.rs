//! Deduplication of equal texts. A frequent text would fill the neighborhoods of its translations and be proposed repeatedly.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use super::MiningError;
use super::error::check_range;
use super::neighbors::SENTENCES_MAX;

/// Which sentences have the same text: 4 bytes per sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextGroups {
    /// [sentences] The lowest number of a sentence with the same text.
    representatives: Vec<u32>,
}

impl TextGroups {
    /// Groups texts that are equal byte by byte. To ignore spaces or case, pass normalized texts. While running, it keeps 128
    /// bits of the SHA-256 of each distinct text, up to 72 bytes with its position, and no texts.
    pub fn of<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, MiningError> {
        let mut first_with: HashMap<[u8; 16], u32> = HashMap::new();
        let mut representatives = Vec::new();
        for text in texts {
            let number = representatives.len();
            check_range("sentences", number + 1, 1, SENTENCES_MAX)?;
            let hash = Sha256::digest(text.as_ref().as_bytes());
            let mut key = [0; 16];
            key.copy_from_slice(&hash[..16]);
            representatives.push(*first_with.entry(key).or_insert(number as u32));
        }
        Ok(Self { representatives })
    }

    /// Returns the lowest number of a sentence with the same text as sentence `number`, which must be one of the sentences. Only
    /// these are embedded and searched.
    pub fn representative(&self, number: u32) -> u32 {
        self.representatives[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_group() {
        let groups = TextGroups::of(["Ja.", "Да.", "Ja.", "ja.", "Да."]).unwrap();
        assert_eq!((0..5).map(|number| groups.representative(number)).collect::<Vec<_>>(), [0, 1, 0, 3, 1]);
    }
}
