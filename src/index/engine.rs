//! One usearch graph. Quantizes values as its parameters say, and converts distances to scores.
//!
//! usearch's own conversion to i8 scales by the length of the vector, which leaves some eight levels for a value in 256
//! dimensions. Under cosine any scale works, so here the largest value becomes 127. usearch stores bits in whole bytes. If the
//! dimension is not a multiple of eight, every vector is padded with zeros, which changes no distance.
//!
//! A node is never really removed. usearch would give its slot to the next vector and clear its links, which may be the only
//! path to some nodes: after ten rounds of replacing 5,000 of 20,000 passages, 0.3 to 0.5% were no longer found. So a removed
//! node keeps its values and links, and other nodes stay reachable through it. It gets a key from `REMOVED_KEYS_START` on, which
//! no search returns. `hnsw::compact` rebuilds the graph when there are many removed nodes.

mod read_buffers;

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use half::slice::HalfFloatSliceExt as _;
use usearch::ffi::Matches;
use usearch::{IndexMetadata, IndexOptions, MetricKind, ScalarKind, b1x8};

use super::{IndexError, IndexParameters};
use crate::domain::embedding::{dot, squared_distance};
use crate::domain::{Embedding, Metric, Quantization};
pub(super) use read_buffers::{ReadBuffers, integers, length};

/// The first key of a removed node. The others follow without gaps, so that a loaded graph needs no list of them.
pub(super) const REMOVED_KEYS_START: u64 = 1 << 63;

/// A graph without any lock. See `hnsw` for what may run concurrently.
pub(super) struct Engine {
    usearch: usearch::Index,
    dimension: usize,
    metric: Metric,
    quantization: Quantization,
    removed_nodes: AtomicU64,
    /// All nodes that represent a passage have lower keys. `u64::MAX` if the bound is not known.
    key_bound: AtomicU64,
}

/// The time that usearch takes to list `n` nodes grows with n²: in that time, about n² / `SQUARE_PER_TEST` numbers can be tested
/// for being a key.
const SQUARE_PER_TEST: u64 = 256;

/// A node with its score.
pub(super) type Scored = (u64, f32);

/// Values in the form that a node stores.
pub(super) enum Values<'a> {
    Floats(Cow<'a, [f32]>),
    Integers(Vec<i8>),
    Bits(Vec<u8>),
}

impl Engine {
    pub(super) fn create(parameters: &IndexParameters) -> Result<Self, IndexError> {
        let options = IndexOptions {
            dimensions: engine_dimension(parameters),
            metric: metric_kind(parameters),
            quantization: scalar_kind(parameters.quantization),
            connectivity: parameters.hnsw.m,
            expansion_add: parameters.hnsw.ef_construction,
            // usearch uses the larger of this and the number of requested nodes, which is the caller's ef.
            expansion_search: 1,
            multi: false,
        };
        let usearch = usearch::Index::new(&options).map_err(|source| failed("create an index", source))?;
        let IndexParameters { dimension, metric, quantization, .. } = *parameters;
        Ok(Self { usearch, dimension, metric, quantization, removed_nodes: AtomicU64::new(0), key_bound: AtomicU64::new(0) })
    }

    /// Loads a saved graph with this bound of its keys into memory. The bytes must have been verified, because usearch trusts
    /// them.
    pub(super) fn load(&self, path: &Path, key_bound: u64) -> Result<(), IndexError> {
        self.usearch.load(utf8(path)?).map_err(|source| failed("load the saved index", source))?;
        self.restore_counts(key_bound);
        Ok(())
    }

    /// Maps a saved graph with this bound of its keys, to search it in its file without changing it.
    pub(super) fn view(&self, path: &Path, key_bound: u64) -> Result<(), IndexError> {
        self.usearch.view(utf8(path)?).map_err(|source| failed("map the saved index", source))?;
        self.restore_counts(key_bound);
        Ok(())
    }

