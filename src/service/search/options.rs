//! Recognizes options of commands in queries: in "java -Xmx4g", the minus is part of what is searched for, and excludes nothing.
//!
//! A word after a minus is an option if a passage of the collection has it with its minus, and if no language has it as a word or
//! a value follows it ("-dump:live"). Otherwise, a list with "-sugar" in it would disable the exclusion of sugar.

use std::collections::{BTreeSet, HashSet};

use crate::domain::{SearchMode, SearchRequest, SearchTarget};
use crate::embed::{Embedder, QueryText, is_minus, word_key};
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;
use crate::store::{PassageParts, SearchFilter, StoreError};

/// Maximum number of words of a request that are looked up.
const WORDS_MAX: usize = 16;
/// Maximum number of passages that are read for each word.
const PASSAGES_MAX: usize = 32;
/// Maximum bytes of these passages.
const PASSAGE_BYTES_MAX: u64 = 256 << 10;

/// Returns the words of these requests that may be options.
pub(super) fn possible(requests: &[SearchRequest], embedder: &Embedder) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for request in requests {
        let has_operators = request.reading.operators && request.mode != SearchMode::Dense;
        if let (SearchTarget::Text(text), true) = (&request.target, has_operators) {
            QueryText::parse(text, |word, has_value| {
                if words.len() < WORDS_MAX && (has_value || !embedder.knows(word_key(&word.to_lowercase()))) {
                    words.insert(word.to_owned());
                }
                false
            });
        }
    }
    words
}

/// Returns those words that passages of the collection have with a minus. Blocks.
pub(super) fn written(collection: &OpenCollection, words: BTreeSet<String>) -> Result<HashSet<String>, Error> {
    let mut written = HashSet::new();
    for word in words {
        if has_option(collection, &word)? {
            written.insert(word);
        }
    }
    Ok(written)
}

fn has_option(collection: &OpenCollection, word: &str) -> Result<bool, Error> {
    let store = &collection.store;
    let terms = QueryText::literal(word).terms(true, None)?;
    let found = match store.lexical(&terms, &SearchFilter::default(), PASSAGES_MAX) {
        // The search itself reports it.
        Err(StoreError::LexicalIncomplete { .. }) => return Ok(false),
        found => found?,
    };
    let mut bytes = 0;
    for (passage, _) in found {
        let rows = store.passages_while(&[passage], PassageParts::EXCERPT, &mut |sizes| {
            bytes += sizes.passage;
            bytes <= PASSAGE_BYTES_MAX
        })?;
        let Some(rows) = rows else { return Ok(false) };
        if rows.into_iter().filter_map(|row| row.excerpt).any(|excerpt| is_option_of(&excerpt.text, word)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a text has a word after a minus, spelled in the same way.
fn is_option_of(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, _)| {
        let mut before = text[..start].chars().rev();
        let is_after_minus =
            before.next().is_some_and(is_minus) && before.next().is_none_or(|c| !c.is_alphanumeric() && !is_minus(c));
        is_after_minus && !text[start + word.len()..].starts_with(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_follows_a_minus_and_is_spelled_alike() {
        for text in ["java -Xmx4g -jar", "-Xmx4g", "`-Xmx4g`", "(-Xmx4g)", "−Xmx4g, then"] {
            assert!(is_option_of(text, "Xmx4g"), "{text}");
        }
        for text in ["Xmx4g", "- Xmx4g", "--Xmx4g", "java-Xmx4g", "-xmx4g", "-Xmx4gb", ""] {
            assert!(!is_option_of(text, "Xmx4g"), "{text}");
        }
    }
}
