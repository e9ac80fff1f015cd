//! Caches the tokens and words of a collection's passages, as of one state of its database.

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::domain::{PassageId, Sequence, TokenSet};
use crate::ranking::{TokenIndex, Translations, WordIndex};
use crate::store::TokenChanges;

/// The cached tokens of a collection.
#[derive(Debug, Default)]
pub(crate) struct CollectionTokens {
    state: RwLock<State>,
    /// Held while a search reads what is missing.
    pub(super) reading: Mutex<()>,
}

/// The cache and its state.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) known: Option<Known>,
    /// Number of filling steps so far. A filling step adds rows for passages that were embedded long ago, and the sequence
    /// number does not reflect that. So anything read before a step lacks the rows of that step.
    pub(super) filled: u64,
}

/// The tokens and words as of one state of the database.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) sequence: Sequence,
    pub(super) index: TokenIndex,
    pub(super) words: WordIndex,
}

impl CollectionTokens {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    /// Adds changes that were read after `filled` filling steps. Ignores them if there was another filling step since, or if
    /// another search added them first.
    pub(super) fn apply(&self, changes: TokenChanges, filled: u64, translations: Option<&Translations>) {
        let mut state = self.state.write();
        if state.filled != filled || state.known.as_ref().is_some_and(|known| known.sequence >= changes.sequence) {
            return;
        }
        let (mut index, mut words) = match state.known.take() {
            Some(known) if !changes.complete => (known.index, known.words),
            _ => Default::default(),
        };
        for passage in changes.removed {
            index.remove(passage);
            words.remove(passage);
        }
        if let Some(translations) = translations {
            changes.words.iter().for_each(|(passage, counts)| words.insert(*passage, counts, translations));
            words.prepare();
        }
        for (passage, tokens) in &changes.passages {
            index.insert(*passage, tokens);
        }
        index.prepare();
        state.known = Some(Known { sequence: changes.sequence, index, words });
    }

    /// Discards everything, because passages have got words without a new sequence number.
    pub(super) fn clear(&self) {
        let mut state = self.state.write();
        state.filled += 1;
        state.known = None;
    }

    /// Adds the tokens that a filling step computed, if anything is cached yet.
    pub(super) fn fill(&self, passages: &[(PassageId, TokenSet)]) {
        let mut state = self.state.write();
        state.filled += 1;
        if let Some(known) = state.known.as_mut() {
            passages.iter().for_each(|(passage, tokens)| known.index.insert(*passage, tokens));
            known.index.prepare();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(sequence: u64, passages: &[u64]) -> TokenChanges {
        let passages = passages.iter().map(|&passage| (PassageId(passage), TokenSet::from_ids(&[7]))).collect();
        TokenChanges { sequence: Sequence(sequence), complete: true, removed: Vec::new(), passages, words: Vec::new() }
    }

    fn known(tokens: &CollectionTokens) -> usize {
        tokens.read().known.as_ref().map_or(0, |known| known.index.len())
    }

    #[test]
    fn tokens_read_before_a_filling_step_are_ignored() {
        let tokens = CollectionTokens::default();
        tokens.fill(&[(PassageId(2), TokenSet::from_ids(&[7]))]);
        tokens.apply(changes(5, &[1]), 0, None);
        assert_eq!(known(&tokens), 0, "a read from before the fill is ignored, because it lacks the filled passage");
        tokens.apply(changes(5, &[1, 2]), 1, None);
        assert_eq!(known(&tokens), 2);
        tokens.fill(&[(PassageId(3), TokenSet::from_ids(&[7]))]);
        assert_eq!(known(&tokens), 3);
    }

    #[test]
    fn clearing_discards_cached_tokens_and_earlier_reads() {
        let tokens = CollectionTokens::default();
        tokens.apply(changes(5, &[1, 2]), 0, None);
        tokens.clear();
        assert_eq!(known(&tokens), 0);
        tokens.apply(changes(5, &[1]), 0, None);
        assert_eq!(known(&tokens), 0, "a read from before the clearing is ignored");
        tokens.apply(changes(5, &[1, 2]), 1, None);
        assert_eq!(known(&tokens), 2);
    }

    #[test]
    fn an_older_state_does_not_replace_a_newer_one() {
        let tokens = CollectionTokens::default();
        tokens.apply(changes(7, &[1, 2]), 0, None);
        tokens.apply(changes(6, &[1]), 0, None);
        assert_eq!(known(&tokens), 2);
    }
}
