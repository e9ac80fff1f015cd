//! The tokens and words of a collection's passages in memory, for late interaction and for translations: read with the first search
//! that needs them, then brought up to date from what changed since.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::super::Error;
use super::super::embedding::embed_text;
use super::super::runtime::OpenCollection;
use crate::domain::{PassageId, Sequence, TokenSet};
use crate::embed::Embedder;
use crate::ranking::{TokenIndex, Translations, WordIndex};
use crate::store::{PendingPassage, TokenChanges};

/// What is known of a collection's tokens.
#[derive(Debug, Default)]
pub(crate) struct CollectionTokens(RwLock<State>);

#[derive(Debug, Default)]
struct State {
    known: Option<Known>,
    /// Steps of filling so far. Their rows are of passages embedded long ago, which the sequence does not tell: what was read before a
    /// step lacks its rows.
    filled: u64,
}

/// The tokens, true of one state of the database.
#[derive(Debug)]
struct Known {
    sequence: Sequence,
    index: TokenIndex,
    words: WordIndex,
}

impl CollectionTokens {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what was read when there had been so many steps of filling, unless that is no longer all there is to read, or
    /// another search was faster.
    fn take(&self, changes: TokenChanges, filled: u64, translations: Option<&Translations>) {
        let mut state = self.write();
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
        }
        for (passage, tokens) in &changes.passages {
            index.insert(*passage, tokens);
        }
        index.prepare();
        state.known = Some(Known { sequence: changes.sequence, index, words });
    }

    /// Forgets everything: passages got words that the sequence does not tell of.
    fn forget(&self) {
        let mut state = self.write();
        state.filled += 1;
        state.known = None;
    }

    /// Adds what passages lacked, if anything is known yet.
    fn fill(&self, passages: &[(PassageId, TokenSet)]) {
        let mut state = self.write();
        state.filled += 1;
        if let Some(known) = state.known.as_mut() {
            passages.iter().for_each(|(passage, tokens)| known.index.insert(*passage, tokens));
            known.index.prepare();
        }
    }
}

/// Hands the tokens of all passages, as they are now, to `use_them`, and their words if the model translates.
pub(super) fn with_tokens<T>(
    collection: &OpenCollection,
    translations: Option<&Translations>,
    use_them: impl FnOnce(&TokenIndex, &WordIndex) -> T,
) -> Result<T, Error> {
    let now = collection.store.sequence()?;
    loop {
        let (reached, filled) = {
            let state = collection.tokens.read();
            match &state.known {
                Some(known) if known.sequence >= now => return Ok(use_them(&known.index, &known.words)),
                known => (known.as_ref().map(|known| known.sequence), state.filled),
            }
        };
        let changes = collection.store.token_changes(reached, translations.is_some())?;
        collection.tokens.take(changes, filled, translations);
    }
}

/// Gives a collection that is older than searching by words, or than late interaction, what these lack. One of another model than the
/// loaded one gets no tokens. Says whether it came to the end. Blocks.
pub(in crate::service) fn fill(collection: &OpenCollection, embedder: &Embedder) -> Result<bool, Error> {
    let mut filled = false;
    while !collection.should_stop() && collection.store.fill_lexical()? {
        filled = true;
    }
    if filled {
        collection.tokens.forget();
    }
    let own = collection.row.model.as_ref().filter(|own| own.fingerprint == embedder.model().fingerprint);
    let has_tokens = own.is_some() && embedder.scorer().is_some();
    while has_tokens && !collection.should_stop() {
        let tokens_of = |passages: &[PendingPassage]| embedder.token_sets(&passages.iter().map(embed_text).collect::<Vec<_>>());
        match collection.store.fill_tokens(tokens_of)?.map_err(Error::Embed)? {
            Some(passages) => collection.tokens.fill(&passages),
            None => break,
        }
    }
    Ok(!collection.should_stop())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(sequence: u64, passages: &[u64]) -> TokenChanges {
        let passages = passages.iter().map(|&passage| (PassageId(passage), TokenSet::of(&[7]))).collect();
        TokenChanges { sequence: Sequence(sequence), complete: true, removed: Vec::new(), passages, words: Vec::new() }
    }

    fn known(tokens: &CollectionTokens) -> usize {
        tokens.read().known.as_ref().map_or(0, |known| known.index.len())
    }

    #[test]
    fn what_was_read_before_a_step_of_filling_is_read_again() {
        let tokens = CollectionTokens::default();
        tokens.fill(&[(PassageId(2), TokenSet::of(&[7]))]);
        tokens.take(changes(5, &[1]), 0, None);
        assert_eq!(known(&tokens), 0, "the passage that was just filled would be missing until the next start");
        tokens.take(changes(5, &[1, 2]), 1, None);
        assert_eq!(known(&tokens), 2);
        tokens.fill(&[(PassageId(3), TokenSet::of(&[7]))]);
        assert_eq!(known(&tokens), 3);
    }

    #[test]
    fn what_is_forgotten_is_read_again_whole() {
        let tokens = CollectionTokens::default();
        tokens.take(changes(5, &[1, 2]), 0, None);
        tokens.forget();
        assert_eq!(known(&tokens), 0);
        tokens.take(changes(5, &[1]), 0, None);
        assert_eq!(known(&tokens), 0, "it was read before");
        tokens.take(changes(5, &[1, 2]), 1, None);
        assert_eq!(known(&tokens), 2);
    }

    #[test]
    fn an_older_state_does_not_replace_a_newer_one() {
        let tokens = CollectionTokens::default();
        tokens.take(changes(7, &[1, 2]), 0, None);
        tokens.take(changes(6, &[1]), 0, None);
        assert_eq!(known(&tokens), 2);
    }
}
