//! Trains a Unigram vocabulary (Kudo, 2018, section 3.2): many candidate pieces, then rounds of expectation maximization and
//! pruning down to the requested number.
//!
//! Words come with their counts, and candidates are counted with them. The trainer of the `tokenizers` crate instead looks for
//! candidates among the distinct words, where a frequent word that is not part of another one occurs once and never becomes a
//! candidate, so it is split into pieces in every text.

/// The pieces as a trie, and segmentations over it.
mod lattice;
/// Candidates.
mod seed;

use rayon::prelude::*;
use rustc_hash::FxHashSet;

use crate::config::TokenizerConfig;
use lattice::Lattice;

/// A word's characters, including the leading `▁`, and its number of occurrences.
pub type CountedWord = (Vec<char>, u32);

/// Rounds of expectation maximization before each pruning.
const ROUNDS: usize = 2;
/// The share of the pieces that survives a pruning.
const KEPT_SHARE: f64 = 0.75;
/// Pruning stops at this multiple of the requested size; the least probable pieces beyond it are removed at the end.
const SLACK: f64 = 1.1;
/// A piece with a lower expected count is removed.
const EXPECTED_MIN: f64 = 0.5;
/// Words per parallel task.
const TASK_WORDS: usize = 8_192;

/// A piece with the logarithm of its probability.
pub type Piece = (String, f64);

/// Trains a vocabulary of `size` pieces on `words`; returns the most probable piece first. The single characters that
/// `character_coverage` requires are always included; there are fewer pieces only if the words do not have more.
pub fn train(words: &[CountedWord], size: usize, settings: &TokenizerConfig) -> Vec<Piece> {
    let required = seed::characters(words, settings.character_coverage);
    let mut pieces = normalized(seed::candidates(words, &required, settings));
    println!("{} candidates, {} characters among them, {} distinct words", pieces.len(), required.len(), words.len());
    let enough = (size as f64 * SLACK) as usize;
    loop {
        for _ in 0..ROUNDS {
            pieces = maximize(words, &pieces, &required);
        }
        if pieces.len() <= enough {
            break;
        }
        let before = pieces.len();
        let keep = enough.max((before as f64 * KEPT_SHARE) as usize);
        pieces = prune(words, &pieces, keep);
        println!("{before} pieces pruned to {}", pieces.len());
        if pieces.len() >= before {
            break;
        }
    }
    finish(pieces, &required, size)
}

/// Turns counts into logarithms of probabilities.
fn normalized(counts: Vec<(Vec<char>, f64)>) -> Vec<(Vec<char>, f64)> {
    let total = counts.iter().map(|(_, count)| count).sum::<f64>().ln();
    counts.into_iter().map(|(piece, count)| (piece, count.ln() - total)).collect()
}

/// One round of expectation maximization. Expected counts are taken over all segmentations, weighted by probability. The new
/// probabilities are the Bayesian ones, exp(digamma(count)), which favor frequent pieces over rare ones.
fn maximize(words: &[CountedWord], pieces: &[(Vec<char>, f64)], required: &FxHashSet<char>) -> Vec<(Vec<char>, f64)> {
    let lattice = Lattice::new(pieces);
    let zero = || vec![0.0; pieces.len()];
    let add = |mut left: Vec<f64>, right: Vec<f64>| {
        left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
        left
    };
    // Tasks have a fixed size and are added in order, so the sums do not depend on the number of threads.
    let parts: Vec<Vec<f64>> = words
        .par_chunks(words.len().div_ceil(8).max(TASK_WORDS))
        .map(|words| {
            let mut expected = zero();
            words.iter().for_each(|(word, count)| lattice.expect(word, f64::from(*count), &mut expected));
            expected
        })
        .collect();
    let expected = parts.into_iter().fold(zero(), add);
    let remaining: Vec<(Vec<char>, f64)> = pieces
        .iter()
        .zip(expected)
        .filter(|((piece, _), count)| *count >= EXPECTED_MIN || is_required(piece, required))
        .map(|((piece, _), count)| (piece.clone(), count.max(EXPECTED_MIN)))
        .collect();
    let total = digamma(remaining.iter().map(|(_, count)| count).sum());
    remaining.into_iter().map(|(piece, count)| (piece, digamma(count) - total)).collect()
}

fn is_required(piece: &[char], required: &FxHashSet<char>) -> bool {
    piece.len() == 1 && required.contains(&piece[0])
}

/// Keeps the `keep` pieces whose removal would lower the likelihood of the words most. A piece without an alternative
/// segmentation always stays; one that is never in the best segmentation is removed.
fn prune(words: &[CountedWord], pieces: &[(Vec<char>, f64)], keep: usize) -> Vec<(Vec<char>, f64)> {
    let lattice = Lattice::new(pieces);
    let mut counts = vec![0.0; pieces.len()];
    for (word, count) in words {
        lattice.best(word, None).into_iter().for_each(|piece| counts[piece as usize] += f64::from(*count));
    }
    let total: f64 = counts.iter().sum();
    let mut remaining = Vec::new();
    let losses: Vec<Option<f64>> = (0..pieces.len())
        .into_par_iter()
        .map(|number| {
            let alternative = lattice.best(&pieces[number].0, Some(number as u32));
            if alternative.is_empty() {
                return Some(f64::INFINITY);
            }
            let count = counts[number];
            if count == 0.0 {
                return None;
            }
            // Without this piece, its occurrences are replaced by the alternative's pieces, and the total number of pieces
            // grows.
            let grown = (total + count * (alternative.len() as f64 - 1.0)).ln();
            let other: f64 = alternative.iter().map(|&piece| (counts[piece as usize] + count).ln() - grown).sum();
            Some(count / total * (count.ln() - total.ln() - other))
        })
        .collect();
    for (number, loss) in losses.into_iter().enumerate() {
        remaining.extend(loss.map(|loss| (loss, number)));
    }
    remaining.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    remaining.truncate(keep);
    remaining.sort_unstable_by_key(|&(_, number)| number);
    remaining.into_iter().map(|(_, number)| pieces[number].clone()).collect()
}

fn finish(mut pieces: Vec<(Vec<char>, f64)>, required: &FxHashSet<char>, size: usize) -> Vec<Piece> {
    pieces.sort_by(|a, b| is_required(&b.0, required).cmp(&is_required(&a.0, required)).then(b.1.total_cmp(&a.1)));
    pieces.truncate(size);
    pieces.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    pieces.into_iter().map(|(piece, score)| (piece.into_iter().collect(), score)).collect()
}

/// The derivative of ln Γ: uses the recurrence up to 7 and the asymptotic series from there.
fn digamma(mut x: f64) -> f64 {
    let mut result = 0.0;
    while x < 7.0 {
        result -= 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    result + x.ln() - 0.5 / x - square * (1.0 / 12.0 - square * (1.0 / 120.0 - square / 252.0))
}

#[cfg(test)]
#[path = "../unigram_tests.rs"]
mod tests;
