//! The passes over a side's sentences that take long: embedding a list, making an index; `comparing` and `searching` look for
//! neighbors. Each works batch by batch, counts what it did and stops between two batches when the job is to stop.

use std::sync::Arc;
use std::time::Duration;

use super::corpus::Corpus;
use super::memory;
use crate::domain::Metadata;
use crate::embed::EmbedText;
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::{JobContext, JobError, embed_patiently};
use crate::service::open_collection::OpenCollection;

/// Texts embedded at a time: some batches of the encoder, so that it can sort them by length.
const TEXTS_PER_BATCH: usize = 128;
/// Embeddings added to an index at a time.
const ADDED_PER_BATCH: usize = 2_048;
/// Pause between two looks at whether a collection has recovered.
const RECOVERY_PAUSE: Duration = Duration::from_millis(50);

/// Counts what the passes of a job did.
pub(crate) struct Steps<'a> {
    context: &'a JobContext,
    done: u64,
    total: u64,
    details: Metadata,
}

/// Which of the sentences found are no neighbors.
#[derive(Clone)]
pub(crate) enum Exclusion {
    /// The passage itself, where both sides are of one collection.
    Itself,
    /// The sentence itself, and passages of its document: `documents` has that of each place.
    OwnDocument {
        /// [places]
        documents: Arc<Vec<i64>>,
    },
}

impl<'a> Steps<'a> {
    /// Begins: lists of `sides` are embedded, and every sentence is asked for its neighbors once. An index that is made for a
    /// side comes on top of that.
    pub(crate) fn begin(context: &'a JobContext, corpora: &[&Arc<Corpus>], details: Metadata) -> Self {
        let embedded = |side: &Corpus| side.embeddings_file().map_or(0, |_| side.sentences() as u64);
        let total = corpora.iter().map(|side| embedded(side) + side.sentences() as u64).sum();
        context.measure(0, total);
        Self { context, done: 0, total, details }
    }

    /// Checks once more that there is the memory, now that it is known which indexes must be made.
    pub(crate) fn check_memory(&self, needed: u64) -> Result<(), JobError> {
        let state = self.context.state()?;
        Ok(memory::check(needed, &state.limits).map_err(Error::from)?)
    }

    /// What the job tells, to be added to.
    pub(crate) fn details(&mut self) -> &mut Metadata {
        &mut self.details
    }

    /// Makes the index that a side needs, unless it has one.
    pub(crate) async fn index(&mut self, side: &Arc<Corpus>) -> Result<(), JobError> {
        if side.uses_own_index() {
            return Ok(());
        }
        self.total += side.sentences() as u64;
        self.context.measure(self.done, self.total);
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

    /// Embeds the texts of a list; a collection's are.
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

    /// Ends with why the job is to stop, when it is.
    pub(crate) fn check(&self) -> Result<(), JobError> {
        self.context.check()
    }

    /// Counts sentences that are done with.
    pub(crate) async fn count(&mut self, more: u64) -> Result<(), JobError> {
        self.done += more;
        self.context.progress(self.done, &self.details).await
    }
}

/// Waits until a collection's index answers in full: a job may be taken up while the server still starts.
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
