//! All passages of an index as rows of 8-bit integers, to compare one after the other: for some ten thousand, that takes no
//! longer than a graph search of the same quality, and misses nothing, whatever a filter leaves.
//!
//! A row stores x as s q, where q are integers from -127 to 127 and s is the step of that row. Rounding changes the product of
//! two unit vectors of 256 values by some 0.001, so the scores only make a first selection: a caller that needs the order
//! compares a few more than requested by their exact values. With distances it would lose too much where vectors lie far from
//! zero, so it is only for cosines and products.

use std::collections::HashMap;

use numkong::Dot as _;

use super::nearest::Nearest;
use crate::domain::{Embedding, Metric, PassageId};

/// The largest integer.
const LARGEST: f32 = 127.0;

/// Which passages to compare.
pub enum Among<'a> {
    /// All there are.
    All,
    /// All that this accepts. It must not block.
    Where(&'a dyn Fn(PassageId) -> bool),
    /// These, as far as they exist: better for a few.
    Each(&'a mut dyn Iterator<Item = PassageId>),
}

/// The rows of an index.
#[derive(Debug)]
pub(super) struct Scan {
    dimension: usize,
    metric: Metric,
    /// The row of a passage.
    positions: HashMap<u64, u32>,
    keys: Vec<u64>,
    /// [passages, dimension]
    integers: Vec<i8>,
    /// The value of 1 in each row; under cosine in a vector of unit length.
    steps: Vec<f32>,
}

impl Scan {
    pub(super) fn new(dimension: usize, metric: Metric) -> Self {
        Self { dimension, metric, positions: HashMap::new(), keys: Vec::new(), integers: Vec::new(), steps: Vec::new() }
    }

    /// The number of passages.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds a passage, or its new values.
    pub(super) fn put(&mut self, key: u64, values: &[f32]) {
        let (step, integers) = self.round(values);
        match self.positions.get(&key) {
            Some(&position) => {
                let start = position as usize * self.dimension;
                self.integers.splice(start..start + self.dimension, integers);
                self.steps[position as usize] = step;
            }
            None => {
                self.positions.insert(key, self.keys.len() as u32);
                self.keys.push(key);
                self.integers.extend(integers);
                self.steps.push(step);
            }
        }
    }

    /// Removes a passage.
    pub(super) fn remove(&mut self, key: u64) {
        let Some(position) = self.positions.remove(&key) else { return };
        let (position, last) = (position as usize, self.keys.len() - 1);
        self.keys.swap_remove(position);
        self.steps.swap_remove(position);
        let start = last * self.dimension;
        self.integers.copy_within(start..start + self.dimension, position * self.dimension);
        self.integers.truncate(start);
        if let Some(moved) = self.keys.get(position) {
            self.positions.insert(*moved, position as u32);
        }
    }

    /// Approximately the nearest `limit` of those passages, nearest first.
    pub(super) fn nearest(&self, query: &Embedding, limit: usize, among: Among<'_>) -> Vec<PassageId> {
        let (asked, integers) = self.round(query.as_slice());
        let mut nearest = Nearest::new(limit);
        let mut compare = |position: usize| {
            let row = &self.integers[position * self.dimension..][..self.dimension];
            let product = i8::dot(row, &integers).unwrap_or_default() as f32 * asked * self.steps[position];
            nearest.offer(self.keys[position], product);
        };
        match among {
            Among::All => (0..self.keys.len()).for_each(compare),
            Among::Where(accept) => {
                (0..self.keys.len()).filter(|position| accept(PassageId(self.keys[*position]))).for_each(compare);
            }
            Among::Each(passages) => {
                passages.filter_map(|passage| self.positions.get(&passage.0)).for_each(|position| compare(*position as usize));
            }
        }
        nearest.into_sorted().into_iter().map(|neighbor| neighbor.passage).collect()
    }

    fn round(&self, values: &[f32]) -> (f32, Vec<i8>) {
        let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let step = if largest > 0.0 { largest / LARGEST } else { 1.0 };
        let integers = values.iter().map(|value| (value / step).round() as i8).collect();
        let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
        let unit = if self.metric == Metric::Cosine && length > 0.0 { length } else { 1.0 };
        (step / unit, integers)
    }
}
