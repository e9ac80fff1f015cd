//! Mining translation pairs from comparable texts: EMS (2024), section V-C, table IX (BUCC 2018). Precision, recall and F1 of
//! pairs proposed by margin scoring (`crate::mining`), with a threshold that maximizes F1 on one split and is applied to
//! another.
//!
//! Files named as in BUCC 2018: `xx-en.PART.xx` and `xx-en.PART.en`, one sentence per line, `id<TAB>sentence`, and
//! `xx-en.PART.gold`, one translation pair per line, `xx-id<TAB>en-id`. PART is `dev` or `training` for the threshold (`dev` if
//! both exist), and optionally `test`. Any two languages work.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::encoder::SentenceEncoder;
use super::error::EvaluationError;
use super::lines;
use super::neighbors::bidirectional_neighbors;
use super::retrieval::mean;
pub use crate::mining::Candidate;
use crate::mining::margin::NEIGHBORS;
use crate::mining::{KnownPairs, Margin, MarginScores, PairQuality, Strategy, best_threshold, evaluate, propose};

/// Splits to tune the threshold on; the first one with a gold file is used.
const TUNING: [&str; 2] = ["dev", "training"];
const TEST: &str = "test";

/// All strategies, by their names in reports.
const STRATEGIES: [(&str, Strategy); 4] = [
    ("forward", Strategy::Forward),
    ("backward", Strategy::Backward),
    ("intersection", Strategy::Intersection),
    (MAX_SCORE, Strategy::MaxScore),
];
/// The papers' strategy.
pub const MAX_SCORE: &str = "max-score";

/// Proposed pairs in descending order of score, by the name of the strategy.
pub type Proposals = BTreeMap<String, Vec<Candidate>>;

/// Proposes translation pairs between two sets of sentences: one list for each strategy that it supports, which must include
/// `MAX_SCORE`.
pub trait Miner {
    /// Mines two sets. Pairs are sentence indexes.
    fn mine(&mut self, first: &[String], second: &[String]) -> Result<Proposals, EvaluationError>;
}

/// Compares all pairs exactly and proposes pairs by all strategies.
pub struct ExactMiner<'a>(pub &'a mut dyn SentenceEncoder);

impl Miner for ExactMiner<'_> {
    fn mine(&mut self, first: &[String], second: &[String]) -> Result<Proposals, EvaluationError> {
        let (forward, backward) = bidirectional_neighbors(&self.0.encode(first)?, &self.0.encode(second)?, NEIGHBORS)?;
        let scores = MarginScores::new(&forward, &backward, Margin::Ratio)?;
        Ok(STRATEGIES.into_iter().map(|(name, strategy)| (name.to_owned(), propose(strategy, &scores))).collect())
    }
}

/// The results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MiningReport {
    /// By language pair.
    pub pairs: BTreeMap<String, MiningScore>,
    /// Mean F1 of max-score in percent: on the test split if a language pair has one, otherwise on the tuning split.
    pub mean_f1: f64,
}

/// The results for one language pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MiningScore {
    /// The split used to tune the threshold.
    pub tuning_part: String,
    /// Number of pairs in its gold file.
    pub tuning_gold: usize,
    /// Number of pairs in the gold file of the test split, if there is one.
    pub test_gold: Option<usize>,
    /// By strategy.
    pub strategies: BTreeMap<String, StrategyScore>,
}

/// The results of one strategy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StrategyScore {
    /// Minimum score of accepted pairs.
    pub threshold: f64,
    /// Quality on the tuning split.
    pub tuning: PairQuality,
    /// Quality on the test split, if there is one.
    pub test: Option<PairQuality>,
}

/// Evaluates every language pair that has files in `folder`. Returns `None` if none has.
pub fn measure(folder: &Path, miner: &mut dyn Miner) -> Result<Option<MiningReport>, EvaluationError> {
    let mut pairs = BTreeMap::new();
    for name in lines::names(folder)? {
        let Some((pair, part)) = name.strip_suffix(".gold").and_then(|stem| stem.split_once('.')) else { continue };
        let first_of_pair = TUNING.into_iter().find(|part| part_path(folder, pair, part, "gold").is_file());
        if pair.contains('-') && first_of_pair == Some(part) {
            pairs.insert(pair.to_owned(), measure_pair(folder, pair, part, miner)?);
        }
    }
    let mean_f1 = mean(pairs.values().map(|score: &MiningScore| {
        let best = &score.strategies[MAX_SCORE];
        best.test.unwrap_or(best.tuning).f1
    }));
    Ok((!pairs.is_empty()).then_some(MiningReport { pairs, mean_f1 }))
}

