//! Adds passages, on all cores if there are many, and makes sure that each can be found afterwards.
//!
//! A vector that usearch adds is not always reachable. A search can meet a node in a higher layer before the node has links in
//! the lowest one. A vector that is added at that moment may link only to this node, and the node drops that link when it forms
//! its own. Also, among many vectors that are close together, a full list of neighbors may take in a new node and drop it
//! immediately. So after adding, a search looks for each new node.

use super::reach::{Reachability, search_for_node};
use super::{EXACT_SIZE_MAX, Index, KEY_LOCKS, NEAR_EF, Ordering};
use crate::domain::{Embedding, PassageId};
use crate::index::IndexError;
use crate::parallel::{in_parallel, parallelism};

/// Minimum number of passages that makes it worthwhile to start another thread.
const PER_THREAD_MIN: usize = 128;

/// Number of passages that a thread takes at a time.
const PER_TURN: usize = 16;

impl Index {
    /// Adds a passage, or replaces an existing one. Afterwards a search for it finds it, unless another thread adds at the same
    /// time. To add on several threads, use `add_all`.
    pub fn add(&self, passage: PassageId, embedding: &Embedding) -> Result<(), IndexError> {
        if self.add_or_attach(passage, embedding)? { self.ensure_reachable(passage, embedding) } else { Ok(()) }
    }

    /// Adds passages like `add`, on all cores if there are many. Afterwards a search for each finds it, unless others add
    /// meanwhile.
    pub fn add_all(&self, embeddings: &[(PassageId, Embedding)]) -> Result<(), IndexError> {
        let put = |(passage, embedding): &(PassageId, Embedding)| self.add_or_attach(*passage, embedding);
        let nodes = filter_in_parallel(embeddings, put)?;
        let ensure_reachable = |index: &usize| {
            let (passage, embedding) = &embeddings[*index];
            self.ensure_reachable(*passage, embedding).map(|()| false)
        };
        filter_in_parallel(&nodes, ensure_reachable).map(drop)
    }

    /// Adds a passage. Returns whether it became a node.
    fn add_or_attach(&self, passage: PassageId, embedding: &Embedding) -> Result<bool, IndexError> {
        self.check_dimension(embedding)?;
        // Keys from `REMOVED_KEYS_START` on belong to removed nodes.
        debug_assert!(passage.0 < super::REMOVED_KEYS_START);
        let _key = self.keys[(passage.0 % KEY_LOCKS as u64) as usize].lock();
        let _change = self.changes.read();
        self.make_writable()?;
        if self.graph.read().contains(passage) {
            self.graph.write().remove(passage)?;
        }
        let put = self.try_add_shared(passage, embedding)?;
        if matches!(put, AddOutcome::NotYet) {
            self.graph.write().add_node(passage, embedding, self.permits.total)?;
        }
        self.update_scan(passage, Some(embedding));
        if matches!(put, AddOutcome::Copy) {
            return Ok(false);
        }
        self.added.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Adds concurrently with other adds and searches, unless this one needs the graph for itself.
    fn try_add_shared(&self, passage: PassageId, embedding: &Embedding) -> Result<AddOutcome, IndexError> {
        let _permit = self.permits.acquire();
        let graph = self.graph.read();
        if let Some((node, gap)) = graph.find_host(embedding)?
            && graph.near_duplicates.write().attach(passage.0, embedding, node, gap)
        {
            return Ok(AddOutcome::Copy);
        }
        // A small index is searched node by node and must not grow during such a search. It cannot shrink below the bound while
        // this holds the lock, so no such search begins during the add below.
        if graph.engine.size() <= EXACT_SIZE_MAX || graph.free > 0 {
            return Ok(AddOutcome::NotYet);
        }
        let capacity = graph.engine.capacity();
        let promise = |nodes: usize| (nodes > 0 && nodes < capacity).then_some(nodes + 1);
        if graph.nodes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, promise).is_err() {
            return Ok(AddOutcome::NotYet);
        }
        graph.record_moved(passage.0);
        graph.engine.add(passage.0, embedding)?;
        Ok(AddOutcome::Node)
    }

    /// Searches for a newly added node, and places it elsewhere if the search does not reach it.
    fn ensure_reachable(&self, passage: PassageId, embedding: &Embedding) -> Result<(), IndexError> {
        let reachability = {
            let _permit = self.permits.acquire();
            let graph = self.graph.read();
            // A search with a single candidate reaches most nodes, and a wider search never reaches less.
            match search_for_node(&graph.engine, passage.0, 1)? {
                (Reachability::Found, _) => return Ok(()),
                _ => search_for_node(&graph.engine, passage.0, NEAR_EF)?.0,
            }
        };
        // Other searches are at least as wide.
        if reachability == Reachability::Lost {
            self.reattach(passage, Reachability::Lost, &|_| Some(embedding.clone()))?;
        }
        Ok(())
    }
}

enum AddOutcome {
    /// It is stored next to the node that it nearly duplicates.
    Copy,
    Node,
    /// It was not added, because that needs the graph exclusively.
    NotYet,
}

/// Calls `work` for each item, on all cores if there are many. Returns the positions of those for which it returned true.
fn filter_in_parallel<T: Sync>(
    items: &[T],
    work: impl Fn(&T) -> Result<bool, IndexError> + Sync,
) -> Result<Vec<usize>, IndexError> {
    let threads = parallelism().min(items.len().div_ceil(PER_THREAD_MIN));
    let positions = in_parallel(0..items.len(), PER_TURN, threads, |part| {
        let mut found = Vec::new();
        for position in part {
            if work(&items[position])? {
                found.push(position);
            }
        }
        Ok(found)
    })?;
    Ok(positions.concat())
}
