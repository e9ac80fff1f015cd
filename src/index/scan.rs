//! All passages of an index as rows of 8-bit integers, to compare one after the other: for a hundred thousand, that takes no
//! longer than a graph search of the same quality, whatever a filter leaves.
//!
//! Of many passages, the signs of their values (`signs`) first choose some thousands to compare: of a passage, that reads an
//! eighth of its row.
//!
//! A row stores x as s q, where q are integers from -127 to 127 and s is the step of that row. Rounding changes the product of
//! two unit vectors of 256 values by some 0.001, so the scores only make a first selection: a caller that needs the order
//! compares a few more than requested by their exact values. With distances it would lose too much where vectors lie far from
//! zero, so it is only for cosines and products.

use std::collections::HashMap;

use numkong::Dot as _;

use super::nearest::Nearest;
use super::signs::Signs;
use crate::domain::{Embedding, Metric, PassageId};

/// The largest integer.
const LARGEST: f32 = 127.0;

/// Rows to compare for each one wanted, when the signs choose them, and at least. On real text hardly any of the nearest is lost
/// then (`tests/recall_real_text.rs`, and with 100,000 passages `tests/bench/search.rs`).
const CHOSEN_PER_WANTED: usize = 8;
/// See `CHOSEN_PER_WANTED`.
const CHOSEN_MIN: usize = 2_048;
/// Signs choose among more than so many times the rows to compare: among fewer, it takes longer than to compare all.
const CHOICE_MIN: usize = 4;
/// How many times as many rows a ring around the query has as all rings in it.
const RING_GROWTH: usize = 4;
/// Minimum values of a row for its signs to choose: fewer say too little, and comparing fewer is fast.
const SIGNS_MIN: usize = 128;

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
    /// Of all rows, once `prepare` was called. Without them, rows are compared all the same.
    signs: Option<Signs>,
}

impl Scan {
    pub(super) fn new(dimension: usize, metric: Metric) -> Self {
        Self {
            dimension,
            metric,
            positions: HashMap::new(),
            keys: Vec::new(),
            integers: Vec::new(),
            steps: Vec::new(),
            signs: None,
        }
    }

    /// The number of passages.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds a passage, or its new values.
    pub(super) fn put(&mut self, key: u64, values: &[f32]) {
        let (step, integers) = self.round(values);
        let position = match self.positions.get(&key) {
            Some(&position) => {
                let start = position as usize * self.dimension;
                self.integers.splice(start..start + self.dimension, integers);
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
        let row: Vec<f32> = self.row(position).collect();
        self.signs = self.signs.take().and_then(|signs| signs.with(position, &row).ok());
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
        if let Some(signs) = &mut self.signs {
            signs.swap_remove(position);
        }
    }

    /// Prepares searches among many passages, once the first ones are there: their mean is what signs are relative to.
    pub(super) fn prepare(&mut self) {
        if self.dimension < SIGNS_MIN || self.keys.is_empty() || self.metric != Metric::Cosine {
            return;
        }
        let mut mean = vec![0.0_f32; self.dimension];
        let part = 1.0 / self.keys.len() as f32;
        for position in 0..self.keys.len() {
            mean.iter_mut().zip(self.row(position)).for_each(|(mean, value)| *mean += part * value);
        }
        let mut row = Vec::with_capacity(self.dimension);
        self.signs = (0..self.keys.len())
            .try_fold(Signs::new(mean), |signs, position| {
                row.clear();
                row.extend(self.row(position));
                signs.with(position, &row)
            })
            .ok();
    }

    /// The rounded values of a row; under cosine of a vector of unit length.
    fn row(&self, position: usize) -> impl Iterator<Item = f32> + '_ {
        let step = self.steps[position];
        self.integers[position * self.dimension..][..self.dimension].iter().map(move |value| f32::from(*value) * step)
    }

    /// Approximately the nearest `limit` of those passages, nearest first.
    pub(super) fn nearest(&self, query: &Embedding, limit: usize, among: Among<'_>) -> Vec<PassageId> {
        let (asked, integers) = self.round(query.as_slice());
        let mut nearest = Nearest::new(limit);
        let compare = |position: usize| {
            let row = &self.integers[position * self.dimension..][..self.dimension];
            let product = i8::dot(row, &integers).unwrap_or_default() as f32 * asked * self.steps[position];
            nearest.offer(self.keys[position], product);
        };
        match among {
            Among::All => self.chosen(query, limit, &|_| true).for_each(compare),
            Among::Where(accept) => {
                self.chosen(query, limit, &|position| accept(PassageId(self.keys[position]))).for_each(compare);
            }
            Among::Each(passages) => {
                passages
                    .filter_map(|passage| self.positions.get(&passage.0))
                    .map(|position| *position as usize)
                    .for_each(compare);
            }
        }
        nearest.into_sorted().into_iter().map(|neighbor| neighbor.passage).collect()
    }

    /// The accepted rows that are most likely among the nearest `limit`, or all of them if that is faster.
    fn chosen<'a>(
        &'a self,
        query: &Embedding,
        limit: usize,
        accept: &'a dyn Fn(usize) -> bool,
    ) -> Box<dyn Iterator<Item = usize> + 'a> {
        let wanted = limit.saturating_mul(CHOSEN_PER_WANTED).max(CHOSEN_MIN);
        let signs = self.signs.as_ref().filter(|_| wanted.saturating_mul(CHOICE_MIN) < self.keys.len());
        let Some((signs, distances)) = signs.and_then(|signs| Some((signs, signs.distances(query.as_slice()).ok()?))) else {
            return Box::new((0..self.keys.len()).filter(|row| accept(*row)));
        };
        let mut counts = vec![0_usize; signs.distance_max() + 1];
        distances.iter().for_each(|distance| counts[*distance as usize] += 1);
        let (mut chosen, mut within, mut rows, mut asked) = (Vec::new(), 0, 0, wanted);
        // Rings around the query, each with several times as many rows as all before: `accept` may take longer than a comparison.
        while chosen.len() < wanted && within < counts.len() {
            let begin = within;
            while within < counts.len() && rows < asked {
                rows += counts[within];
                within += 1;
            }
            let ring = begin as u32..within as u32;
            let near = distances.iter().enumerate().filter(|(_, distance)| ring.contains(distance));
            chosen.extend(near.map(|(row, _)| row).filter(|row| accept(*row)));
            asked = asked.saturating_mul(RING_GROWTH);
        }
        Box::new(chosen.into_iter())
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
