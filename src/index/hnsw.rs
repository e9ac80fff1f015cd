//! The index of a collection: a graph, the near-duplicates next to it, and the locks that usearch expects from its caller.
//!
//! usearch lets `add` and `search` run concurrently, each in one of a fixed number of thread contexts (`Permits`). Nothing else
//! may run at the same time: not growing, not renaming, and not reusing the node of a key that usearch removed itself (it
//! overwrites the vector in place). These operations take the graph's lock exclusively. Plain adding and searching share it.
//! Comparing with all nodes is not safe during an add, either, because it could read a node's slot before it is filled: it makes
//! changes wait.

mod adding;
mod among;
mod compaction;
mod reach;
mod scanning;

pub use among::Compared;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use roaring::RoaringTreemap;

use super::engine::{Engine, REMOVED_KEYS_START, Scored, check_head};
use super::nearest::Nearest;
use super::permits::Permits;
use super::scan::{Among, Scan};
use super::{IndexError, IndexParameters, Neighbor};
use crate::domain::{Embedding, Metric, PassageId};
use crate::index::near_duplicates::{GAP, NearDuplicates, Removal};
use crate::parallel::parallelism;

/// An index with at most this many nodes is searched by comparing with all of them, which is as fast as searching the graph and
/// misses nothing.
const EXACT_SIZE_MAX: usize = 1_000;

/// A search for at least this share of all passages also compares with all of them: the graph search would take longer.
const EXACT_FRACTION: usize = 8;

/// Number of candidates in the search for a near-duplicate before each add. With eight, all of 5,000 clustered vectors found
/// themselves (4,724 with one), and adding takes a tenth longer.
const NEAR_EF: usize = 8;

/// The possible rounding error of a node's score, to bound the scores of its near-duplicates.
const SLACK: f32 = 0.01;

/// Number of nodes that an empty index has room for. The room doubles when it is used up.
const CAPACITY_MIN: usize = 64;

/// Number of locks over keys. They keep two threads that add the same passage from creating two nodes.
const KEY_LOCKS: usize = 64;

/// An HNSW index. Searching and adding take `&self` and may run concurrently.
///
/// Locks are taken in the order of the fields; within the graph, the near-duplicates' lock last.
pub struct Index {
    /// Also held while the graph is rebuilt: no check may run during that.
    check_progress: Mutex<CheckProgress>,
    keys: [Mutex<()>; KEY_LOCKS],
    /// Taken shared by changes to the graph and exclusively to save it. Searches continue in the meantime.
    changes: RwLock<()>,
    permits: Permits,
    graph: RwLock<Graph>,
    parameters: IndexParameters,
    /// Number of nodes added since `check` last followed the links. Each may have replaced the last link to another node.
    added: AtomicU64,
    /// Number of nodes that `check` still has to search for.
    unchecked: AtomicU64,
    /// The rows of all passages, once a search has needed them or `prepare_scan` was called.
    scan: RwLock<Option<Scan>>,
}

/// How far `check` has come in its round of searches.
#[derive(Debug, Default)]
struct CheckProgress {
    /// The nodes that links led to when they were last followed.
    reached: RoaringTreemap,
    /// How many of them have been searched for.
    checked: u64,
}

struct Graph {
    engine: Engine,
    /// The file that the engine only reads, until the first change.
    viewed: Option<PathBuf>,
    /// Number of nodes in use or promised to a running `add`, including removed ones. At most the engine's capacity.
    nodes: AtomicUsize,
    /// Number of nodes that an earlier version of the program removed. usearch gives their slots to the next added nodes. Only
    /// changes under the exclusive lock. `compact` sets it to 0.
    free: usize,
    near_duplicates: RwLock<NearDuplicates>,
    /// Keys whose nodes changed while `compact` rebuilds the graph.
    moved: Mutex<Option<HashSet<u64>>>,
}

impl Index {
    pub fn create(parameters: &IndexParameters) -> Result<Self, IndexError> {
        let graph = Graph {
            engine: Engine::create(parameters)?,
            viewed: None,
            nodes: AtomicUsize::new(0),
            free: 0,
            near_duplicates: RwLock::new(NearDuplicates::new(parameters.dimension)),
            moved: Mutex::new(None),
        };
        let permits = Permits::new(contexts());
        graph.engine.reserve(CAPACITY_MIN, permits.total)?;
        Ok(Self::from_graph(graph, permits, parameters))
    }

    /// Removes a passage. Returns whether it existed.
    pub fn remove(&self, passage: PassageId) -> Result<bool, IndexError> {
        let _change = self.changes.read();
        self.make_writable()?;
        let removed = self.graph.write().remove(passage)?;
        self.update_scan(passage, None);
        Ok(removed)
    }

    /// Returns up to `limit` neighbors, nearest first. In a small index or for a large limit they are exactly the nearest,
    /// otherwise very likely.
    pub fn search(&self, query: &Embedding, limit: usize) -> Result<Vec<Neighbor>, IndexError> {
        self.search_with_ef(query, limit, self.parameters.hnsw.ef_search)
    }

