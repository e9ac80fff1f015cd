//! Finds the words of a query, to match them with words of other languages.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use super::known_words::KnownWords;
use super::marks::{PassageWords, overlap};
use super::misspelled::corrections_of;
use super::plain_words::{PlainWord, plain_key, unspaced_words, word_key};
use super::runs::{Class, Run, is_spaced_letter, normalized, runs};
use super::variants::other_forms;
use super::word_parts::{parts_of, without_article};
use crate::domain::{QueryWord, Word};

/// Marks between and around words.
const PUNCTUATION: &str = "?!.,;:()\"*'-–—/…¿¡«»„“”‘’。？！、，：；（）「」『』؟،؛।";

/// Maximum number of letters of a word that longer words often begin with by chance: "ham" of "Hamburg".
const SHORT_WORD_MAX: usize = 4;
/// Numbers of at most this many digits never outweigh words, however rare they are.
const SMALL_NUMBER_MAX: usize = 3;
/// Maximum number of words of a query that are also searched in their other forms.
const WITH_FORMS_MAX: usize = 64;
/// Maximum number of unknown words of a query that are looked up as misspelled ones.
const MISSPELLED_MAX: usize = 3;
/// Maximum number of letters of a fragment of a word.
const FRAGMENT_MAX: usize = 2;

/// Returns the words of a query in order, with repetitions, each with its tokens. `pieces` are the query's tokens in order
/// (`Tokenize::pieces`). An unknown word is followed by its known parts, which have the same tokens. `tokens` counts the tokens of
/// another text.
pub fn query_words(
    text: &str,
    pieces: &[(u32, Range<usize>)],
    known: impl KnownWords,
    tokens: impl Fn(&str) -> usize,
) -> Vec<QueryWord> {
    let is_known = |word: u32| known.has_word(word);
    let mut words: Vec<QueryWord> = Vec::new();
    let mut misspelled = 0;
    // Whether the vocabulary has the word that inner words are in.
    let mut within_known = false;
    PassageWords::new(text, None).for_each_word(|class, word, source| {
        let Some(source) = source() else { return };
        let own_tokens: Vec<u32> = overlapping(pieces, &source).map(|(id, _)| *id).collect();
        let is_small_number = word.text.len() <= SMALL_NUMBER_MAX && word.text.bytes().all(|byte| byte.is_ascii_digit());
        let counted = word.word();
        if word.is_inner {
            // Within a word that the vocabulary has, other words mean something else.
            let is_part = known.has_part(counted.key) && !within_known;
            let forms = if is_part && words.len() < WITH_FORMS_MAX { forms(class, &word, &known) } else { Vec::new() };
            let inner = QueryWord { forms, tokens: own_tokens, is_small_number, is_typed: false, ..counted.into() };
            return words.extend(is_part.then_some(inner));
        }
        let forms = if words.len() < WITH_FORMS_MAX { forms(class, &word, &known) } else { Vec::new() };
        within_known = is_known(counted.key) || forms.iter().any(|form| is_known(*form));
        let mut parts = parts_of(class, &word, &known);
        let (is_compound, may_be_misspelled) = (parts.len() > 1, misspelled < MISSPELLED_MAX && !is_known(counted.key));
        let corrections =
            if may_be_misspelled { corrections_of(class, &word.text, is_compound, is_known, &tokens) } else { Vec::new() };
        misspelled += usize::from(may_be_misspelled);
        if is_compound && !corrections.is_empty() {
            // It only happens to begin and end with words.
            parts.clear();
        }
        let of = |word: Word| QueryWord { tokens: own_tokens.clone(), is_small_number, ..word.into() };
        words.push(QueryWord { forms, corrections, accented: word.accented(), ..of(counted) });
        words.extend(parts.into_iter().map(|part| QueryWord { is_typed: false, ..of(part.into()) }));
    });
    words
}

/// Returns the numbers of a word's other forms: in other characters, or a known word without the Arabic article. A name that is put
/// together from several words has none.
fn forms(class: Class, word: &PlainWord<'_>, known: &impl KnownWords) -> Vec<u32> {
    match class {
        Class::Unspaced if word.word().parts == 0 => other_forms(&word.text).iter().map(|form| word_key(form)).collect(),
        _ => without_article(class, word, known).into_iter().collect(),
    }
}

/// Counts the words of a query as people count them: a Korean word is one, and so is a word within a longer one together with it.
pub fn count_words(text: &str) -> usize {
    let count = |run: Run<'_>| match run.class {
        Class::Unspaced => unspaced_words(run.text).len(),
        Class::Word | Class::Hangul | Class::Pictograph => 1,
    };
    runs(&normalized(text)).map(count).sum()
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

/// A token of a query that says little in a passage without the word that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DependentToken {
    /// Its id.
    pub token: u32,
    /// The number of the word.
    pub word: u32,
    /// The number of a shorter word that equals the token: "ham" of "Hamburg". The token is discounted only in passages that
    /// contain this word. `None` if in all.
    pub shorter: Option<u32>,
    /// Whether the word is a group of a longer number. A passage may have it in another number.
    pub is_group: bool,
}

