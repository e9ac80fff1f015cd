//! usearch behind a small type: cosine similarity, values stored as f16, locks where usearch asks its caller for them.
//!
//! usearch lets `add` and `search` run side by side, each in one of a fixed number of thread contexts, and fails when none is
//! free; `Permits` makes the caller wait instead. It forbids everything else beside them: growing, removing, and reusing
//! the node of a removed key (whose vector it overwrites in place). Comparing with all nodes is not safe beside adding either: it
//! would meet a node's slot before it is filled. These take the graph's lock exclusively; plain adding and searching share it.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use usearch::{IndexOptions, MetricKind, ScalarKind};

use super::IndexError;
use super::exact::nearer_first;
use crate::domain::{Embedding, PassageId};

/// The name of the stored values' type, for `index.json`. Half the memory of f32; its rounding changes scores in the fourth digit,
/// which costs a thousandth of the recall@10 in `tests/recall.rs` (0.999 against 1.000).
pub(super) const QUANTIZATION: &str = "f16";

/// An index of at most so many passages is searched by comparing with all of them, which is as fast as walking the graph. A graph
/// promises no more than a likely answer: among passages that are much alike, one can lose all links to it, and then no search
/// that walks the graph finds it.
const EXACT_SIZE_MAX: usize = 1_000;

/// A search for at least this part of all passages compares with all of them too: the walk would take longer.
const EXACT_FRACTION: usize = 8;

/// Nodes that an empty index has room for; it doubles when they are used up.
const CAPACITY_MIN: usize = 64;

/// Locks over keys, so that two threads adding the same passage do not make two nodes of it.
const KEY_LOCKS: usize = 64;

/// Parameters of the HNSW graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexParameters {
    /// Values per embedding.
    pub dimension: usize,
    /// Neighbors per node (M).
    pub connectivity: usize,
    /// Candidates while adding (ef construction).
    pub expansion_add: usize,
    /// Candidates while searching (ef).
    pub expansion_search: usize,
}

/// A neighbor of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbor {
    /// The passage.
    pub passage: PassageId,
    /// Cosine similarity, -1 to 1.
    pub score: f32,
}

/// An HNSW index. Searching and adding take `&self` and may run side by side.
///
/// Locks are taken in the order of the fields.
pub struct Index {
    keys: [Mutex<()>; KEY_LOCKS],
    /// Shared by what changes the graph, exclusive for saving it: searches go on meanwhile.
    changes: RwLock<()>,
    permits: Permits,
    graph: RwLock<Graph>,
    parameters: IndexParameters,
}

struct Graph {
    engine: usearch::Index,
    /// Nodes in use or promised to a running `add`; those of removed keys count. At most the engine's capacity.
    nodes: AtomicUsize,
    /// Nodes of removed keys: the next `add` reuses one. Changes only under the exclusive lock.
    free: usize,
}

impl Index {
    /// Makes an empty index.
    pub fn create(parameters: &IndexParameters) -> Result<Self, IndexError> {
        let engine = usearch::Index::new(&options(parameters)).map_err(|source| failed("create an index", source))?;
        Self::over(engine, parameters, 0, 0)
    }

    /// Adds a passage; replaces it when it is there.
    pub fn add(&self, passage: PassageId, embedding: &Embedding) -> Result<(), IndexError> {
        self.check_dimension(embedding)?;
        // usearch marks the node of a removed key with this number.
        debug_assert_ne!(passage.0, u64::MAX);
        let _key = lock(&self.keys[(passage.0 % KEY_LOCKS as u64) as usize]);
        let _change = read(&self.changes);
        if self.add_shared(passage, embedding)? {
            return Ok(());
        }
        self.add_exclusive(passage, embedding)
    }

    /// Removes a passage; says whether it was there.
    pub fn remove(&self, passage: PassageId) -> Result<bool, IndexError> {
        let _change = read(&self.changes);
        let mut graph = write(&self.graph);
        graph.remove(passage)
    }

