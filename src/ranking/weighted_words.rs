//! The words of a query, with what each finds in a collection and how much it counts.

use std::sync::Arc;

use super::expansions::Expansion;
use super::question::Question;
use crate::domain::{QueryWord, Script};

/// Maximum number of words of a question to look up: the first ones of a longer question.
const LOOKED_UP_MAX: usize = 256;
/// A question of more words is a text, such as a log, in which words that find nothing say nothing about the wanted passages.
const LONG_QUESTION: usize = 32;
/// Maximum number of words that are used, the heaviest ones.
const QUESTION_WORDS_MAX: usize = 64;
/// Number of words of a long question that are enough for a full match. No passage has all of them, and a few rare words,
/// such as the error code in a log, say more than the rest.
const SUFFICIENT_WORDS: usize = 6;
/// Exponent of the summed weights of a word's tokens, and the minimum of the sum. The exponent was chosen on questions about
/// passages in many languages (`training/README.md`).
const IMPORTANCE_POWER: f32 = 0.6;
const IMPORTANCE_MIN: f32 = 1e-3;
/// Maximum share of the sufficient score that is not compressed. It is beyond the limit of BM25 for any one word.
const SHARE_LINEAR_MAX: f32 = 2.0;

/// A significant word of a question: passages that have it or a translation of it are more likely to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignificantWord {
    /// Its number.
    pub word: u32,
    /// The numbers of the words of the collection that are likely to mean the same, and its own if the collection has it.
    pub meanings: Vec<u32>,
}

/// A word of a query with its weight.
pub(super) struct Weighted {
    /// What it finds.
    pub(super) expansion: Arc<Expansion>,
    /// Its rarity times its importance.
    pub(super) weight: f32,
    /// Whether one of its tokens is significant. In a small collection, word frequencies by themselves do not show that,
    /// because hardly any word is frequent.
    pub(super) has_significant_token: bool,
}

/// How well passages answer a question.
#[derive(Debug, Clone, Default)]
pub struct WordScores {
    /// The scores by slot.
    pub(super) scores: Vec<f32>,
    /// The score of a passage that has every word of the question once, or the heaviest words of a long question.
    pub(super) sufficient: f32,
    /// The significant words of the question, rarest first.
    pub(super) significant: Vec<SignificantWord>,
    /// The words of the question with their weights.
    pub(super) words: Vec<(Arc<Expansion>, f32)>,
}

impl WordScores {
    /// Converts a score to a share of the sufficient one. Beyond twice the sufficient score, which only passages with many
    /// words of a long question reach, the share grows slowly, so that the best passages still differ.
    pub(super) fn share(&self, score: f32) -> f32 {
        let share = score / self.sufficient.max(1.0);
        if share <= SHARE_LINEAR_MAX { share } else { SHARE_LINEAR_MAX + (share / SHARE_LINEAR_MAX).ln() }
    }

    /// Returns the share of the sufficient score that a passage has with these words, by their numbers. `None` if none of them
    /// counts.
    pub fn share_of(&self, words: &[u32]) -> Option<f32> {
        let weights = self.words.iter().filter(|(expansion, _)| words.contains(&expansion.word)).map(|(_, weight)| *weight);
        weights.reduce(|sum, weight| sum + weight).map(|weight| self.share(weight))
    }

    /// Returns the significant words of the question, rarest first.
    pub fn into_significant_words(self) -> Vec<SignificantWord> {
        self.significant
    }
}

/// Returns the distinct words of a query with their weights. `expansion` finds what a word means in the collection.
pub(super) fn weighted_words(
    query: &[QueryWord],
    question: Option<&Question>,
    expansion: impl Fn(&QueryWord) -> Arc<Expansion>,
) -> Vec<Weighted> {
    let mut distinct: Vec<&QueryWord> = Vec::new();
    for word in query {
        if distinct.len() < LOOKED_UP_MAX && distinct.iter().all(|other| other.word.key != word.word.key) {
            distinct.push(word);
        }
    }
    let importances = importances(&distinct, question);
    let weigh = |(word, importance): (&QueryWord, f32)| {
        let expansion = expansion(word);
        let is_significant = |question: &Question| word.tokens.iter().any(|id| question.is_significant(*id));
        let has_significant_token = word.tokens.is_empty() || question.is_none_or(is_significant);
        Weighted { weight: expansion.rarity * importance, expansion, has_significant_token }
    };
    let is_small_number: Vec<bool> = distinct.iter().map(|word| word.is_small_number).collect();
    let mut weighted: Vec<Weighted> = distinct.into_iter().zip(importances).map(weigh).collect();
    limit_numbers(&mut weighted, &is_small_number);
    remove_parts_of_words(query, &mut weighted);
    if query.len() > LONG_QUESTION {
        weighted.retain(|weighted_word| !weighted_word.expansion.words.is_empty());
        weighted.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        weighted.truncate(QUESTION_WORDS_MAX);
    }
    weighted
}

