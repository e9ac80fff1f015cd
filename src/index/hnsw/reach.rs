//! Checks that searches still find earlier passages. Adding a node may drop the last link to another one, which then no search
//! reaches, however wide.
//!
//! `check` follows all links of the lowest layer, starting where a search arrives (about a microsecond per node). It searches
//! for the nodes that no link leads to. It also searches for other nodes in turn, two for each node added since the last check,
//! because a search can miss a node although links lead to it. A passage that no search reaches is placed next to the nearest
//! reachable node, like a near-duplicate: its own node is removed, and its values are compared whenever a search meets the
//! other node. With embeddings of real texts and with clustered vectors, that happened to one in ten thousand; with 2,000
//! around each center, to three in a thousand.

use roaring::RoaringTreemap;

use super::{CheckProgress, EXACT_SIZE_MAX, Graph, Index, NEAR_EF, Ordering, PassageId, REMOVED_KEYS_START};
use crate::domain::{Embedding, Metric};
use crate::index::IndexError;
use crate::index::engine::{Engine, Scored};

/// Number of nodes whose links are followed while changes wait. That takes some milliseconds.
const FOLLOWED_PER_TURN: usize = 4_096;

/// Number of earlier nodes that are searched for per added node.
const CHECKED_PER_ADDED: u64 = 2;

/// Number of nodes that one `check` searches for in turn.
const CHECKED_PER_CALL: usize = 4_096;

/// Whether a search for its own values finds a node, from worst to best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reachability {
    /// The search misses it, although it should be among the nearest.
    Lost,
    /// Under the dot product, others score higher than the node itself, so the search proves nothing.
    Unclear,
    /// The search reaches it, or it is gone.
    Found,
}

impl Index {
    /// Whether `check` has something to do. A small index is searched by comparing with all nodes, so nothing can be lost.
    pub fn needs_check(&self) -> bool {
        let due = self.added.load(Ordering::Relaxed) > 0 || self.unchecked.load(Ordering::Relaxed) > 0;
        due && self.graph.read().engine.size() > EXACT_SIZE_MAX
    }

    /// Makes `check` start over with all nodes.
    pub(in crate::index) fn recheck_all(&self) {
        self.added.fetch_add(1, Ordering::Relaxed);
        self.unchecked.store(u64::MAX, Ordering::Relaxed);
    }

    /// Whether `check` has seen everything and nothing has changed since.
    pub(in crate::index) fn is_checked(&self) -> bool {
        self.added.load(Ordering::Relaxed) == 0 && self.unchecked.load(Ordering::Relaxed) == 0
    }

    /// Looks for passages that searches no longer find, and makes them reachable. One call follows all links and searches
    /// for some of the nodes, so call it until `needs_check` is false. `original` returns a passage's embedding, if there is
    /// one. `stop` may end it early. Returns how many passages it placed elsewhere. Searches and changes continue in the
    /// meantime.
    pub fn check(&self, original: &dyn Fn(PassageId) -> Option<Embedding>, stop: &dyn Fn() -> bool) -> Result<usize, IndexError> {
        if !self.needs_check() {
            return Ok(0);
        }
        let mut check_progress = self.check_progress.lock();
        let added = self.added.swap(0, Ordering::Relaxed);
        let reattached = self.check_from(&mut check_progress, added, original, stop);
        if reattached.is_err() || stop() {
            self.added.fetch_add(added, Ordering::Relaxed);
        }
        reattached
    }