    /// Sets the bound of the keys and the number of removed nodes, by bisection, because their keys have no gaps.
    fn restore_counts(&self, key_bound: u64) {
        self.key_bound.store(key_bound, Ordering::Relaxed);
        let (mut low, mut high) = (0, self.usearch.size() as u64);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.usearch.contains(REMOVED_KEYS_START + middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.removed_nodes.store(low, Ordering::Relaxed);
    }

    pub(super) fn save(&self, path: &Path) -> Result<(), IndexError> {
        self.usearch.save(utf8(path)?).map_err(|source| failed("save the index", source))
    }

    pub(super) fn saved_bytes(&self) -> u64 {
        self.usearch.serialized_length() as u64
    }

    /// Returns the number of nodes that represent a passage, without removed ones.
    pub(super) fn size(&self) -> usize {
        self.usearch.size() - self.removed_nodes()
    }

    pub(super) fn removed_nodes(&self) -> usize {
        self.removed_nodes.load(Ordering::Relaxed) as usize
    }

    /// Returns a number that is greater than the key of any node that represents a passage, or `u64::MAX` if none is known.
    pub(super) fn key_bound(&self) -> u64 {
        self.key_bound.load(Ordering::Relaxed)
    }

    fn raise_key_bound(&self, key: u64) {
        if key < REMOVED_KEYS_START {
            self.key_bound.fetch_max(key + 1, Ordering::Relaxed);
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.usearch.capacity()
    }

    pub(super) fn contains(&self, key: u64) -> bool {
        self.usearch.contains(key)
    }

    /// Makes room for nodes. Nothing else may use the engine during the call.
    pub(super) fn reserve(&self, nodes: usize, threads: usize) -> Result<(), IndexError> {
        self.usearch.reserve_capacity_and_threads(nodes, threads).map_err(|source| failed("reserve memory", source))
    }

    pub(super) fn add(&self, key: u64, embedding: &Embedding) -> Result<(), IndexError> {
        self.add_values(key, &self.quantize(embedding))
    }

    /// Adds values from another graph with the same parameters.
    pub(super) fn add_values(&self, key: u64, values: &Values<'_>) -> Result<(), IndexError> {
        self.raise_key_bound(key);
        let added = match values {
            Values::Floats(values) => self.usearch.add(key, values),
            Values::Integers(values) => self.usearch.add(key, values),
            Values::Bits(values) => self.usearch.add(key, b1x8::from_u8s(values)),
        };
        added.map_err(|source| failed("add", source))
    }

    /// Removes a node from all results. Returns whether it existed. Searches still pass through it. Nothing else may use the
    /// engine during the call.
    pub(super) fn mark_removed(&self, key: u64) -> Result<bool, IndexError> {
        if !self.contains(key) {
            return Ok(false);
        }
        self.rename(key, REMOVED_KEYS_START + self.removed_nodes() as u64)?;
        self.removed_nodes.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    pub(super) fn rename(&self, from: u64, to: u64) -> Result<(), IndexError> {
        self.raise_key_bound(to);
        self.usearch.rename(from, to).map(drop).map_err(|source| failed("rename", source))
    }

    /// Searches the graph with `count` candidates and returns them, nearest first.
    pub(super) fn search(&self, query: &Embedding, count: usize) -> Result<Vec<Scored>, IndexError> {
        self.search_values(&self.quantize(query), count)
    }

    /// Does the same for values in the form that a node stores.
    pub(super) fn search_values(&self, query: &Values<'_>, count: usize) -> Result<Vec<Scored>, IndexError> {
        if self.removed_nodes() > 0 {
            return self.search_accepted(query, count, |key| key < REMOVED_KEYS_START);
        }
        self.scored(match query {
            Values::Floats(values) => self.usearch.search(values, count),
            Values::Integers(values) => self.usearch.search(values, count),
            Values::Bits(values) => self.usearch.search(b1x8::from_u8s(values), count),
        })
    }

    /// Compares with all nodes and returns the nearest `count`, nearest first.
    pub(super) fn search_exact(&self, query: &Embedding, count: usize) -> Result<Vec<Scored>, IndexError> {
        self.compare_all(&self.quantize(query), count)
    }

    fn compare_all(&self, query: &Values<'_>, count: usize) -> Result<Vec<Scored>, IndexError> {
        let among_all = count + self.removed_nodes();
        let mut found = self.scored(match query {
            Values::Floats(values) => self.usearch.exact_search(values, among_all),
            Values::Integers(values) => self.usearch.exact_search(values, among_all),
            Values::Bits(values) => self.usearch.exact_search(b1x8::from_u8s(values), among_all),
        })?;
        found.retain(|(key, _)| *key < REMOVED_KEYS_START);
        found.truncate(count);
        Ok(found)
    }

    /// Searches the graph until `count` candidates are accepted, and returns them, nearest first.
    pub(super) fn search_matching(
        &self,
        query: &Embedding,
        count: usize,
        accept: impl Fn(u64) -> bool,
    ) -> Result<Vec<Scored>, IndexError> {
        self.search_accepted(&self.quantize(query), count, |key| key < REMOVED_KEYS_START && accept(key))
    }

    fn search_accepted(&self, query: &Values<'_>, count: usize, accept: impl Fn(u64) -> bool) -> Result<Vec<Scored>, IndexError> {
        self.scored(match query {
            Values::Floats(values) => self.usearch.filtered_search(values, count, accept),
            Values::Integers(values) => self.usearch.filtered_search(values, count, accept),
            Values::Bits(values) => self.usearch.filtered_search(b1x8::from_u8s(values), count, accept),
        })
    }

    /// Returns any node that a search reaches, if there is one.
    pub(super) fn any_reachable_node(&self) -> Result<Option<u64>, IndexError> {
        let found = self.search_values(&self.arbitrary_query(), 1)?;
        Ok(found.first().map(|(key, _)| *key))
    }

    /// Returns the keys of all nodes that represent a passage, sorted by number or by score. Nothing may be added during the
    /// call.
    pub(super) fn keys(&self) -> Result<Vec<u64>, IndexError> {
        let (bound, size) = (self.key_bound(), self.size() as u64);
        if bound <= size.saturating_mul(size) / SQUARE_PER_TEST {
            return Ok((0..bound).filter(|key| self.contains(*key)).collect());
        }
        // usearch only lists nodes by score, and sorts them by insertion.
        let neighbors = self.compare_all(&self.arbitrary_query(), self.size())?;
        let keys: Vec<u64> = neighbors.into_iter().map(|(key, _)| key).collect();
        self.key_bound.store(keys.iter().max().map_or(0, |key| key + 1), Ordering::Relaxed);
        Ok(keys)
    }

    fn arbitrary_query(&self) -> Values<'static> {
        match self.quantization {
            Quantization::B1 => Values::Bits(vec![0; self.dimension.div_ceil(8)]),
            Quantization::I8 => Values::Integers(vec![1; self.dimension]),
            _ => Values::Floats(Cow::Owned(vec![1.0; self.dimension])),
        }
    }

    /// Writes the keys that a node links to in the lowest layer into `links`, including removed ones. Nothing may be added
    /// during the call.
    pub(super) fn read_links(&self, key: u64, links: &mut Vec<u64>) {
        let mut cursor = self.usearch.neighbors(key, 0);
        links.resize(cursor.total(), 0);
        cursor.drain_into(links);
    }

    /// Returns the values of a node in its stored form, bit for bit.
    pub(super) fn stored_values(&self, key: u64) -> Result<Option<Values<'static>>, IndexError> {
        if !self.contains(key) {
            return Ok(None);
        }
        if self.quantization == Quantization::B1 {
            // usearch requires a buffer of one byte per bit, but only fills the first part of it.
            let count = self.dimension.div_ceil(8);
            let mut bytes = vec![0u8; 8 * count];
            let got = self.usearch.get(key, b1x8::from_mut_u8s(&mut bytes));
            got.map_err(|source| failed("read a node", source))?;
            bytes.truncate(count);
            return Ok(Some(Values::Bits(bytes)));
        }
        let mut reading = ReadBuffers::new(self.dimension);
        let there = self.read(key, &mut reading)?.is_some();
        let values = match self.quantization {
            Quantization::I8 => Values::Integers(reading.integers),
            _ => Values::Floats(Cow::Owned(reading.values)),
        };
        Ok(there.then_some(values))
    }

    /// Reads the values of a node as floats. Returns `None` if the node does not exist. Must not be called for values reduced
    /// to their signs. Values of f16 are read as stored and widened here, because usearch would do that value by value, which
    /// takes ten times as long as comparing.
    pub(super) fn read<'r>(&self, key: u64, reading: &'r mut ReadBuffers) -> Result<Option<&'r [f32]>, IndexError> {
        let got = match self.quantization {
            Quantization::F16 => self.usearch.get(key, usearch::f16::from_mut_i16s(&mut reading.bits)),
            Quantization::I8 => self.usearch.get(key, reading.integers.as_mut_slice()),
            _ => self.usearch.get(key, reading.values.as_mut_slice()),
        };
        if got.map_err(|source| failed("read a node", source))? == 0 {
            return Ok(None);
        }
        match self.quantization {
            Quantization::F16 => {
                for (half, bits) in reading.halves.iter_mut().zip(&reading.bits) {
                    *half = half::f16::from_bits(bits.cast_unsigned());
                }
                reading.halves.convert_to_f32_slice(&mut reading.values);
            }
            Quantization::I8 => reading.scale_integers(),
            _ => (),
        }
        Ok(Some(&reading.values))
    }

    /// Returns the score of values with themselves, minus the possible rounding error, or `None` if nothing can score higher.
    pub(super) fn self_score(&self, values: &Values<'_>) -> Option<f32> {
        match (self.metric, values) {
            (Metric::Dot, Values::Floats(values)) => {
                let product = dot(values, values);
                Some(product - 1e-3 * product.abs())
            }
            _ => None,
        }
    }

    /// Returns the values of a node as numbers. Signs become values of equal size in a vector of unit length.
    pub(super) fn values_of(&self, key: u64) -> Result<Option<Embedding>, IndexError> {
        if self.quantization != Quantization::B1 {
            let mut reading = ReadBuffers::new(self.dimension);
            return Ok(self.read(key, &mut reading)?.and_then(|values| Embedding::unscaled(values.to_vec())));
        }
        let Some(Values::Bits(bytes)) = self.stored_values(key)? else { return Ok(None) };
        let size = 1.0 / (self.dimension as f32).sqrt();
        let sign = |bit: usize| if bytes[bit / 8] & (128 >> (bit % 8)) == 0 { -size } else { size };
        Ok(Embedding::unscaled((0..self.dimension).map(sign).collect()))
    }

    /// Whether the scores of its nodes are only a rough estimate.
    pub(super) fn is_coarse(&self) -> bool {
        self.quantization.keeps_signs_only()
    }

    /// Returns the Euclidean distance between an embedding and a node with this search score, by the node's rounded values.
    pub(super) fn distance_to(&self, embedding: &Embedding, (key, score): Scored) -> Result<f32, IndexError> {
        match self.metric {
            Metric::Cosine => Ok((2.0 * (1.0 - score)).max(0.0).sqrt()),
            Metric::L2 => Ok(-score),
            Metric::Dot => {
                let mut values = vec![0.0f32; self.dimension];
                self.usearch.get(key, &mut values).map_err(|source| failed("read a node", source))?;
                Ok(squared_distance(&values, embedding.as_slice()).sqrt())
            }
        }
    }

    fn quantize<'e>(&self, embedding: &'e Embedding) -> Values<'e> {
        let values = embedding.as_slice();
        match self.quantization {
            // The dot product is only the cosine if both vectors have unit length.
            Quantization::F16 if self.metric == Metric::Cosine && !embedding.has_unit_length() => {
                let unit = Embedding::normalized(values.to_vec()).unwrap_or_else(|| embedding.clone());
                Values::Floats(Cow::Owned(unit.as_slice().to_vec()))
            }
            Quantization::F32 | Quantization::Bf16 | Quantization::F16 => Values::Floats(Cow::Borrowed(values)),
            Quantization::I8 => Values::Integers(integers(values)),
            Quantization::B1 => {
                let byte = |eight: &[f32]| {
                    eight.iter().enumerate().fold(0, |byte, (bit, value)| if *value > 0.0 { byte | 128 >> bit } else { byte })
                };
                Values::Bits(values.chunks(8).map(byte).collect())
            }
        }
    }

    fn scored(
        &self,
        matches: Result<Matches, impl std::error::Error + Send + Sync + 'static>,
    ) -> Result<Vec<Scored>, IndexError> {
        let Matches { keys, distances } = matches.map_err(|source| failed("search", source))?;
        Ok(keys.into_iter().zip(distances).map(|(key, distance)| (key, self.score(distance))).collect())
    }

    fn score(&self, distance: f32) -> f32 {
        match (self.metric, self.quantization) {
            // For random directions, the share of differing signs is their angle divided by half a turn.
            (Metric::Cosine, Quantization::B1) => (std::f32::consts::PI * distance / self.dimension as f32).cos(),
            (Metric::Cosine, _) => (1.0 - distance).clamp(-1.0, 1.0),
            (Metric::Dot, _) => 1.0 - distance,
            // Not `-0.0` for equal vectors.
            (Metric::L2, _) => 0.0 - distance.max(0.0).sqrt(),
        }
    }
}

