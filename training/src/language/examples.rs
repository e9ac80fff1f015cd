//! From the training text to labeled examples: balanced over corpora, without texts that are not in their language.
//!
//! Left out: text that occurs in evaluation files; markup and placeholders; texts that equal their English side in the same
//! corpus (interface strings that were never translated); texts in another script than their language's; texts with fewer than
//! three tokens that have letters.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::path::{Path, PathBuf};

use dragoman::domain::Language;
use dragoman::text::Tokenizer;
use dragoman::text::language::head::{Features, TokenKind};
use rayon::prelude::*;
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::data::corpus::{self, Corpus};
use crate::data::prepare::{excluded_texts, key};
use crate::error::Error;
use crate::eval::language::UNSPACED;

/// Maximum characters to read of one text; `TOKENS_MAX` is the maximum of tokens.
const CHARACTERS_MAX: usize = 256;
const TOKENS_MAX: usize = 96;
/// Minimum number of tokens with letters in an example.
const TOKENS_MIN: usize = 3;
/// One in this many texts is held out.
const HELD_OUT_OF: u64 = 50;
/// Characters of markup, placeholders and paths, which sentences do not contain.
const MARKUP: &[char] = &['{', '}', '<', '>', '$', '%', '|', '\\', '=', '_', '@', '#', '~', '^', '`'];

/// A text of a known language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Its language.
    pub language: Language,
    /// Its corpus, an index into `Examples::corpora`.
    pub corpus: usize,
    /// The head's rows that are its features, from `Features::of`.
    pub rows: Box<[u32]>,
    /// Positions in `rows` where a word starts; in a language without spaces, where any token starts.
    pub words: Box<[u16]>,
}

/// Examples to train and calibrate a head on.
#[derive(Debug, Default)]
pub struct Examples {
    /// Names of the corpora.
    pub corpora: Vec<String>,
    /// Training examples.
    pub train: Vec<Example>,
    /// Held-out examples: one in fifty texts, and all texts of the held-out corpora.
    pub held_out: Vec<Example>,
}

/// Which texts to read.
#[derive(Debug)]
pub struct Selection<'a> {
    /// Folder of corpora.
    pub raw: &'a Path,
    /// Folders of texts that must not enter training.
    pub exclude: &'a [PathBuf],
    /// Corpora to hold out.
    pub hold_out: &'a [String],
    /// Maximum texts per corpus and language, times the corpus's weight.
    pub per_corpus: usize,
    /// Maximum texts per language.
    pub per_language: usize,
}

/// A text with its hash, which decides whether it is sampled.
type Hashed = (u64, String);

impl Examples {
    /// Reads the corpora of `selection`; `weight` returns the weight of a corpus by its name.
    pub fn read(
        selection: &Selection<'_>,
        tokenizer: &Tokenizer,
        features: &Features,
        weight: impl Fn(&str) -> f64,
    ) -> Result<Self, Error> {
        let mut chosen: BTreeMap<(String, Language), Vec<Hashed>> = BTreeMap::new();
        for corpus in corpus::find(selection.raw)?.corpora {
            let max = (selection.per_corpus as f64 * weight(&corpus.name)) as usize;
            if max > 0 {
                choose(&corpus, max, &mut chosen)?;
            }
        }
        if chosen.is_empty() {
            return Err(Error::NoData { path: selection.raw.to_owned() });
        }
        let mut examples = Self::default();
        let reader = TextReader { tokenizer, features, excluded: excluded_texts(selection.exclude)? };
        for language in Language::all() {
            examples.add(language, &mut chosen, &reader, selection)?;
        }
        Ok(examples)
    }

    /// Adds the distinct texts of a language: the first `per_language` in hash order.
    fn add(
        &mut self,
        language: Language,
        chosen: &mut BTreeMap<(String, Language), Vec<Hashed>>,
        reader: &TextReader<'_>,
        selection: &Selection<'_>,
    ) -> Result<(), Error> {
        let mut texts: Vec<(String, usize)> = Vec::new();
        for ((corpus, _), hashed) in chosen.iter_mut().filter(|((_, of), _)| *of == language) {
            let number = self.corpora.iter().position(|known| known == corpus).unwrap_or_else(|| {
                self.corpora.push(corpus.clone());
                self.corpora.len() - 1
            });
            texts.extend(std::mem::take(hashed).into_iter().map(|(_, text)| (text, number)));
        }
        let read = texts.par_iter().with_min_len(256).map(|(text, corpus)| reader.example(text, language, *corpus));
        let mut read: Vec<(u64, Example)> = read.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        // A text of a held-out corpus is held out even if it occurs elsewhere.
        let held = |corpus: usize| selection.hold_out.contains(&self.corpora[corpus]);
        read.sort_by_key(|(key, example)| (*key, !held(example.corpus)));
        read.dedup_by_key(|(key, _)| *key);
        read.truncate(selection.per_language);
        let held_out = |key: u64, example: &Example| {
            if selection.hold_out.is_empty() { key.is_multiple_of(HELD_OUT_OF) } else { held(example.corpus) }
        };
        let (held_out, train): (Vec<_>, Vec<_>) = read.into_iter().partition(|(key, example)| held_out(*key, example));
        self.held_out.extend(held_out.into_iter().map(|(_, example)| example));
        self.train.extend(train.into_iter().map(|(_, example)| example));
        Ok(())
    }
}

