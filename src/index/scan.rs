//! Holds all passages of an index as rows of 8-bit integers and compares a query with them one after the other. With up to a
//! hundred thousand passages, that takes no longer than a graph search of the same quality, and a filter does not reduce the
//! quality.
//!
//! If there are many passages, the signs of their values (`vectors::signs`) first select a few thousand to compare. For each
//! passage, that reads only an eighth of a row.
//!
//! If the index stores 8-bit integers, a row has the same integers. Otherwise it stores a vector x as c + s q, where c is
//! roughly the mean of all vectors, q are integers from -127 to 127, and s is the step of the row. The product of c and the
//! query is the same for all rows, so it is left out. Without c, rounding would hide the differences between vectors.
//! Rounding changes the product of two unit vectors of 256 values by about 0.001, so the scores are only good for a first
//! selection: a caller that needs the exact order compares a few more passages than requested by their exact values. This
//! works for cosines and dot products, but not for distances.

use std::ops::Range;

use numkong::Dot as _;
use rustc_hash::FxHashMap;

use super::nearest::Nearest;
use super::{IndexParameters, Neighbor, engine};
use crate::domain::{Embedding, Metric, PassageId, Quantization};
use crate::vectors::{PREFETCHED_ROWS, Signs, prefetch};

const LARGEST: f32 = 127.0;

/// Number of rows that the signs select for each requested passage; `CHOSEN_MIN` is the minimum in total. With real text, this
/// loses hardly any of the nearest passages (`tests/recall_real_text.rs`, and `tests/bench/search.rs` with 100,000 passages).
const CHOSEN_PER_WANTED: usize = 8;
/// See `CHOSEN_PER_WANTED`.
const CHOSEN_MIN: usize = 3_072;
/// Signs are used only if there are more than this many times the rows to select. With fewer rows, comparing all of them is
/// faster.
const CHOICE_MIN: usize = 4;
/// Each ring around the query has this many times as many rows as all rings inside it.
const RING_GROWTH: usize = 4;
/// One in this many estimates is sampled, to find out how many rows are above an estimate.
const SAMPLED_PART: usize = 8;
/// One extra row per this many is requested, because a sample is only roughly right.
const SLACK_PART: usize = 8;
/// Number of estimates that are tested in one step. A constant, so that the test compiles to a few wide
/// instructions.
const LANES: usize = 16;
/// Minimum number of values per row for signs to be used. The signs of fewer values say too little, and comparing so few is
/// fast anyway.
const SIGNS_MIN: usize = 128;

