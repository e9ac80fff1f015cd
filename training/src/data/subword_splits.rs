//! Subword regularization: splits some tokens into two shorter ones with the same characters, so that a text is seen in many
//! segmentations. The parts of rare and inflected words then learn from frequent words (Kudo, 2018; BPE-dropout, Provilkov et
//! al., 2020).

use std::collections::HashMap;

use dragoman::text::Tokenizer;
use rand::Rng;

/// The mark before each word, which is no token of its own after a split.
const WORD_MARK: &str = "▁";

/// The ways to split each token of a vocabulary in two.
#[derive(Debug)]
pub struct SubwordSplitter {
    /// By id.
    splits: Vec<Vec<[u16; 2]>>,
}

impl SubwordSplitter {
    /// Finds the splits of all tokens.
    pub fn new(tokenizer: &Tokenizer) -> Self {
        let pieces: Vec<Option<String>> = (0..tokenizer.vocabulary_size() as u32)
            .map(|id| tokenizer.token(id).filter(|piece| !piece.starts_with('<') && piece != WORD_MARK))
            .collect();
        let ids: HashMap<&str, u16> =
            pieces.iter().zip(0..).filter_map(|(piece, id)| piece.as_deref().map(|piece| (piece, id))).collect();
        let splits_of = |piece: &str| {
            let splits = piece.char_indices().skip(1).filter_map(|(position, _)| {
                let (first, second) = piece.split_at(position);
                Some([*ids.get(first)?, *ids.get(second)?])
            });
            splits.collect()
        };
        Self { splits: pieces.iter().map(|piece| piece.as_deref().map(splits_of).unwrap_or_default()).collect() }
    }

    /// Splits each token with the probability `share`, at a random place where both parts are tokens too.
    pub fn split(&self, ids: &[u16], share: f64, random: &mut impl Rng) -> Vec<u16> {
        let mut split = Vec::with_capacity(ids.len() + ids.len() / 8);
        for &id in ids {
            match self.splits.get(usize::from(id)) {
                Some(splits) if !splits.is_empty() && random.random::<f64>() < share => {
                    split.extend(splits[random.random_range(0..splits.len())]);
                }
                _ => split.push(id),
            }
        }
        split
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::data::shipped_tokens::{ids, tokenizer};

    fn text(ids: &[u16]) -> String {
        ids.iter().map(|&id| tokenizer().token(id.into()).unwrap()).collect()
    }

    #[test]
    fn split_texts_have_more_tokens_and_the_same_characters() {
        let splitter = SubwordSplitter::new(&tokenizer());
        for sentence in [
            "The ferry leaves the harbor at noon.",
            "Der Dampfer fährt mittags ab.",
            "Паром уходит в полдень.",
            "渡船は正午に出航します",
        ] {
            let ids_of_whole = ids(sentence);
            let split = splitter.split(&ids_of_whole, 1.0, &mut ChaCha8Rng::seed_from_u64(1));
            assert!(split.len() > ids_of_whole.len(), "{sentence}");
            assert_eq!(text(&split), text(&ids_of_whole));
            assert!(!split.contains(&ids("▁")[0]) || ids_of_whole.contains(&ids("▁")[0]), "{sentence}");
        }
    }

    #[test]
    fn the_share_is_the_part_of_tokens_that_are_split() {
        let splitter = SubwordSplitter::new(&tokenizer());
        let ids_of_whole = ids("harbor").repeat(10_000);
        let mut random = ChaCha8Rng::seed_from_u64(1);
        assert_eq!(splitter.split(&ids_of_whole, 0.0, &mut random), ids_of_whole);
        let more = splitter.split(&ids_of_whole, 0.1, &mut random).len() - ids_of_whole.len();
        assert!(more.abs_diff(ids_of_whole.len() / 10) < ids_of_whole.len() / 50, "{more} of {}", ids_of_whole.len());
    }
}
