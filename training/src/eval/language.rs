//! Language detection: the share of texts whose language is detected correctly, per language, with the confusions.
//!
//! Reads the evaluation files of the retrieval tasks: `flores.xx.txt`, each sentence as a whole and its first three words
//! alone, and the first column of `short.xx-en.tsv`. In languages without spaces between words (Burmese, Chinese, Japanese,
//! Thai), the first twelve characters are used instead of three words.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Instant;

use dragoman::domain::{DetectedLanguage, Language};

use super::flores::{self, ENGLISH};
use super::retrieval::mean;
use super::short;
use crate::error::Error;

/// Languages written without spaces between words.
pub const UNSPACED: [&str; 4] = ["ja", "my", "th", "zh"];
/// Number of leading words, and of leading characters in unspaced languages.
const WORDS: usize = 3;
const CHARACTERS: usize = 12;
/// Number of equally wide confidence bins for the calibration error.
const BINS: usize = 15;

/// Detects a language.
pub type Detect<'a> = dyn Fn(&str) -> Option<DetectedLanguage> + 'a;

/// The results of one detector.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguageReport {
    /// Name of the detector.
    pub detector: String,
    /// One entry per test set that has files.
    pub sets: Vec<LanguageSet>,
}

/// The results on one test set.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguageSet {
    /// Name of the test set.
    pub name: &'static str,
    /// By language.
    pub languages: BTreeMap<Language, LanguageScore>,
    /// Number of texts of the first language that were taken for the second, or for none.
    pub confusions: BTreeMap<(Language, Option<Language>), usize>,
    /// Expected calibration error over all texts with a detected language, 0 to 1.
    pub calibration_error: f64,
    /// Mean time per text.
    pub microseconds: f64,
}

/// The results for one language.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LanguageScore {
    /// Number of texts.
    pub texts: usize,
    /// Number of texts whose language was detected correctly.
    pub right: usize,
}

impl LanguageScore {
    /// Accuracy in percent.
    pub fn percent(self) -> f64 {
        100.0 * self.right as f64 / self.texts.max(1) as f64
    }
}

impl LanguageSet {
    /// Mean accuracy over the languages in percent; each language counts the same.
    pub fn mean(&self) -> f64 {
        mean(self.languages.values().map(|score| score.percent()))
    }
}

/// Evaluates `detect` on the files in `folder`. Test sets without files are left out.
pub fn measure(folder: &Path, detector: &str, detect: &Detect<'_>) -> Result<LanguageReport, Error> {
    let mut sets = Vec::new();
    if let Some(aligned) = flores::read(folder)? {
        let beginnings = aligned
            .languages
            .iter()
            .map(|(&language, texts)| (language, texts.iter().map(|text| beginning(text, language)).collect::<Vec<_>>()));
        let beginnings = beginnings.collect();
        sets.push(measure_set("FLORES, whole sentences", &aligned.languages, detect));
        sets.push(measure_set("FLORES, first three words", &beginnings, detect));
    }
    let mut everyday = BTreeMap::new();
    for language in Language::all() {
        let path = folder.join(format!("short.{language}-{ENGLISH}.tsv"));
        if path.is_file() {
            everyday.insert(language, short::read(&path)?.0);
        }
    }
    if !everyday.is_empty() {
        sets.push(measure_set("short sentences", &everyday, detect));
    }
    if sets.is_empty() {
        Err(Error::NoData { path: folder.to_owned() })
    } else {
        Ok(LanguageReport { detector: detector.to_owned(), sets })
    }
}

/// The first three words of `text`, or its first twelve characters in a language without spaces.
pub fn beginning(text: &str, language: Language) -> String {
    if UNSPACED.contains(&language.code()) {
        return text.chars().take(CHARACTERS).collect();
    }
    text.split_whitespace().take(WORDS).collect::<Vec<_>>().join(" ")
}

/// Evaluates `detect` on texts of known languages.
pub fn measure_set(name: &'static str, texts: &BTreeMap<Language, Vec<String>>, detect: &Detect<'_>) -> LanguageSet {
    let (mut languages, mut confusions, mut outcomes) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let clock = Instant::now();
    for (&language, texts) in texts {
        let score: &mut LanguageScore = languages.entry(language).or_default();
        for text in texts {
            let found = detect(text);
            let right = found.is_some_and(|found| found.language == language);
            score.texts += 1;
            score.right += usize::from(right);
            if !right {
                *confusions.entry((language, found.map(|found| found.language))).or_default() += 1;
            }
            outcomes.extend(found.map(|found| (f64::from(found.confidence), right)));
        }
    }
    let all: usize = languages.values().map(|score| score.texts).sum();
    let microseconds = clock.elapsed().as_secs_f64() * 1e6 / all.max(1) as f64;
    LanguageSet { name, languages, confusions, calibration_error: calibration_error(&outcomes), microseconds }
}