/// Checks that a saved graph has these parameters. Returns the rest of its header.
pub(super) fn check_head(path: &Path, parameters: &IndexParameters) -> Result<IndexMetadata, IndexError> {
    let head = usearch::Index::metadata(utf8(path)?).map_err(|source| failed("load the saved index", source))?;
    let refuse = |what, expected: String, got: String| Err(IndexError::Parameters { what, expected, got });
    let dimension = engine_dimension(parameters);
    if head.dimensions != dimension as u64 {
        return refuse("dimension", dimension.to_string(), head.dimensions.to_string());
    }
    // Earlier versions compared graphs of f16 by cosine. Such a graph has the same order, so it can be used.
    let same_order = parameters.metric == Metric::Cosine && head.metric == MetricKind::Cos;
    let metric_fits = head.metric == metric_kind(parameters) || (same_order && parameters.quantization == Quantization::F16);
    if head.quantization != scalar_kind(parameters.quantization) || !metric_fits {
        let expected = format!("{} under {}", parameters.quantization.name(), parameters.metric.name());
        return refuse("values", expected, "others".to_owned());
    }
    Ok(head)
}

fn engine_dimension(parameters: &IndexParameters) -> usize {
    match parameters.quantization {
        Quantization::B1 => parameters.dimension.next_multiple_of(8),
        _ => parameters.dimension,
    }
}

