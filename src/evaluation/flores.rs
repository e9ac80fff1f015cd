//! FLORES: long, news-like sentences, translated into every language, so that any two languages form a retrieval task.
//!
//! Files `flores.xx.txt`, one sentence per line, aligned by line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::domain::Language;
use serde::{Deserialize, Serialize};

use super::encoder::{Embeddings, SentenceEncoder};
use super::error::EvaluationError;
use super::lines;
use super::retrieval::{mean, precision_at_1};

/// The code of English, the pivot language.
pub const ENGLISH: &str = "en";

/// The results, in percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FloresReport {
    /// Sentences per language.
    pub sentences: usize,
    /// P@1 with English, by language.
    pub languages: BTreeMap<String, WithEnglish>,
    /// Mean over `languages`, both directions.
    pub english_mean: f64,
    /// Mean over all ordered pairs of two other languages.
    pub other_mean: f64,
    /// Number of these ordered pairs.
    pub other_pairs: usize,
    /// Languages without a file.
    pub absent: Vec<String>,
}

/// P@1 of one language with English, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WithEnglish {
    /// P@1 with queries in the language and candidates in English.
    pub to_english: f64,
    /// P@1 with queries in English and candidates in the language.
    pub from_english: f64,
}

/// Aligned sentences by language.
pub struct Aligned {
    /// Sentences by language, the same number in each.
    pub languages: BTreeMap<Language, Vec<String>>,
    /// Languages without a file.
    pub absent: Vec<Language>,
}

/// Reads the files in `folder`. Returns `None` if there are none.
pub fn read(folder: &Path) -> Result<Option<Aligned>, EvaluationError> {
    let mut aligned = Aligned { languages: BTreeMap::new(), absent: Vec::new() };
    let mut expected = None;
    for language in Language::all() {
        let path = file(folder, language);
        if !path.is_file() {
            aligned.absent.push(language);
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|source| EvaluationError::file(&path, source))?;
        let sentences: Vec<String> = text.lines().map(str::to_owned).collect();
        let expected = *expected.get_or_insert(sentences.len());
        if sentences.len() != expected {
            return Err(EvaluationError::Misaligned { path, expected, got: sentences.len() });
        }
        if let Some(line) = sentences.iter().position(|line| line.trim().is_empty()) {
            return Err(lines::field_error(&path, line + 1, "sentence", "a sentence", "an empty line"));
        }
        aligned.languages.insert(language, sentences);
    }
    Ok((expected.unwrap_or(0) > 0).then_some(aligned))
}

/// Measures P@1 between all languages that have a file in `folder`. Returns `None` if none has.
pub fn measure(folder: &Path, encoder: &mut dyn SentenceEncoder) -> Result<Option<FloresReport>, EvaluationError> {
    let Some(aligned) = read(folder)? else {
        return Ok(None);
    };
    let mut embedded = Vec::new();
    for (language, sentences) in &aligned.languages {
        embedded.push((*language, encoder.encode(sentences)?));
    }
    let mut report = compare(&embedded)?;
    report.absent = aligned.absent.iter().map(|language| language.code().to_owned()).collect();
    Ok(Some(report))
}

/// Computes P@1 between all languages, whose rows are translations of each other.
fn compare(embedded: &[(Language, Embeddings)]) -> Result<FloresReport, EvaluationError> {
    let mut languages = BTreeMap::new();
    let mut others = Vec::new();
    for (index, (first, first_embeddings)) in embedded.iter().enumerate() {
        for (second, second_embeddings) in &embedded[index + 1..] {
            let precision = precision_at_1(first_embeddings, second_embeddings)?;
            let (forward, backward) = (precision.forward, precision.backward);
            if first.code() == ENGLISH {
                languages.insert(second.code().to_owned(), WithEnglish { to_english: backward, from_english: forward });
            } else if second.code() == ENGLISH {
                languages.insert(first.code().to_owned(), WithEnglish { to_english: forward, from_english: backward });
            } else {
                others.extend([forward, backward]);
            }
        }
    }
    Ok(FloresReport {
        sentences: embedded.first().map_or(0, |(_, embeddings)| embeddings.len()),
        english_mean: mean(languages.values().flat_map(|score| [score.to_english, score.from_english])),
        other_pairs: others.len(),
        other_mean: mean(others),
        languages,
        absent: Vec::new(),
    })
}

/// Reads the sentences of a language. Returns `None` if there is no file.
pub fn sentences(folder: &Path, language: Language) -> Result<Option<Vec<String>>, EvaluationError> {
    let path = file(folder, language);
    path.exists().then(|| lines::sentences(&path)).transpose()
}

fn file(folder: &Path, language: Language) -> PathBuf {
    folder.join(format!("flores.{language}.txt"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::test_encoders;

    fn measure_files(files: &[(&str, &str)]) -> Result<Option<FloresReport>, EvaluationError> {
        test_encoders::measure_files(files, measure)
    }

    #[test]
    fn every_language_is_matched_with_english_and_every_other() {
        // French equals English. The second German sentence is 10 degrees from the first English one, so de to en finds one of
        // two. From en to de, 0 is nearest to 0, and 90 is nearest to 10.
        let files = [("flores.en.txt", "0\n90\n"), ("flores.fr.txt", "1\n91\n"), ("flores.de.txt", "0\n10\n")];
        let report = measure_files(&files).unwrap().unwrap();
        assert_eq!(report.sentences, 2);
        assert_eq!(report.languages["fr"], WithEnglish { to_english: 100.0, from_english: 100.0 });
        assert_eq!(report.languages["de"], WithEnglish { to_english: 50.0, from_english: 100.0 });
        assert_eq!(report.english_mean, 87.5);
        assert_eq!((report.other_pairs, report.other_mean), (2, 75.0));
        assert_eq!(report.absent.len(), Language::COUNT - 3);
        assert!(report.absent.contains(&"ja".to_owned()));
    }
}
