//! Searches of a few words, to fit weights for them: each is quoted from a FLORES sentence and should find its translation.
//!
//! The files of questions contain whole questions and headings, but people also type only a few words, often names.

use std::collections::BTreeMap;
use std::path::Path;

use dragoman::domain::Language;

use crate::error::Error;
use crate::eval::flores::{self, ENGLISH};
use crate::eval::language::UNSPACED;
use crate::eval::passages::{File, Pool};

/// Maximum number of sentences of a language to search.
const SENTENCES: usize = 300;
/// Maximum number of quotes of each other language that search them.
const QUOTES: usize = 24;
/// Number of words of a quote.
const WORDS: usize = 5;
/// Number of characters of a quote in a language without spaces between words.
const CHARACTERS: usize = 15;

/// Reads the FLORES files in `data` into pools by the sentences' language, with quotes to and from English. Returns none if there
/// is no English file.
pub fn pools(data: &Path) -> Result<BTreeMap<Language, Pool>, Error> {
    let mut texts = BTreeMap::new();
    for language in Language::all() {
        if let Some(mut sentences) = flores::sentences(data, language)? {
            sentences.truncate(SENTENCES);
            texts.insert(language, sentences);
        }
    }
    let is_english = |language: &Language| language.code() == ENGLISH;
    if !texts.keys().any(is_english) {
        return Ok(BTreeMap::new());
    }
    let files_of = |language: &Language| {
        let others = texts.iter().filter(|(other, _)| is_english(other) != is_english(language));
        others.map(|(other, sentences)| file(*other, *language, sentences)).collect()
    };
    let pool = |(language, sentences): (&Language, &Vec<String>)| {
        (*language, Pool { passages: sentences.clone(), files: files_of(language) })
    };
    Ok(texts.iter().map(pool).collect())
}

/// Quotes from sentences at even steps; quotes begin at different positions in their sentences.
fn file(from: Language, to: Language, sentences: &[String]) -> File {
    let answers: Vec<usize> = (0..sentences.len()).step_by(sentences.len().div_ceil(QUOTES).max(1)).collect();
    let questions = answers.iter().map(|&number| quote(&sentences[number], number, UNSPACED.contains(&from.code()))).collect();
    File { pair: format!("{from}-{to}"), questions, answers }
}

/// Returns some consecutive words or characters. `number` chooses where they begin.
fn quote(sentence: &str, number: usize, by_characters: bool) -> String {
    let (parts, count, between): (Vec<&str>, _, _) = match by_characters {
        true => (sentence.split("").filter(|part| !part.is_empty()).collect(), CHARACTERS, ""),
        false => (sentence.split_whitespace().collect(), WORDS, " "),
    };
    let start = number % (parts.len().saturating_sub(count) + 1);
    parts[start..parts.len().min(start + count)].join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_a_few_consecutive_words_of_a_sentence() {
        let sentence = "The ferry to the island leaves at six in the morning.";
        assert_eq!(quote(sentence, 0, false), "The ferry to the island");
        assert_eq!(quote(sentence, 6, false), "at six in the morning.");
        assert_eq!(quote(sentence, 7, false), "The ferry to the island");
        assert_eq!(quote("Too short.", 3, false), "Too short.");
        assert_eq!(quote("开往岛上的渡轮早上六点出发。", 9, true), "开往岛上的渡轮早上六点出发。");
    }

    #[test]
    fn quotes_pair_each_language_with_english_in_both_directions() {
        let folder = tempfile::tempdir().unwrap();
        assert!(pools(folder.path()).unwrap().is_empty());
        for (name, text) in [("de", "Eins\nZwei\n"), ("en", "One\nTwo\n"), ("fr", "Un\nDeux\n")] {
            std::fs::write(folder.path().join(format!("flores.{name}.txt")), text).unwrap();
        }
        let pools = pools(folder.path()).unwrap();
        let pairs = |language: &str| -> Vec<&str> {
            pools[&Language::parse(language).unwrap()].files.iter().map(|file| file.pair.as_str()).collect()
        };
        assert_eq!((pairs("en"), pairs("de"), pairs("fr")), (vec!["de-en", "fr-en"], vec!["en-de"], vec!["en-fr"]));
        let file = &pools[&Language::parse("de").unwrap()].files[0];
        assert_eq!((&file.questions[1], file.answers[1]), (&"Two".to_owned(), 1));
    }
}
