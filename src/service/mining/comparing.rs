//! Finds neighbors by comparing all sentences of one corpus with all of the other. Keeps the smaller corpus in memory, and
//! reads the larger one once, a few blocks at a time.

use std::ops::Range;
use std::sync::Arc;

use super::corpus::Corpus;
use crate::mining::{BLOCK_SENTENCES, Block, LoadedSet, Nearest, NeighborLists};
use crate::parallel::{in_parallel, parallelism};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::{JobError, Steps};

/// The neighbors of the first corpus in the second, and the reverse.
pub(crate) type BidirectionalNeighbors = (NeighborLists, NeighborLists);

/// Number of blocks that each core compares between two checks for cancellation.
const BLOCKS_PER_CORE: usize = 4;

impl Steps<'_> {
    /// Finds the nearest `per_query` sentences of the other corpus for each sentence of both.
    pub(crate) async fn compare(
        &mut self,
        first: &Arc<Corpus>,
        second: &Arc<Corpus>,
        per_query: usize,
    ) -> Result<BidirectionalNeighbors, JobError> {
        let first_loaded = first.sentences() <= second.sentences();
        let (loaded_corpus, other_corpus) = if first_loaded { (first, second) } else { (second, first) };
        let mut blocks = Vec::new();
        for range in steps(loaded_corpus.sentences()) {
            self.check()?;
            let (count, corpus) = (range.len(), Arc::clone(loaded_corpus));
            let read = move || in_parallel(range, BLOCK_SENTENCES, parallelism(), |part| block(&corpus, part));
            blocks.extend(blocking(read).await?);
            self.count(count as u64).await?;
        }
        let loaded = blocking(move || Ok(Arc::new(LoadedSet::new(blocks, per_query, parallelism())?))).await?;
        let mut lists = NeighborLists::new(other_corpus.sentences(), loaded_corpus.sentences(), per_query)?;
        for range in steps(other_corpus.sentences()) {
            self.check()?;
            let (count, loaded, loaded_corpus, other_corpus) =
                (range.len(), Arc::clone(&loaded), Arc::clone(loaded_corpus), Arc::clone(other_corpus));
            lists = blocking(move || {
                let compare = |part| compare(&loaded, (&loaded_corpus, &other_corpus), part);
                for (block, nearest) in in_parallel(range, BLOCK_SENTENCES, parallelism(), compare)? {
                    nearest.put_into(&mut lists, block.numbers().iter().copied())?;
                }
                Ok(lists)
            })
            .await?;
            self.count(count as u64).await?;
        }
        let sentences = loaded_corpus.sentences();
        let back = blocking(move || Ok((loaded.lists(sentences, lists.len())?, lists))).await?;
        Ok(if first_loaded { back } else { (back.1, back.0) })
    }
}

/// Compares some sentences of `other` with all sentences of `corpus`, which is loaded.
fn compare(loaded: &LoadedSet, (corpus, other): (&Corpus, &Corpus), range: Range<usize>) -> Result<(Block, Nearest), Error> {
    let (step, block) = (range.start / BLOCK_SENTENCES, block(other, range)?);
    let overlap = corpus.shares_collection_with(other);
    let same_passage =
        |read, loaded| corpus.is_same_passage(corpus.first_position(loaded), other, other.first_position(read) as usize);
    let skip = |read, loaded| corpus.is_excluded(loaded, other, read) || (overlap && same_passage(read, loaded));
    let nearest = loaded.compare(step, &block, skip)?;
    Ok((block, nearest))
}

fn steps(sentences: usize) -> impl Iterator<Item = Range<usize>> {
    let step = BLOCK_SENTENCES * BLOCKS_PER_CORE * parallelism();
    (0..sentences).step_by(step).map(move |begin| begin..sentences.min(begin + step))
}

fn block(corpus: &Corpus, range: Range<usize>) -> Result<Block, Error> {
    let embeddings = corpus.embeddings(range)?;
    let rows = embeddings.iter().map(|(number, embedding)| (*number, embedding.as_slice()));
    Ok(Block::new(corpus.dimension(), rows)?)
}