    /// Searches with this many candidates instead of the index's own `ef_search`. More candidates find more, but take longer.
    pub fn search_with_ef(&self, query: &Embedding, limit: usize, ef: usize) -> Result<Vec<Neighbor>, IndexError> {
        let _span = tracing::info_span!("index_search", limit).entered();
        self.check_dimension(query)?;
        let permit = self.permits.acquire();
        let graph = self.graph.read();
        let (size, wanted) = (graph.len(), limit.min(graph.len()));
        if wanted == 0 {
            return Ok(Vec::new());
        }
        if graph.engine.size() <= EXACT_SIZE_MAX {
            // Nothing is added in the meantime, see `try_add_shared`.
            return graph.search_all(self.metric_of(query), wanted);
        }
        if wanted >= size / EXACT_FRACTION {
            drop(graph);
            drop(permit);
            return self.search_all(query, wanted);
        }
        let nodes = graph.engine.search(query, wanted.max(ef))?;
        Ok(graph.passages(nodes, self.metric_of(query), wanted, |_| true))
    }

    /// Returns up to `limit` neighbors, nearest first, by comparing with all passages. Changes and other such searches wait
    /// in the meantime, graph searches do not.
    pub fn search_all(&self, query: &Embedding, limit: usize) -> Result<Vec<Neighbor>, IndexError> {
        let _span = tracing::info_span!("index_search", limit).entered();
        self.check_dimension(query)?;
        let _no_changes = self.changes.write();
        let _permit = self.permits.acquire();
        let graph = self.graph.read();
        let wanted = limit.min(graph.len());
        if wanted == 0 { Ok(Vec::new()) } else { graph.search_all(self.metric_of(query), wanted) }
    }

    pub fn len(&self) -> usize {
        self.graph.read().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn parameters(&self) -> &IndexParameters {
        &self.parameters
    }

    /// Whether it is still mapped from its file, because nothing has changed since.
    #[cfg(test)]
    pub(super) fn is_viewed(&self) -> bool {
        self.graph.read().viewed.is_some()
    }

    /// Writes the graph to one path and the near-duplicates to another. Returns the number of passages in both, and the
    /// bound of the graph's keys if it is known. Changes wait in the meantime, searches do not.
    pub(super) fn write_to(&self, path: &Path, near_duplicates_path: &Path) -> Result<(usize, Option<u64>), IndexError> {
        let _no_changes = self.changes.write();
        let graph = self.graph.read();
        graph.engine.save(path)?;
        // usearch ignores the result of closing the file, which is where a full disk may show.
        let got = std::fs::metadata(path).map_err(|source| IndexError::File { path: path.to_owned(), source })?.len();
        let expected = graph.engine.saved_bytes();
        if got != expected {
            return Err(IndexError::Torn { path: path.to_owned(), expected, got });
        }
        let write_near_duplicates = || {
            let mut file = std::io::BufWriter::new(std::fs::File::create(near_duplicates_path)?);
            graph.near_duplicates.read().write_to(&mut file)?;
            std::io::Write::flush(&mut file)
        };
        write_near_duplicates().map_err(|source| IndexError::File { path: near_duplicates_path.to_owned(), source })?;
        Ok((graph.len(), Some(graph.engine.key_bound()).filter(|bound| *bound < u64::MAX)))
    }

    /// Reads the output of `write_to`. With `view`, the graph stays in its file until the first change. The bytes must have
    /// been verified, because usearch trusts them.
    pub(super) fn read_from(
        (path, near_duplicates_path): (&Path, &Path),
        parameters: &IndexParameters,
        key_bound: Option<u64>,
        view: bool,
    ) -> Result<Self, IndexError> {
        let head = check_head(path, parameters)?;
        let key_bound = key_bound.unwrap_or(u64::MAX);
        let (present, free) = (head.count_present as usize, head.count_deleted as usize);
        let read_near_duplicates = || {
            let mut file = std::io::BufReader::new(std::fs::File::open(near_duplicates_path)?);
            NearDuplicates::read_from(&mut file, parameters.dimension)
        };
        let near_duplicates =
            read_near_duplicates().map_err(|source| IndexError::File { path: near_duplicates_path.to_owned(), source })?;
        let graph = Graph {
            engine: Engine::create(parameters)?,
            viewed: view.then(|| path.to_owned()),
            nodes: AtomicUsize::new(present + free),
            free,
            near_duplicates: RwLock::new(near_duplicates),
            moved: Mutex::new(None),
        };
        let permits = Permits::new(contexts());
        if view {
            // Creates the thread contexts first, because a viewed graph cannot be given more.
            graph.engine.reserve(0, permits.total)?;
            graph.engine.view(path, key_bound)?;
        } else {
            graph.engine.load(path, key_bound)?;
            graph.engine.reserve(CAPACITY_MIN.max(present + free), permits.total)?;
        }
        Ok(Self::from_graph(graph, permits, parameters))
    }

    fn from_graph(graph: Graph, permits: Permits, parameters: &IndexParameters) -> Self {
        Self {
            check_progress: Mutex::default(),
            keys: std::array::from_fn(|_| Mutex::new(())),
            changes: RwLock::new(()),
            permits,
            graph: RwLock::new(graph),
            parameters: *parameters,
            added: AtomicU64::new(0),
            unchecked: AtomicU64::new(0),
            scan: RwLock::new(None),
        }
    }

    fn metric_of<'q>(&self, query: &'q Embedding) -> (Metric, &'q Embedding) {
        (self.parameters.metric, query)
    }

