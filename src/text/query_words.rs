//! Finds the words of a query, to match them with words of other languages.

use std::ops::Range;

use super::marks::{PassageWords, overlap};
use super::runs::Class;
use super::word_parts::known_parts;
use crate::domain::{QueryWord, Word};

/// Returns the words of a query in order, with repetitions, each with its tokens. `pieces` are the query's tokens in order
/// (`Tokenize::pieces`). A word that `is_known` does not accept by its number (`plain_words::word_key`) is followed by its known
/// parts, which have the same tokens.
pub fn query_words(text: &str, pieces: &[(u32, Range<usize>)], is_known: impl Fn(u32) -> bool) -> Vec<QueryWord> {
    let mut words = Vec::new();
    PassageWords::new(text, None).each_word(|class, word, source| {
        let Some(source) = source() else { return };
        let from = pieces.partition_point(|(_, range)| range.end <= source.start);
        let inside = pieces[from..].iter().take_while(|(_, range)| range.start < source.end);
        let inside = inside.filter(|(_, range)| overlap(range, &source));
        let tokens: Vec<u32> = inside.map(|(id, _)| *id).collect();
        let own = word.word();
        let parts = if class == Class::Word && !is_known(own.key) { known_parts(&word.text, &is_known) } else { Vec::new() };
        let all = std::iter::once(own).chain(parts.into_iter().map(Word::from));
        words.extend(all.map(|word| QueryWord { word, tokens: tokens.clone() }));
    });
    words
}

#[cfg(test)]
mod tests {
    use super::super::plain_words::word_key;
    use super::*;

    fn keys(words: &[&str]) -> Vec<u32> {
        words.iter().map(|word| word_key(word)).collect()
    }

    #[test]
    fn the_known_parts_of_an_unknown_word_follow_it() {
        let known = keys(&["die", "brucken", "sanierung"]);
        let words = query_words("Die Brückensanierung", &[], |key| known.contains(&key));
        let found: Vec<u32> = words.iter().map(|word| word.word.key).collect();
        assert_eq!(found, keys(&["die", "bruckensanierung", "brucken", "sanierung"]));
        assert_eq!(query_words("Die Brückensanierung", &[], |_| true).len(), 2);
    }

    #[test]
    fn a_word_has_the_tokens_that_it_overlaps() {
        let pieces = [(5, 0..3), (6, 3..7), (7, 7..14), (8, 14..17), (9, 17..19)];
        let words = query_words("Où est l’été ?", &pieces, |_| true);
        let tokens: Vec<&[u32]> = words.iter().map(|word| word.tokens.as_slice()).collect();
        assert_eq!(tokens, [&[5][..], &[6], &[7], &[7, 8]]);
    }
}
