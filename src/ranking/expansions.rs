//! Expands the words of questions to the words of a collection with the same meaning or sound, and caches the expansions: many
//! questions share words, and the most frequent words take longest to look up.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::phrases::Phrase;
use crate::domain::Word;

/// Minimum of what a word of the collection counts for a significant word of the question, to be one of its matches.
const MEANING_MIN: f32 = 0.25;
/// Maximum number of words of the collection that the cached expansions have together, eight bytes each.
const CACHED_WORDS_MAX: u64 = 1 << 20;
/// About how many words of the collection a word of a question finds.
const FOUND_USUALLY: u64 = 1 << 10;

/// The words of a collection that mean the same as a word of a question.
#[derive(Debug)]
pub(super) struct Expansion {
    /// The number of the word.
    pub(super) word: u32,
    /// Words of the collection by their positions, with how much an occurrence of each counts: about the probability that they
    /// mean the same.
    pub(super) words: Vec<(u32, f32)>,
    /// Number of passages that they lead to; a passage counts once for each word.
    pub(super) visits: usize,
    /// Its weight: BM25's inverse document frequency.
    pub(super) rarity: f32,
    /// Whether the word is probably a misspelled word of the collection.
    pub(super) is_misspelled: bool,
    /// Whether the word is probably a name, because the collection has a word that sounds like it.
    pub(super) is_name: bool,
}

impl Expansion {
    /// Returns the positions of the words that count at least `MEANING_MIN`.
    pub(super) fn meanings(&self) -> impl Iterator<Item = u32> {
        self.words.iter().filter(|(_, same)| *same >= MEANING_MIN).map(|(position, _)| *position)
    }
}

/// A word, the phrase of the question to which it belongs, and the version of the collection.
type Key = (Word, Option<Phrase>, u32);

/// The expansions of words in versions of a collection. Those of older versions stay until others need their room.
#[derive(Debug)]
pub(super) struct ExpansionCache(Cache<Key, Arc<Expansion>, ByLength>);

/// Weighs an expansion by its words.
#[derive(Debug, Clone)]
struct ByLength;

impl Weighter<Key, Arc<Expansion>> for ByLength {
    fn weight(&self, _of: &Key, expansion: &Arc<Expansion>) -> u64 {
        expansion.words.len() as u64 + 1
    }
}

impl Default for ExpansionCache {
    fn default() -> Self {
        Self(Cache::with_weighter((CACHED_WORDS_MAX / FOUND_USUALLY) as usize, CACHED_WORDS_MAX, ByLength))
    }
}

impl ExpansionCache {
    /// Returns the expansion for this key, or computes it with `look_up`.
    pub(super) fn get(&self, key: Key, look_up: impl FnOnce() -> Expansion) -> Arc<Expansion> {
        self.0.get(&key).unwrap_or_else(|| {
            let expansion = Arc::new(look_up());
            self.0.insert(key, Arc::clone(&expansion));
            expansion
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expansion(word: u32, words: usize) -> Expansion {
        Expansion { word, words: vec![(0, 1.0); words], visits: 0, rarity: 1.0, is_misspelled: false, is_name: false }
    }

    #[test]
    fn a_word_is_looked_up_once_per_phrase_and_version() {
        let (expansions, mut looked_up) = (ExpansionCache::default(), 0);
        let keys = [
            (7, None, 1),
            (7, None, 1),
            (8, None, 1),
            (7, None, 1),
            (7, None, 2),
            (7, None, 2),
            (7, Some(Phrase { key: 9, words: 2 }), 2),
        ];
        for (word, phrase, version) in keys {
            let found = expansions.get((word.into(), phrase, version), || {
                looked_up += 1;
                expansion(word, 3)
            });
            assert_eq!(found.word, word);
        }
        assert_eq!(looked_up, 4);
    }

    #[test]
    fn the_cache_keeps_at_most_the_maximum_weight() {
        let expansions = ExpansionCache::default();
        for word in 0..1_000 {
            expansions.get((word.into(), None, 1), || expansion(word, CACHED_WORDS_MAX as usize / 100));
            assert!(expansions.0.weight() <= CACHED_WORDS_MAX, "{}", expansions.0.weight());
        }
        assert!(expansions.0.len() > 10, "{}", expansions.0.len());
    }
}
