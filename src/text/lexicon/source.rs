//! Reads the lexicon's text, to make the tables that the program contains.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use frostem::Stemmer;

use crate::domain::{ConceptWord, Language, phrase_key};
use crate::text::plain_words::{for_each_word, plain_key, plain_words, word_key};
use crate::text::runs::{normalized, runs};
use crate::text::stems::{stem, stemmer};

pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/text/lexicon");
pub(super) const FILES: [&str; 18] = [
    include_str!("business.txt"),
    include_str!("common.txt"),
    include_str!("culture.txt"),
    include_str!("food.txt"),
    include_str!("general.txt"),
    include_str!("health.txt"),
    include_str!("home.txt"),
    include_str!("machines.txt"),
    include_str!("manual.txt"),
    include_str!("nature.txt"),
    include_str!("news.txt"),
    include_str!("people.txt"),
    include_str!("school.txt"),
    include_str!("shop.txt"),
    include_str!("society.txt"),
    include_str!("tech.txt"),
    include_str!("travel.txt"),
    include_str!("work.txt"),
];
/// The usual endings of nouns, adjectives and verbs of each language that has some: `en=s es …`.
pub(super) const ENDINGS: &str = include_str!("endings.txt");
/// Minimum number of letters before an ending, in languages with stemming rules and in others.
const LETTERS_MIN: usize = 3;
const LETTERS_MIN_WITHOUT_RULES: usize = 4;

/// Languages in which words that differ only in their accents are mostly different words.
const WITH_TONES: [&str; 2] = ["vi", "yo"];
/// What share of an entry such a word without its accents is.
const WITHOUT_TONES: f32 = 0.3;

/// How words of a language are inflected.
struct Inflection {
    /// The usual endings, longest first, and then the empty one.
    endings: Vec<&'static str>,
    stemmer: Option<Stemmer>,
}

impl Inflection {
    fn stem<'w>(&self, word: &'w str) -> Cow<'w, str> {
        self.stemmer.as_ref().and_then(|stemmer| stem(stemmer, word)).unwrap_or(Cow::Borrowed(word))
    }
}

static INFLECTIONS: LazyLock<HashMap<&str, Inflection>> = LazyLock::new(|| {
    let inflection = |line: &'static str| {
        let (language, endings) = line.split_once('=')?;
        let mut endings: Vec<&str> = endings.split(' ').chain([""]).collect();
        endings.sort_by_key(|ending| std::cmp::Reverse(ending.chars().count()));
        Some((language, Inflection { endings, stemmer: stemmer(Language::parse(language)?) }))
    };
    ENDINGS.lines().filter_map(inflection).collect()
});

/// Returns the concepts.
pub(crate) fn lines() -> impl Iterator<Item = &'static str> {
    FILES.iter().flat_map(|file| file.lines())
}

/// Returns the entries of a concept with the codes of their languages.
pub(super) fn entries(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let languages = line.split(';').filter_map(|cell| cell.split_once('='));
    languages.flat_map(|(language, entries)| entries.split(',').map(move |entry| (language, entry)))
}

/// Returns the words of a concept: those of its entries, and the forms of entries that `is_known` does not accept by their
/// number. A Korean entry without spaces is words, because pairs of neighboring characters count as words; other entries of
/// several words are phrases.
pub(crate) fn words_of(line: &str, is_known: impl Fn(u32) -> bool) -> Vec<ConceptWord> {
    let mut all = Vec::new();
    for (language, entry) in entries(line) {
        let words: Vec<u32> = plain_words(entry).iter().map(|word| word_key(word)).collect();
        let share = 1.0 / words.len() as f32;
        match (&words[..], accented(language, entry)) {
            (&[key], Some(accented)) => {
                all.extend([ConceptWord::Word { key, share: WITHOUT_TONES }, ConceptWord::Phrase(accented)]);
            }
            (&[key], None) => {
                let forms = if is_known(key) { Vec::new() } else { forms(language, entry) };
                let forms = forms.into_iter().filter(|form| !is_known(*form) && *form != key);
                all.extend(std::iter::once(key).chain(forms).map(|key| ConceptWord::Word { key, share }));
            }
            _ if language == "ko" && !entry.contains(' ') => {
                all.extend(words.into_iter().map(|key| ConceptWord::Word { key, share }));
            }
            _ => all.extend(phrases(language, entry, &words).into_iter().map(ConceptWord::Phrase)),
        }
    }
    all
}

/// Returns the number of a word with its accents, as passages count it, if it has some and they matter in its language.
fn accented(language: &str, word: &str) -> Option<u32> {
    if !WITH_TONES.contains(&language) {
        return None;
    }
    let (word, mut found) = (normalized(word), None);
    runs(&word).for_each(|run| for_each_word(&run, |word| found = word.accented()));
    found
}

/// Returns the numbers of a phrase of these words and, in English, of those with forms of its last word, which is the main one.
fn phrases(language: &str, entry: &str, words: &[u32]) -> Vec<u32> {
    let mut phrases = vec![phrase_key(words)];
    if let (Some((_, last)), [before @ .., own], "en") = (entry.rsplit_once(' '), words, language) {
        let forms = forms(language, last).into_iter().filter(|form| form != own);
        phrases.extend(forms.map(|form| phrase_key(&[before, &[form]].concat())));
    }
    phrases
}

/// Returns the numbers of a word's likely forms, ascending: other endings of the language instead of its own. By the language's
/// stemming rules, they have the same stem. Without rules, the longest ending that the word has is its own.
fn forms(language: &str, word: &str) -> Vec<u32> {
    let Some(inflection) = INFLECTIONS.get(language) else { return Vec::new() };
    let (word, has_rules) = (normalized(word), inflection.stemmer.is_some());
    let letters_min = if has_rules { LETTERS_MIN } else { LETTERS_MIN_WITHOUT_RULES };
    let beginnings = inflection.endings.iter().filter_map(|ending| word.strip_suffix(ending));
    let beginnings = beginnings.filter(|beginning| beginning.chars().count() >= letters_min);
    let beginnings: Vec<&str> = beginnings.take(if has_rules { usize::MAX } else { 1 }).collect();
    let candidates =
        beginnings.iter().flat_map(|beginning| inflection.endings.iter().map(move |ending| [*beginning, ending].concat()));
    let candidates: HashSet<String> = candidates.collect();
    let stem = inflection.stem(&word);
    let forms = candidates.iter().filter(|form| !has_rules || inflection.stem(form) == stem);
    let mut keys: Vec<u32> = forms.map(|form| plain_key(form)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
