//! The lexicon: everyday words of all languages by meaning, written for this project. Parallel text teaches a translation table
//! what laws, news and subtitles talk about; it hardly has faucets, screwdrivers and rashes, nor that trash is garbage.
//!
//! Each line of a file in `lexicon/` is a concept: `en=garbage,trash;de=Müll,Abfall;…`, the words of a language as dictionaries
//! list them. `CONTRIBUTING.md` has the rules for new lines.

use super::plain_words::{plain_words, word_key};

/// The files, by topic.
const FILES: [&str; 6] = [
    include_str!("lexicon/general.txt"),
    include_str!("lexicon/health.txt"),
    include_str!("lexicon/home.txt"),
    include_str!("lexicon/tech.txt"),
    include_str!("lexicon/travel.txt"),
    include_str!("lexicon/work.txt"),
];

/// A word of a concept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LexiconWord {
    /// The number of the word (`plain_words::word_key`).
    pub key: u32,
    /// What share of an entry it is. A Korean entry counts as several words, its pairs of neighboring characters.
    pub share: f32,
}

/// Returns the words of each concept. A word that several languages spell alike is listed for each of them. Entries that are
/// several words are left out.
pub fn concepts() -> Vec<Vec<LexiconWord>> {
    FILES.iter().flat_map(|file| file.lines()).map(concept).collect()
}

fn concept(line: &str) -> Vec<LexiconWord> {
    entries(line).flat_map(|(_, entry)| words(entry)).collect()
}

/// Returns the entries of a concept with the codes of their languages.
fn entries(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let languages = line.split(';').filter_map(|cell| cell.split_once('='));
    languages.flat_map(|(language, entries)| entries.split(',').map(move |entry| (language, entry)))
}

fn words(entry: &str) -> Vec<LexiconWord> {
    let words = plain_words(entry);
    let is_whole = words.len() == 1 || is_korean_word(entry);
    let share = 1.0 / words.len() as f32;
    words.iter().filter(|_| is_whole).map(|word| LexiconWord { key: word_key(word), share }).collect()
}

fn is_korean_word(entry: &str) -> bool {
    entry.chars().all(|c| matches!(c, '\u{ac00}'..='\u{d7a3}'))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use regex::Regex;
    use unicode_normalization::is_nfc;

    use super::*;
    use crate::domain::Language;

    fn lines() -> impl Iterator<Item = &'static str> {
        FILES.iter().flat_map(|file| file.lines())
    }

    #[test]
    fn a_concept_has_the_words_of_all_languages() {
        let words = concept("en=washing machine,washer;de=Waschmaschine;ko=세탁기");
        let expect = [("washer", 1.0), ("waschmaschine", 1.0), ("세탁", 0.5), ("탁기", 0.5)];
        assert_eq!(words, expect.map(|(word, share)| LexiconWord { key: word_key(word), share }));
    }

    #[test]
    fn each_line_begins_with_english_and_has_each_language_once() {
        for line in lines() {
            assert!(line.starts_with("en="), "{line}");
            let mut languages = HashSet::new();
            for cell in line.split(';') {
                let (language, entries) = cell.split_once('=').unwrap_or_else(|| panic!("{cell} in {line}"));
                assert!(Language::parse(language).is_some_and(|parsed| parsed.code() == language), "{language} in {line}");
                assert!(languages.insert(language), "{language} twice in {line}");
                let mut distinct = HashSet::new();
                assert!(entries.split(',').all(|entry| distinct.insert(entry)), "{cell}");
            }
            assert!(languages.len() > 20, "only {} languages in {line}", languages.len());
        }
    }

    #[test]
    fn each_entry_is_trimmed_and_composed() {
        for (language, entry) in lines().flat_map(entries) {
            assert!(!entry.is_empty() && entry.trim() == entry && is_nfc(entry), "{language}={entry:?}");
        }
    }

    #[test]
    fn each_entry_is_in_the_script_of_its_language() {
        let scripts = [
            ("bg kk mk mn ru sr uk", r"\p{Cyrillic}"),
            ("el", r"\p{Greek}"),
            ("ar fa ur", r"\p{Arabic}"),
            ("he", r"\p{Hebrew}"),
            ("hi mr", r"\p{Devanagari}"),
            ("gu", r"\p{Gujarati}"),
            ("bn", r"\p{Bengali}"),
            ("ta", r"\p{Tamil}"),
            ("te", r"\p{Telugu}"),
            ("ml", r"\p{Malayalam}"),
            ("ka", r"\p{Georgian}"),
            ("hy", r"\p{Armenian}"),
            ("th", r"\p{Thai}"),
            ("my", r"\p{Myanmar}"),
            ("zh", r"\p{Han}"),
            ("ja", r"\p{Han}\p{Hiragana}\p{Katakana}"),
            ("ko", r"\p{Hangul}"),
        ];
        // Abbreviations in Latin letters are common in all languages.
        let check = |class: &str| Regex::new(&format!(r"^[{class}\p{{Common}}\p{{Inherited}}A-Za-z]*[{class}]")).unwrap();
        let scripts: Vec<(&str, Regex)> = scripts.map(|(languages, class)| (languages, check(class))).into();
        let latin = Regex::new(r"^[\p{Latin}\p{Common}\p{Inherited}]+$").unwrap();
        for (language, entry) in lines().flat_map(entries) {
            let script = scripts.iter().find(|(languages, _)| languages.split(' ').any(|one| one == language));
            let fits =
                script.map_or_else(|| latin.is_match(entry), |(_, script)| script.is_match(entry) || latin.is_match(entry));
            assert!(fits, "{language}={entry}");
        }
    }
}