/// Gives small numbers at most the mean weight of the other words: in a small collection, each number is rare.
fn limit_numbers(weighted: &mut [Weighted], is_small_number: &[bool]) {
    let words = weighted.iter().zip(is_small_number).filter(|(_, is_small_number)| !**is_small_number);
    let weights: Vec<f32> = words.map(|(word, _)| word.weight).filter(|weight| *weight > 0.0).collect();
    if weights.is_empty() {
        return;
    }
    let mean = weights.iter().sum::<f32>() / weights.len() as f32;
    let numbers = weighted.iter_mut().zip(is_small_number).filter(|(_, is_small_number)| **is_small_number);
    numbers.for_each(|(word, _)| word.weight = word.weight.min(mean));
}

/// Returns the score of a passage that has every word of a question once. Of a long question, the heaviest words are enough.
pub(super) fn sufficient_score(query: &[QueryWord], weighted: &[Weighted]) -> f32 {
    let enough = if query.len() > LONG_QUESTION { SUFFICIENT_WORDS } else { weighted.len() };
    let mut weights: Vec<f32> = weighted.iter().map(|word| word.weight).collect();
    weights.sort_unstable_by(|a, b| b.total_cmp(a));
    weights.iter().take(enough).sum()
}

/// Returns how much the model's tokens of each word matter, with a mean of 1. Words whose tokens are unknown matter as much as
/// others. In a collection in many languages, rarity alone would give much weight to words such as "the", which only the passages
/// of one language have.
fn importances(words: &[&QueryWord], question: Option<&Question>) -> Vec<f32> {
    let weight = |word: &&QueryWord| question.and_then(|question| question.weight(&word.tokens));
    let known: Vec<Option<f32>> =
        words.iter().map(weight).map(|weight| Some(weight?.max(IMPORTANCE_MIN).powf(IMPORTANCE_POWER))).collect();
    let mean = known.iter().flatten().sum::<f32>() / known.iter().flatten().count().max(1) as f32;
    known.into_iter().map(|weight| weight.map_or(1.0, |weight| weight / mean)).collect()
}

/// Removes names that nothing sounds like, and words that find nothing and are parts of a name that is found or of a misspelled
/// word: none of them says that a passage does not answer. Also removes the words that a name in katakana could be put together
/// from.
fn remove_parts_of_words(query: &[QueryWord], weighted: &mut Vec<Weighted>) {
    let is_found = |key: u32| {
        weighted.iter().any(|weighted_word| weighted_word.expansion.word == key && !weighted_word.expansion.words.is_empty())
    };
    let mut parts: Vec<u32> = Vec::new();
    for (index, QueryWord { word, .. }) in
        query.iter().enumerate().filter(|(_, word)| word.word.parts > 0 && is_found(word.word.key))
    {
        let words_before = &query[index.saturating_sub(word.parts.into())..index];
        parts.extend(words_before.iter().map(|part| part.word.key).filter(|key| !is_found(*key)));
    }
    let misspelled: Vec<u32> =
        weighted.iter().map(|word| &word.expansion).filter(|word| word.is_misspelled).map(|word| word.word).collect();
    let is_misspelled = |word: &QueryWord| !word.tokens.is_empty() && misspelled.contains(&word.word.key);
    for (index, _) in query.iter().enumerate().filter(|(_, word)| is_misspelled(word)) {
        parts.extend(parts_of(query, index).filter(|key| !is_found(*key)));
    }
    let names: Vec<u32> = weighted.iter().map(|word| &word.expansion).filter(|word| word.is_name).map(|word| word.word).collect();
    let is_kana_name =
        |word: &QueryWord| !word.tokens.is_empty() && word.word.sound.script() == Script::Kana && names.contains(&word.word.key);
    for (index, _) in query.iter().enumerate().filter(|(_, word)| is_kana_name(word)) {
        parts.extend(parts_of(query, index));
    }
    weighted.retain(|weighted_word| weighted_word.weight > 0.0 && !parts.contains(&weighted_word.expansion.word));
}

/// Returns the numbers of the parts of the word at this position of a query: they follow it and have its tokens.
fn parts_of(query: &[QueryWord], index: usize) -> impl Iterator<Item = u32> + '_ {
    let parts = query[index + 1..].iter().take_while(move |part| part.tokens == query[index].tokens && part.word.sound.is_none());
    parts.map(|part| part.word.key)
}
