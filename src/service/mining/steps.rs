//! The long steps of mining: embedding the texts of a list and building an index; `comparing` and `searching` find neighbors.
//! Each works batch by batch, counts what it has done, and stops between two batches if the job is to stop.

use std::sync::Arc;
use std::time::Duration;

use super::corpus::Corpus;
use super::memory;
use crate::domain::Metadata;
use crate::embed::EmbedText;
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::{JobContext, JobError, Steps, embed_patiently};
use crate::service::open_collection::OpenCollection;

/// Texts embedded at a time: some batches of the encoder, so that it can sort them by length.
const TEXTS_PER_BATCH: usize = 128;
/// Embeddings added to an index at a time.
const ADDED_PER_BATCH: usize = 2_048;
/// Pause between two checks whether a collection has recovered.
const RECOVERY_PAUSE: Duration = Duration::from_millis(50);

/// Which of the found sentences do not count as neighbors.
#[derive(Clone)]
pub(crate) enum Exclusion {
    /// The passage itself, if both corpora are of the same collection.
    Itself,
    /// The sentence itself and others of its document; `documents` has the document of each position.
    OwnDocument {
        /// [positions]
        documents: Arc<Vec<i64>>,
    },
}

/// Begins: the texts of lists are embedded, and the neighbors of every sentence are searched for once. The indexes that the job
/// builds come on top of that.
pub(crate) fn begin<'a>(context: &'a JobContext, corpora: &[&Arc<Corpus>], details: Metadata) -> Steps<'a> {
    let embedded = |corpus: &Corpus| corpus.embeddings_file().map_or(0, |_| corpus.sentences() as u64);
    let mut steps = Steps::new(context, details);
    steps.set_total(corpora.iter().map(|corpus| embedded(corpus) + corpus.sentences() as u64).sum());
    steps
}

impl Steps<'_> {
    /// Checks the free memory again, now that the indexes to build are known.
    pub(crate) fn check_memory(&self, needed: u64) -> Result<(), JobError> {
        let state = self.context.state()?;
        Ok(memory::check(needed, &state.limits).map_err(Error::from)?)
    }

    /// Builds the index of a corpus, unless it uses its collection's own.
    pub(crate) async fn index(&mut self, side: &Arc<Corpus>) -> Result<(), JobError> {
        if side.uses_own_index() {
            return Ok(());
        }
        self.add_total(side.sentences() as u64);
        let index = side.new_index()?;
        for begin in (0..side.sentences()).step_by(ADDED_PER_BATCH) {
            self.context.check()?;
            let (side, index) = (Arc::clone(side), Arc::clone(&index));
            let end = side.sentences().min(begin + ADDED_PER_BATCH);
            blocking(move || Ok(index.add_all(&side.keyed(begin..end)?)?)).await?;
            self.count((end - begin) as u64).await?;
        }
        side.install(index);
        Ok(())
    }

    /// Embeds the texts of a list. Those of a collection are embedded already.
    pub(crate) async fn embed(&mut self, side: &Arc<Corpus>) -> Result<(), JobError> {
        if side.embeddings_file().is_none() {
            return Ok(());
        }
        let of = Arc::clone(side);
        let before = blocking(move || Ok(of.sentences() - of.waiting()?)).await?;
        self.count(before as u64).await?;
        loop {
            self.context.check()?;
            let of = Arc::clone(side);
            let texts: Vec<EmbedText> =
                blocking(move || of.to_embed(TEXTS_PER_BATCH)).await?.into_iter().map(EmbedText::from).collect();
            let count = texts.len();
            if count == 0 {
                return Ok(());
            }
            let embedded = embed_patiently(self.context, &texts, TEXTS_PER_BATCH).await?;
            let of = Arc::clone(side);
            blocking(move || of.embeddings_file().map_or(Ok(()), |file| file.append(&embedded))).await?;
            self.count(count as u64).await?;
        }
    }
}

/// Waits until a collection has recovered: a job may resume while the server is starting.
pub(crate) async fn recovered(context: &JobContext, collection: &OpenCollection) -> Result<(), JobError> {
    loop {
        context.check()?;
        match collection.store.ready() {
            Ok(_) => return Ok(()),
            Err(_) if collection.is_deleted() => {
                return Err(Error::CollectionNotFound { name: collection.row.name.clone() }.into());
            }
            Err(_) => context.pause(RECOVERY_PAUSE).await?,
        }
    }
}
