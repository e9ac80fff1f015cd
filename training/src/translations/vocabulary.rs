//! The vocabulary of each language, with word frequencies.

use std::collections::BTreeMap;
use std::path::Path;

use dragoman::domain::Language;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::pairs;
use crate::data::corpus::{self, BLOCK_ROWS, Corpus};
use crate::error::Error;

/// Minimum number of texts with a word, because a word that occurs once is as often a mistake as not.
const SEEN_MIN: u32 = 2;

/// The words of a language.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// Number of texts with each word.
    counts: FxHashMap<String, u32>,
    /// Total number of texts.
    texts: usize,
}

impl Vocabulary {
    /// Adds a text.
    pub fn add(&mut self, text: &str) {
        self.texts += 1;
        for word in pairs::distinct(text) {
            *self.counts.entry(word).or_default() += 1;
        }
    }

    /// Up to `count` of the most frequent words that were seen often enough, most frequent first, each with its share of the
    /// texts.
    pub fn frequent(&self, count: usize) -> Vec<(&str, f64)> {
        let seen = self.counts.iter().filter(|(_, count)| **count >= SEEN_MIN);
        let mut words: Vec<(&str, u32)> = seen.map(|(word, count)| (word.as_str(), *count)).collect();
        words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        words.truncate(count);
        words.into_iter().map(|(word, count)| (word, f64::from(count) / self.texts.max(1) as f64)).collect()
    }

    fn join(&mut self, other: Self) {
        self.texts += other.texts;
        for (word, count) in other.counts {
            *self.counts.entry(word).or_default() += count;
        }
    }
}

/// Counts the words of all corpora in `folders`.
pub fn count<'f>(folders: impl Iterator<Item = &'f Path>) -> Result<BTreeMap<Language, Vocabulary>, Error> {
    let mut corpora = Vec::new();
    for folder in folders {
        corpora.extend(corpus::find(folder)?.corpora);
    }
    corpora.par_iter().map(of_corpus).try_reduce(BTreeMap::new, |mut all, part| {
        for (language, vocabulary) in part {
            all.entry(language).or_insert_with(Vocabulary::default).join(vocabulary);
        }
        Ok(all)
    })
}

fn of_corpus(corpus: &Corpus) -> Result<BTreeMap<Language, Vocabulary>, Error> {
    let mut counted: BTreeMap<Language, Vocabulary> = BTreeMap::new();
    for block in corpus.blocks(BLOCK_ROWS)? {
        for (language, texts) in corpus.languages().into_iter().zip(block?) {
            let vocabulary = counted.entry(language).or_default();
            texts.iter().filter(|text| !text.trim().is_empty()).for_each(|text| vocabulary.add(text));
        }
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_at_least_two_texts_are_sorted_by_frequency() {
        let mut vocabulary = Vocabulary::default();
        for text in ["The boat and the river", "the river", "THE end"] {
            vocabulary.add(text);
        }
        let frequent = vocabulary.frequent(5);
        assert_eq!(frequent, [("the", 1.0), ("river", 2.0 / 3.0)]);
        assert_eq!(vocabulary.frequent(1).len(), 1);
    }

    #[test]
    fn words_of_each_language_are_counted_separately() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.de-en.tsv"), "Das Boot\tThe boat\nEin Boot\tA boat\n").unwrap();
        std::fs::write(folder.path().join("b.en.txt"), "The boat\n\n").unwrap();
        std::fs::write(folder.path().join("b.fr.txt"), "Le bateau\nUn bateau\n").unwrap();
        let counted = count(std::iter::once(folder.path())).unwrap();
        let frequent = |code: &str| counted[&Language::parse(code).unwrap()].frequent(9);
        assert_eq!((frequent("de"), frequent("fr")), (vec![("boot", 1.0)], vec![("bateau", 1.0)]));
        assert_eq!(frequent("en"), [("boat", 1.0), ("the", 2.0 / 3.0)]);
    }
}