    fn check_from(
        &self,
        check_progress: &mut CheckProgress,
        added: u64,
        original: &dyn Fn(PassageId) -> Option<Embedding>,
        stop: &dyn Fn() -> bool,
    ) -> Result<usize, IndexError> {
        let mut reattached = 0;
        let mut suspects = Vec::new();
        if added > 0 {
            check_progress.reached = self.follow_links(stop)?;
            let more = self.unchecked.load(Ordering::Relaxed).saturating_add(CHECKED_PER_ADDED * added);
            self.unchecked.store(more.min(check_progress.reached.len()), Ordering::Relaxed);
            suspects = self.unreached_nodes(&check_progress.reached)?;
            let far = match self.parameters.metric {
                // Under the dot product no search can tell whether they are found.
                Metric::Dot => Vec::new(),
                Metric::Cosine | Metric::L2 => self.graph.read().near_duplicates.read().distant_members(),
            };
            for (passage, embedding) in far {
                if stop() {
                    return Ok(reattached);
                }
                reattached +=
                    usize::from(!self.reaches_host(passage, &embedding)? && self.reattach_duplicate(PassageId(passage))?);
            }
        }
        let count = self.unchecked.load(Ordering::Relaxed).min(CHECKED_PER_CALL as u64);
        let begin = check_progress.checked % check_progress.reached.len().max(1);
        let rotated = check_progress.reached.iter().skip(begin as usize).chain(check_progress.reached.iter());
        let suspects = suspects.into_iter().map(|key| (key, Reachability::Unclear));
        for (key, bad) in suspects.chain(rotated.take(count as usize).map(|key| (key, Reachability::Lost))) {
            if stop() {
                return Ok(reattached);
            }
            reattached += usize::from(self.reachability(key)? <= bad && self.reattach(PassageId(key), bad, original)?);
        }
        check_progress.checked += count;
        let left = self.unchecked.fetch_sub(count, Ordering::Relaxed) - count;
        if left == 0 {
            check_progress.reached = RoaringTreemap::new();
        }
        Ok(reattached)
    }

    /// Returns the nodes that links of the lowest layer lead to from where a search arrives. Follows links through removed
    /// nodes.
    pub(super) fn follow_links(&self, stop: &dyn Fn() -> bool) -> Result<RoaringTreemap, IndexError> {
        let mut reached = RoaringTreemap::new();
        let mut removed_nodes: Vec<bool> = Vec::new();
        let mut next: Vec<u64> = {
            let _permit = self.permits.acquire();
            self.graph.read().engine.any_reachable_node()?.into_iter().collect()
        };
        reached.extend(next.iter().copied());
        let mut links = Vec::new();
        while !next.is_empty() && !stop() {
            // Links must not change while they are read.
            let _no_changes = self.changes.write();
            let graph = self.graph.read();
            for _ in 0..FOLLOWED_PER_TURN {
                let Some(key) = next.pop() else { break };
                graph.engine.read_links(key, &mut links);
                removed_nodes.resize(removed_nodes.len().max(graph.engine.removed_nodes()), false);
                next.extend(links.iter().copied().filter(|key| match key.checked_sub(REMOVED_KEYS_START) {
                    None => reached.insert(*key),
                    // Nodes that usearch itself removed have a key beyond all others.
                    Some(removed) => removed_nodes.get_mut(removed as usize).is_some_and(|seen| !std::mem::replace(seen, true)),
                }));
            }
        }
        Ok(reached)
    }

    /// Returns the nodes that are not among `reached`.
    pub(super) fn unreached_nodes(&self, reached: &RoaringTreemap) -> Result<Vec<u64>, IndexError> {
        let _no_changes = self.changes.write();
        let _permit = self.permits.acquire();
        let graph = self.graph.read();
        if graph.engine.size() as u64 <= reached.len() {
            return Ok(Vec::new());
        }
        let mut keys = graph.engine.keys()?;
        keys.retain(|key| !reached.contains(*key));
        Ok(keys)
    }

    fn reachability(&self, key: u64) -> Result<Reachability, IndexError> {
        let _key = self.keys[(key % super::KEY_LOCKS as u64) as usize].lock();
        let _permit = self.permits.acquire();
        let graph = self.graph.read();
        // Tries the narrow search first. The wider search reaches everything that the narrow one reaches.
        match search_for_node(&graph.engine, key, NEAR_EF)? {
            (Reachability::Found, _) => Ok(Reachability::Found),
            _ => Ok(search_for_node(&graph.engine, key, self.parameters.hnsw.ef_search)?.0),
        }
    }

    /// Whether a search for a near-duplicate reaches its node.
    fn reaches_host(&self, passage: u64, embedding: &Embedding) -> Result<bool, IndexError> {
        let _permit = self.permits.acquire();
        let graph = self.graph.read();
        let found = graph.engine.search(embedding, self.parameters.hnsw.ef_search)?;
        Ok(graph.near_duplicates.read().host(passage).is_none_or(|host| is_among(host, &found)))
    }

