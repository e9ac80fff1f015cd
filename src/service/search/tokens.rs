//! Provides the tokens and words of a collection's passages in memory, for late interaction and translations. The first search
//! that needs them reads them all; later searches only read what changed since.

use crate::domain::{CollectionModel, Sequence};
use crate::embed::Embedder;
use crate::ranking::{TokenIndex, TokenScorer, Translations, WordIndex};
use crate::service::embedding::embed_text;
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;
use crate::store::{PendingPassage, with_caller};

/// Passes the current tokens of all passages to `use_them`, and their words if the model translates.
pub(super) fn with_tokens<T>(
    collection: &OpenCollection,
    translations: Option<&Translations>,
    use_them: impl FnOnce(&TokenIndex, &WordIndex) -> T,
) -> Result<T, Error> {
    let now = collection.store.sequence()?;
    loop {
        {
            let state = collection.tokens.read();
            if let Some(known) = state.known.as_ref().filter(|known| known.sequence >= now) {
                return Ok(use_them(&known.index, &known.words));
            }
        }
        read_changes(collection, translations, now)?;
    }
}

/// Reads what has changed, unless another search has read the changes up to `now`. One search at a time does this: after a start,
/// it takes much memory.
fn read_changes(collection: &OpenCollection, translations: Option<&Translations>, now: Sequence) -> Result<(), Error> {
    let _turn = collection.tokens.reading.lock();
    let (sequence, filled) = {
        let state = collection.tokens.read();
        (state.known.as_ref().map(|known| known.sequence), state.filled)
    };
    if sequence < Some(now) {
        // Later searches need them, too, even if this one's caller is gone.
        let changes = with_caller(None, || collection.store.token_changes(sequence, translations.is_some()))?;
        collection.tokens.apply(changes, filled, translations);
    }
    Ok(())
}

/// Computes the terms and tokens that a collection lacks because it is older than lexical search or late interaction. A
/// collection of another model than the loaded one gets no tokens. Returns whether it finished. Blocks.
pub(in crate::service) fn fill(collection: &OpenCollection, embedder: &Embedder) -> Result<bool, Error> {
    let mut filled = false;
    // Collections on a database server have always had them.
    let Ok(embedded) = collection.embedded() else { return Ok(true) };
    while !collection.should_stop() && embedded.store.fill_lexical()? {
        filled = true;
    }
    if filled {
        collection.tokens.clear();
    }
    let has_tokens = scorer_of(collection, embedder).is_some();
    while has_tokens && !collection.should_stop() {
        let tokens_of = |passages: &[PendingPassage]| embedder.token_sets(&passages.iter().map(embed_text).collect::<Vec<_>>());
        match embedded.store.fill_tokens(tokens_of)?? {
            Some(passages) => collection.tokens.fill(&passages),
            None => break,
        }
    }
    Ok(!collection.should_stop())
}

/// Returns the loaded model's scorer if the collection is of that model.
pub(super) fn scorer_of<'e>(collection: &OpenCollection, embedder: &'e Embedder) -> Option<&'e TokenScorer> {
    let is_own = |model: &CollectionModel| model.fingerprint == embedder.model().fingerprint;
    embedder.scorer().filter(|_| collection.row.model.as_ref().is_some_and(is_own))
}
