//! Compaction: rebuilds the graph without its removed nodes, concurrently with searches and changes.
//!
//! The new graph is filled node by node from the old one, which continues to answer searches. Changes in the meantime are
//! recorded and revisited at the end, the last few while further changes wait. Nodes that a search in the new graph does not
//! reach are placed elsewhere before it is used. This needs memory for a second graph, and one core for as long as one thread
//! takes to add all nodes. It starts when there is one removed node for every two others, so it costs at most two added nodes
//! for each replaced one.

use std::collections::HashSet;

use super::reach::{Reachability, search_for_node};
use super::{CAPACITY_MIN, EXACT_SIZE_MAX, Engine, Graph, Index, KEY_LOCKS, NEAR_EF, Ordering};
use crate::domain::{Embedding, PassageId};
use crate::index::IndexError;

/// The graph is rebuilt when there is one removed node for this many others.
const NODES_PER_REMOVED: usize = 2;

/// Maximum number of nodes that are revisited while changes wait. That takes some 10 ms.
const LAST_MOVED_MAX: usize = 64;

/// How many times the new graph catches up before changes have to wait for it.
const ROUNDS_MAX: usize = 8;

impl Index {
    /// Whether there are enough removed nodes for `compact` to be worthwhile.
    pub fn needs_compaction(&self) -> bool {
        let graph = self.graph.read();
        graph.free > 0 || graph.engine.removed_nodes() > EXACT_SIZE_MAX.max(graph.engine.size() / NODES_PER_REMOVED)
    }

    /// Rebuilds the graph without removed nodes. Returns false if `stop` ended it early. `original` returns a passage's
    /// embedding, if there is one. Searches and changes continue in the meantime.
    pub fn compact(
        &self,
        original: &dyn Fn(PassageId) -> Option<Embedding>,
        stop: &dyn Fn() -> bool,
    ) -> Result<bool, IndexError> {
        let _check_progress = self.check_progress.lock();
        {
            let _no_changes = self.changes.write();
            *self.graph.read().moved.lock() = Some(HashSet::new());
        }
        let compacted = self.refill(original, stop);
        if !matches!(compacted, Ok(true)) {
            *self.graph.read().moved.lock() = None;
        }
        compacted
    }

    fn refill(&self, original: &dyn Fn(PassageId) -> Option<Embedding>, stop: &dyn Fn() -> bool) -> Result<bool, IndexError> {
        self.make_writable()?;
        let fresh = Engine::create(&self.parameters)?;
        let reached = self.follow_links(stop)?;
        fresh.reserve(CAPACITY_MIN.max(reached.len() as usize), self.permits.total)?;
        for key in reached.iter().chain(self.unreached_nodes(&reached)?) {
            if stop() {
                return Ok(false);
            }
            self.carry_over(key, &fresh)?;
        }
        let mut lost = Vec::new();
        for key in fresh.keys()? {
            if stop() {
                return Ok(false);
            }
            if search_for_node(&fresh, key, NEAR_EF)?.0 != Reachability::Found {
                lost.push(key);
            }
        }
        for _ in 0..ROUNDS_MAX {
            if self.graph.read().moved.lock().as_ref().is_none_or(|moved| moved.len() <= LAST_MOVED_MAX) {
                break;
            }
            let moved = {
                let _no_changes = self.changes.write();
                self.graph.read().moved.lock().replace(HashSet::new())
            };
            for key in moved.into_iter().flatten() {
                if stop() {
                    return Ok(false);
                }
                self.carry_over(key, &fresh)?;
                lost.push(key);
            }
        }
        let _no_changes = self.changes.write();
        let mut graph = self.graph.write();
        let moved = graph.moved.lock().take();
        for key in moved.into_iter().flatten() {
            graph.carry_over(key, &fresh, self.permits.total)?;
            lost.push(key);
        }
        *graph.nodes.get_mut() = fresh.size() + fresh.removed_nodes();
        (graph.engine, graph.free, graph.viewed) = (fresh, 0, None);
        for key in lost {
            graph.reattach(key, Reachability::Lost, original, (self.parameters.hnsw.ef_search, self.permits.total))?;
        }
        self.added.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    fn carry_over(&self, key: u64, fresh: &Engine) -> Result<(), IndexError> {
        // usearch publishes a key before it has copied the values. The lock of the key excludes a thread that is adding it.
        let _key = self.keys[(key % KEY_LOCKS as u64) as usize].lock();
        self.graph.read().carry_over(key, fresh, self.permits.total)
    }
}

impl Graph {
    /// Copies the state of a node to another graph.
    fn carry_over(&self, key: u64, fresh: &Engine, threads: usize) -> Result<(), IndexError> {
        fresh.mark_removed(key)?;
        let Some(values) = self.engine.stored_values(key)? else { return Ok(()) };
        if fresh.size() + fresh.removed_nodes() >= fresh.capacity() {
            fresh.reserve(fresh.capacity() * 2, threads)?;
        }
        fresh.add_values(key, &values)
    }
}
