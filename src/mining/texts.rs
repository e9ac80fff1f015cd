//! Deduplication of equal texts. A frequent text would fill the neighborhoods of its translations and be proposed repeatedly.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use sha2::{Digest as _, Sha256};

use super::candidates::higher_first;
use super::error::check_range;
use super::neighbors::SENTENCES_MAX;
use super::{Candidate, MiningError};

/// Which sentences have the same text: 4 bytes per sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextGroups {
    /// [sentences] The lowest number of a sentence with the same text.
    representatives: Vec<u32>,
    different: usize,
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
            representatives.push(match first_with.entry(key) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => *new.insert(number as u32),
            });
        }
        Ok(Self { representatives, different: first_with.len() })
    }

    /// The number of sentences.
    pub fn len(&self) -> usize {
        self.representatives.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.representatives.is_empty()
    }

    /// The number of distinct texts.
    pub fn different(&self) -> usize {
        self.different
    }

    /// Returns the lowest number of a sentence with the same text as sentence `number`, which must be below `len`.
    pub fn representative(&self, number: u32) -> u32 {
        self.representatives[number as usize]
    }

    /// Returns the numbers of sentences that are the first with their text, ascending. Only these are embedded and searched.
    pub fn representatives(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.representatives).filter(|(number, representative)| number == *representative).map(|(number, _)| number)
    }
}

/// Keeps the best of all pairs with the same two texts, with the numbers of the first sentences with these texts. Sorts them as
/// in `propose`. If only `TextGroups::representatives` were mined, there is nothing to remove.
pub fn deduplicate(pairs: Vec<Candidate>, first: &TextGroups, second: &TextGroups) -> Vec<Candidate> {
    let mut pairs = pairs;
    for pair in &mut pairs {
        (pair.first, pair.second) = (first.representative(pair.first), second.representative(pair.second));
    }
    pairs.sort_unstable_by(|a, b| (a.first, a.second).cmp(&(b.first, b.second)).then(b.score.total_cmp(&a.score)));
    pairs.dedup_by_key(|pair| (pair.first, pair.second));
    pairs.sort_unstable_by(higher_first);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_group() {
        let groups = TextGroups::of(["Ja.", "Да.", "Ja.", "ja.", "Да."]).unwrap();
        assert_eq!((0..5).map(|number| groups.representative(number)).collect::<Vec<_>>(), [0, 1, 0, 3, 1]);
        assert_eq!(groups.representatives().collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!((groups.len(), groups.different()), (5, 3));
        assert!(TextGroups::of([] as [&str; 0]).unwrap().is_empty());
    }

    #[test]
    fn deduplicate_keeps_the_best_of_pairs_with_equal_texts() {
        let first = TextGroups::of(["はい。", "いいえ。", "はい。"]).unwrap();
        let second = TextGroups::of(["Yes.", "No.", "No.", "Yes."]).unwrap();
        let pair = |first, second, score| Candidate { first, second, score };
        let pairs = vec![pair(1, 1, 1.0), pair(0, 0, 1.2), pair(2, 3, 1.3), pair(0, 1, 1.1), pair(1, 2, 1.4)];
        assert_eq!(deduplicate(pairs, &first, &second), [pair(1, 1, 1.4), pair(0, 0, 1.3), pair(0, 1, 1.1)]);
    }
}
