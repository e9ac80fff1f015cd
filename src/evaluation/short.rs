//! Retrieval of short everyday sentences between one language and English, as in Tatoeba. It is harder for a bag of tokens than
//! news.
//!
//! Files `short.xx-en.tsv`, one pair per line, `xx sentence<TAB>English sentence`. Each file is a separate retrieval task.

use std::collections::BTreeMap;
use std::path::Path;

use crate::domain::Language;
use serde::{Deserialize, Serialize};

use super::encoder::SentenceEncoder;
use super::error::EvaluationError;
use super::flores::ENGLISH;
use super::lines;
use super::retrieval::{mean, precision_at_1};

/// The results, in percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShortReport {
    /// By language.
    pub languages: BTreeMap<String, ShortScore>,
    /// Mean over `languages`, both directions.
    pub mean: f64,
    /// Languages without a file.
    pub absent: Vec<String>,
}

/// P@1 of one language with English, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShortScore {
    /// Number of sentence pairs.
    pub pairs: usize,
    /// P@1 with queries in the language and candidates in English.
    pub to_english: f64,
    /// P@1 with queries in English and candidates in the language.
    pub from_english: f64,
}

impl ShortScore {
    /// Measures P@1 between sentences and their English translations.
    pub(super) fn measure(
        foreign: &[String],
        english: &[String],
        encoder: &mut dyn SentenceEncoder,
    ) -> Result<Self, EvaluationError> {
        let precision = precision_at_1(&encoder.encode(foreign)?, &encoder.encode(english)?)?;
        Ok(Self { pairs: foreign.len(), to_english: precision.forward, from_english: precision.backward })
    }
}

/// Evaluates every language that has a file in `folder`. Returns `None` if none has.
pub fn measure(folder: &Path, encoder: &mut dyn SentenceEncoder) -> Result<Option<ShortReport>, EvaluationError> {
    let mut languages = BTreeMap::new();
    let mut absent = Vec::new();
    for language in Language::all().filter(|language| language.code() != ENGLISH) {
        let path = folder.join(format!("short.{language}-{ENGLISH}.tsv"));
        if !path.is_file() {
            absent.push(language.code().to_owned());
            continue;
        }
        let (foreign, english) = read(&path)?;
        languages.insert(language.code().to_owned(), ShortScore::measure(&foreign, &english, encoder)?);
    }
    if languages.is_empty() {
        return Ok(None);
    }
    let mean = mean(languages.values().flat_map(|score| [score.to_english, score.from_english]));
    Ok(Some(ShortReport { languages, mean, absent }))
}

/// Reads both columns of a file.
pub fn read(path: &Path) -> Result<(Vec<String>, Vec<String>), EvaluationError> {
    let rows = lines::rows(path, ["sentence", "English sentence"])?;
    Ok(rows.into_iter().map(|[foreign, english]| (foreign, english)).unzip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::test_encoders::{LetterEncoder, with_files};

    fn measure_file(content: &str) -> Result<Option<ShortReport>, EvaluationError> {
        with_files(&[("short.af-en.tsv", content)], |folder| measure(folder, &mut LetterEncoder(26)))
    }

    #[test]
    fn the_first_column_is_the_language_and_the_second_english() {
        // "see" finds "sea"; "boot" and "bos" both find the first English b, "boat".
        // From English: "sea" finds "see", "boat" finds "boot", and "berry" finds "boot" too.
        let report = measure_file("see\tsea\nboot\tboat\nbos\tberry\n").unwrap().unwrap();
        let two_thirds = 200.0 / 3.0;
        assert_eq!(report.languages["af"], ShortScore { pairs: 3, to_english: two_thirds, from_english: two_thirds });
        assert!((report.mean - two_thirds).abs() < 1e-9);
        assert_eq!(report.absent.len(), Language::COUNT - 2);
    }

    #[test]
    fn to_english_and_from_english_scores_are_not_swapped() {
        // To English: c finds c; both s find the only English s, the third.
        // From English: c finds c; z finds nothing, so the first; s finds the first s, the second.
        let report = measure_file("cas\tcase\nsun\tzoo\nsee\tsea\n").unwrap().unwrap();
        assert_eq!(report.languages["af"], ShortScore { pairs: 3, to_english: 200.0 / 3.0, from_english: 100.0 / 3.0 });
    }
}
