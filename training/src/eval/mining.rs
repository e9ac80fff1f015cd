//! Mining translation pairs out of comparable texts: EMS (2024), section V-C, table IX (BUCC 2018). Precision, recall and F1 of
//! pairs that margin scoring (`margin`) proposes, above a threshold that is best for F1 on one part and applied to another.
//!
//! Files as BUCC 2018 names them: `xx-en.PART.xx` and `xx-en.PART.en`, one sentence per line, `id<TAB>sentence`, and
//! `xx-en.PART.gold`, one translation pair per line, `xx-id<TAB>en-id`. PART is `dev` or `training` for the threshold (`dev` where
//! both are there), and `test`, which may be absent. Any two languages will do.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::encoder::{Embeddings, SentenceEncoder};
use super::lines;
use super::margin::{NEIGHBORS, Pair, best_backward, best_forward};
use super::neighbors::both_ways;
use super::retrieval::mean;
use crate::error::Error;

/// Parts that a threshold is found on; the first that has a gold file.
const TUNING: [&str; 2] = ["dev", "training"];
const TEST: &str = "test";

/// How candidate pairs become proposed pairs (Artetxe and Schwenk, 2019, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// The best of each sentence of the first language.
    Forward,
    /// The best of each sentence of the second language.
    Backward,
    /// Pairs that are the best both ways.
    Intersection,
    /// All of forward and backward by falling score, each sentence once.
    MaxScore,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Forward, Self::Backward, Self::Intersection, Self::MaxScore];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Intersection => "intersection",
            Self::MaxScore => "max-score",
        }
    }
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MiningReport {
    /// By language pair.
    pub pairs: BTreeMap<String, MiningScore>,
    /// Mean F1 in percent of max-score: on the test part of the pairs that have one, otherwise on the part of the threshold.
    pub mean_f1: f64,
}

/// How well the pairs of two languages were mined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MiningScore {
    /// The part that the threshold was found on.
    pub tuning_part: String,
    /// Pairs in its gold file.
    pub tuning_gold: usize,
    /// Pairs in the gold file of the test part, when there is one.
    pub test_gold: Option<usize>,
    /// By strategy.
    pub strategies: BTreeMap<Strategy, StrategyScore>,
}

/// How well one strategy did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StrategyScore {
    /// Pairs that score at least this are proposed.
    pub threshold: f64,
    /// On the part of the threshold.
    pub tuning: Mined,
    /// On the test part, when there is one.
    pub test: Option<Mined>,
}

/// Right and proposed pairs, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mined {
    /// Of the proposed pairs, the share that is in the gold file.
    pub precision: f64,
    /// Of the gold file's pairs, the share that is proposed.
    pub recall: f64,
    /// Their harmonic mean.
    pub f1: f64,
}

/// Measures every language pair that has files in `folder`. Gives `None` when none has.
pub fn measure(folder: &Path, encoder: &mut dyn SentenceEncoder) -> Result<Option<MiningReport>, Error> {
    let mut pairs = BTreeMap::new();
    for name in lines::names(folder)? {
        let Some((pair, part)) = name.strip_suffix(".gold").and_then(|stem| stem.split_once('.')) else { continue };
        let first_of_pair = TUNING.into_iter().find(|part| part_path(folder, pair, part, "gold").is_file());
        if pair.contains('-') && first_of_pair == Some(part) {
            pairs.insert(pair.to_owned(), measure_pair(folder, pair, part, encoder)?);
        }
    }
    let mean_f1 = mean(pairs.values().map(|score: &MiningScore| {
        let best = &score.strategies[&Strategy::MaxScore];
        best.test.unwrap_or(best.tuning).f1
    }));
    Ok((!pairs.is_empty()).then_some(MiningReport { pairs, mean_f1 }))
}

fn measure_pair(folder: &Path, pair: &str, part: &str, encoder: &mut dyn SentenceEncoder) -> Result<MiningScore, Error> {
    let tuning = Part::mine(folder, pair, part, encoder)?;
    let test = match part_path(folder, pair, TEST, "gold").is_file() {
        true => Some(Part::mine(folder, pair, TEST, encoder)?),
        false => None,
    };
    let strategies = Strategy::ALL.map(|strategy| {
        let threshold = best_threshold(&tuning.propose(strategy), &tuning.gold);
        let score = |part: &Part| judge(&part.propose(strategy), &part.gold, threshold);
        (strategy, StrategyScore { threshold, tuning: score(&tuning), test: test.as_ref().map(score) })
    });
    Ok(MiningScore {
        tuning_part: part.to_owned(),
        tuning_gold: tuning.gold.len(),
        test_gold: test.map(|test| test.gold.len()),
        strategies: strategies.into(),
    })
}

fn part_path(folder: &Path, pair: &str, part: &str, end: &str) -> PathBuf {
    folder.join(format!("{pair}.{part}.{end}"))
}

/// Candidates of one part, and which of them are right.
struct Part {
    forward: Vec<Pair>,
    backward: Vec<Pair>,
    gold: HashSet<(usize, usize)>,
}

impl Part {
    fn mine(folder: &Path, pair: &str, part: &str, encoder: &mut dyn SentenceEncoder) -> Result<Self, Error> {
        let (first, second) = pair.split_once('-').unwrap_or((pair, pair));
        let (first_ids, left) = read_side(&part_path(folder, pair, part, first), encoder)?;
        let (second_ids, right) = read_side(&part_path(folder, pair, part, second), encoder)?;
        let gold = read_gold(&part_path(folder, pair, part, "gold"), &first_ids, &second_ids)?;
        let (forward, backward) = both_ways(&left, &right, NEIGHBORS)?;
        Ok(Self { forward: best_forward(&forward, &backward), backward: best_backward(&forward, &backward), gold })
    }

