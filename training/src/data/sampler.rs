//! Which pairs a step sees: weighted over corpora and languages, every pair of a multi-parallel corpus among them.
//!
//! A language pair's mass is (sum over corpora of weight x pairs) ^ `pair_exponent`; within the pair, corpora share it by
//! weight x pairs. Pairs with English together have the mass `english_share`. A step's batch depends on the seed and the
//! step alone, so that a resumed run sees what an unbroken one would have seen.

use std::collections::BTreeMap;
use std::path::Path;

use dragoman::domain::Language;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::shard::{ENDING, Shard};
use crate::config::Config;
use crate::error::Error;

/// A sentence with its language.
#[derive(Debug, Clone, PartialEq)]
pub struct Sentence {
    /// Token ids, at least one.
    pub ids: Vec<u16>,
    /// `Language::index`.
    pub language: i64,
}

/// Draws batches.
pub struct Sampler {
    shards: Vec<Shard>,
    units: Vec<Unit>,
    /// Running sum of the units' masses.
    cumulative: Vec<f64>,
    seed: u64,
}

/// Two columns of one shard.
#[derive(Debug, Clone, Copy)]
struct Unit {
    shard: usize,
    left: usize,
    right: usize,
    /// weight x pairs
    amount: f64,
}

impl Sampler {
    /// Opens the shards in `folder`.
    pub fn open(config: &Config, folder: &Path) -> Result<Self, Error> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|source| Error::file(folder, source))? {
            paths.push(entry.map_err(|source| Error::file(folder, source))?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == ENDING));
        paths.sort();
        let shards = paths.iter().map(|path| Shard::open(path)).collect::<Result<Vec<_>, _>>()?;
        let mut units = Vec::new();
        for (number, shard) in shards.iter().enumerate() {
            let weight = config.corpora.weight(&shard.name);
            if weight > 0.0 {
                units.extend(units_of(shard, number, weight));
            }
        }
        let masses = masses(&shards, &units, config);
        let cumulative = masses
            .iter()
            .scan(0.0, |sum, mass| {
                *sum += mass;
                Some(*sum)
            })
            .collect::<Vec<f64>>();
        if cumulative.last().is_none_or(|&total| total <= 0.0) {
            return Err(Error::NoData { path: folder.to_owned() });
        }
        Ok(Self { shards, units, cumulative, seed: config.seed })
    }

    /// Draws the batch of `step`: translation pairs, left and right in random order of languages.
    pub fn batch(&self, step: u64, pairs: usize, tokens_max: usize, token_dropout: f64) -> Vec<(Sentence, Sentence)> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(step);
        let mut batch = Vec::with_capacity(pairs);
        while batch.len() < pairs {
            let unit = self.draw_unit(&mut random);
            let shard = &self.shards[unit.shard];
            // Sparse columns are drawn by rejection; one that is too sparse gives its turn to another unit.
            let row = (0..200)
                .map(|_| random.random_range(0..shard.segments))
                .find(|&row| shard.has(unit.left, row) && shard.has(unit.right, row));
            let Some(row) = row else { continue };
            let (left, right) = if random.random() { (unit.left, unit.right) } else { (unit.right, unit.left) };
            let mut sentence = |column: usize| {
                let mut ids = shard.ids(column, row, tokens_max);
                if token_dropout > 0.0 && ids.len() > 2 {
                    let first = ids[0];
                    ids.retain(|_| random.random::<f64>() >= token_dropout);
                    if ids.is_empty() {
                        ids.push(first);
                    }
                }
                Sentence { ids, language: shard.languages[column].index() as i64 }
            };
            batch.push((sentence(left), sentence(right)));
        }
        batch
    }

    /// The share of each language among all drawn sentences, for the log.
    pub fn language_shares(&self) -> BTreeMap<Language, f64> {
        let total = self.cumulative.last().copied().unwrap_or(1.0);
        let mut shares = BTreeMap::new();
        let mut before = 0.0;
        for (unit, sum) in self.units.iter().zip(&self.cumulative) {
            for column in [unit.left, unit.right] {
                *shares.entry(self.shards[unit.shard].languages[column]).or_default() += (sum - before) / total / 2.0;
            }
            before = *sum;
        }
        shares
    }

    fn draw_unit(&self, random: &mut ChaCha8Rng) -> Unit {
        let total = self.cumulative[self.cumulative.len() - 1];
        let at = random.random::<f64>() * total;
        let index = self.cumulative.partition_point(|&sum| sum <= at);
        self.units[index.min(self.units.len() - 1)]
    }
}

fn units_of(shard: &Shard, number: usize, weight: f64) -> Vec<Unit> {
    let words = shard.segments.div_ceil(64);
    let present: Vec<Vec<u64>> = (0..shard.languages.len())
        .map(|column| {
            let mut bits = vec![0u64; words];
            for row in (0..shard.segments).filter(|&row| shard.has(column, row)) {
                bits[row / 64] |= 1 << (row % 64);
            }
            bits
        })
        .collect();
    let mut units = Vec::new();
    for left in 0..present.len() {
        for right in left + 1..present.len() {
            let pairs: u32 = present[left].iter().zip(&present[right]).map(|(a, b)| (a & b).count_ones()).sum();
            if pairs > 0 {
                units.push(Unit { shard: number, left, right, amount: weight * f64::from(pairs) });
            }
        }
    }
    units
}

fn masses(shards: &[Shard], units: &[Unit], config: &Config) -> Vec<f64> {
    let english = Language::parse("en");
    let pair = |unit: &Unit| {
        let (a, b) = (shards[unit.shard].languages[unit.left], shards[unit.shard].languages[unit.right]);
        (a.min(b), a.max(b))
    };
    let mut amounts: BTreeMap<(Language, Language), f64> = BTreeMap::new();
    for unit in units {
        *amounts.entry(pair(unit)).or_default() += unit.amount;
    }
    let has_english = |pair: (Language, Language)| Some(pair.0) == english || Some(pair.1) == english;
    let exponent = config.sampling.pair_exponent;
    let mut groups = [0.0, 0.0];
    for (&pair, amount) in &amounts {
        groups[usize::from(has_english(pair))] += amount.powf(exponent);
    }
    let share = config.sampling.english_share;
    units
        .iter()
        .map(|unit| {
            let pair = pair(unit);
            let group = usize::from(has_english(pair));
            let group_share = if group == 1 { share } else { 1.0 - share };
            amounts[&pair].powf(exponent) / groups[group] * group_share * unit.amount / amounts[&pair]
        })
        .collect()
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
