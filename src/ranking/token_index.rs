//! The tokens of many passages in memory, two bytes each, for late interaction.

use rustc_hash::FxHashMap;

use crate::domain::{PassageId, TokenSet};

/// Number of possible token ids.
const VOCABULARY_MAX: usize = 1 << 16;
/// Minimum number of tokens of removed passages before their room is reclaimed, because that moves all other tokens.
const DEAD_MIN: usize = 1 << 16;
/// Minimum number of new passages before the postings are rebuilt, because they can only be rebuilt as a whole.
const TAIL_MIN: usize = 1 << 10;

/// Passages with their distinct tokens.
#[derive(Debug, Clone)]
pub struct TokenIndex {
    /// The slot of each passage.
    slots: FxHashMap<PassageId, u32>,
    /// The entries by slot. Those of removed passages stay empty until their room is reclaimed.
    entries: Vec<Entry>,
    tokens: Vec<u16>,
    /// For each token id, the number of passages that have it.
    frequencies: Vec<u32>,
    postings: Postings,
    /// How many of `tokens` and `entries` belong to removed passages.
    dead: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// `None` if the passage was removed.
    passage: Option<PassageId>,
    start: usize,
    length: usize,
}

/// Which passages have a token. Covers the first `covered_slots` slots.
#[derive(Debug, Clone, Default)]
struct Postings {
    /// Where the slots of each token begin, and where the last ones end. Empty before the postings are built.
    starts: Vec<u32>,
    slots: Vec<u32>,
    /// The number of slots that they cover.
    covered_slots: usize,
}

impl Default for TokenIndex {
    fn default() -> Self {
        let (slots, entries, tokens, postings) = Default::default();
        Self { slots, entries, tokens, frequencies: vec![0; VOCABULARY_MAX], postings, dead: 0 }
    }
}

impl TokenIndex {
    /// Adds a passage, or replaces the one with its key.
    pub fn insert(&mut self, passage: PassageId, tokens: &TokenSet) {
        self.remove(passage);
        let start = self.tokens.len();
        self.tokens.extend_from_slice(tokens.as_slice());
        tokens.as_slice().iter().for_each(|&token| self.frequencies[usize::from(token)] += 1);
        self.slots.insert(passage, self.entries.len() as u32);
        self.entries.push(Entry { passage: Some(passage), start, length: tokens.as_slice().len() });
    }

    /// Removes a passage, if it exists.
    pub fn remove(&mut self, passage: PassageId) {
        let Some(slot) = self.slots.remove(&passage) else { return };
        let entry = &mut self.entries[slot as usize];
        let Entry { start, length, .. } = *entry;
        (entry.passage, entry.length) = (None, 0);
        for token in &self.tokens[start..start + length] {
            self.frequencies[usize::from(*token)] -= 1;
        }
        self.dead += length + 1;
        if self.dead > DEAD_MIN.max((self.tokens.len() + self.entries.len()) / 2) {
            self.compact();
        }
    }

    /// Adds new passages to the postings if there are many. Called after changes and before searches.
    pub fn prepare(&mut self) {
        let tail = self.entries.len() - self.postings.covered_slots;
        if tail > TAIL_MIN.max(self.postings.covered_slots / 4) {
            self.prepare_now();
        }
    }

    /// Adds all passages to the postings.
    pub(super) fn prepare_now(&mut self) {
        self.postings = Postings::of(&self.entries, &self.tokens);
    }

    /// Returns the tokens of a passage, ascending, or `None` if it is missing.
    pub fn get(&self, passage: PassageId) -> Option<&[u16]> {
        self.slots.get(&passage).map(|&slot| self.tokens_of(&self.entries[slot as usize]))
    }

    /// Returns all passages with their tokens, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (PassageId, &[u16])> {
        self.entries.iter().filter_map(|entry| Some((entry.passage?, self.tokens_of(entry))))
    }

    /// Returns the number of passages with a token.
    pub fn frequency(&self, token: u16) -> u32 {
        self.frequencies[usize::from(token)]
    }

    /// Returns the number of passages.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no passages.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the number of slots. They are numbered from 0, and each has one passage or none.
    pub(super) fn slots(&self) -> usize {
        self.entries.len()
    }

    /// Returns the slot of a passage, or `None` if it is missing.
    pub(super) fn slot(&self, passage: PassageId) -> Option<u32> {
        self.slots.get(&passage).copied()
    }

    pub(super) fn passage(&self, slot: u32) -> Option<PassageId> {
        self.entries[slot as usize].passage
    }

    /// Returns the slots of passages with a token, among those that the postings cover. Some of them may have been removed.
    pub(super) fn posting(&self, token: u16) -> &[u32] {
        let Postings { starts, slots, .. } = &self.postings;
        let token = usize::from(token);
        starts.get(token).zip(starts.get(token + 1)).map_or(&[], |(&start, &end)| &slots[start as usize..end as usize])
    }

    /// Returns the slots that the postings do not cover, with their tokens.
    pub(super) fn tail(&self) -> impl Iterator<Item = (u32, &[u16])> {
        (0..).zip(&self.entries).skip(self.postings.covered_slots).map(|(slot, entry)| (slot, self.tokens_of(entry)))
    }

    fn tokens_of(&self, entry: &Entry) -> &[u16] {
        &self.tokens[entry.start..entry.start + entry.length]
    }

    fn compact(&mut self) {
        self.entries.retain(|entry| entry.passage.is_some());
        let mut tokens = Vec::with_capacity(self.tokens.len());
        for (slot, entry) in (0..).zip(&mut self.entries) {
            let start = tokens.len();
            tokens.extend_from_slice(&self.tokens[entry.start..entry.start + entry.length]);
            entry.start = start;
            self.slots.extend(entry.passage.map(|passage| (passage, slot)));
        }
        (self.tokens, self.dead, self.postings) = (tokens, 0, Postings::default());
    }
}