    fn propose(&self, strategy: Strategy) -> Vec<Pair> {
        propose(strategy, &self.forward, &self.backward)
    }
}

/// The numbers of a side's sentences by their ids, and the embeddings.
fn read_side(path: &Path, encoder: &mut dyn SentenceEncoder) -> Result<(HashMap<String, usize>, Embeddings), Error> {
    let mut ids = HashMap::new();
    let mut sentences = Vec::new();
    for (number, [id, sentence]) in lines::rows(path, ["id", "sentence"])?.into_iter().enumerate() {
        if let Some(earlier) = ids.insert(id.clone(), number) {
            let got = format!("{id}, as in line {}", earlier + 1);
            return Err(lines::field(path, number + 1, "id", "an id of its own", &got));
        }
        sentences.push(sentence);
    }
    Ok((ids, encoder.encode(&sentences)?))
}

fn read_gold(
    path: &Path,
    first: &HashMap<String, usize>,
    second: &HashMap<String, usize>,
) -> Result<HashSet<(usize, usize)>, Error> {
    let fields = ["first id", "second id"];
    let mut gold = HashSet::new();
    for (number, row) in lines::rows(path, fields)?.into_iter().enumerate() {
        let find = |ids: &HashMap<String, usize>, column: usize| {
            let unknown = || lines::field(path, number + 1, fields[column], "an id of the sentences", &row[column]);
            ids.get(&row[column]).copied().ok_or_else(unknown)
        };
        gold.insert((find(first, 0)?, find(second, 1)?));
    }
    Ok(gold)
}

/// The pairs that a strategy proposes, by falling score.
fn propose(strategy: Strategy, forward: &[Pair], backward: &[Pair]) -> Vec<Pair> {
    let mut pairs = match strategy {
        Strategy::Forward => forward.to_vec(),
        Strategy::Backward => backward.to_vec(),
        Strategy::Intersection => {
            let both: HashSet<(usize, usize)> = backward.iter().map(|pair| (pair.first, pair.second)).collect();
            forward.iter().copied().filter(|pair| both.contains(&(pair.first, pair.second))).collect()
        }
        Strategy::MaxScore => [forward, backward].concat(),
    };
    pairs.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| (a.first, a.second).cmp(&(b.first, b.second))));
    if strategy == Strategy::MaxScore {
        let (mut first_used, mut second_used) = (HashSet::new(), HashSet::new());
        pairs.retain(|pair| {
            let free = !first_used.contains(&pair.first) && !second_used.contains(&pair.second);
            if free {
                first_used.insert(pair.first);
                second_used.insert(pair.second);
            }
            free
        });
    }
    pairs
}

/// The threshold with the highest F1 for `pairs`, which fall in score: halfway between the last pair that it lets through and the
/// next one. Of equally good ones the highest.
fn best_threshold(pairs: &[Pair], gold: &HashSet<(usize, usize)>) -> f64 {
    let mut best = (0.0, pairs.first().map_or(0.0, |pair| pair.score));
    let mut right = 0;
    for (number, pair) in pairs.iter().enumerate() {
        right += usize::from(gold.contains(&(pair.first, pair.second)));
        let next = pairs.get(number + 1).map_or(pair.score, |next| next.score);
        // Pairs of equal score stand or fall together.
        let separable = next < pair.score || number + 1 == pairs.len();
        let f1 = mined(right, number + 1, gold.len()).f1;
        if separable && f1 > best.0 {
            best = (f1, (pair.score + next) / 2.0);
        }
    }
    best.1
}

fn judge(pairs: &[Pair], gold: &HashSet<(usize, usize)>, threshold: f64) -> Mined {
    let proposed = pairs.iter().filter(|pair| pair.score >= threshold);
    let (count, right) =
        proposed.fold((0, 0), |(count, right), pair| (count + 1, right + usize::from(gold.contains(&(pair.first, pair.second)))));
    mined(right, count, gold.len())
}

fn mined(right: usize, proposed: usize, gold: usize) -> Mined {
    let share = |of: usize| if of == 0 { 0.0 } else { 100.0 * right as f64 / of as f64 };
    let f1 = if right == 0 { 0.0 } else { 200.0 * right as f64 / (proposed + gold) as f64 };
    Mined { precision: share(proposed), recall: share(gold), f1 }
}

impl fmt::Display for MiningReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Mining of translation pairs, in percent:\n")?;
        writeln!(f, "| pair  | part     | strategy     | threshold | precision | recall |    F1 |")?;
        writeln!(f, "|-------|----------|--------------|----------:|----------:|-------:|------:|")?;
        for (pair, score) in &self.pairs {
            for (strategy, by) in &score.strategies {
                let parts = [(score.tuning_part.as_str(), Some(by.tuning)), (TEST, by.test)];
                for (part, mined) in parts.into_iter().filter_map(|(part, mined)| Some((part, mined?))) {
                    let (strategy, threshold) = (strategy.name(), by.threshold);
                    write!(f, "| {pair:5} | {part:8} | {strategy:12} | {threshold:>9.4} | {:>9.2} ", mined.precision)?;
                    writeln!(f, "| {:>6.2} | {:>5.2} |", mined.recall, mined.f1)?;
                }
            }
        }
        writeln!(f, "\n- mining, {} pairs: mean F1 of max-score {:.2}", self.pairs.len(), self.mean_f1)
    }
}

#[cfg(test)]
#[path = "mining_tests.rs"]
mod tests;
