//! Compares a question with the passages of a collection, token by token.

use std::sync::Arc;

use multiversion::multiversion;

use super::rows::{Factor, LANES, NEAR, NearToken, ONE, Rows, ScorerError, dot};
use super::{TokenIndex, best};
use crate::domain::PassageId;

/// Maximum number of visits per passage of the collection, with the minimum below. A passage counts once for each token that
/// leads to it. Beyond that, the tokens of the question that say the least for their cost are not used to find passages.
const VISITS_PER_PASSAGE: usize = 2;
const VISITS_MIN: usize = 200_000;
/// If a token leads to more than one out of this many passages, all scores are updated for it, because that is faster than
/// following its postings again.
const SCORED_PART: usize = 8;
/// Number of postings whose beginnings are read before the first of them is followed, so that the processor waits for all of
/// them at once instead of for one after the other.
const TOUCHED_TOGETHER: usize = 64;
/// Number of passage tokens that are compared together, so that their rows stay in the fastest caches.
const READ_TOGETHER: usize = 256;
/// From this cosine on, two tokens count as the same when deciding whether a match is significant.
const SAME: f32 = 0.98;
/// Factor of the cosine of a token with itself if it is a whole word in the question and only part of a longer one in the
/// passage.
const PARTIAL: f32 = 0.5;

/// A question compared with the vocabulary of a collection.
pub struct Question {
    table: Arc<Rows>,
    /// Its distinct tokens; lane `n` is token `n`.
    ids: Vec<u16>,
    /// Their rows. `None` if there is no token.
    own_rows: Option<Factor>,
    /// The weight of each of these tokens, in groups of `LANES`. The sum is 1; lanes without a token have 0.
    weights: Vec<[f32; LANES]>,
    /// Whether each of these tokens is significant.
    significant: Vec<bool>,
    /// For each token of the question, those with a cosine of `SCANNED` or more, nearest first.
    near: Vec<Arc<[NearToken]>>,
    cosines: Cosines,
}

/// Estimates of how well each passage of an index answers a question.
#[derive(Debug, Clone, Default)]
pub struct LateEstimates {
    /// Estimates by slot.
    scores: Vec<f32>,
}

impl LateEstimates {
    /// Returns the best `limit` passages that `accept` accepts and that have a token near one of the question, best first.
    pub fn nearest(&self, index: &TokenIndex, limit: usize, accept: impl Fn(PassageId) -> bool) -> Vec<(PassageId, f32)> {
        best(&self.scores, |slot| index.passage(slot as u32).filter(|&passage| accept(passage)), limit)
    }

    /// Returns the estimate of a passage, or 0 for a missing one.
    pub fn get(&self, index: &TokenIndex, passage: PassageId) -> f32 {
        index.slot(passage).and_then(|slot| self.scores.get(slot as usize)).copied().unwrap_or(0.0)
    }
}

/// The relation of a passage's token to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenMatch {
    /// It is the nearest to a significant token of the question.
    Near,
    /// It matches a token of the question that says little, such as "the", or a token that most passages have.
    Light,
    /// Neither.
    Other,
}

/// The cosines of some tokens with those of a question, in units of 1 / `ONE`. Negative ones are 0.
struct Cosines {
    /// For each token id, its position plus one, or 0 if it has none.
    positions: Vec<u32>,
    /// By position, `groups` groups of `LANES` each.
    rows: Vec<[i16; LANES]>,
    groups: usize,
}

impl Cosines {
    fn new(vocabulary: usize, groups: usize) -> Self {
        Self { positions: vec![0; vocabulary], rows: Vec::new(), groups }
    }

    /// Returns a token's cosines with a group, or `None` for a token without a position.
    fn get(&self, token: u16, group: usize) -> Option<&[i16; LANES]> {
        let position = self.positions.get(usize::from(token)).filter(|position| **position > 0)?;
        self.rows.get((*position as usize - 1) * self.groups + group)
    }

    /// Returns a token's cosines with all groups, which are zeros at first. The token must be in the vocabulary.
    fn entry(&mut self, token: u16) -> &mut [[i16; LANES]] {
        let position = &mut self.positions[usize::from(token)];
        if *position == 0 {
            self.rows.extend(std::iter::repeat_n([0; LANES], self.groups));
            *position = (self.rows.len() / self.groups) as u32;
        }
        &mut self.rows[(*position as usize - 1) * self.groups..][..self.groups]
    }
}

impl Question {
    /// Prepares a question. `weights` are the weights of the tokens `ids`, `significant` says which of them are significant, and
    /// `near` has the near tokens of each.
    pub(super) fn new(
        table: Arc<Rows>,
        ids: &[u16],
        (weights, significant): (Vec<f32>, Vec<bool>),
        near: Vec<Arc<[NearToken]>>,
    ) -> Result<Self, ScorerError> {
        let groups = ids.len().div_ceil(LANES).max(1);
        let total: f32 = weights.iter().sum();
        let mut grouped = vec![[0.0; LANES]; groups];
        for (lane, weight) in weights.into_iter().enumerate() {
            grouped[lane / LANES][lane % LANES] = weight / total;
        }
        let own_rows = (!ids.is_empty()).then(|| Factor::new(table.gather(ids)?)).transpose()?;
        let cosines = Cosines::new(table.len(), groups);
        Ok(Self { table, ids: ids.to_vec(), own_rows, weights: grouped, significant, near, cosines })
    }

