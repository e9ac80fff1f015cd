//! One of two sets that are compared: all of its blocks in memory, with the neighbors found so far in the other set, whose blocks
//! several threads compare with it.

use parking_lot::Mutex;

use super::{Block, Comparison, MiningError, Nearest, NeighborLists};

/// The blocks of a set, with the nearest sentences of the other set.
pub struct LoadedSet {
    per_query: usize,
    threads: usize,
    blocks: Vec<(Mutex<Nearest>, Block)>,
}

impl LoadedSet {
    /// Takes all blocks of a set, to find `per_query` (1 to 255) neighbors of each sentence of both sets on this many threads.
    pub fn new(blocks: Vec<Block>, per_query: usize, threads: usize) -> Result<Self, MiningError> {
        let with_nearest = |block: Block| Nearest::new(block.len(), per_query).map(|nearest| (Mutex::new(nearest), block));
        Ok(Self { per_query, threads, blocks: blocks.into_iter().map(with_nearest).collect::<Result<_, _>>()? })
    }

    /// Compares `block`, which is number `number` of the other set, with this one, and returns its nearest sentences here.
    /// Leaves out pairs for which `skip` returns true, given their numbers (in the other set, in this one).
    pub fn compare(&self, number: usize, block: &Block, skip: impl Fn(u32, u32) -> bool) -> Result<Nearest, MiningError> {
        let count = self.blocks.len();
        // Each thread begins at a different block, so threads rarely wait for the same one.
        let offset = number % count.max(1) * count / self.threads.max(1);
        let mut nearest = Nearest::new(block.len(), self.per_query)?;
        let mut comparison = Comparison::new(block)?;
        for step in 0..count {
            let (found, loaded) = &self.blocks[(step + offset) % count];
            comparison.compare_with(&mut nearest, (loaded, &mut found.lock()), &skip)?;
        }
        Ok(nearest)
    }

    /// Returns the neighbors of the sentences of this set, whose numbers are below `sentences`, among the `others` sentences of
    /// the other one.
    pub fn lists(&self, sentences: usize, others: usize) -> Result<NeighborLists, MiningError> {
        let mut lists = NeighborLists::new(sentences, others, self.per_query)?;
        for (nearest, block) in &self.blocks {
            nearest.lock().put_into(&mut lists, block.numbers().iter().copied())?;
        }
        Ok(lists)
    }
}