impl Postings {
    fn of(entries: &[Entry], tokens: &[u16]) -> Self {
        let of = |entry: &Entry| &tokens[entry.start..entry.start + entry.length];
        let mut starts = vec![0_u32; VOCABULARY_MAX + 1];
        entries.iter().flat_map(of).for_each(|&token| starts[usize::from(token) + 1] += 1);
        for token in 0..VOCABULARY_MAX {
            starts[token + 1] += starts[token];
        }
        let mut next = starts.clone();
        let mut slots = vec![0; starts[VOCABULARY_MAX] as usize];
        for (slot, entry) in (0..).zip(entries) {
            for &token in of(entry) {
                let end = &mut next[usize::from(token)];
                slots[*end as usize] = slot;
                *end += 1;
            }
        }
        Self { starts, slots, covered_slots: entries.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(ids: &[u32]) -> TokenSet {
        TokenSet::from_ids(ids)
    }

    #[test]
    fn reinserting_a_passage_replaces_its_tokens() {
        let mut index = TokenIndex::default();
        index.insert(PassageId(1), &tokens(&[3, 4]));
        index.insert(PassageId(2), &tokens(&[4]));
        index.insert(PassageId(1), &tokens(&[5]));
        assert_eq!((index.get(PassageId(1)), index.get(PassageId(2))), (Some(&[5][..]), Some(&[4][..])));
        assert_eq!([3, 4, 5].map(|token| index.frequency(token)), [0, 1, 1]);
        assert_eq!(index.len(), 2);
    }

    #[test]
    fn removing_a_passage_leaves_the_others_unchanged() {
        let mut index = TokenIndex::default();
        let tokens_of = |passage: u64| tokens(&[passage as u32, 9]);
        (0..5).for_each(|passage| index.insert(PassageId(passage), &tokens_of(passage)));
        for removed in [0, 4, 2, 7] {
            index.remove(PassageId(removed));
        }
        let mut left: Vec<_> = index.iter().map(|(passage, tokens)| (passage.0, tokens.to_vec())).collect();
        left.sort_unstable();
        assert_eq!(left, [(1, vec![1, 9]), (3, vec![3, 9])]);
        assert_eq!((index.frequency(9), index.get(PassageId(2))), (2, None));
    }

    #[test]
    fn space_is_reclaimed_after_many_removals() {
        let mut index = TokenIndex::default();
        let many = tokens(&(0..40_000).collect::<Vec<_>>());
        (0..4).for_each(|passage| index.insert(PassageId(passage), &many));
        (0..3).for_each(|passage| index.remove(PassageId(passage)));
        assert!(index.tokens.len() < 2 * many.as_slice().len(), "{} tokens are kept", index.tokens.len());
        assert_eq!(index.get(PassageId(3)), Some(many.as_slice()));
    }

    #[test]
    fn postings_and_tail_together_list_every_passage_of_a_token() {
        let mut index = TokenIndex::default();
        let add = |index: &mut TokenIndex, passages: std::ops::Range<u64>| {
            passages.for_each(|passage| index.insert(PassageId(passage), &tokens(&[passage as u32 % 3, 7])));
            index.prepare();
        };
        let with = |index: &TokenIndex, token: u16| {
            let tail = index.tail().filter(|(_, tokens)| tokens.contains(&token)).map(|(slot, _)| slot);
            let slots = index.posting(token).iter().copied().chain(tail);
            let mut passages: Vec<u64> = slots.filter_map(|slot| index.passage(slot)).map(|passage| passage.0).collect();
            passages.sort_unstable();
            passages
        };
        let expected = |passages: std::ops::Range<u64>| passages.filter(|passage| passage % 3 == 1).collect::<Vec<_>>();
        add(&mut index, 0..10);
        assert_eq!((with(&index, 1), index.posting(1).len()), (expected(0..10), 0), "few passages need no postings");
        add(&mut index, 10..3_000);
        assert_eq!((with(&index, 1), index.tail().count()), (expected(0..3_000), 0));
        add(&mut index, 3_000..3_100);
        (0..40).for_each(|passage| index.remove(PassageId(passage)));
        assert_eq!((with(&index, 1), index.tail().count()), (expected(40..3_100), 100));
        assert_eq!((with(&index, 7).len(), index.len(), index.frequency(7)), (3_060, 3_060, 3_060));
    }
}
