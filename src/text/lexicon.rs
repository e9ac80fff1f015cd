//! The lexicon: everyday words and well-known names of all languages by meaning, written for this project. Parallel text teaches
//! a translation table what laws, news and subtitles talk about; it hardly has faucets, screwdrivers and rashes, nor that trash
//! is garbage or Vienna Wien.
//!
//! Each line of a text file in `lexicon/` is a concept: `en=garbage,trash;de=Müll,Abfall;…`, the words of a language as
//! dictionaries list them. `CONTRIBUTING.md` has the rules for new lines. Finding the words of 800,000 entries takes longer than
//! loading the model, so the program contains two tables made from the text instead, in the format of a translation table
//! (`ranking::Lexicon`).

#[cfg(test)]
pub(crate) mod source;

/// The concepts of words.
pub const WORDS: &[u8] = include_bytes!("lexicon/words.safetensors");
/// The concepts of phrases.
pub const PHRASES: &[u8] = include_bytes!("lexicon/phrases.safetensors");

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;

    use regex::Regex;
    use unicode_normalization::is_nfc;

    use super::source::{ENDINGS, FILES, FOLDER, entries, lines, words_of};
    use crate::domain::{ConceptWord, Language, phrase_key};
    use crate::text::plain_words::{accented_key, word_key};

    #[test]
    fn each_text_file_of_the_folder_is_read() {
        let files = fs::read_dir(FOLDER).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        assert_eq!(files.filter(|name| name.ends_with(".txt") && name != "endings.txt").count(), FILES.len());
    }

    #[test]
    fn a_concept_has_the_words_and_phrases_of_all_languages() {
        let known = ["washer", "waschmaschine"].map(word_key);
        let words = words_of("en=washing machine,washer;de=Waschmaschine;ko=세탁기", |word| known.contains(&word));
        let phrase = |words: [&str; 2]| ConceptWord::Phrase(phrase_key(&words.map(word_key)));
        let word = |(word, share)| ConceptWord::Word { key: word_key(word), share };
        let single = [("washer", 1.0), ("waschmaschine", 1.0), ("세탁", 0.5), ("탁기", 0.5)].map(word);
        let (phrases, words) = words.split_at(words.len() - single.len());
        assert_eq!(words, single);
        assert!(["machine", "machines"].iter().all(|last| phrases.contains(&phrase(["washing", last]))));
    }

    #[test]
    fn a_word_with_tones_is_hardly_the_word_without_them() {
        let known = ["dog", "ano"].map(word_key);
        let words = words_of("en=dog;es=año;vi=chó", |word| known.contains(&word));
        let [en, es, without_tones, with_tones] = words[..] else { panic!() };
        let key_and_share = |word: ConceptWord| match word {
            ConceptWord::Word { key, share } => (key, share),
            ConceptWord::Phrase(key) => (key, 1.0),
        };
        assert_eq!([en, es].map(key_and_share), [(word_key("dog"), 1.0), (word_key("ano"), 1.0)]);
        assert_eq!(with_tones, ConceptWord::Phrase(accented_key("chó")));
        let (key, share) = key_and_share(without_tones);
        assert!(key == word_key("cho") && share < 0.5);
    }

    /// Returns the forms that a line with one word adds to it if the translation table has `known`.
    fn forms(line: &str, known: &[&str]) -> Vec<ConceptWord> {
        let known: Vec<u32> = known.iter().map(|word| word_key(word)).collect();
        words_of(line, |word| known.contains(&word)).split_off(1)
    }

    fn form(word: &str, share: f32) -> ConceptWord {
        ConceptWord::Word { key: word_key(word), share }
    }

    #[test]
    fn an_unknown_word_has_its_usual_forms() {
        let all = forms("en=grobble", &[]);
        assert!(all.contains(&form("grobbles", 1.0)) && !all.contains(&form("grobblement", 1.0)));
        assert!(forms("en=grobble", &["grobble"]).is_empty());
    }

    #[test]
    fn the_forms_that_the_table_has_mean_the_word_too() {
        assert_eq!(forms("en=grobble", &["grobble", "grobbles", "grab"]), [form("grobbles", 0.7)]);
        assert_eq!(forms("tr=kitaplık", &["kitaplik", "kitaplikta"]), [form("kitaplikta", 0.7)]);
        assert_eq!(forms("he=מקלדת", &["מקלדת", "המקלדת"]), [form("המקלדת", 0.7)], "letters before the word");
        assert_eq!(forms("en=build", &["build", "builds", "building"]), [form("builds", 0.7)], "building has an entry");
    }

    #[test]
    fn each_list_of_endings_is_of_a_language() {
        let languages = ENDINGS.lines().map(|line| line.split_once('=').unwrap().0);
        let all: HashSet<&str> = languages.clone().collect();
        assert!(all.iter().all(|language| Language::parse(language).is_some_and(|parsed| parsed.code() == *language)));
        assert_eq!(all.len(), languages.count());
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