/// Which passages to compare.
pub enum Among<'a> {
    All,
    /// All that this accepts. It must not block.
    Where(&'a dyn Fn(PassageId) -> bool),
    /// These, if they exist. Better for a small number.
    Each(&'a mut dyn Iterator<Item = PassageId>),
}

/// The rows of an index.
#[derive(Debug)]
pub(super) struct Scan {
    metric: Metric,
    /// Subtracted from every vector; under cosine, after scaling it to unit length. [dimension]
    center: Vec<f32>,
    /// The row of a passage.
    positions: FxHashMap<u64, u32>,
    keys: Vec<u64>,
    /// [passages, dimension]
    integers: Vec<i8>,
    /// The value that the integer 1 stands for, for each row.
    steps: Vec<f32>,
    /// Whether the rows have the integers of the index, so that `index_integers` returns them.
    pub(super) has_index_integers: bool,
    /// The signs of all rows, if rows are long enough. Without signs, all rows are compared.
    signs: Option<Signs>,
}

impl Scan {
    /// Creates an empty scan whose rows will be centered on the mean of `sample`, which are some of its vectors.
    pub(super) fn centered_on(sample: &[Vec<f32>], parameters: &IndexParameters) -> Self {
        let IndexParameters { dimension, metric, quantization, .. } = *parameters;
        let mut center = vec![0.0; dimension];
        for values in sample {
            let part = scale(values, metric) / sample.len() as f32;
            center.iter_mut().zip(values).for_each(|(center, value)| *center += part * value);
        }
        let (positions, keys, integers, steps) = Default::default();
        let signs = (dimension >= SIGNS_MIN).then(|| Signs::new(dimension));
        let has_index_integers = (metric, quantization) == (Metric::Cosine, Quantization::I8);
        Self { metric, center, positions, keys, integers, steps, has_index_integers, signs }
    }

    pub(super) fn reserve(&mut self, passages: usize) {
        self.positions.reserve(passages);
        self.keys.reserve(passages);
        self.integers.reserve(passages * self.center.len());
        self.steps.reserve(passages);
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds a passage, or replaces its values.
    pub(super) fn insert(&mut self, key: u64, values: &[f32]) {
        let (dimension, centered) = (self.center.len(), self.centered(values));
        let (step, integers) = if self.has_index_integers { unit_integers(values) } else { round(&centered) };
        let position = match self.positions.get(&key) {
            Some(&position) => {
                let start = position as usize * dimension;
                self.integers.splice(start..start + dimension, integers);
                self.steps[position as usize] = step;
                position as usize
            }
            None => {
                self.positions.insert(key, self.keys.len() as u32);
                self.keys.push(key);
                self.integers.extend(integers);
                self.steps.push(step);
                self.keys.len() - 1
            }
        };
        let of_center = self.center.iter().zip(&centered).map(|(center, value)| center * value).sum();
        if let Some(signs) = &mut self.signs {
            signs.set(position, &centered, of_center);
        }
    }

    pub(super) fn remove(&mut self, key: u64) {
        let Some(position) = self.positions.remove(&key) else { return };
        let (dimension, position, last) = (self.center.len(), position as usize, self.keys.len() - 1);
        self.keys.swap_remove(position);
        self.steps.swap_remove(position);
        let start = last * dimension;
        self.integers.copy_within(start..start + dimension, position * dimension);
        self.integers.truncate(start);
        if let Some(moved) = self.keys.get(position) {
            self.positions.insert(*moved, position as u32);
        }
        if let Some(signs) = &mut self.signs {
            signs.swap_remove(position);
        }
    }

    /// Returns the integers that the index stores for a passage, if the rows have them.
    pub(super) fn index_integers(&self, key: u64) -> Option<&[i8]> {
        let position = *self.positions.get(&key).filter(|_| self.has_index_integers)? as usize;
        Some(&self.integers[position * self.center.len()..][..self.center.len()])
    }

    /// Returns approximately the nearest `limit` of these passages, nearest first. Scores leave out the part that is the
    /// same for all passages.
    pub(super) fn nearest(&self, query: &Embedding, limit: usize, among: Among<'_>) -> Vec<Neighbor> {
        let (step, integers) = round(query.as_slice());
        let dimension = self.center.len();
        let mut nearest = Nearest::new(limit);
        let row = |position: usize| &self.integers[position * dimension..][..dimension];
        let positions: Vec<usize> = match among {
            Among::All => self.choose_rows(query, limit, &|_| true),
            Among::Where(accept) => self.choose_rows(query, limit, &|position| accept(PassageId(self.keys[position]))),
            Among::Each(passages) => {
                let positions = passages.filter_map(|passage| self.positions.get(&passage.0));
                positions.map(|position| *position as usize).collect()
            }
        };
        for part in positions.chunks(PREFETCHED_ROWS) {
            prefetch(part.iter().map(|position| row(*position)));
            for &position in part {
                let product = i8::dot(row(position), &integers).unwrap_or_default() as f32;
                let score = product * step * self.steps[position];
                // Reads as few keys as possible, because each one waits for memory.
                if nearest.wants(score) {
                    nearest.offer(self.keys[position], score);
                }
            }
        }
        nearest.into_sorted()
    }

    /// Returns the accepted rows that are most likely among the nearest `limit`, or all accepted rows if that is faster.
    fn choose_rows(&self, query: &Embedding, limit: usize, accept: &dyn Fn(usize) -> bool) -> Vec<usize> {
        let wanted = limit.saturating_mul(CHOSEN_PER_WANTED).max(CHOSEN_MIN);
        let signs = self.signs.as_ref().filter(|_| wanted.saturating_mul(CHOICE_MIN) < self.keys.len());
        let Some(signs) = signs else { return (0..self.keys.len()).filter(|row| accept(*row)).collect() };
        let estimates = signs.estimates(&self.centered(query.as_slice()));
        let mut sample: Vec<f32> = estimates.iter().step_by(SAMPLED_PART).copied().collect();
        let (mut chosen, mut inner, mut count) = (Vec::new(), f32::INFINITY, wanted + wanted / SLACK_PART);
        // Goes through rings around the query, each with several times as many rows as all before it, because `accept` may
        // take longer than a comparison.
        while chosen.len() < wanted && inner > f32::NEG_INFINITY {
            let rank = count / SAMPLED_PART;
            let outer = match rank < sample.len() {
                true => *sample.select_nth_unstable_by(rank, |a, b| b.total_cmp(a)).1,
                false => f32::NEG_INFINITY,
            };
            ring(&estimates, outer..inner, |row| {
                if accept(row) {
                    chosen.push(row);
                }
            });
            (inner, count) = (outer, count.saturating_mul(RING_GROWTH));
        }
        chosen
    }

    fn centered(&self, values: &[f32]) -> Vec<f32> {
        let scale = scale(values, self.metric);
        values.iter().zip(&self.center).map(|(value, center)| value * scale - center).collect()
    }
}

/// Returns the factor for a vector: under cosine, the one that gives it unit length.
fn scale(values: &[f32], metric: Metric) -> f32 {
    let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    if metric == Metric::Cosine && length > 0.0 { 1.0 / length } else { 1.0 }
}

/// Returns the integers that the index stores for a vector, and the step that gives them unit length.
fn unit_integers(values: &[f32]) -> (f32, Vec<i8>) {
    let integers = engine::integers(values);
    (engine::length(&integers).max(1.0).recip(), integers)
}

/// Returns the step of a vector and its integers.
fn round(values: &[f32]) -> (f32, Vec<i8>) {
    let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    (largest / LARGEST, engine::integers(values))
}

/// Passes the rows whose estimates are in a range to `take`, in order.
fn ring(estimates: &[f32], range: Range<f32>, mut take: impl FnMut(usize)) {
    let mut take_part = |first: usize, estimates: &[f32]| {
        (first..).zip(estimates).filter(|(_, estimate)| range.contains(estimate)).for_each(|(row, _)| take(row));
    };
    let (groups, rest) = estimates.as_chunks::<LANES>();
    for (first, estimates) in (0..).step_by(LANES).zip(groups) {
        // Avoids a branch for each row, because most groups have none in the range.
        if estimates.iter().fold(false, |any, estimate| any | (*estimate >= range.start)) {
            take_part(first, estimates);
        }
    }
    take_part(estimates.len() - rest.len(), rest);
}