/// Returns the distinct tokens of a query that depend on their word: whole short words, beginnings of longer words that are
/// short words themselves, and all tokens of words with digits. `pieces` are the query's tokens in order
/// (`Tokenize::pieces`), and `known` is the same as for `query_words`. Leaves out tokens that other words have too, as
/// well as Korean and scripts without spaces, where a word may be part of another.
pub fn dependent_tokens(text: &str, pieces: &[(u32, Range<usize>)], known: impl KnownWords) -> Vec<DependentToken> {
    let (mut found, mut others) = (BTreeMap::new(), HashSet::new());
    PassageWords::new(text, None).for_each_word(|class, word, source| {
        let Some(source) = source() else { return };
        let tokens_of_word: Vec<&(u32, Range<usize>)> = overlapping(pieces, &source).collect();
        let first = tokens_of_word.first().map_or("", |(_, range)| text.get(range.clone()).unwrap_or_default().trim());
        let is_group = is_group(text, &source);
        let (dependent, shorter) = match class {
            Class::Word if is_group || word.text.contains(char::is_numeric) && tokens_of_word.len() > 1 => {
                (tokens_of_word.len(), None)
            }
            Class::Word if tokens_of_word.len() == 1 && is_short(&word.text) => (1, None),
            Class::Word if tokens_of_word.len() > 1 && is_short(first) && parts_of(class, &word, &known).is_empty() => {
                (1, Some(plain_key(&normalized(first))))
            }
            _ => (0, None),
        };
        for (index, (token, _)) in tokens_of_word.into_iter().enumerate() {
            let dependent = (index < dependent).then(|| DependentToken { token: *token, word: word.key(), shorter, is_group });
            match dependent {
                Some(dependent) if *found.entry(*token).or_insert_with(|| dependent.clone()) == dependent => (),
                _ => drop(others.insert(*token)),
            }
        }
    });
    found.retain(|token, _| !others.contains(token));
    found.into_values().collect()
}

fn is_short(word: &str) -> bool {
    word.chars().nth(SHORT_WORD_MAX).is_none()
}

/// Whether a word is a group of a number of several: there is a digit beyond one sign before or after it.
fn is_group(text: &str, word: &Range<usize>) -> bool {
    let word_text = text.get(word.clone()).unwrap_or_default();
    let is_beyond = |mut beside: [Option<char>; 2]| {
        let [sign, digit] = &mut beside;
        sign.take().is_some_and(|sign| sign.is_ascii_punctuation()) && digit.take().is_some_and(char::is_numeric)
    };
    let (mut before, mut after) = (text[..word.start].chars().rev(), text[word.end..].chars());
    word_text.contains(char::is_numeric) && (is_beyond([before.next(), before.next()]) || is_beyond([after.next(), after.next()]))
}

/// Returns the tokens that overlap a word.
fn overlapping<'p>(
    pieces: &'p [(u32, Range<usize>)],
    word: &Range<usize>,
) -> impl Iterator<Item = &'p (u32, Range<usize>)> + use<'p> {
    let (from, word) = (pieces.partition_point(|(_, range)| range.end <= word.start), word.clone());
    let end = word.end;
    let inside = pieces[from..].iter().take_while(move |(_, range)| range.start < end);
    inside.filter(move |(_, range)| overlap(range, &word))
}

/// Returns the distinct tokens of a query that are one or two letters of a longer word and not a word by themselves. They
/// are near to short words that mean something else: the "he" of "heavy" to "il". `pieces` are the query's tokens in order
/// (`Tokenize::pieces`).
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

/// Returns the distinct tokens of a query that are nothing but punctuation. They say nothing about the passages sought, unlike
/// the signs of "C++" or "50 %". `pieces` are the query's tokens in order (`Tokenize::pieces`).
pub fn punctuation(text: &str, pieces: &[(u32, Range<usize>)]) -> HashSet<u32> {
    let is_punctuation = |range: &Range<usize>| {
        let piece = text.get(range.clone()).unwrap_or_default().trim();
        !piece.is_empty() && piece.chars().all(|c| PUNCTUATION.contains(c))
    };
    pieces.iter().filter(|(_, range)| is_punctuation(range)).map(|(id, _)| *id).collect()
}

#[cfg(test)]
mod tests {
    use super::super::plain_words::{accented_key, word_key};
    use super::*;

    fn keys(words: &[&str]) -> Vec<u32> {
        words.iter().map(|word| word_key(word)).collect()
    }

    #[test]
    fn an_unknown_word_is_followed_by_its_known_parts() {
        let known = keys(&["die", "brucken", "sanierung"]);
        let words = query_words("Die Brückensanierung", &[], |key| known.contains(&key), |_| 0);
        let found: Vec<u32> = words.iter().map(|word| word.word.key).collect();
        assert_eq!(found, keys(&["die", "bruckensanierung", "brucken", "sanierung"]));
        assert_eq!(query_words("Die Brückensanierung", &[], |_| true, |_| 0).len(), 2);
    }