    /// Loads a viewed graph into memory before its first change. Its file is still unchanged, because only a save replaces it,
    /// and there is no save before a change.
    fn make_writable(&self) -> Result<(), IndexError> {
        if self.graph.read().viewed.is_none() {
            return Ok(());
        }
        let mut graph = self.graph.write();
        if let Some(path) = &graph.viewed {
            let engine = Engine::create(&self.parameters)?;
            engine.load(path, graph.engine.key_bound())?;
            engine.reserve(CAPACITY_MIN.max(graph.nodes.load(Ordering::Relaxed)), self.permits.total)?;
            graph.engine = engine;
            graph.viewed = None;
        }
        Ok(())
    }

    fn check_dimension(&self, embedding: &Embedding) -> Result<(), IndexError> {
        let (expected, got) = (self.parameters.dimension, embedding.dimension());
        if expected == got { Ok(()) } else { Err(IndexError::Dimension { expected, got }) }
    }
}

impl Graph {
    fn len(&self) -> usize {
        self.engine.size() + self.near_duplicates.read().beyond_nodes()
    }

    fn contains(&self, passage: PassageId) -> bool {
        self.engine.contains(passage.0) || self.near_duplicates.read().contains(passage.0)
    }

    fn remove(&mut self, passage: PassageId) -> Result<bool, IndexError> {
        match self.near_duplicates_mut().detach(passage.0) {
            Removal::Done => Ok(true),
            Removal::Rename { from, to } => {
                self.record_moved(from);
                self.record_moved(to);
                self.engine.rename(from, to).map(|()| true)
            }
            Removal::Node => {
                self.record_moved(passage.0);
                self.engine.mark_removed(passage.0)
            }
        }
    }

    /// Adds a node and makes room for it.
    fn add_node(&mut self, passage: PassageId, embedding: &Embedding, threads: usize) -> Result<(), IndexError> {
        let reuse = self.free > 0;
        if !reuse && *self.nodes.get_mut() >= self.engine.capacity() {
            self.engine.reserve(self.engine.capacity() * 2, threads)?;
        }
        self.record_moved(passage.0);
        self.engine.add(passage.0, embedding)?;
        if reuse {
            self.free -= 1;
        } else {
            *self.nodes.get_mut() += 1;
        }
        Ok(())
    }

    fn near_duplicates_mut(&mut self) -> &mut NearDuplicates {
        self.near_duplicates.get_mut()
    }

    /// Makes a running compaction revisit a node.
    fn record_moved(&self, key: u64) {
        if let Some(moved) = self.moved.lock().as_mut() {
            moved.insert(key);
        }
    }

    /// Returns the node that an embedding nearly duplicates, and their distance.
    fn find_host(&self, embedding: &Embedding) -> Result<Option<(u64, f32)>, IndexError> {
        if self.engine.size() == 0 {
            return Ok(None);
        }
        let bound = GAP * embedding.norm();
        for candidate in self.engine.search(embedding, NEAR_EF)? {
            let gap = self.engine.distance_to(embedding, candidate)?;
            if gap <= bound {
                return Ok(Some((candidate.0, gap)));
            }
        }
        Ok(None)
    }

    /// Compares with all nodes. Nothing may be added during the call.
    fn search_all(&self, query: (Metric, &Embedding), limit: usize) -> Result<Vec<Neighbor>, IndexError> {
        // A near-duplicate may be among the nearest even if its node is not.
        let size = self.engine.size();
        let count = if self.near_duplicates.read().is_empty() { limit.min(size) } else { size };
        let nodes = self.engine.search_exact(query.1, count)?;
        Ok(self.passages(nodes, query, limit, |_| true))
    }

    /// Returns the nearest passages that the nodes represent.
    fn passages(
        &self,
        nodes: Vec<Scored>,
        query: (Metric, &Embedding),
        limit: usize,
        accept: impl Fn(u64) -> bool + Copy,
    ) -> Vec<Neighbor> {
        let mut nearest = Nearest::new(limit);
        let near_duplicates = self.near_duplicates.read();
        let slack = if self.engine.is_coarse() { f32::INFINITY } else { SLACK };
        for node in nodes {
            near_duplicates.offer(node, query, slack, accept, &mut nearest);
        }
        nearest.into_sorted()
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("parameters", &self.parameters).field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Returns the number of thread contexts: two per core. With one per core, most concurrent searches would have to wait for a
/// free context.
fn contexts() -> usize {
    2 * parallelism()
}

#[cfg(test)]
mod tests;
