//! BM25 over the terms of passages, as in the server's word index (SQLite's FTS5, `src/store/lexical.rs`).

use std::collections::{BTreeMap, HashMap};

use dragoman::domain::{Language, QueryTerms};
use dragoman::text::terms::{passage_terms, query_terms};

const K1: f64 = 1.2;
const B: f64 = 0.75;
/// Weight of a match without accents or by stem only.
const FOLDED: f64 = 0.8;
/// Minimum IDF: a term that most passages contain counts for almost nothing.
const RARITY_MIN: f64 = 1e-6;

/// A BM25 index of the passages of one language.
pub struct Words {
    /// By term: the passages with it, each with its weighted term frequency, folded matches included.
    postings: BTreeMap<String, HashMap<usize, f64>>,
    lengths: Vec<f64>,
    length_mean: f64,
}

impl Words {
    /// Indexes `passages`.
    pub fn new(passages: &[String], language: Option<Language>) -> Self {
        let mut postings: BTreeMap<String, HashMap<usize, f64>> = BTreeMap::new();
        let mut lengths = Vec::with_capacity(passages.len());
        for (passage, text) in passages.iter().enumerate() {
            let terms = passage_terms(text, language, |_| true);
            let mut length = 0.0;
            for (column, weight) in [(&terms.words, 1.0), (&terms.folded, FOLDED)] {
                for term in column.split_ascii_whitespace() {
                    *postings.entry(term.to_owned()).or_default().entry(passage).or_default() += weight;
                    length += 1.0;
                }
            }
            lengths.push(length);
        }
        let length_mean = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
        Self { postings, lengths, length_mean }
    }

    /// The score of each passage that contains a term of `query`, which is in `language`; also returns the number of terms.
    pub fn scores(&self, query: &str, language: Option<Language>) -> (HashMap<usize, f64>, usize) {
        let terms: QueryTerms = query_terms(query, language);
        let mut scores: HashMap<usize, f64> = HashMap::new();
        for term in &terms.terms {
            let mut found: HashMap<usize, f64> = HashMap::new();
            let begins = |key: &String| if term.prefix { key.starts_with(&term.text) } else { *key == term.text };
            let range = self.postings.range(term.text.clone()..).take_while(|(key, _)| begins(key));
            for (passage, count) in range.flat_map(|(_, passages)| passages) {
                *found.entry(*passage).or_default() += count;
            }
            let (all, having) = (self.lengths.len() as f64, found.len() as f64);
            let rarity = ((all - having + 0.5) / (having + 0.5)).ln().max(RARITY_MIN);
            for (passage, count) in found {
                let length = 1.0 - B + B * self.lengths[passage] / self.length_mean;
                *scores.entry(passage).or_default() += rarity * count * (K1 + 1.0) / (count + K1 * length);
            }
        }
        (scores, terms.scored())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passages() -> Vec<String> {
        ["The river rises in spring.", "A bridge over the river.", "Trees along the old road.", "Bread from the bakery."]
            .map(str::to_owned)
            .into()
    }

    #[test]
    fn rare_words_score_higher_and_stem_matches_lower_than_exact_ones() {
        let english = Language::parse("en");
        let words = Words::new(&passages(), english);
        let score = |query: &str, passage| words.scores(query, english).0.get(&passage).copied().unwrap_or(0.0);
        assert!(score("bridge", 1) > score("river", 1), "`river` is in two passages, `bridge` in one");
        assert!(score("the", 2) < 1e-3, "`the` is in every passage");
        let (exact, stem) = (score("trees", 2), score("tree", 2));
        assert!(stem > 0.0 && stem < exact, "by stem {stem}, exact {exact}");
        assert_eq!(score("tree", 0), 0.0);
    }

    #[test]
    fn the_score_matches_the_bm25_formula() {
        let words = Words::new(&["one two".to_owned(), "three four five six".to_owned(), "seven".to_owned()], None);
        let (scores, terms) = words.scores("three", None);
        // Lengths 2, 4 and 1: the mean is 7 / 3.
        let expect = (2.5_f64 / 1.5).ln() * 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * 4.0 / (7.0 / 3.0)));
        assert!((scores[&1] - expect).abs() < 1e-9 && scores.len() == 1 && terms == 1, "{scores:?}, expected {expect}");
    }
}