    #[test]
    fn a_word_with_accents_has_the_number_of_that_spelling() {
        let words = query_words("Chó cho", &[], |_| true, |_| 0);
        let accented: Vec<Option<u32>> = words.iter().map(|word| word.accented).collect();
        assert_eq!(accented, [Some(accented_key("chó")), None]);
    }

    #[test]
    fn an_unknown_chinese_word_is_followed_by_its_known_inner_words() {
        let found = |known: &[&str]| {
            let known = keys(known);
            let words = query_words("下雨天", &[], |key| known.contains(&key), |_| 0);
            words.iter().map(|word| word.word.key).collect::<Vec<_>>()
        };
        assert_eq!(found(&["下雨"]), keys(&["下雨天", "下雨"]));
        assert_eq!(found(&["下雨", "下雨天"]), keys(&["下雨天"]));
        assert_eq!(found(&[]), keys(&["下雨天"]));
    }

    #[test]
    fn a_word_has_the_numbers_of_its_other_forms() {
        let words = query_words("圖書館 library", &[], |_| true, |_| 0);
        assert_eq!([&words[0].forms, &words[1].forms], [&keys(&["図書館", "图书馆"]), &Vec::new()]);
        let words = query_words(&"圖書館 ".repeat(2 * WITH_FORMS_MAX), &[], |_| true, |_| 0);
        assert_eq!(words.iter().filter(|word| !word.forms.is_empty()).count(), WITH_FORMS_MAX);
    }

    #[test]
    fn a_word_gets_the_tokens_that_overlap_it() {
        let pieces = [(5, 0..3), (6, 3..7), (7, 7..14), (8, 14..17), (9, 17..19)];
        let words = query_words("Où est l’été ?", &pieces, |_| true, |_| 0);
        let tokens: Vec<&[u32]> = words.iter().map(|word| word.tokens.as_slice()).collect();
        assert_eq!(tokens, [&[5][..], &[6], &[7], &[7, 8]]);
    }

    #[test]
    fn words_are_counted_as_they_are_typed() {
        let count = |text: &str| count_words(text);
        assert_eq!(count("Straßenbahnhaltestelle"), 1, "a compound is one word");
        assert_eq!(["도서관에서 책", "сөз", "wet roads, 2024", "?!", "", "🎂🎂"].map(count), [2, 1, 3, 0, 0, 2]);
        assert_eq!(["下雨天路滑", "ตลาดเปิดทุกวัน", "東京 tower"].map(count), [3, 4, 2]);
    }

    fn dependent(text: &str, pieces: &[(u32, Range<usize>)]) -> Vec<(u32, u32)> {
        dependent_tokens(text, pieces, |_| true).into_iter().map(|dependent| (dependent.token, dependent.word)).collect()
    }

    #[test]
    fn short_words_of_one_token_are_dependent() {
        let pieces = [(1, 0..3), (2, 3..6), (3, 6..8), (4, 8..14), (5, 14..17), (6, 17..23), (7, 23..27), (8, 27..34)];
        let expect = [(1, word_key("ham")), (2, word_key("salt")), (5, word_key("e5")), (6, word_key("ete"))];
        assert_eq!(dependent("ham salt house e5 été 車 가방", &pieces), expect);
        let pieces = [(1, 0..3), (1, 3..7), (9, 7..13), (5, 13..17), (5, 17..21)];
        assert_eq!(dependent("ham hamburger tea tea", &pieces), [(5, word_key("tea"))], "a hamburger begins with 1, too");
    }

    #[test]
    fn a_short_beginning_of_a_longer_word_is_dependent_unless_the_word_has_known_parts() {
        let pieces = [(1, 0..3), (2, 3..7)];
        let expect = DependentToken { token: 1, word: word_key("hamburg"), shorter: Some(word_key("ham")), is_group: false };
        assert_eq!(dependent_tokens("Hamburg", &pieces, |_| true), [expect]);
        let pieces = [(1, 0..4), (2, 4..5)];
        assert_eq!(dependent_tokens("talon", &pieces, |key| key == word_key("talo")), []);
    }

    #[test]
    fn tokens_of_words_with_digits_are_dependent() {
        assert_eq!(dependent("65W tv", &[(1, 0..2), (2, 2..3), (3, 3..6)]).len(), 3);
        let groups = dependent_tokens("10.0 x-7", &[(1, 0..2), (2, 2..3), (3, 3..4), (4, 4..6), (5, 6..7), (6, 7..8)], |_| true);
        let is_group: Vec<(u32, bool)> = groups.into_iter().map(|dependent| (dependent.token, dependent.is_group)).collect();
        assert_eq!(is_group, [(1, true), (3, true), (4, false), (6, false)]);
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
