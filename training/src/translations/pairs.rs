//! Sentence pairs of a language and English, from folders of parallel text.

use std::collections::BTreeSet;
use std::path::Path;

use dragoman::domain::Language;
use dragoman::text::plain_words::plain_words;
use rustc_hash::FxHashSet;

use super::Sources;
use crate::data::corpus::{self, BLOCK_ROWS};
use crate::data::prepare::key;
use crate::error::Error;

/// Maximum words to read from a sentence.
const WORDS_MAX: usize = 40;
/// Weight of a line in a word list, compared with a sentence.
pub const WORDS_WEIGHT: f32 = 2.0;
/// Prefix of scripture corpora; their vocabulary is archaic, so they contribute only one in `SCRIPTURE_SHARE` of the usual
/// maximum.
const SCRIPTURE: &str = "bible";
const SCRIPTURE_SHARE: usize = 6;

/// The parallel text of a language and English.
#[derive(Debug, Default)]
pub struct Pairs {
    /// Sentences.
    pub sentences: Vec<(String, String)>,
    /// Words and names.
    pub words: Vec<(String, String)>,
}

impl Pairs {
    /// Reads the text of a language and English from `sources`. From a corpus that exceeds its maximum, takes sentences at even
    /// steps.
    pub fn read(sources: &Sources, language: Language, english: Language, excluded: &FxHashSet<u64>) -> Result<Self, Error> {
        let mut pairs = Self::default();
        let mut corpora = Vec::new();
        for folder in &sources.raw {
            corpora.extend(read(folder, [language, english], excluded)?);
        }
        for (name, corpus) in corpora {
            let share = if name.starts_with(SCRIPTURE) { SCRIPTURE_SHARE } else { 1 };
            pairs.sentences.extend(spread(corpus, sources.corpus_pairs_max / share));
        }
        pairs.sentences = spread(pairs.sentences, sources.pairs_max).collect();
        for folder in &sources.words {
            pairs.words.extend(read(folder, [language, english], excluded)?.into_iter().flat_map(|(_, corpus)| corpus));
        }
        Ok(pairs)
    }
}

/// A corpus name with the corpus's pairs.
type Named = (String, Vec<(String, String)>);

/// The corpora of a folder that have both languages, with their pairs.
fn read(folder: &Path, languages: [Language; 2], excluded: &FxHashSet<u64>) -> Result<Vec<Named>, Error> {
    let mut found = Vec::new();
    for corpus in corpus::find(folder)?.corpora {
        let corpus = corpus.narrowed(&languages);
        let own = corpus.languages();
        let columns = languages.map(|language| own.iter().position(|other| *other == language));
        let ([Some(first), Some(second)], false) = (columns, corpus.has_questions()) else { continue };
        let mut pairs = Vec::new();
        for block in corpus.blocks(BLOCK_ROWS)? {
            let block = block?;
            let both = block[first].iter().zip(&block[second]);
            let kept = both.filter(|(a, b)| !a.trim().is_empty() && !b.trim().is_empty());
            let kept = kept.filter(|(a, b)| !excluded.contains(&key(a)) && !excluded.contains(&key(b)));
            pairs.extend(kept.map(|(a, b)| (a.clone(), b.clone())));
        }
        found.push((corpus.name, pairs));
    }
    Ok(found)
}

/// Up to `count` elements of `all`, at even steps.
fn spread<T>(all: Vec<T>, count: usize) -> impl Iterator<Item = T> {
    let step = (all.len() as f64 / count.max(1) as f64).max(1.0);
    let mut next = 0.0;
    all.into_iter().enumerate().filter_map(move |(index, pair)| {
        let taken = index as f64 >= next;
        next += if taken { step } else { 0.0 };
        taken.then_some(pair)
    })
}

/// The distinct words of a text in their plain form.
pub fn distinct(text: &str) -> impl Iterator<Item = String> {
    let mut seen = BTreeSet::new();
    plain_words(text).into_iter().filter(move |word| seen.insert(word.clone())).take(WORDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_sampled_at_even_steps() {
        assert_eq!(spread((0..10).collect(), 5).collect::<Vec<_>>(), [0, 2, 4, 6, 8]);
        assert_eq!(spread((0..3).collect(), 5).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(spread((0..7).collect(), 3).count(), 3);
    }

    #[test]
    fn pairs_are_read_in_either_order_and_excluded_texts_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("news.de-en.tsv", "Guten Tag, Welt\tGood day, world\nDas Boot\tThe boat\n");
        write("talk.en-de.tsv", "The house\tDas Haus\n");
        write("many.de.txt", "Der Fluss\n\n");
        write("many.en.txt", "The river\nThe hill\n");
        write("many.fr.txt", "La rivière\nLa colline\n");
        let language = |code| Language::parse(code).unwrap();
        let excluded = FxHashSet::from_iter([key("The boat")]);
        let sources = Sources {
            raw: vec![folder.path().to_owned()],
            words: Vec::new(),
            texts: Vec::new(),
            exclude: Vec::new(),
            pairs_max: 10,
            corpus_pairs_max: 10,
            words_max: 10,
        };
        let pairs = Pairs::read(&sources, language("de"), language("en"), &excluded).unwrap();
        let expect = [("Der Fluss", "The river"), ("Guten Tag, Welt", "Good day, world"), ("Das Haus", "The house")];
        assert_eq!(pairs.sentences, expect.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