/// Expected calibration error of predictions, given as confidence and correctness: the mean difference between confidence and
/// accuracy over bins of confidence, each bin weighted by its predictions.
pub fn calibration_error(outcomes: &[(f64, bool)]) -> f64 {
    let mut bins = [(0.0, 0.0); BINS];
    for (confidence, right) in outcomes {
        let bin = &mut bins[((confidence * BINS as f64) as usize).min(BINS - 1)];
        bin.0 += confidence;
        bin.1 += f64::from(u8::from(*right));
    }
    bins.iter().map(|(confidence, right)| (confidence - right).abs()).sum::<f64>() / outcomes.len().max(1) as f64
}

impl fmt::Display for LanguageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.detector)?;
        for set in &self.sets {
            writeln!(
                f,
                "  {}: mean of {} languages {:.2}%, calibration error {:.3}, {:.1} us per text",
                set.name,
                set.languages.len(),
                set.mean(),
                set.calibration_error,
                set.microseconds
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(code: &str) -> Language {
        Language::parse(code).unwrap()
    }

    /// Detects Danish with confidence 1 for texts with an "x", nothing for texts with a "?", and Thai with confidence 0.5
    /// otherwise.
    fn detect(text: &str) -> Option<DetectedLanguage> {
        let found = |code, confidence| Some(DetectedLanguage { language: language(code), confidence });
        if text.contains('?') {
            return None;
        }
        if text.contains('x') { found("da", 1.0) } else { found("th", 0.5) }
    }

    #[test]
    fn calibration_error_is_the_gap_between_confidence_and_accuracy() {
        // Bin 0.733..0.8: three at 0.75, two correct: |2.25 - 2| = 0.25. Last bin: one at 1, wrong: 1. Together 1.25 over 4.
        let outcomes = [(0.75, true), (0.75, true), (0.75, false), (1.0, false)];
        assert!((calibration_error(&outcomes) - 0.3125).abs() < 1e-12);
        assert_eq!(calibration_error(&[]), 0.0);
    }

    #[test]
    fn the_mean_weights_languages_equally_and_confusions_are_counted() {
        let texts = BTreeMap::from([
            (language("da"), ["x", "x", "y", "?"].map(str::to_owned).to_vec()),
            (language("th"), ["y".to_owned()].to_vec()),
        ]);
        let set = measure_set("made up", &texts, &detect);
        assert_eq!(set.languages[&language("da")], LanguageScore { texts: 4, right: 2 });
        // Danish 50, Thai 100.
        assert_eq!(set.mean(), 75.0);
        let expect = BTreeMap::from([((language("da"), None), 1), ((language("da"), Some(language("th"))), 1)]);
        assert_eq!(set.confusions, expect);
        // Two at 1, both correct; two at 0.5, one correct: no difference in either bin.
        assert_eq!(set.calibration_error, 0.0);
    }

    #[test]
    fn a_beginning_is_three_words_or_twelve_characters() {
        assert_eq!(beginning("Der Hund  schläft im Garten.", language("de")), "Der Hund schläft");
        assert_eq!(beginning("猫は今日も机の上で静かに寝ています。", language("ja")), "猫は今日も机の上で静かに");
    }

    #[test]
    fn every_kind_of_test_set_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [("flores.da.txt", "a b c x\n"), ("flores.th.txt", "y\n"), ("short.da-en.tsv", "x\tyes\ny\tno\n")]
        {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let report = measure(folder.path(), "made up", &detect).unwrap();
        let means: Vec<(&str, f64)> = report.sets.iter().map(|set| (set.name, set.mean())).collect();
        // The "x" that means Danish is in the fourth word.
        let expect = [("FLORES, whole sentences", 100.0), ("FLORES, first three words", 50.0), ("short sentences", 50.0)];
        assert_eq!(means, expect);
    }

    #[test]
    fn a_folder_without_files_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(measure(folder.path(), "made up", &detect), Err(Error::NoData { .. })));
    }
}
