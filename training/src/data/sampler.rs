//! Draws the pairs of each step: weighted over corpora and languages, including every language pair of a multi-parallel corpus.
//!
//! A group of corpora with a fixed share is drawn by that share. Within a group, and among the corpora outside of all groups, a
//! language pair's mass is (sum over corpora of weight x pairs) ^ `pair_exponent`, and its corpora divide it in proportion to
//! weight x pairs. Outside of the groups, all pairs with English together have the mass `english_share`. A step's batch depends
//! only on the seed and the step, so a resumed run sees the same batches as an uninterrupted one.
//!
//! A batch consists of runs of `run_pairs` pairs of the same two languages and the same corpus, so that a sentence's negatives
//! have the language and style of its translation, as in retrieval. No text occurs twice in a batch, and no segment occurs in
//! two different pairs, even with different translations: each repetition would be a false negative. With a miner, a run takes
//! those pairs of a larger draw that are near to the first one.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;
use std::path::Path;

use dragoman::domain::Language;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::augmenter::Augmenter;
use super::hard_negatives::Miner;
use super::shard::{ENDING, Shard};
use super::views::{self, ShardUsage};
use crate::config::{Config, StageConfig};
use crate::error::Error;

/// A sentence with its language.
#[derive(Debug, Clone, PartialEq)]
pub struct Sentence {
    /// Token ids that the encoder sees, at least one.
    pub ids: Vec<u16>,
    /// The token ids as in the corpus, if the encoder's input had tokens dropped, was cropped or lost its diacritics.
    pub whole: Option<Vec<u16>>,
    /// `Language::index`.
    pub language: i64,
    /// Whether the other side of its pair has the same meaning; false in a directed pair, whose sides are question and answer.
    pub translated: bool,
    /// Whether the question encoder reads it, if the stage trains one.
    pub question: bool,
}

impl Sentence {
    /// A sentence whose tokens the encoder sees unchanged.
    pub fn new(ids: Vec<u16>, language: i64) -> Self {
        Self { ids, whole: None, language, translated: true, question: false }
    }

    /// The token ids of the corpus.
    pub fn whole(&self) -> &[u16] {
        self.whole.as_deref().unwrap_or(&self.ids)
    }
}

/// What batches are made with, besides shards.
#[derive(Debug, Clone, Copy, Default)]
pub struct SamplingTools<'a> {
    /// Chooses hard negatives.
    pub miner: Option<&'a Miner>,
    /// Changes texts; without it, they keep their diacritics and tokens.
    pub augmenter: Option<&'a Augmenter>,
}

/// Rows to try before another unit is drawn: columns of a multi-parallel corpus may be sparse.
const TRIES: usize = 200;
/// Maximum segments that are joined into one text.
const JOINED_MAX: usize = 4;
/// Minimum tokens of a cropped text; texts with fewer than `CROPPED_FROM` tokens stay whole.
const PART_MIN: usize = 4;
const CROPPED_FROM: usize = 12;
/// After this many rejected rows per pair, a batch may repeat texts, because a few sentences could not fill it otherwise.
const REFUSALS_PER_PAIR: usize = 4;

/// What a batch already contains.
struct Seen {
    texts: FxHashSet<u64>,
    refusals_left: usize,
}

impl Seen {
    fn admit(&mut self, keys: [u64; 3]) -> bool {
        if self.refusals_left > 0 && keys.iter().any(|key| self.texts.contains(key)) {
            self.refusals_left -= 1;
            return false;
        }
        self.texts.extend(keys);
        true
    }
}

/// Draws batches.
pub struct Sampler {
    shards: Vec<Shard>,
    units: Vec<Unit>,
    /// Cumulative sum of the units' masses.
    cumulative: Vec<f64>,
    seed: u64,
    run_pairs: usize,
    /// By shard.
    drawn: Vec<ShardUsage>,
    /// Number of pairs in the whole run.
    pairs: f64,
}

