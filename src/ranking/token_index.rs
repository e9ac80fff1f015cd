//! The tokens of many passages in memory, two bytes each: what late interaction looks through.

use std::collections::HashMap;

use crate::domain::{PassageId, TokenSet};

/// Token ids that there may be.
const VOCABULARY_MAX: usize = 1 << 16;
/// Tokens of removed passages that stay at least before room is made: moving all others costs as much as reading them.
const DEAD_MIN: usize = 1 << 16;

/// Passages with their distinct tokens.
#[derive(Debug, Clone)]
pub struct TokenIndex {
    /// Where each passage is in `entries`.
    places: HashMap<PassageId, u32>,
    entries: Vec<Entry>,
    tokens: Vec<u16>,
    /// For each token id the number of passages that have it.
    frequencies: Vec<u32>,
    /// Of `tokens`, those of passages that are gone.
    dead: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    passage: PassageId,
    start: usize,
    length: usize,
}

impl Default for TokenIndex {
    fn default() -> Self {
        let (places, entries, tokens) = Default::default();
        Self { places, entries, tokens, frequencies: vec![0; VOCABULARY_MAX], dead: 0 }
    }
}

impl TokenIndex {
    /// Adds a passage, in the place of what is there under its key.
    pub fn insert(&mut self, passage: PassageId, tokens: &TokenSet) {
        self.remove(passage);
        let start = self.tokens.len();
        self.tokens.extend_from_slice(tokens.as_slice());
        tokens.as_slice().iter().for_each(|&token| self.frequencies[usize::from(token)] += 1);
        self.places.insert(passage, self.entries.len() as u32);
        self.entries.push(Entry { passage, start, length: tokens.as_slice().len() });
    }

    /// Removes a passage, if it is there.
    pub fn remove(&mut self, passage: PassageId) {
        let Some(place) = self.places.remove(&passage) else { return };
        let Entry { start, length, .. } = self.entries.swap_remove(place as usize);
        if let Some(moved) = self.entries.get(place as usize) {
            self.places.insert(moved.passage, place);
        }
        for token in &self.tokens[start..start + length] {
            self.frequencies[usize::from(*token)] -= 1;
        }
        self.dead += length;
        if self.dead > DEAD_MIN.max(self.tokens.len() / 2) {
            self.compact();
        }
    }

    /// The tokens of a passage, ascending; `None` when it is not there.
    pub fn get(&self, passage: PassageId) -> Option<&[u16]> {
        self.places.get(&passage).map(|&place| self.tokens_of(&self.entries[place as usize]))
    }

    /// All passages with their tokens, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (PassageId, &[u16])> {
        self.entries.iter().map(|entry| (entry.passage, self.tokens_of(entry)))
    }

    /// How many passages have a token.
    pub fn frequency(&self, token: u16) -> u32 {
        self.frequencies[usize::from(token)]
    }

    /// The number of passages.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no passages.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn tokens_of(&self, entry: &Entry) -> &[u16] {
        &self.tokens[entry.start..entry.start + entry.length]
    }

    fn compact(&mut self) {
        let mut tokens = Vec::with_capacity(self.tokens.len() - self.dead);
        for entry in &mut self.entries {
            let start = tokens.len();
            tokens.extend_from_slice(&self.tokens[entry.start..entry.start + entry.length]);
            entry.start = start;
        }
        (self.tokens, self.dead) = (tokens, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(ids: &[u32]) -> TokenSet {
        TokenSet::of(ids)
    }

    #[test]
    fn a_passage_that_is_added_again_has_its_new_tokens() {
        let mut index = TokenIndex::default();
        index.insert(PassageId(1), &tokens(&[3, 4]));
        index.insert(PassageId(2), &tokens(&[4]));
        index.insert(PassageId(1), &tokens(&[5]));
        assert_eq!((index.get(PassageId(1)), index.get(PassageId(2))), (Some(&[5][..]), Some(&[4][..])));
        assert_eq!([3, 4, 5].map(|token| index.frequency(token)), [0, 1, 1]);
        assert_eq!(index.len(), 2);
    }

    #[test]
    fn removing_leaves_the_others_as_they_are() {
        let mut index = TokenIndex::default();
        let own = |passage: u64| tokens(&[passage as u32, 9]);
        (0..5).for_each(|passage| index.insert(PassageId(passage), &own(passage)));
        for gone in [0, 4, 2, 7] {
            index.remove(PassageId(gone));
        }
        let mut left: Vec<_> = index.iter().map(|(passage, tokens)| (passage.0, tokens.to_vec())).collect();
        left.sort_unstable();
        assert_eq!(left, [(1, vec![1, 9]), (3, vec![3, 9])]);
        assert_eq!((index.frequency(9), index.get(PassageId(2))), (2, None));
    }

    #[test]
    fn room_is_made_once_much_was_removed() {
        let mut index = TokenIndex::default();
        let many = tokens(&(0..40_000).collect::<Vec<_>>());
        (0..4).for_each(|passage| index.insert(PassageId(passage), &many));
        (0..3).for_each(|passage| index.remove(PassageId(passage)));
        assert!(index.tokens.len() < 2 * many.as_slice().len(), "{} tokens are kept", index.tokens.len());
        assert_eq!(index.get(PassageId(3)), Some(many.as_slice()));
    }
}
