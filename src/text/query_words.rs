//! Finds the words of a query, to match them with words of other languages.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use super::marks::{PassageWords, overlap};
use super::runs::{Class, is_spaced_letter};
use super::word_parts::parts_of;
use crate::domain::{QueryWord, Word};

/// Marks between and around words.
const PUNCTUATION: &str = "?!.,;:()\"*'-–—/…¿¡«»„“”‘’。？！、，：；（）「」『』؟،؛।";

/// Maximum number of letters of a word that longer words often begin with by chance: "ham" of "Hamburg".
const SHORT_WORD_MAX: usize = 4;
/// Maximum number of letters of a fragment of a word.
const FRAGMENT_MAX: usize = 2;

/// Returns the words of a query in order, with repetitions, each with its tokens. `pieces` are the query's tokens in order
/// (`Tokenize::pieces`). A word that `is_known` does not accept by its number (`plain_words::word_key`) is followed by its known
/// parts, which have the same tokens.
pub fn query_words(text: &str, pieces: &[(u32, Range<usize>)], is_known: impl Fn(u32) -> bool) -> Vec<QueryWord> {
    let mut words = Vec::new();
    // Whether the vocabulary has the word that inner words are in.
    let mut within_known = false;
    PassageWords::new(text, None).for_each_word(|class, word, source| {
        let Some(source) = source() else { return };
        let tokens = overlapping(pieces, &source);
        let own = word.word();
        if word.is_inner {
            // Within a word that the vocabulary has, other words mean something else.
            let is_part = is_known(own.key) && !within_known;
            return words.extend(is_part.then_some(QueryWord { word: own, tokens }));
        }
        within_known = is_known(own.key);
        let parts = parts_of(class, &word, &is_known);
        let all = std::iter::once(own).chain(parts.into_iter().map(Word::from));
        words.extend(all.map(|word| QueryWord { word, tokens: tokens.clone() }));
    });
    words
}

/// Returns the words of a query in order, by their numbers (`plain_words::word_key`), with their bytes. Leaves out words within
/// words, and names that are put together from several.
pub fn word_ranges(text: &str) -> Vec<(u32, Range<usize>)> {
    let mut words = Vec::new();
    PassageWords::new(text, None).for_each_word(|_, word, source| {
        let is_single = !word.is_inner && word.word().parts == 0;
        words.extend(source().filter(|_| is_single).map(|source| (word.key(), source)));
    });
    words
}

/// Returns the distinct tokens of a query that are a whole short word, and that no other word has, each with the number of the word.
/// `pieces` are the query's tokens in order (`Tokenize::pieces`). Leaves out Korean and scripts without spaces, where a word may be
/// part of another.
pub fn short_words(text: &str, pieces: &[(u32, Range<usize>)]) -> Vec<(u32, u32)> {
    let (mut short, mut others) = (BTreeMap::new(), HashSet::new());
    PassageWords::new(text, None).for_each_word(|class, word, source| {
        let Some(source) = source() else { return };
        let own = overlapping(pieces, &source);
        match own[..] {
            [token] if class == Class::Word && word.text.chars().nth(SHORT_WORD_MAX).is_none() => {
                if *short.entry(token).or_insert(word.key()) != word.key() {
                    others.insert(token);
                }
            }
            _ => others.extend(own),
        }
    });
    short.retain(|token, _| !others.contains(token));
    short.into_iter().collect()
}

/// Returns the tokens that overlap a word.
fn overlapping(pieces: &[(u32, Range<usize>)], word: &Range<usize>) -> Vec<u32> {
    let from = pieces.partition_point(|(_, range)| range.end <= word.start);
    let inside = pieces[from..].iter().take_while(|(_, range)| range.start < word.end);
    inside.filter(|(_, range)| overlap(range, word)).map(|(id, _)| *id).collect()
}