/// Two columns of one shard.
#[derive(Debug, Clone, Copy)]
struct Unit {
    shard: usize,
    left: usize,
    right: usize,
    /// weight x pairs
    amount: f64,
    /// Whether the left text is a question and the right one its answer, so that the sides must keep their order.
    directed: bool,
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
        let languages = languages(config)?;
        let mut units = Vec::new();
        for (number, shard) in shards.iter().enumerate() {
            let weight = config.corpora.weight(&shard.name);
            if weight > 0.0 {
                let group = config.sampling.group_of(&shard.name);
                let directed = group.is_some_and(|group| config.sampling.groups[group].directed);
                units.extend(units_of(shard, number, &languages, weight, directed));
            }
        }
        let mut masses = masses(&shards, &units, config);
        let pairs: f64 = config.stages.iter().map(|stage| stage.steps as f64 * stage.batch_pairs as f64).sum();
        let mut drawn = drawn(&shards, &units, &masses);
        if let Some(views_max) = config.sampling.views_max {
            let factors = views::factors(&drawn, pairs, views_max);
            units.iter().zip(&mut masses).for_each(|(unit, mass)| *mass *= factors[unit.shard]);
            drawn.iter_mut().zip(factors).for_each(|(drawn, factor)| drawn.share *= factor);
        }
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
        Ok(Self { shards, units, cumulative, seed: config.seed, run_pairs: config.sampling.run_pairs, drawn, pairs })
    }

    /// How often a text of each corpus that is drawn is seen on average, over all stages.
    pub fn views(&self) -> BTreeMap<String, f64> {
        let mut corpora: BTreeMap<String, ShardUsage> = BTreeMap::new();
        for (shard, drawn) in self.shards.iter().zip(&self.drawn) {
            let corpus = corpora.entry(shard.name.clone()).or_insert(ShardUsage { texts: 0.0, share: 0.0 });
            (corpus.texts, corpus.share) = (corpus.texts + drawn.texts, corpus.share + drawn.share);
        }
        corpora.retain(|_, drawn| drawn.texts > 0.0);
        corpora.into_iter().map(|(name, drawn)| (name, drawn.views(self.pairs))).collect()
    }

    /// Draws the batch of `step` in a stage. Translation pairs have their languages in random order; directed pairs have the
    /// question on the left.
    pub fn batch(&self, step: u64, stage: &StageConfig, tools: SamplingTools<'_>) -> Vec<(Sentence, Sentence)> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(step);
        let mut batch = Vec::with_capacity(stage.batch_pairs);
        let mut seen = Seen { texts: FxHashSet::default(), refusals_left: REFUSALS_PER_PAIR * stage.batch_pairs };
        while batch.len() < stage.batch_pairs {
            let unit = self.draw_unit(&mut random);
            let run_pairs = self.run_pairs.min(stage.batch_pairs - batch.len());
            let mut mined = tools.miner.map(|miner| self.mine(&mut random, unit, miner, run_pairs).into_iter());
            for _ in 0..run_pairs {
                let row = match &mut mined {
                    Some(rows) => rows.find(|&row| seen.admit(self.keys(unit, row))),
                    None => self.draw_row(&mut random, unit, &mut seen),
                };
                // The corpus is too small or too sparse for the rest of the run, so another unit is drawn.
                let Some(row) = row else { break };
                let mut rows = vec![row];
                if !unit.directed && stage.joined_share > 0.0 && random.random::<f64>() < stage.joined_share {
                    self.join_more(&mut random, unit, &mut seen, &mut rows, stage.tokens_max as usize);
                }
                let (left, right) =
                    if unit.directed || random.random() { (unit.left, unit.right) } else { (unit.right, unit.left) };
                let mut sentence = |column| self.sentence(&mut random, (unit.shard, column), &rows, stage, tools);
                let (mut first, mut second) = (sentence(left), sentence(right));
                crop(&mut random, &mut first, stage.cropping.map_or(0.0, |cropping| cropping.share));
                (first.translated, second.translated) = (!unit.directed, !unit.directed);
                first.question = stage
                    .question_encoder
                    .is_some_and(|questions| unit.directed || random.random::<f64>() < questions.translation_share);
                batch.push((first, second));
            }
        }
        batch
    }

    /// Draws a row that both columns have and whose texts are not in the batch yet.
    fn draw_row(&self, random: &mut ChaCha8Rng, unit: Unit, seen: &mut Seen) -> Option<usize> {
        (0..TRIES).find_map(|_| self.try_row(random, unit).filter(|&row| seen.admit(self.keys(unit, row))))
    }

    /// Draws a row; `None` if one of the columns lacks it.
    fn try_row(&self, random: &mut ChaCha8Rng, unit: Unit) -> Option<usize> {
        let shard = &self.shards[unit.shard];
        let row = random.random_range(0..shard.segments);
        (shard.has(unit.left, row) && shard.has(unit.right, row)).then_some(row)
    }

    /// The keys that must be unique in a batch: the segment, which covers its translations in all other languages, and the two
    /// texts.
    fn keys(&self, unit: Unit, row: usize) -> [u64; 3] {
        let text = |column| FxBuildHasher.hash_one(self.shards[unit.shard].ids(column, row, usize::MAX));
        [FxBuildHasher.hash_one((unit.shard, row)), text(unit.left), text(unit.right)]
    }

    /// Draws a pool of rows for a run of `pairs`, and returns those that the run should use, best first.
    fn mine(&self, random: &mut ChaCha8Rng, unit: Unit, miner: &Miner, pairs: usize) -> Vec<usize> {
        let draws = pairs * miner.pool;
        let drawn = (0..draws.max(TRIES)).filter_map(|_| self.try_row(random, unit)).take(draws);
        let mut rows: Vec<usize> = Vec::with_capacity(draws);
        let mut seen = FxHashSet::default();
        rows.extend(drawn.filter(|row| seen.insert(*row)));
        let texts: Vec<Vec<u16>> = rows.iter().map(|&row| self.shards[unit.shard].ids(unit.left, row, usize::MAX)).collect();
        miner.nearest_to_first(&texts).into_iter().map(|index| rows[index]).collect()
    }

    /// Adds rows whose texts are concatenated to the first one's, as long as both sides stay within `tokens_max`.
    fn join_more(&self, random: &mut ChaCha8Rng, unit: Unit, seen: &mut Seen, rows: &mut Vec<usize>, tokens_max: usize) {
        let shard = &self.shards[unit.shard];
        let length = |row: usize| shard.len(unit.left, row).max(shard.len(unit.right, row));
        let mut total = length(rows[0]);
        while rows.len() < JOINED_MAX {
            match self.draw_row(random, unit, seen) {
                Some(row) if total + length(row) <= tokens_max => {
                    total += length(row);
                    rows.push(row);
                }
                _ => return,
            }
        }
    }

    fn sentence(
        &self,
        random: &mut ChaCha8Rng,
        (shard, column): (usize, usize),
        rows: &[usize],
        stage: &StageConfig,
        tools: SamplingTools<'_>,
    ) -> Sentence {
        let (shard, tokens_max) = (&self.shards[shard], stage.tokens_max as usize);
        let whole: Vec<u16> = rows.iter().flat_map(|&row| shard.ids(column, row, tokens_max)).collect();
        let mut ids = whole.clone();
        if let Some(Augmenter { diacritics_remover, subword_splitter }) = tools.augmenter {
            if let Some(missing) = stage.missing_diacritics
                && random.random::<f64>() < missing.share
                && let Some(mut stripped) = diacritics_remover.strip(&ids)
            {
                stripped.truncate(tokens_max);
                ids = stripped;
            }
            if let Some(splits) = stage.subword_splits {
                ids = subword_splitter.split(&ids, splits.share, random);
                ids.truncate(tokens_max);
            }
        }
        if stage.token_dropout > 0.0 && ids.len() > 2 {
            let first = ids[0];
            ids.retain(|_| random.random::<f64>() >= stage.token_dropout);
            if ids.is_empty() {
                ids.push(first);
            }
        }
        let whole = (ids != whole).then_some(whole);
        Sentence { ids, whole, language: shard.languages[column].index() as i64, translated: true, question: false }
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
        let target = random.random::<f64>() * total;
        let index = self.cumulative.partition_point(|&sum| sum <= target);
        self.units[index.min(self.units.len() - 1)]
    }
}

