//! Reads the lexicon's text, to make the tables that the program contains.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use frostem::Stemmer;

use crate::domain::{ConceptWord, Language, phrase_key};
use crate::text::plain_words::{for_each_word, plain, plain_words, word_key};
use crate::text::runs::{normalized, runs};
use crate::text::stems::{stem, stemmer};

pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/text/lexicon");
pub(super) const FILES: [&str; 19] = [
    include_str!("business.txt"),
    include_str!("common.txt"),
    include_str!("culture.txt"),
    include_str!("food.txt"),
    include_str!("general.txt"),
    include_str!("health.txt"),
    include_str!("home.txt"),
    include_str!("machines.txt"),
    include_str!("manual.txt"),
    include_str!("names.txt"),
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
/// The endings of nouns, adjectives and verbs of each language that has some: `en=s es … | ly …`, first the usual ones, then others,
/// and letters that may be written before a word: `al-`.
pub(super) const ENDINGS: &str = include_str!("endings.txt");
/// Minimum number of letters before an ending, in languages with stemming rules and in others.
const LETTERS_MIN: usize = 3;
const LETTERS_MIN_WITHOUT_RULES: usize = 4;

/// Maximum number of beginnings of a word to which endings are added.
const BEGINNINGS_MAX: usize = 3;

/// Languages in which words that differ only in their accents are mostly different words.
const WITH_TONES: [&str; 2] = ["vi", "yo"];
/// What share of an entry such a word without its accents is.
const WITHOUT_TONES: f32 = 0.3;

/// What share of an entry an inflected form of its word is, if the translation table has the form: it has other meanings from there.
const FORM: f32 = 0.7;

/// How words of a language are inflected.
struct Inflection {
    /// The usual endings, longest first, and then the empty one.
    usual: Vec<&'static str>,
    /// The other endings.
    others: Vec<&'static str>,
    /// What may be written before a word, and the empty text.
    prefixes: Vec<&'static str>,
    stemmer: Option<Stemmer>,
}

impl Inflection {
    fn stem<'w>(&self, word: &'w str) -> Cow<'w, str> {
        self.stemmer.as_ref().and_then(|stemmer| stem(stemmer, word)).unwrap_or(Cow::Borrowed(word))
    }

    /// Returns the numbers of the forms of a normalized word that `accept` accepts, ascending: with the usual or `others` of the
    /// language's endings instead of its own, and with each of `prefixes`. By the language's stemming rules, they have the same
    /// stem. Without rules, the longest usual ending that the word has is its own.
    fn forms(&self, word: &str, (others, prefixes): (&[&str], &[&str]), accept: impl Fn(u32) -> bool) -> Vec<u32> {
        let has_rules = self.stemmer.is_some();
        let letters_min = if has_rules { LETTERS_MIN } else { LETTERS_MIN_WITHOUT_RULES };
        let endings = || self.usual.iter().chain(others);
        let beginning = |ending: &&str| word.strip_suffix(ending).filter(|beginning| beginning.chars().count() >= letters_min);
        let mut beginnings: Vec<&str> = match has_rules {
            true => endings().filter_map(beginning).collect(),
            false => self.usual.iter().find_map(beginning).into_iter().collect(),
        };
        // The shortest and the longest.
        beginnings.sort_unstable_by_key(|beginning| beginning.len());
        beginnings.dedup();
        if beginnings.len() > BEGINNINGS_MAX {
            beginnings.drain(BEGINNINGS_MAX - 1..beginnings.len() - 1);
        }
        let stem = self.stem(word);
        let has_stem = |parts: [&str; 3]| !has_rules || self.stem(&parts.concat()) == stem;
        let endings: Vec<(&str, Cow<'_, str>)> = endings().map(|ending| (*ending, plain(ending))).collect();
        let (mut keys, mut form) = (Vec::new(), String::new());
        for beginning in beginnings {
            let plain_beginning = plain(beginning);
            for (prefix, (ending, plain_ending)) in
                prefixes.iter().flat_map(|prefix| endings.iter().map(move |ending| (prefix, ending)))
            {
                form.clear();
                [*prefix, &plain_beginning, plain_ending].into_iter().for_each(|part| form.push_str(part));
                let key = word_key(&form);
                keys.extend((accept(key) && has_stem([prefix, beginning, ending])).then_some(key));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

static INFLECTIONS: LazyLock<HashMap<&str, Inflection>> = LazyLock::new(|| {
    let inflection = |line: &'static str| {
        let (language, endings) = line.split_once('=')?;
        let (usual, others) = endings.split_once('|').unwrap_or((endings, ""));
        let mut usual: Vec<&str> = usual.split_whitespace().chain([""]).collect();
        usual.sort_by_key(|ending| std::cmp::Reverse(ending.chars().count()));
        let prefixes = others.split_whitespace().filter_map(|other| other.strip_suffix('-')).chain([""]).collect();
        let others = others.split_whitespace().filter(|other| !other.ends_with('-')).collect();
        Some((language, Inflection { usual, others, prefixes, stemmer: stemmer(Language::parse(language)?) }))
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

/// The numbers of all entries of one word.
static SINGLE_WORDS: LazyLock<HashSet<u32>> = LazyLock::new(|| {
    let single_word = |(_, entry)| match &plain_words(entry)[..] {
        [word] => Some(word_key(word)),
        _ => None,
    };
    lines().flat_map(entries).filter_map(single_word).collect()
});

/// Returns the words of a concept: those of its entries, and forms of them that are no entries themselves. `is_known` tells
/// whether the translation table has a word, by its number. A Korean entry without spaces is words, because pairs of neighboring
/// characters count as words; other entries of several words are phrases.
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
                let mut forms = known_forms(language, entry, &is_known);
                if !is_known(key) {
                    forms.extend(usual_forms(language, entry).into_iter().filter(|form| !is_known(*form)));
                }
                forms.retain(|form| *form != key && !SINGLE_WORDS.contains(form));
                let share_of = |form| if is_known(form) { FORM } else { share };
                all.push(ConceptWord::Word { key, share });
                all.extend(forms.into_iter().map(|key| ConceptWord::Word { key, share: share_of(key) }));
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
        let forms = usual_forms(language, last).into_iter().filter(|form| form != own);
        phrases.extend(forms.map(|form| phrase_key(&[before, &[form]].concat())));
    }
    phrases
}

/// Returns the numbers of a word's likely forms with the usual endings, ascending.
fn usual_forms(language: &str, word: &str) -> Vec<u32> {
    let Some(inflection) = INFLECTIONS.get(language) else { return Vec::new() };
    inflection.forms(&normalized(word), (&[], &[""]), |_| true)
}

/// Returns the numbers of a word's likely forms that `is_known` accepts, ascending.
fn known_forms(language: &str, word: &str, is_known: impl Fn(u32) -> bool) -> Vec<u32> {
    let Some(inflection) = INFLECTIONS.get(language) else { return Vec::new() };
    inflection.forms(&normalized(word), (&inflection.others, &inflection.prefixes), is_known)
}