    /// Places a passage and its near-duplicates where searches reach them, if the passage's standing is no better than `bad`.
    /// Returns whether it did.
    pub(super) fn reattach(
        &self,
        passage: PassageId,
        bad: Reachability,
        original: &dyn Fn(PassageId) -> Option<Embedding>,
    ) -> Result<bool, IndexError> {
        let _change = self.changes.read();
        self.make_writable()?;
        let mut graph = self.graph.write();
        graph.reattach(passage.0, bad, original, (self.parameters.hnsw.ef_search, self.permits.total))
    }

    /// Moves a near-duplicate and its exact duplicates next to the node that is nearest now.
    fn reattach_duplicate(&self, passage: PassageId) -> Result<bool, IndexError> {
        let _change = self.changes.read();
        self.make_writable()?;
        let mut graph = self.graph.write();
        let Some((embedding, passages)) = graph.near_duplicates_mut().member(passage.0) else { return Ok(false) };
        for passage in &passages {
            graph.remove(PassageId(*passage))?;
        }
        graph.place_passages(&embedding, &passages, self.parameters.hnsw.ef_search, self.permits.total)?;
        Ok(true)
    }
}

impl Graph {
    /// Like `Index::reattach`, with this many candidates and threads.
    pub(super) fn reattach(
        &mut self,
        key: u64,
        bad: Reachability,
        original: &dyn Fn(PassageId) -> Option<Embedding>,
        (ef, threads): (usize, usize),
    ) -> Result<bool, IndexError> {
        let (reachability, found) = search_for_node(&self.engine, key, ef)?;
        if reachability > bad || found.is_empty() {
            return Ok(false);
        }
        // Only used if there is no exact embedding, because the node's values may be rounded.
        let rounded = self.engine.values_of(key)?;
        let dissolved = self.near_duplicates_mut().dissolve(key);
        let mut displaced = dissolved.members;
        if !dissolved.orphaned {
            displaced.extend(original(PassageId(key)).or(rounded).map(|embedding| (embedding, vec![key])));
        }
        self.record_moved(key);
        self.engine.mark_removed(key)?;
        for (embedding, passages) in displaced {
            self.place_passages(&embedding, &passages, ef, threads)?;
        }
        Ok(true)
    }

    /// Places passages with the same embedding next to the nearest reachable node that has room, or in a node of their own if no
    /// node has.
    fn place_passages(&mut self, embedding: &Embedding, passages: &[u64], ef: usize, threads: usize) -> Result<(), IndexError> {
        let Some((first, others)) = passages.split_first() else { return Ok(()) };
        let mut home = None;
        for host in self.engine.search(embedding, ef)? {
            let gap = self.engine.distance_to(embedding, host)?;
            if self.near_duplicates_mut().attach(*first, embedding, host.0, gap) {
                home = Some((host.0, gap));
                break;
            }
        }
        let (node, gap) = match home {
            Some(home) => home,
            None => {
                self.add_node(PassageId(*first), embedding, threads)?;
                (*first, 0.0)
            }
        };
        for other in others {
            // There is always room for equal values.
            self.near_duplicates_mut().attach(*other, embedding, node, gap);
        }
        Ok(())
    }
}

/// Searches for a node by its own values. Returns how well the search finds it, and the results, nearest first.
pub(super) fn search_for_node(engine: &Engine, key: u64, ef: usize) -> Result<(Reachability, Vec<Scored>), IndexError> {
    let Some(values) = engine.stored_values(key)? else { return Ok((Reachability::Found, Vec::new())) };
    let found = engine.search_values(&values, ef)?;
    let last = found.last().map_or(f32::NEG_INFINITY, |(_, score)| *score);
    let reachability = if is_among(key, &found) {
        Reachability::Found
    } else if engine.self_score(&values).is_some_and(|self_score| self_score < last) {
        Reachability::Unclear
    } else {
        Reachability::Lost
    };
    Ok((reachability, found))
}

fn is_among(key: u64, found: &[Scored]) -> bool {
    found.iter().any(|(other, _)| *other == key)
}
