//! What the words of questions find in a collection, and a cache of it: many questions share words, and the most frequent words
//! take longest to look up.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Maximum number of words of the collection that the cached lanes have together, eight bytes each.
const REMEMBERED_MAX: u64 = 1 << 20;
/// About how many words of the collection a word of a question finds.
const FOUND_USUALLY: u64 = 1 << 10;

/// What a word of a question finds in a collection.
#[derive(Debug)]
pub(super) struct Lane {
    /// The number of the word.
    pub(super) asked: u32,
    /// Words of the collection by their positions, with the probability that they mean the same.
    pub(super) words: Vec<(u32, f32)>,
    /// Number of passages that they lead to, counted once for each word.
    pub(super) visits: usize,
    /// Its weight: BM25's inverse document frequency.
    pub(super) rarity: f32,
}

/// The lanes of words in versions of a collection. Those of older versions stay until others need their room.
#[derive(Debug)]
pub(super) struct Lanes(Cache<(u32, u32), Arc<Lane>, ByLength>);

/// Weighs a lane by its words.
#[derive(Debug, Clone)]
struct ByLength;

impl Weighter<(u32, u32), Arc<Lane>> for ByLength {
    fn weight(&self, _of: &(u32, u32), lane: &Arc<Lane>) -> u64 {
        lane.words.len() as u64 + 1
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self(Cache::with_weighter((REMEMBERED_MAX / FOUND_USUALLY) as usize, REMEMBERED_MAX, ByLength))
    }
}

impl Lanes {
    /// Returns the lane of a word in this version of the collection, or creates it with `look_up`.
    pub(super) fn get(&self, word: u32, version: u32, look_up: impl FnOnce() -> Lane) -> Arc<Lane> {
        self.0.get(&(word, version)).unwrap_or_else(|| {
            let lane = Arc::new(look_up());
            self.0.insert((word, version), Arc::clone(&lane));
            lane
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(asked: u32, words: usize) -> Lane {
        Lane { asked, words: vec![(0, 1.0); words], visits: 0, rarity: 1.0 }
    }

    #[test]
    fn a_word_is_looked_up_once_per_version() {
        let (lanes, mut looked_up) = (Lanes::default(), 0);
        for (word, version) in [(7, 1), (7, 1), (8, 1), (7, 1), (7, 2), (7, 2)] {
            let found = lanes.get(word, version, || {
                looked_up += 1;
                lane(word, 3)
            });
            assert_eq!(found.asked, word);
        }
        assert_eq!(looked_up, 3);
    }

    #[test]
    fn no_more_than_the_maximum_is_kept() {
        let lanes = Lanes::default();
        for word in 0..1_000 {
            lanes.get(word, 1, || lane(word, REMEMBERED_MAX as usize / 100));
            assert!(lanes.0.weight() <= REMEMBERED_MAX, "{}", lanes.0.weight());
        }
        assert!(lanes.0.len() > 10, "{}", lanes.0.len());
    }
}