fn metric_kind(parameters: &IndexParameters) -> MetricKind {
    match (parameters.metric, parameters.quantization) {
        (Metric::Cosine, Quantization::B1) => MetricKind::Hamming,
        // For vectors of unit length the dot product is the cosine. Adding takes a quarter less time with it, because usearch
        // need not compute both lengths each time. f16 preserves the length to a few parts in 100,000. bf16 does not, and i8
        // scales it away.
        (Metric::Cosine, Quantization::F16) => MetricKind::IP,
        (Metric::Cosine, _) => MetricKind::Cos,
        (Metric::Dot, _) => MetricKind::IP,
        (Metric::L2, _) => MetricKind::L2sq,
    }
}

fn scalar_kind(quantization: Quantization) -> ScalarKind {
    match quantization {
        Quantization::F32 => ScalarKind::F32,
        Quantization::Bf16 => ScalarKind::BF16,
        Quantization::F16 => ScalarKind::F16,
        Quantization::I8 => ScalarKind::I8,
        Quantization::B1 => ScalarKind::B1,
    }
}

fn failed(action: &'static str, source: impl std::error::Error + Send + Sync + 'static) -> IndexError {
    IndexError::Engine { action, source: Box::new(source) }
}

fn utf8(path: &Path) -> Result<&str, IndexError> {
    path.to_str().ok_or_else(|| IndexError::Path { path: path.to_owned() })
}

#[cfg(test)]
mod tests;