    /// Gives up to `limit` neighbors, nearest first: exactly the nearest of a small index or for a large limit, else very likely.
    pub fn search(&self, query: &Embedding, limit: usize) -> Result<Vec<Neighbor>, IndexError> {
        self.check_dimension(query)?;
        let _permit = self.permits.take();
        let graph = read(&self.graph);
        let size = graph.engine.size();
        let wanted = limit.min(size);
        let matches = if wanted == 0 {
            return Ok(Vec::new());
        } else if size <= EXACT_SIZE_MAX {
            // Nothing is added beside this: see `add_shared`.
            graph.engine.exact_search(query.as_slice(), wanted)
        } else if wanted >= size / EXACT_FRACTION {
            drop(graph);
            let graph = write(&self.graph);
            graph.engine.exact_search(query.as_slice(), wanted)
        } else {
            graph.engine.search(query.as_slice(), wanted)
        };
        let matches = matches.map_err(|source| failed("search", source))?;
        let pairs = matches.keys.into_iter().zip(matches.distances);
        let mut found: Vec<Neighbor> =
            pairs.map(|(key, distance)| Neighbor { passage: PassageId(key), score: (1.0 - distance).clamp(-1.0, 1.0) }).collect();
        found.sort_unstable_by(nearer_first);
        Ok(found)
    }

    /// How many passages it holds.
    pub fn len(&self) -> usize {
        read(&self.graph).engine.size()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it was made with.
    pub fn parameters(&self) -> &IndexParameters {
        &self.parameters
    }

    /// Writes the graph to `path` and gives the number of passages in it. Changes wait meanwhile, searches do not.
    pub(super) fn write_to(&self, path: &Path) -> Result<usize, IndexError> {
        let _no_changes = write(&self.changes);
        let graph = read(&self.graph);
        graph.engine.save(utf8(path)?).map_err(|source| failed("save the index", source))?;
        // usearch does not look at the outcome of closing the file, which is where a full disk may show.
        let got = std::fs::metadata(path).map_err(|source| IndexError::File { path: path.to_owned(), source })?.len();
        let expected = graph.engine.serialized_length() as u64;
        if got != expected {
            return Err(IndexError::Torn { path: path.to_owned(), expected, got });
        }
        Ok(graph.engine.size())
    }

    /// Reads what `write_to` wrote. The bytes must be checked before: usearch trusts them.
    pub(super) fn read_from(path: &Path, parameters: &IndexParameters) -> Result<Self, IndexError> {
        let load = |source| failed("load the saved index", source);
        let path = utf8(path)?;
        let head = usearch::Index::metadata(path).map_err(load)?;
        let refuse = |what, expected: String, got: String| Err(IndexError::Parameters { what, expected, got });
        if head.dimensions != parameters.dimension as u64 {
            return refuse("dimension", parameters.dimension.to_string(), head.dimensions.to_string());
        }
        if head.quantization != ScalarKind::F16 || head.metric != MetricKind::Cos {
            return refuse("values", format!("{QUANTIZATION} under cosine"), "others".to_owned());
        }
        let engine = usearch::Index::new(&options(parameters)).map_err(load)?;
        engine.load(path).map_err(load)?;
        let free = head.count_deleted as usize;
        Self::over(engine, parameters, head.count_present as usize + free, free)
    }

    fn over(engine: usearch::Index, parameters: &IndexParameters, nodes: usize, free: usize) -> Result<Self, IndexError> {
        let graph = Graph { engine, nodes: AtomicUsize::new(nodes), free };
        let permits = Permits::new(std::thread::available_parallelism().map_or(1, usize::from));
        graph.reserve(CAPACITY_MIN.max(nodes), permits.total)?;
        Ok(Self {
            keys: std::array::from_fn(|_| Mutex::new(())),
            changes: RwLock::new(()),
            permits,
            graph: RwLock::new(graph),
            parameters: parameters.clone(),
        })
    }

    /// Adds beside other adds and searches; gives false when this one needs the graph for itself.
    fn add_shared(&self, passage: PassageId, embedding: &Embedding) -> Result<bool, IndexError> {
        let _permit = self.permits.take();
        let graph = read(&self.graph);
        // A small index is searched node by node, and must not grow meanwhile. It cannot shrink below the bound while this holds
        // the lock, so no such search begins beside the adding below.
        if graph.engine.size() <= EXACT_SIZE_MAX || graph.free > 0 || graph.engine.contains(passage.0) {
            return Ok(false);
        }
        let capacity = graph.engine.capacity();
        let promise = |nodes: usize| (nodes > 0 && nodes < capacity).then_some(nodes + 1);
        if graph.nodes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, promise).is_err() {
            return Ok(false);
        }
        graph.engine.add(passage.0, embedding.as_slice()).map_err(|source| failed("add", source))?;
        Ok(true)
    }

