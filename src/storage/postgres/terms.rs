//! Converts the terms of passages to rows.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::domain::{PassageTerms, hex};
use crate::store;

/// Length of the longest term that is stored unchanged, in bytes. An index cannot hold terms of any length.
const BYTES_MAX: usize = 255;
/// How many bytes of a longer term are stored before its digest.
const BYTES_KEPT: usize = 180;

pub(super) struct TermRow {
    pub(super) term: String,
    /// Its positions among the words as spelled, in PostgreSQL's array syntax.
    pub(super) words: String,
    /// Its positions among the folded words.
    pub(super) folded: String,
}

/// Returns the terms of a passage, and their total number with repetitions.
pub(super) fn term_rows(terms: &PassageTerms) -> (Vec<TermRow>, i32) {
    let mut positions: BTreeMap<String, [Vec<usize>; 2]> = BTreeMap::new();
    let mut length = 0;
    for (column, text) in [&terms.words, &terms.folded].into_iter().enumerate() {
        for (position, term) in split(text).enumerate() {
            positions.entry(stored_term(&term)).or_default()[column].push(position);
            length += 1;
        }
    }
    let row = |(term, [words, folded]): (String, [Vec<usize>; 2])| TermRow { term, words: array(&words), folded: array(&folded) };
    (positions.into_iter().map(row).collect(), length)
}

fn array(positions: &[usize]) -> String {
    let mut text = String::from("{");
    for (at, position) in positions.iter().enumerate() {
        let _ = write!(text, "{}{position}", if at > 0 { "," } else { "" });
    }
    text.push('}');
    text
}

/// Splits a text into terms at ASCII separators.
pub(super) fn split(text: &str) -> impl Iterator<Item = String> + '_ {
    let separates = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric();
    text.split(separates).filter(|term| !term.is_empty()).map(str::to_ascii_lowercase)
}

/// Returns a term in the form in which it is stored.
pub(super) fn stored_term(term: &str) -> String {
    if term.len() <= BYTES_MAX {
        return term.to_owned();
    }
    let cut = (0..=BYTES_KEPT).rev().find(|end| term.is_char_boundary(*end)).unwrap_or_default();
    format!("{}\u{1}{}", &term[..cut], hex(&Sha256::digest(term.as_bytes())))
}

/// Returns the end of the range of terms with this prefix, in the order of code points. `None` if there is no end, or if the
/// prefix is too long for any stored term to continue it.
pub(super) fn prefix_upper_bound(prefix: &str) -> Option<String> {
    if prefix.len() > BYTES_KEPT { None } else { store::prefix_upper_bound(prefix) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_term_lists_its_positions_in_both_columns() {
        let terms = PassageTerms { words: "old sea old".to_owned(), folded: "sea".to_owned(), ..PassageTerms::default() };
        let (rows, length) = term_rows(&terms);
        let rows: Vec<_> = rows.iter().map(|row| (row.term.as_str(), row.words.as_str(), row.folded.as_str())).collect();
        assert_eq!((rows, length), (vec![("old", "{0,2}", "{}"), ("sea", "{1}", "{0}")], 4));
    }

    #[test]
    fn long_terms_are_shortened_but_stay_distinct() {
        let [a, b] = ["a", "b"].map(|end| stored_term(&("é".repeat(1_000) + end)));
        assert!(a != b && a.len() <= BYTES_MAX && a.starts_with("éé"));
        assert_eq!(stored_term("sea"), "sea");
    }
}
