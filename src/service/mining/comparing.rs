//! Finds neighbors by comparing all sentences of one corpus with all of the other. Keeps the smaller corpus in memory, and
//! reads the larger one once, a few blocks at a time.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::corpus::Corpus;
use crate::mining::{BLOCK_SENTENCES, Block, Comparison, Nearest, NeighborLists};
use crate::parallel::{in_parallel, parallelism};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::jobs::{JobError, Steps};

/// The neighbors of the first corpus in the second, and the reverse.
pub(crate) type BidirectionalNeighbors = (NeighborLists, NeighborLists);

/// Number of blocks that each core compares between two checks for cancellation.
const BLOCKS_PER_CORE: usize = 4;

struct LoadedCorpus {
    side: Arc<Corpus>,
    blocks: Blocks,
    per_query: usize,
}

type Blocks = Vec<(Block, Mutex<Nearest>)>;

impl Steps<'_> {
    /// Finds the nearest `per_query` sentences of the other corpus for each sentence of both.
    pub(crate) async fn compare(
        &mut self,
        first: &Arc<Corpus>,
        second: &Arc<Corpus>,
        per_query: usize,
    ) -> Result<BidirectionalNeighbors, JobError> {
        let first_loaded = first.sentences() <= second.sentences();
        let (side, other) = if first_loaded { (first, second) } else { (second, first) };
        let mut loaded = LoadedCorpus { side: Arc::clone(side), blocks: Vec::new(), per_query };
        for range in steps(side.sentences()) {
            self.check()?;
            let (count, corpus) = (range.len(), Arc::clone(side));
            loaded.blocks.extend(blocking(move || LoadedCorpus::read(&corpus, range, per_query)).await?);
            self.count(count as u64).await?;
        }
        let loaded = Arc::new(loaded);
        let mut lists = NeighborLists::new(other.sentences(), side.sentences(), per_query)?;
        for range in steps(other.sentences()) {
            self.check()?;
            let (count, loaded, corpus) = (range.len(), Arc::clone(&loaded), Arc::clone(other));
            lists = blocking(move || {
                let compare = |part| loaded.compare(&corpus, part);
                for (block, nearest) in in_parallel(range, BLOCK_SENTENCES, parallelism(), compare)? {
                    store_nearest(&mut lists, &block, &nearest)?;
                }
                Ok(lists)
            })
            .await?;
            self.count(count as u64).await?;
        }
        let back = blocking(move || loaded.lists(lists.len()).map(|back| (back, lists))).await?;
        Ok(if first_loaded { back } else { (back.1, back.0) })
    }
}

impl LoadedCorpus {
    fn read(side: &Corpus, range: Range<usize>, per_query: usize) -> Result<Blocks, Error> {
        in_parallel(range, BLOCK_SENTENCES, parallelism(), |part| {
            let block = block(side, part)?;
            let nearest = Nearest::new(block.len(), per_query)?;
            Ok((block, Mutex::new(nearest)))
        })
    }

    /// Compares some sentences of the other corpus with all sentences of this one.
    fn compare(&self, other: &Corpus, range: Range<usize>) -> Result<(Block, Nearest), Error> {
        // Each thread begins at a different block, so threads rarely wait for the same one.
        let offset = range.start / BLOCK_SENTENCES % self.blocks.len().max(1) * self.blocks.len() / parallelism().max(1);
        let block = block(other, range)?;
        let mut nearest = Nearest::new(block.len(), self.per_query)?;
        let same_passage = |loaded: u32, read: u32| {
            let position = other.first_position(read) as usize;
            self.side.is_same_passage(self.side.first_position(loaded), other, position)
        };
        let overlap = self.side.shares_collection_with(other);
        let mut comparison = Comparison::new(&block)?;
        for at in 0..self.blocks.len() {
            let (loaded, loaded_nearest) = &self.blocks[(at + offset) % self.blocks.len()];
            let skip = |read, loaded| self.side.is_excluded(loaded, other, read) || (overlap && same_passage(loaded, read));
            comparison.compare_with(&mut nearest, (loaded, &mut *loaded_nearest.lock()), skip)?;
        }
        Ok((block, nearest))
    }

    fn lists(&self, others: usize) -> Result<NeighborLists, Error> {
        let mut lists = NeighborLists::new(self.side.sentences(), others, self.per_query)?;
        for (block, nearest) in &self.blocks {
            store_nearest(&mut lists, block, &nearest.lock())?;
        }
        Ok(lists)
    }
}

fn steps(sentences: usize) -> impl Iterator<Item = Range<usize>> {
    let step = BLOCK_SENTENCES * BLOCKS_PER_CORE * parallelism();
    (0..sentences).step_by(step).map(move |begin| begin..sentences.min(begin + step))
}

fn block(side: &Corpus, range: Range<usize>) -> Result<Block, Error> {
    let embeddings = side.embeddings(range)?;
    let rows = embeddings.iter().map(|(number, embedding)| (*number, embedding.as_slice()));
    Ok(Block::new(side.dimension(), rows)?)
}

fn store_nearest(lists: &mut NeighborLists, block: &Block, nearest: &Nearest) -> Result<(), Error> {
    for (position, number) in block.numbers().iter().enumerate() {
        lists.put(*number, nearest.of(position))?;
    }
    Ok(())
}
