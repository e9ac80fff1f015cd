//! The long steps of mining: embedding the texts of a list, and building an index. `comparing` and `searching` find neighbors.
//! Each step works in batches, counts its progress, and stops between two batches if the job should stop.

use std::sync::Arc;

use super::corpus::Corpus;
use super::memory;
use crate::embed::EmbedText;
use crate::service::blocking::blocking;
use crate::service::jobs::{JobError, Steps, embed_with_retry};

/// Number of texts embedded at a time. That is several batches of the encoder, so that it can sort the texts by length.
const TEXTS_PER_BATCH: usize = 128;
const ADDED_PER_BATCH: usize = 2_048;

/// Which sentences do not count as neighbors.
#[derive(Clone)]
pub(crate) enum Exclusion {
    /// The passage itself, if both corpora come from the same collection, and texts that may not be a pair.
    Itself,
    /// The sentence itself and other sentences of its document.
    OwnDocument {
        /// [positions] The document at each position.
        documents: Arc<Vec<i64>>,
    },
}

impl Steps<'_> {
    /// Sets the total: the texts of lists to embed, and one search per sentence. Building an index adds to it later.
    pub(crate) fn set_corpora(&mut self, corpora: &[&Arc<Corpus>]) {
        let embedded = |corpus: &Corpus| corpus.embeddings_file().map_or(0, |_| corpus.sentences() as u64);
        self.set_total(corpora.iter().map(|corpus| embedded(corpus) + corpus.sentences() as u64).sum());
    }

    /// Checks the free memory again, now that the indexes to build are known.
    pub(crate) fn check_memory(&self, needed: u64) -> Result<(), JobError> {
        let state = self.context.state()?;
        Ok(memory::check(needed, &state.limits)?)
    }

    /// Builds the index of a corpus, unless it uses its collection's own.
    pub(crate) async fn index(&mut self, corpus: &Arc<Corpus>) -> Result<(), JobError> {
        if corpus.uses_own_index() {
            return Ok(());
        }
        self.add_total(corpus.sentences() as u64);
        let index = corpus.new_index()?;
        for begin in (0..corpus.sentences()).step_by(ADDED_PER_BATCH) {
            self.context.check()?;
            let (corpus, index) = (Arc::clone(corpus), Arc::clone(&index));
            let end = corpus.sentences().min(begin + ADDED_PER_BATCH);
            blocking(move || Ok(index.add_all(&corpus.embeddings_with_keys(begin..end)?)?)).await?;
            self.count((end - begin) as u64).await?;
        }
        corpus.install(index);
        Ok(())
    }

    /// Embeds the texts of a list. A collection's passages are already embedded.
    pub(crate) async fn embed(&mut self, corpus: &Arc<Corpus>) -> Result<(), JobError> {
        if corpus.embeddings_file().is_none() {
            return Ok(());
        }
        let shared = Arc::clone(corpus);
        let before = blocking(move || Ok(shared.sentences() - shared.count_unembedded()?)).await?;
        self.count(before as u64).await?;
        loop {
            self.context.check()?;
            let shared = Arc::clone(corpus);
            let texts: Vec<EmbedText> =
                blocking(move || shared.next_texts_to_embed(TEXTS_PER_BATCH)).await?.into_iter().map(EmbedText::from).collect();
            let count = texts.len();
            if count == 0 {
                return Ok(());
            }
            let embedded = embed_with_retry(self.context, &texts, TEXTS_PER_BATCH).await?;
            let shared = Arc::clone(corpus);
            blocking(move || shared.embeddings_file().map_or(Ok(()), |file| file.append(&embedded))).await?;
            self.count(count as u64).await?;
        }
    }
}