/// With probability `share`, crops the sentence to some consecutive tokens, at most half of them.
fn crop(random: &mut ChaCha8Rng, sentence: &mut Sentence, share: f64) {
    let ids = &mut sentence.ids;
    if ids.len() < CROPPED_FROM || share == 0.0 || random.random::<f64>() >= share {
        return;
    }
    let length = random.random_range(PART_MIN..=ids.len() / 2);
    let start = random.random_range(0..=ids.len() - length);
    let part = ids[start..start + length].to_vec();
    let seen = std::mem::replace(ids, part);
    sentence.whole.get_or_insert(seen);
}

/// Returns the languages that pairs may have.
fn languages(config: &Config) -> Result<Vec<Language>, Error> {
    let Some(codes) = &config.sampling.languages else { return Ok(Language::all().collect()) };
    let parse = |code: &String| {
        let problem = format!("expected codes of supported languages, got {code:?}");
        Language::parse(code).ok_or(Error::Setting { setting: "sampling.languages", problem })
    };
    codes.iter().map(parse).collect()
}

fn units_of(shard: &Shard, number: usize, languages: &[Language], weight: f64, directed: bool) -> Vec<Unit> {
    let words = shard.segments.div_ceil(64);
    let columns = (0..shard.languages.len()).filter(|&column| languages.contains(&shard.languages[column]));
    let present: Vec<(usize, Vec<u64>)> = columns
        .map(|column| {
            let mut bits = vec![0u64; words];
            for row in (0..shard.segments).filter(|&row| shard.has(column, row)) {
                bits[row / 64] |= 1 << (row % 64);
            }
            (column, bits)
        })
        .collect();
    let mut units = Vec::new();
    for (index, (left, of_left)) in present.iter().enumerate() {
        for (right, of_right) in &present[index + 1..] {
            let pairs: u32 = of_left.iter().zip(of_right).map(|(a, b)| (a & b).count_ones()).sum();
            if pairs > 0 {
                units.push(Unit { shard: number, left: *left, right: *right, amount: weight * f64::from(pairs), directed });
            }
        }
    }
    units
}