    /// Adds the tokens of passages that will be scored. Adding all at once is faster than one by one.
    pub fn add_passages<'t>(&mut self, passages: impl Iterator<Item = &'t [u16]>) -> Result<(), ScorerError> {
        let Some(own_rows) = &self.own_rows else { return Ok(()) };
        let (mut new, groups) = (Vec::new(), self.cosines.groups);
        for &token in passages.flatten() {
            if self.cosines.positions.get(usize::from(token)) == Some(&0) {
                self.cosines.entry(token);
                new.push(token);
            }
        }
        let first = self.cosines.rows.len() - new.len() * groups;
        for (part, rows) in new.chunks(READ_TOGETHER).zip(self.cosines.rows[first..].chunks_mut(READ_TOGETHER * groups)) {
            let products = own_rows.products(&self.table.gather(part)?)?;
            let each = part.iter().zip(products.as_slice().chunks_exact(self.ids.len()));
            for ((&token, products), row) in each.zip(rows.chunks_exact_mut(groups)) {
                let cosines = row.as_flattened_mut().iter_mut().zip(products).zip(&self.ids);
                cosines.for_each(|((cosine, &product), &id)| *cosine = self.table.cosine(product, token, id));
            }
        }
        Ok(())
    }

    /// Scores a passage: the sum over the question's tokens of weight times the highest cosine among the passage's tokens, 0 to
    /// 1. Tokens of the question in `partial` are whole words there and only parts of words in the passage.
    pub fn score(&self, tokens: &[u16], partial: &[u16]) -> f32 {
        let cosine_of = |token, group| self.cosines.get(token, group).copied().unwrap_or_else(|| self.compare(token, group));
        if partial.is_empty() {
            return self.sum(tokens, cosine_of);
        }
        self.sum(tokens, |token, group| {
            let mut cosines = cosine_of(token, group);
            let lanes = self.ids.iter().skip(group * LANES).zip(&mut cosines);
            let same = lanes.filter(|(id, _)| **id == token && partial.contains(&token));
            same.for_each(|(_, cosine)| *cosine = (f32::from(*cosine) * PARTIAL) as i16);
            cosines
        })
    }

    /// Computes the same sum from any cosines of a token with a group.
    fn sum(&self, tokens: &[u16], cosines: impl Fn(u16, usize) -> [i16; LANES]) -> f32 {
        let mut score = 0.0;
        for (group, weights) in self.weights.iter().enumerate() {
            let mut greatest = [0_i16; LANES];
            for &token in tokens {
                let row = cosines(token, group);
                greatest.iter_mut().zip(row).for_each(|(greatest, cosine)| *greatest = (*greatest).max(cosine));
            }
            let weighted = greatest.iter().zip(weights).map(|(&cosine, weight)| f32::from(cosine) * weight);
            score += weighted.sum::<f32>();
        }
        // The weights add up to 1 but for rounding.
        (score / ONE).min(1.0)
    }

    /// Computes the cosines of a new token. A token that is not in the table is near to none.
    fn compare(&self, token: u16, group: usize) -> [i16; LANES] {
        let mut cosines = [0; LANES];
        if let Some(row) = self.table.row(token) {
            for (cosine, &id) in cosines.iter_mut().zip(self.ids.iter().skip(group * LANES)) {
                *cosine = self.table.row(id).map_or(0, |values| self.table.cosine(dot(values, row), token, id));
            }
        }
        cosines
    }

    /// Returns the sum of the weights of some tokens, 0 to 1. `None` if the question, which may have been truncated, has
    /// none of them.
    pub(super) fn weight(&self, tokens: &[u32]) -> Option<f32> {
        let is_one = |id: &u16| tokens.contains(&u32::from(*id));
        let weights = self.weights.as_flattened().iter().zip(&self.ids);
        weights.filter(|(_, id)| is_one(id)).map(|(weight, _)| *weight).reduce(|sum, weight| sum + weight)
    }

    /// Whether a token is a significant token of the question.
    pub(super) fn is_significant(&self, token: u32) -> bool {
        let mut tokens = self.ids.iter().zip(&self.significant);
        tokens.any(|(id, is_significant)| *is_significant && u32::from(*id) == token)
    }

    /// Returns the relation of each token of a passage to the question. Nothing is near to the question's tokens in `ignored`.
    pub fn matches(&self, tokens: &[u16], ignored: &[u32]) -> Vec<TokenMatch> {
        let (near, same) = ((NEAR * ONE) as i16, (SAME * ONE) as i16);
        let mut matches = vec![TokenMatch::Other; tokens.len()];
        for (group, significant) in self.significant.chunks(LANES).enumerate() {
            let row = |&token: &u16| self.cosines.get(token, group).copied().unwrap_or_else(|| self.compare(token, group));
            let rows: Vec<[i16; LANES]> = tokens.iter().map(row).collect();
            let is_ignored = |lane: usize| self.ids.get(group * LANES + lane).is_none_or(|id| ignored.contains(&u32::from(*id)));
            for (lane, is_significant) in significant.iter().enumerate().filter(|(lane, _)| !is_ignored(*lane)) {
                let nearest = rows.iter().map(|row| row[lane]).max().unwrap_or(0);
                for (found, cosine) in matches.iter_mut().zip(rows.iter().map(|row| row[lane])) {
                    if *is_significant && cosine >= near && cosine == nearest {
                        *found = TokenMatch::Near;
                    } else if !is_significant && cosine >= same && *found == TokenMatch::Other {
                        *found = TokenMatch::Light;
                    }
                }
            }
        }
        matches
    }

    /// Estimates the scores of all passages from the tokens near those of the question. Ignores cosines below `SCANNED`, and
    /// tokens that lead to too many passages for their weight (`VISITS_PER_PASSAGE`). So an estimate may be lower than `score`,
    /// but it is only higher where `score` counts tokens as partial.
    pub fn estimate(&self, index: &TokenIndex) -> LateEstimates {
        let mut scores = vec![0.0; index.slots()];
        // The cosine of the current token of the question, by slot. Near tokens are processed from the farthest to the
        // nearest, and each overwrites the values of farther ones, so no entry has to be read.
        let mut cosines = vec![0_i16; index.slots()];
        for (lane, visits) in self.affordable(index) {
            let weight = self.weights[lane / LANES][lane % LANES] / ONE;
            for part in self.near[lane].rchunks(TOUCHED_TOGETHER) {
                let first = |near: &NearToken| index.posting(near.token).first().copied().unwrap_or_default();
                std::hint::black_box(part.iter().fold(0, |all, near| all ^ first(near)));
                for near in part.iter().rev() {
                    index.posting(near.token).iter().for_each(|&slot| cosines[slot as usize] = near.cosine);
                }
            }
            if visits > index.slots() / SCORED_PART {
                add(&mut scores, &mut cosines, weight);
                continue;
            }
            for &slot in self.near[lane].iter().flat_map(|near| index.posting(near.token)) {
                scores[slot as usize] += weight * f32::from(std::mem::take(&mut cosines[slot as usize]));
            }
        }
        self.add_tail(index, &mut scores);
        LateEstimates { scores }
    }

    /// Scores the passages that no posting leads to.
    fn add_tail(&self, index: &TokenIndex, scores: &mut [f32]) {
        let mut tail = index.tail().peekable();
        if tail.peek().is_none() {
            return;
        }
        let mut cosines = Cosines::new(self.table.len(), self.weights.len());
        for (lane, near) in self.near.iter().enumerate() {
            for near in near.iter().filter(|near| index.frequency(near.token) > 0) {
                cosines.entry(near.token)[lane / LANES][lane % LANES] = near.cosine;
            }
        }
        for (slot, tokens) in tail {
            scores[slot as usize] = self.sum(tokens, |token, group| cosines.get(token, group).copied().unwrap_or([0; LANES]));
        }
    }

    /// Returns the tokens of the question to find passages with: at least one and, within the limits, those that say the
    /// most in relation to the number of passages that they lead to. Each comes with this number.
    fn affordable(&self, index: &TokenIndex) -> Vec<(usize, usize)> {
        let visits = |lane: usize| self.near[lane].iter().map(|near| index.posting(near.token).len()).sum::<usize>();
        let worth = |lane: usize, visits: usize| self.weights[lane / LANES][lane % LANES] / (1 + visits) as f32;
        let mut lanes: Vec<(usize, usize)> = (0..self.near.len()).map(|lane| (lane, visits(lane))).collect();
        lanes.sort_by(|a, b| worth(b.0, b.1).total_cmp(&worth(a.0, a.1)));
        let mut left = VISITS_MIN.max(VISITS_PER_PASSAGE * index.len());
        let within = |&(number, (_, visits)): &(usize, (usize, usize))| {
            left = left.saturating_sub(visits);
            number == 0 || left > 0
        };
        lanes.into_iter().enumerate().take_while(within).map(|(_, lane)| lane).collect()
    }
}

/// Adds the cosines times a weight to the scores, and sets them to zero. Compiled for wide vector registers too.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn add(scores: &mut [f32], cosines: &mut [i16], weight: f32) {
    for (score, cosine) in scores.iter_mut().zip(cosines) {
        *score += weight * f32::from(std::mem::take(cosine));
    }
}

#[cfg(test)]
#[path = "question_tests.rs"]
mod tests;