    fn add_exclusive(&self, passage: PassageId, embedding: &Embedding) -> Result<(), IndexError> {
        let mut graph = write(&self.graph);
        graph.remove(passage)?;
        let reuse = graph.free > 0;
        if !reuse && *graph.nodes.get_mut() >= graph.engine.capacity() {
            graph.reserve(graph.engine.capacity() * 2, self.permits.total)?;
        }
        graph.engine.add(passage.0, embedding.as_slice()).map_err(|source| failed("add", source))?;
        if reuse {
            graph.free -= 1;
        } else {
            *graph.nodes.get_mut() += 1;
        }
        Ok(())
    }

    fn check_dimension(&self, embedding: &Embedding) -> Result<(), IndexError> {
        let (expected, got) = (self.parameters.dimension, embedding.dimension());
        if expected == got { Ok(()) } else { Err(IndexError::Dimension { expected, got }) }
    }
}

impl Graph {
    fn remove(&mut self, passage: PassageId) -> Result<bool, IndexError> {
        let removed = self.engine.remove(passage.0).map_err(|source| failed("remove", source))?;
        self.free += removed;
        Ok(removed > 0)
    }

    /// Makes room. Nothing else may use the engine meanwhile.
    fn reserve(&self, nodes: usize, threads: usize) -> Result<(), IndexError> {
        self.engine.reserve_capacity_and_threads(nodes, threads).map_err(|source| failed("reserve memory", source))
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("parameters", &self.parameters).field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Counts usearch's thread contexts: at most one caller in each. Who waits for the exclusive lock needs none, for then all are free.
struct Permits {
    total: usize,
    left: Mutex<usize>,
    given_back: Condvar,
}

struct Permit<'a>(&'a Permits);

impl Permits {
    fn new(total: usize) -> Self {
        Self { total, left: Mutex::new(total), given_back: Condvar::new() }
    }

    fn take(&self) -> Permit<'_> {
        let mut left = lock(&self.left);
        while *left == 0 {
            left = self.given_back.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        *left -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *lock(&self.0.left) += 1;
        self.0.given_back.notify_one();
    }
}

fn options(parameters: &IndexParameters) -> IndexOptions {
    IndexOptions {
        dimensions: parameters.dimension,
        metric: MetricKind::Cos,
        quantization: ScalarKind::F16,
        connectivity: parameters.connectivity,
        expansion_add: parameters.expansion_add,
        expansion_search: parameters.expansion_search,
        multi: false,
    }
}

fn failed(action: &'static str, source: impl std::error::Error + Send + Sync + 'static) -> IndexError {
    IndexError::Engine { action, source: Box::new(source) }
}

fn utf8(path: &Path) -> Result<&str, IndexError> {
    path.to_str().ok_or_else(|| IndexError::Path { path: path.to_owned() })
}

// No lock here guards data that a panic could leave half-changed: usearch keeps its own state, and the counts change last.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMETERS: IndexParameters =
        IndexParameters { dimension: 4, connectivity: 16, expansion_add: 64, expansion_search: 64 };

    /// A direction of its own for each number, spread over the quarter circle.
    fn direction(number: u64) -> Embedding {
        let angle = number as f32 * 0.001;
        Embedding::normalized(vec![angle.cos(), angle.sin(), 0.0, 0.0]).unwrap()
    }

    fn filled(keys: std::ops::Range<u64>) -> Index {
        let index = Index::create(&PARAMETERS).unwrap();
        for key in keys {
            index.add(PassageId(key), &direction(key)).unwrap();
        }
        index
    }

    fn nearest(index: &Index, query: u64, limit: usize) -> Vec<u64> {
        index.search(&direction(query), limit).unwrap().iter().map(|neighbor| neighbor.passage.0).collect()
    }

    #[test]
    fn an_empty_index_finds_nothing() {
        let index = Index::create(&PARAMETERS).unwrap();
        assert!(index.is_empty());
        assert!(nearest(&index, 1, 10).is_empty());
    }