/// Returns the distinct tokens of a query that are one or two letters of a longer word, and that no other word is. They are near to short
/// words that mean something else: the "he" of "heavy" to "il". `pieces` are the query's tokens in order (`Tokenize::pieces`).
pub fn fragments(text: &str, pieces: &[(u32, Range<usize>)]) -> Vec<u32> {
    let is_letter = |c: Option<char>| c.is_some_and(is_spaced_letter);
    let is_fragment = |range: &Range<usize>| {
        let part = |range: Range<usize>| text.get(range).unwrap_or_default();
        // A piece may begin with the space before its word.
        let (before, piece, after) = (part(0..range.start), part(range.clone()), part(range.end..text.len()));
        let goes_on = is_letter(after.chars().next()) || is_letter(before.chars().next_back()) && is_letter(piece.chars().next());
        let letters = piece.trim();
        goes_on && letters.chars().count() <= FRAGMENT_MAX && letters.chars().all(is_spaced_letter)
    };
    let (found, others): (Vec<_>, Vec<_>) = pieces.iter().partition(|(_, range)| is_fragment(range));
    let others: HashSet<u32> = others.into_iter().map(|(id, _)| *id).collect();
    let found: BTreeSet<u32> = found.into_iter().map(|(id, _)| *id).filter(|id| !others.contains(id)).collect();
    found.into_iter().collect()
}

/// Returns the distinct tokens of a query that are nothing but punctuation. They say nothing about the passages sought, unlike the
/// signs of "C++" or "50 %". `pieces` are the query's tokens in order (`Tokenize::pieces`).
pub fn punctuation(text: &str, pieces: &[(u32, Range<usize>)]) -> HashSet<u32> {
    let is_punctuation = |range: &Range<usize>| {
        let piece = text.get(range.clone()).unwrap_or_default().trim();
        !piece.is_empty() && piece.chars().all(|c| PUNCTUATION.contains(c))
    };
    pieces.iter().filter(|(_, range)| is_punctuation(range)).map(|(id, _)| *id).collect()
}

#[cfg(test)]
mod tests {
    use super::super::plain_words::word_key;
    use super::*;

    fn keys(words: &[&str]) -> Vec<u32> {
        words.iter().map(|word| word_key(word)).collect()
    }

    #[test]
    fn an_unknown_word_is_followed_by_its_known_parts() {
        let known = keys(&["die", "brucken", "sanierung"]);
        let words = query_words("Die Brückensanierung", &[], |key| known.contains(&key));
        let found: Vec<u32> = words.iter().map(|word| word.word.key).collect();
        assert_eq!(found, keys(&["die", "bruckensanierung", "brucken", "sanierung"]));
        assert_eq!(query_words("Die Brückensanierung", &[], |_| true).len(), 2);
    }

    #[test]
    fn an_unknown_chinese_word_is_followed_by_its_known_inner_words() {
        let found = |known: &[&str]| {
            let known = keys(known);
            let words = query_words("下雨天", &[], |key| known.contains(&key));
            words.iter().map(|word| word.word.key).collect::<Vec<_>>()
        };
        assert_eq!(found(&["下雨"]), keys(&["下雨天", "下雨"]));
        assert_eq!(found(&["下雨", "下雨天"]), keys(&["下雨天"]));
        assert_eq!(found(&[]), keys(&["下雨天"]));
    }

    #[test]
    fn a_word_gets_the_tokens_that_overlap_it() {
        let pieces = [(5, 0..3), (6, 3..7), (7, 7..14), (8, 14..17), (9, 17..19)];
        let words = query_words("Où est l’été ?", &pieces, |_| true);
        let tokens: Vec<&[u32]> = words.iter().map(|word| word.tokens.as_slice()).collect();
        assert_eq!(tokens, [&[5][..], &[6], &[7], &[7, 8]]);
    }

    #[test]
    fn short_words_of_one_token_are_found() {
        let pieces = [(1, 0..3), (2, 3..6), (3, 6..8), (4, 8..14), (5, 14..17), (6, 17..23), (7, 23..27), (8, 27..34)];
        let expect = [(1, word_key("ham")), (5, word_key("e5")), (6, word_key("ete"))];
        assert_eq!(short_words("ham salt house e5 été 車 가방", &pieces), expect);
        let pieces = [(1, 0..3), (1, 3..7), (9, 7..13), (5, 13..17), (5, 17..21)];
        assert_eq!(short_words("ham hamburger tea tea", &pieces), [(5, word_key("tea"))], "a hamburger begins with 1, too");
    }

    #[test]
    fn tokens_of_one_or_two_letters_inside_a_longer_word_are_fragments() {
        let pieces = [(1, 0..2), (2, 2..3), (3, 3..5), (4, 6..8), (5, 8..9), (3, 10..12), (6, 13..16), (7, 16..19)];
        assert_eq!(
            fragments("heavy CO2 vy 東京都", &pieces),
            [1, 2, 4, 5],
            "whole words and tokens of other scripts are not fragments"
        );
    }
}