fn masses(shards: &[Shard], units: &[Unit], config: &Config) -> Vec<f64> {
    let (sampling, english) = (&config.sampling, Language::parse("en"));
    let has_english = |pair: (Language, Language)| Some(pair.0) == english || Some(pair.1) == english;
    // The pool of a unit: its group, or the rest with or without English, and its two languages.
    let pool_of = |unit: &Unit| -> Pool {
        let shard = &shards[unit.shard];
        let (a, b) = (shard.languages[unit.left], shard.languages[unit.right]);
        let group = sampling.group_of(&shard.name);
        Pool { group, english: group.is_none() && has_english((a, b)), pair: (a.min(b), a.max(b)) }
    };
    let mut amounts: BTreeMap<Pool, f64> = BTreeMap::new();
    for unit in units {
        *amounts.entry(pool_of(unit)).or_default() += unit.amount;
    }
    let exponent = |group: Option<usize>| group.map_or(sampling.pair_exponent, |group| sampling.groups[group].pair_exponent);
    let mut totals: BTreeMap<(Option<usize>, bool), f64> = BTreeMap::new();
    for (pool, amount) in &amounts {
        *totals.entry((pool.group, pool.english)).or_default() += amount.powf(exponent(pool.group));
    }
    let rest = 1.0 - sampling.groups.iter().map(|group| group.share).sum::<f64>();
    // If all or none of the pairs outside of the groups have English, they get the whole share that the groups leave.
    let both = totals.contains_key(&(None, true)) && totals.contains_key(&(None, false));
    let share = |pool: &Pool| match pool.group {
        Some(group) => sampling.groups[group].share,
        None if !both => rest,
        None if pool.english => rest * sampling.english_share,
        None => rest * (1.0 - sampling.english_share),
    };
    let mass = |unit: &Unit| {
        let pool = pool_of(unit);
        let amount = amounts[&pool];
        share(&pool) * amount.powf(exponent(pool.group)) / totals[&(pool.group, pool.english)] * unit.amount / amount
    };
    units.iter().map(mass).collect()
}

/// The texts of each shard that can be drawn, and its share of the pairs.
fn drawn(shards: &[Shard], units: &[Unit], masses: &[f64]) -> Vec<ShardUsage> {
    let total: f64 = masses.iter().sum();
    let mut drawn = vec![ShardUsage { texts: 0.0, share: 0.0 }; shards.len()];
    units.iter().zip(masses).for_each(|(unit, mass)| drawn[unit.shard].share += mass / total);
    let columns: BTreeSet<_> = units.iter().flat_map(|unit| [(unit.shard, unit.left), (unit.shard, unit.right)]).collect();
    for (number, column) in columns {
        let shard = &shards[number];
        drawn[number].texts += (0..shard.segments).filter(|&row| shard.has(column, row)).count() as f64;
    }
    drawn
}

/// Units of the same group and the same two languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pool {
    group: Option<usize>,
    english: bool,
    pair: (Language, Language),
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