fn measure_pair(folder: &Path, pair: &str, part: &str, miner: &mut dyn Miner) -> Result<MiningScore, EvaluationError> {
    let tuning = Part::mine(folder, pair, part, miner)?;
    let test = match part_path(folder, pair, TEST, "gold").is_file() {
        true => Some(Part::mine(folder, pair, TEST, miner)?),
        false => None,
    };
    let score = |(name, proposed): (&String, &Vec<Candidate>)| {
        let threshold = threshold(proposed, &tuning.gold);
        let test = test.as_ref().map(|test| percent(test.proposed.get(name).map_or(&[], Vec::as_slice), &test.gold, threshold));
        (name.clone(), StrategyScore { threshold, tuning: percent(proposed, &tuning.gold, threshold), test })
    };
    Ok(MiningScore {
        tuning_part: part.to_owned(),
        tuning_gold: tuning.gold.len(),
        test_gold: test.as_ref().map(|test| test.gold.len()),
        strategies: tuning.proposed.iter().map(score).collect(),
    })
}

fn part_path(folder: &Path, pair: &str, part: &str, end: &str) -> PathBuf {
    folder.join(format!("{pair}.{part}.{end}"))
}

/// The proposed and the correct pairs of one split.
struct Part {
    proposed: Proposals,
    gold: HashSet<(u32, u32)>,
}

impl Part {
    fn mine(folder: &Path, pair: &str, part: &str, miner: &mut dyn Miner) -> Result<Self, EvaluationError> {
        let (first, second) = pair.split_once('-').unwrap_or((pair, pair));
        let (first_ids, left) = read_side(&part_path(folder, pair, part, first))?;
        let (second_ids, right) = read_side(&part_path(folder, pair, part, second))?;
        let gold = read_gold(&part_path(folder, pair, part, "gold"), &first_ids, &second_ids)?;
        Ok(Self { proposed: miner.mine(&left, &right)?, gold })
    }
}

/// Reads the sentences of one language. Returns their indexes by id, and the sentences.
fn read_side(path: &Path) -> Result<(HashMap<String, u32>, Vec<String>), EvaluationError> {
    let mut ids = HashMap::new();
    let mut sentences = Vec::new();
    for (number, [id, sentence]) in lines::rows(path, ["id", "sentence"])?.into_iter().enumerate() {
        if let Some(earlier) = ids.insert(id.clone(), number as u32) {
            let got = format!("{id}, the same as line {}", earlier + 1);
            return Err(lines::field_error(path, number + 1, "id", "a unique id", &got));
        }
        sentences.push(sentence);
    }
    Ok((ids, sentences))
}

fn read_gold(
    path: &Path,
    first: &HashMap<String, u32>,
    second: &HashMap<String, u32>,
) -> Result<HashSet<(u32, u32)>, EvaluationError> {
    let fields = ["first id", "second id"];
    let mut gold = HashSet::new();
    for (number, row) in lines::rows(path, fields)?.into_iter().enumerate() {
        let find = |ids: &HashMap<String, u32>, column: usize| {
            let unknown = || lines::field_error(path, number + 1, fields[column], "an id of the sentences", &row[column]);
            ids.get(&row[column]).copied().ok_or_else(unknown)
        };
        gold.insert((find(first, 0)?, find(second, 1)?));
    }
    Ok(gold)
}

/// Returns the threshold with the highest F1, or the score of the first pair if none is correct.
fn threshold(pairs: &[Candidate], gold: &HashSet<(u32, u32)>) -> f64 {
    let first = pairs.first().map_or(0.0, |pair| f64::from(pair.score));
    best_threshold(pairs, KnownPairs::All(gold)).map_or(first, |fit| fit.threshold)
}

fn percent(pairs: &[Candidate], gold: &HashSet<(u32, u32)>, threshold: f64) -> PairQuality {
    let PairQuality { precision, recall, f1 } = evaluate(pairs, KnownPairs::All(gold), threshold);
    PairQuality { precision: 100.0 * precision, recall: 100.0 * recall, f1: 100.0 * f1 }
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
                    let threshold = by.threshold;
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