    #[test]
    fn the_score_is_the_cosine() {
        let index = filled(0..1);
        let query = Embedding::normalized(vec![1.0, 1.0, 0.0, 0.0]).unwrap();
        let found = index.search(&query, 1).unwrap();
        assert!((found[0].score - 0.5f32.sqrt()).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn a_limit_of_none_and_a_limit_beyond_the_size_are_both_answered() {
        let index = filled(0..3);
        assert!(nearest(&index, 0, 0).is_empty());
        assert_eq!(nearest(&index, 0, 1_000_000), [0, 1, 2]);
    }

    /// Passages that are much alike, and some that are less so, added one by one to what was saved and loaded in between.
    #[test]
    fn no_passage_of_a_small_index_is_lost_however_alike_they_are() {
        let mut state = 5u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        let parameters = IndexParameters { dimension: 64, ..PARAMETERS };
        let index = Index::create(&parameters).unwrap();
        let embeddings: Vec<_> = (0..900)
            .map(|n| {
                let spread = if n % 9 == 0 { 0.5 } else { 0.05 };
                Embedding::normalized((0..64).map(|_| 0.3 + spread * random()).collect()).unwrap()
            })
            .collect();
        for (key, embedding) in embeddings.iter().enumerate() {
            index.add(PassageId(key as u64), embedding).unwrap();
        }
        let lost = |limit: usize| {
            let found = |key: usize| {
                index.search(&embeddings[key], limit).unwrap().iter().any(|neighbor| neighbor.passage.0 == key as u64)
            };
            (0..embeddings.len()).filter(|&key| !found(key)).count()
        };
        assert_eq!((lost(3), lost(900)), (0, 0));
    }

    #[test]
    fn it_grows_beyond_its_first_capacity() {
        let index = filled(0..1_000);
        assert_eq!(index.len(), 1_000);
        assert_eq!(nearest(&index, 700, 1), [700]);
    }

    #[test]
    fn adding_a_key_again_replaces_it() {
        let index = filled(0..100);
        index.add(PassageId(3), &direction(1_500)).unwrap();
        assert_eq!(index.len(), 100);
        assert_eq!(nearest(&index, 1_500, 1), [3]);
        assert_ne!(nearest(&index, 3, 1), [3]);
    }

    #[test]
    fn a_removed_key_is_not_found_and_can_come_back() {
        let index = filled(0..100);
        assert!(index.remove(PassageId(50)).unwrap());
        assert!(!index.remove(PassageId(50)).unwrap());
        assert!(!nearest(&index, 50, 100).contains(&50));
        assert_eq!(index.len(), 99);
        index.add(PassageId(50), &direction(50)).unwrap();
        assert_eq!(nearest(&index, 50, 1), [50]);
    }

    #[test]
    fn removing_everything_leaves_an_index_that_works() {
        let index = filled(0..10);
        for key in 0..10 {
            assert!(index.remove(PassageId(key)).unwrap());
        }
        assert!(nearest(&index, 5, 10).is_empty());
        index.add(PassageId(77), &direction(77)).unwrap();
        assert_eq!(nearest(&index, 5, 10), [77]);
    }

    #[test]
    fn another_dimension_is_refused() {
        let index = filled(0..2);
        let short = Embedding::normalized(vec![1.0, 2.0]).unwrap();
        assert!(matches!(index.add(PassageId(9), &short), Err(IndexError::Dimension { expected: 4, got: 2 })));
        assert!(matches!(index.search(&short, 1), Err(IndexError::Dimension { expected: 4, got: 2 })));
    }

    #[test]
    fn more_threads_than_contexts_add_replace_remove_and_search_at_once() {
        let index = Index::create(&PARAMETERS).unwrap();
        let threads = 8 + 2 * std::thread::available_parallelism().map_or(1, usize::from) as u64;
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let index = &index;
                scope.spawn(move || {
                    for key in (0..200).map(|n| thread * 1_000 + n) {
                        index.add(PassageId(key), &direction(key)).unwrap();
                        if key % 5 == 0 {
                            assert!(index.remove(PassageId(key)).unwrap());
                        } else if key % 5 == 1 {
                            index.add(PassageId(key), &direction(key + 1)).unwrap();
                        }
                        index.search(&direction(key), 10).unwrap();
                    }
                });
            }
        });
        assert_eq!(index.len() as u64, threads * 160);
    }

    #[test]
    fn threads_that_add_the_same_key_leave_one_of_it() {
        let index = filled(1_000..1_100);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for key in 0..50 {
                        index.add(PassageId(key), &direction(key)).unwrap();
                    }
                });
            }
        });
        assert_eq!(index.len(), 150);
    }
}
