//! Passages of real text, and queries for them. `TEXTS` names a file of passages (one JSON object per line with `text` and
//! `language`), `QUERIES` one of queries, one per line. Without them, passages are composed from sentences of the repository's
//! judged pages, three of one language at a time, and the queries are those judged with these pages.

#![allow(dead_code, reason = "each benchmark uses its part")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};

use serde_json::Value;

use super::clusters::Random;

const PAGES: &str = "tests/relevance/corpus.jsonl";
const QUESTIONS: &str = "tests/relevance/queries.jsonl";
/// Sentences per passage.
pub const SENTENCES: usize = 3;

/// A text and its language.
pub struct Passage {
    pub text: String,
    pub language: String,
}

/// Up to `count` passages.
pub fn passages(count: usize) -> Vec<Passage> {
    match std::env::var_os("TEXTS") {
        Some(file) => objects(file.as_ref()).take(count).map(|value| passage(&value)).collect(),
        None => composed(count),
    }
}

/// The queries.
pub fn questions(count: usize) -> Vec<String> {
    match std::env::var_os("QUERIES") {
        Some(file) => lines(file.as_ref()).take(count).collect(),
        None => objects(QUESTIONS.as_ref()).take(count).map(|value| passage(&value).text).collect(),
    }
}

/// The sentences of the repository's judged pages, by language.
pub fn sentences() -> BTreeMap<String, Vec<String>> {
    let mut sentences: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for value in objects(PAGES.as_ref()) {
        let Passage { text, language } = passage(&value);
        let parts = text.split_inclusive(['.', '。', '।', '؟', '?', '!']).map(|part| part.trim().to_owned());
        sentences.entry(language).or_default().extend(parts.filter(|part| part.chars().count() > 10));
    }
    sentences
}

fn composed(count: usize) -> Vec<Passage> {
    let sentences: Vec<(String, Vec<String>)> = sentences().into_iter().collect();
    let mut random = Random(17);
    let mut one = || {
        let (language, sentences) = &sentences[random.below(sentences.len())];
        let parts: Vec<&str> = (0..SENTENCES).map(|_| sentences[random.below(sentences.len())].as_str()).collect();
        Passage { text: parts.join(" "), language: language.clone() }
    };
    (0..count).map(|_| one()).collect()
}

fn passage(value: &Value) -> Passage {
    let language = value["language"].as_str().or_else(|| value["metadata"]["language"].as_str()).unwrap_or("en");
    Passage { text: value["text"].as_str().expect("a text").to_owned(), language: language.to_owned() }
}

fn objects(file: &std::path::Path) -> impl Iterator<Item = Value> {
    lines(file).map(|line| serde_json::from_str(&line).expect("a JSON object per line"))
}

fn lines(file: &std::path::Path) -> impl Iterator<Item = String> {
    let file = std::fs::File::open(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    BufReader::new(file).lines().map(|line| line.expect("text")).filter(|line| !line.trim().is_empty())
}
