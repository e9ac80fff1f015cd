//! What the words of questions find in a collection, and a cache of it: many questions share words, and the most frequent words
//! take longest to look up.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Maximum number of words of the collection that the cached lanes have together, eight bytes each. Then the cache starts over.
const REMEMBERED_MAX: usize = 1 << 20;

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

/// Lanes of words that were asked for since the last change of the collection.
#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// The version of the collection that they belong to.
    version: u32,
    /// How many words of the collection they have.
    words: usize,
    lanes: FxHashMap<u32, Arc<Lane>>,
}

impl Lanes {
    /// Returns the lane of a word in this version of the collection, or creates it with `look_up`.
    pub(super) fn get(&self, word: u32, version: u32, look_up: impl FnOnce() -> Lane) -> Arc<Lane> {
        if let Some(lane) = self.0.lock().of(version).lanes.get(&word) {
            return Arc::clone(lane);
        }
        let lane = Arc::new(look_up());
        let mut remembered = self.0.lock();
        let remembered = remembered.of(version);
        if remembered.words + lane.words.len() > REMEMBERED_MAX {
            *remembered = Remembered { version, ..Remembered::default() };
        }
        if remembered.lanes.insert(word, Arc::clone(&lane)).is_none() {
            remembered.words += lane.words.len() + 1;
        }
        lane
    }
}

impl Remembered {
    /// Returns the lanes of a version, without those of another one.
    fn of(&mut self, version: u32) -> &mut Self {
        if self.version != version {
            *self = Self { version, ..Self::default() };
        }
        self
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
        for word in 0..10 {
            lanes.get(word, 1, || lane(word, REMEMBERED_MAX / 4));
            let remembered = lanes.0.lock();
            let words: usize = remembered.lanes.values().map(|lane| lane.words.len() + 1).sum();
            assert!(words == remembered.words && words <= REMEMBERED_MAX && remembered.lanes.contains_key(&word), "{words}");
        }
    }
}
