//! The tokens of a collection's passages in memory, for late interaction: read with the first search that needs them, then brought
//! up to date from what changed since.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use super::super::Error;
use super::super::runtime::OpenCollection;
use crate::domain::{PassageId, Sequence, TokenSet};
use crate::embed::{EmbedText, Embedder};
use crate::ranking::TokenIndex;
use crate::store::{PendingPassage, TokenChanges};

/// What is known of a collection's tokens.
#[derive(Debug, Default)]
pub(crate) struct CollectionTokens(RwLock<Option<Known>>);

/// The tokens, true of one state of the database.
#[derive(Debug)]
struct Known {
    sequence: Sequence,
    index: TokenIndex,
}

impl CollectionTokens {
    fn read(&self) -> RwLockReadGuard<'_, Option<Known>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, changes: TokenChanges) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_some_and(|known| known.sequence >= changes.sequence) {
            return; // Another search was faster.
        }
        let mut index = match known.take() {
            Some(known) if !changes.complete => known.index,
            _ => TokenIndex::default(),
        };
        for passage in changes.removed {
            index.remove(passage);
        }
        for (passage, tokens) in &changes.passages {
            index.insert(*passage, tokens);
        }
        *known = Some(Known { sequence: changes.sequence, index });
    }

    /// Adds what passages lacked, if anything is known yet.
    fn fill(&self, passages: &[(PassageId, TokenSet)]) {
        if let Some(known) = self.0.write().unwrap_or_else(PoisonError::into_inner).as_mut() {
            passages.iter().for_each(|(passage, tokens)| known.index.insert(*passage, tokens));
        }
    }
}

/// Hands the tokens of all passages, as they are now, to `use_them`.
pub(super) fn with_tokens<T>(collection: &OpenCollection, use_them: impl FnOnce(&TokenIndex) -> T) -> Result<T, Error> {
    let now = collection.store.sequence()?;
    let reached = collection.tokens.read().as_ref().map(|known| known.sequence);
    if reached.is_none_or(|reached| reached < now) {
        collection.tokens.take(collection.store.token_changes(reached)?);
    }
    let nothing = TokenIndex::default;
    Ok(match collection.tokens.read().as_ref() {
        Some(known) => use_them(&known.index),
        None => use_them(&nothing()),
    })
}

/// Gives the passages that were embedded before there were tokens what they lack. Does nothing where the collection is of another
/// model than the loaded one. Says whether it came to the end. Blocks.
pub(in crate::service) fn fill_tokens(collection: &OpenCollection, embedder: &Embedder) -> Result<bool, Error> {
    let own = collection.row.model.as_ref().filter(|own| own.fingerprint == embedder.model().fingerprint);
    if own.is_none() || embedder.scorer().is_none() {
        return Ok(true);
    }
    while !collection.should_stop() {
        let text = |passage: &PendingPassage| EmbedText { context: passage.context.clone(), text: passage.text.clone() };
        let tokens_of = |passages: &[PendingPassage]| embedder.token_sets(&passages.iter().map(text).collect::<Vec<_>>());
        let filled = collection.store.fill_tokens(tokens_of)?;
        match filled.map_err(Error::Embed)? {
            Some(passages) => collection.tokens.fill(&passages),
            None => return Ok(true),
        }
    }
    Ok(false)
}