/// Samples the texts of a corpus: in each language those with the lowest hashes, at most `max` over all files with its name.
fn choose(corpus: &Corpus, max: usize, chosen: &mut BTreeMap<(String, Language), Vec<Hashed>>) -> Result<(), Error> {
    let columns = corpus.read()?;
    let languages = corpus.languages();
    let hash = |text: &String| FxBuildHasher.hash_one(text.trim());
    let english = languages.iter().position(|language| language.code() == "en");
    let in_english: FxHashSet<u64> = english.map_or_else(Default::default, |index| columns[index].iter().map(hash).collect());
    for (index, (language, column)) in languages.iter().zip(columns).enumerate() {
        let list = chosen.entry((corpus.name.clone(), *language)).or_default();
        for text in column {
            let hash = hash(&text);
            let untranslated = Some(index) != english && in_english.contains(&hash);
            if !untranslated && is_sentence(&text, *language) {
                list.push((hash, text));
            }
        }
        list.sort_by_key(|(hash, _)| *hash);
        list.dedup_by_key(|(hash, _)| *hash);
        list.truncate(max);
    }
    Ok(())
}

/// Whether `text` looks like a sentence of `language`: no markup, and most letters in its script.
fn is_sentence(text: &str, language: Language) -> bool {
    if text.contains(MARKUP) || text.contains("://") {
        return false;
    }
    let (mut latin, mut other) = (0, 0);
    for c in text.chars().filter(|c| c.is_alphabetic()) {
        if matches!(c, 'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}') { latin += 1 } else { other += 1 }
    }
    match (language.script(), language.code()) {
        // Serbian is written in both scripts.
        (_, "sr") => latin + other > 0,
        ("Latn", _) => latin > other,
        _ => other > latin,
    }
}

/// Converts texts to examples.
struct TextReader<'a> {
    tokenizer: &'a Tokenizer,
    features: &'a Features,
    /// Keys of texts that must not enter training.
    excluded: FxHashSet<u64>,
}

impl TextReader<'_> {
    /// The example and its text's key; `None` for a text that must not enter training or has too few letters.
    fn example(&self, text: &str, language: Language, corpus: usize) -> Result<Option<(u64, Example)>, Error> {
        let key = key(text);
        if self.excluded.contains(&key) {
            return Ok(None);
        }
        let text = text.char_indices().nth(CHARACTERS_MAX).map_or(text, |(end, _)| &text[..end]);
        let rows = self.features.of(&self.tokenizer.encode(text, TOKENS_MAX)?.ids);
        let unspaced = UNSPACED.contains(&language.code());
        let kind = |row: u32| self.features.kinds.get(row as usize).copied();
        let starts = |&(index, &row): &(usize, &u32)| match kind(row) {
            Some(TokenKind::Start) => true,
            Some(_) => index == 0 || unspaced,
            None => false,
        };
        let tokens = rows.iter().filter(|&&row| kind(row).is_some()).count();
        let words = rows.iter().enumerate().filter(starts).map(|(index, _)| index as u16).collect();
        Ok((tokens >= TOKENS_MIN).then(|| (key, Example { language, corpus, rows: rows.into(), words })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(code: &str) -> Language {
        Language::parse(code).unwrap()
    }

    #[test]
    fn markup_and_foreign_scripts_are_not_sentences() {
        assert!(is_sentence("Die Katze schläft auf dem Tisch.", language("de")));
        assert!(!is_sentence("Die Katze hat %d Pfoten.", language("de")));
        assert!(!is_sentence("Siehe https://example.org", language("de")));
        assert!(!is_sentence("The cat sleeps.", language("ru")));
        assert!(!is_sentence("Кошка спит.", language("de")));
        assert!(!is_sentence("123", language("de")));
    }

    #[test]
    fn serbian_sentences_may_use_either_script() {
        assert!(is_sentence("Мачка спава на столу.", language("sr")));
        assert!(is_sentence("Mačka spava na stolu.", language("sr")));
    }
}
