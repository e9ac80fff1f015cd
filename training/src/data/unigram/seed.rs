//! Candidates of a Unigram vocabulary: the characters of the texts, and every frequent part of a word.

use rustc_hash::{FxHashMap, FxHashSet};

use super::CountedWord;
use crate::config::TokenizerConfig;

/// Candidates per final piece.
const CANDIDATES_PER_PIECE: usize = 10;

/// The most frequent characters that together make up `coverage` of all, 0 to 1.
pub fn characters(words: &[CountedWord], coverage: f64) -> FxHashSet<char> {
    let mut counts: FxHashMap<char, u64> = FxHashMap::default();
    for (word, count) in words {
        word.iter().for_each(|&character| *counts.entry(character).or_default() += u64::from(*count));
    }
    let total: u64 = counts.values().sum();
    let mut counts: Vec<(char, u64)> = counts.into_iter().collect();
    counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut covered = 0;
    let enough = |&(_, count): &(char, u64)| {
        let more = (covered as f64) < coverage * total as f64;
        covered += count;
        more
    };
    counts.into_iter().take_while(enough).map(|(character, _)| character).collect()
}

/// The characters, and every substring of a word that occurs `candidate_count_min` times, each scored by count times length; at
/// most ten per piece of the vocabulary, highest scores first. Substrings with a character outside `characters` are left out.
pub fn candidates(words: &[CountedWord], characters: &FxHashSet<char>, settings: &TokenizerConfig) -> Vec<(Vec<char>, f64)> {
    let mut found: Vec<(Vec<char>, f64)> = Vec::new();
    // Start positions of frequent substrings of the current length. A substring can only be frequent if its prefixes are.
    let mut open: Vec<Vec<u16>> = words
        .iter()
        .map(|(word, _)| {
            (0..word.len().min(usize::from(u16::MAX)) as u16)
                .filter(|&start| characters.contains(&word[usize::from(start)]))
                .collect()
        })
        .collect();
    for length in 1..=settings.piece_characters_max {
        let mut counts: FxHashMap<&[char], u64> = FxHashMap::default();
        for ((word, count), starts) in words.iter().zip(&mut open) {
            starts.retain(|&start| part(word, start, length).is_some_and(|part| characters.contains(&part[length - 1])));
            for &start in starts.iter() {
                *counts.entry(&word[usize::from(start)..usize::from(start) + length]).or_default() += u64::from(*count);
            }
        }
        if length > 1 {
            counts.retain(|_, count| *count >= settings.candidate_count_min);
            for ((word, _), starts) in words.iter().zip(&mut open) {
                starts.retain(|&start| part(word, start, length).is_some_and(|part| counts.contains_key(part)));
            }
        }
        found.extend(counts.into_iter().map(|(piece, count)| (piece.to_vec(), (count * length as u64) as f64)));
    }
    let single = |piece: &[char]| piece.len() == 1;
    found.sort_unstable_by(|a, b| single(&b.0).cmp(&single(&a.0)).then(b.1.total_cmp(&a.1)).then_with(|| a.0.cmp(&b.0)));
    found.truncate((CANDIDATES_PER_PIECE * settings.vocabulary as usize).max(characters.len()));
    found
}

fn part(word: &[char], start: u16, length: usize) -> Option<&[char]> {
    word.get(usize::from(start)..usize::from(start) + length)
}
