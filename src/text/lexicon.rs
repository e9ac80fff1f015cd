//! The lexicon: everyday words of all languages by meaning, written for this project. Parallel text teaches a translation table
//! what laws, news and subtitles talk about; it hardly has faucets, screwdrivers and rashes, nor that trash is garbage.
//!
//! Each line of a text file in `lexicon/` is a concept: `en=garbage,trash;de=Müll,Abfall;…`, the words of a language as
//! dictionaries list them. `CONTRIBUTING.md` has the rules for new lines. Finding the words of 300,000 entries takes longer than
//! loading the model, so the program contains their numbers instead of the text: `lexicon/words.bin` has, in little-endian
//! uint32, for each concept the number of its words, then for each of them the number of the word in the lower
//! `WORD_KEY_BITS` bits and into how many words its entry is divided in the others.

use crate::domain::{ConceptWord, WORD_KEY_BITS};

/// The numbers of the words of all concepts.
const WORDS: &[u8] = include_bytes!("lexicon/words.bin");

/// Returns the words of each concept. A word that several languages spell alike is listed for each of them.
pub fn concepts() -> Vec<Vec<ConceptWord>> {
    let mut numbers = WORDS.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four));
    let mut concepts = Vec::new();
    while let Some(count) = numbers.next() {
        concepts.push(numbers.by_ref().take(count as usize).map(unpack).collect());
    }
    concepts
}

fn unpack(word: u32) -> ConceptWord {
    ConceptWord { key: word & ((1 << WORD_KEY_BITS) - 1), share: 1.0 / (word >> WORD_KEY_BITS) as f32 }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;

    use regex::Regex;
    use unicode_normalization::is_nfc;

    use super::*;
    use crate::domain::Language;
    use crate::text::plain_words::{plain_words, word_key};

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/text/lexicon");
    const FILES: [&str; 6] = [
        include_str!("lexicon/general.txt"),
        include_str!("lexicon/health.txt"),
        include_str!("lexicon/home.txt"),
        include_str!("lexicon/tech.txt"),
        include_str!("lexicon/travel.txt"),
        include_str!("lexicon/work.txt"),
    ];

    fn lines() -> impl Iterator<Item = &'static str> {
        FILES.iter().flat_map(|file| file.lines())
    }

    /// Returns the entries of a concept with the codes of their languages.
    fn entries(line: &str) -> impl Iterator<Item = (&str, &str)> {
        let languages = line.split(';').filter_map(|cell| cell.split_once('='));
        languages.flat_map(|(language, entries)| entries.split(',').map(move |entry| (language, entry)))
    }

    /// Returns the packed words of a concept. Entries that are several words are left out, except Korean ones, whose pairs of
    /// neighboring characters count as words.
    fn packed(line: &str) -> Vec<u32> {
        let mut packed = Vec::new();
        for (language, entry) in entries(line) {
            let words = plain_words(entry);
            if words.len() == 1 || language == "ko" && !entry.contains(' ') {
                let parts = (words.len() as u32) << WORD_KEY_BITS;
                packed.extend(words.iter().map(|word| parts | word_key(word)));
            }
        }
        packed
    }

    #[test]
    fn the_program_contains_the_words_of_the_text() {
        let concepts = lines().map(packed);
        let numbers = concepts.flat_map(|words| std::iter::once(words.len() as u32).chain(words).collect::<Vec<_>>());
        let bytes: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
        if std::env::var_os("DRAGOMAN_BLESS").is_some() {
            fs::write(format!("{FOLDER}/words.bin"), &bytes).unwrap();
            return;
        }
        assert!(bytes == WORDS, "words.bin is older than the text: DRAGOMAN_BLESS=1 cargo test --lib lexicon");
        assert_eq!(super::concepts().len(), lines().count());
    }

    #[test]
    fn each_text_file_of_the_folder_is_read() {
        let files = fs::read_dir(FOLDER).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        assert_eq!(files.filter(|name| name.ends_with(".txt")).count(), FILES.len());
    }

    #[test]
    fn a_concept_has_the_words_of_all_languages() {
        let words = packed("en=washing machine,washer;de=Waschmaschine;ko=세탁기").into_iter().map(unpack);
        let expect = [("washer", 1.0), ("waschmaschine", 1.0), ("세탁", 0.5), ("탁기", 0.5)];
        assert!(words.eq(expect.map(|(word, share)| ConceptWord { key: word_key(word), share })));
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
