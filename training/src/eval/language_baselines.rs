//! Baselines for a bundle's language head: the rules that apply without a head, and `whatlang` alone.

use std::path::Path;
use std::sync::LazyLock;

use dragoman::domain::{DetectedLanguage, Language};
use dragoman::text::{LanguageDetector, LanguageHead, Tokenizer};
use whatlang::{Detector, Lang};

use super::language::{LanguageReport, measure};
use crate::error::Error;

/// Evaluates a head, then the baselines, on the files in `data`.
pub fn compare(head: LanguageHead, tokenizer: Tokenizer, data: &Path) -> Result<Vec<LanguageReport>, Error> {
    let detector = check(head, tokenizer)?;
    let mut reports = vec![measure(data, "head", &|text| detector.detect(text))?];
    reports.extend(baselines(data)?);
    Ok(reports)
}

/// The detector with a head; an error if the head's rows do not match the tokenizer.
pub fn check(head: LanguageHead, tokenizer: Tokenizer) -> Result<LanguageDetector, Error> {
    LanguageDetector::with_head(head, tokenizer).map_err(|problem| Error::Setting { setting: "language head", problem })
}

/// Evaluates the baselines on the files in `data`.
pub fn baselines(data: &Path) -> Result<Vec<LanguageReport>, Error> {
    let rules = LanguageDetector::by_rules();
    let detect = |text: &str| -> Option<DetectedLanguage> { rules.detect(text) };
    Ok(vec![measure(data, "rules", &detect)?, measure(data, "whatlang", &whatlang)?])
}

/// Detects a language with `whatlang` alone, restricted to the 62 languages.
pub fn whatlang(text: &str) -> Option<DetectedLanguage> {
    static DETECTOR: LazyLock<Detector> = LazyLock::new(|| {
        let known = Lang::all().iter().copied().filter(|lang| language_of(lang.code()).is_some());
        Detector::with_allowlist(known.collect())
    });
    let found = DETECTOR.detect(text)?;
    Some(DetectedLanguage { language: language_of(found.lang().code())?, confidence: found.confidence() as f32 })
}

/// The language with `whatlang`'s code, if it is one of the 62.
fn language_of(code: &str) -> Option<Language> {
    Language::from_tag(code).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn whatlang_knows_53_of_the_languages() {
        let known: BTreeSet<Language> = Lang::all().iter().filter_map(|lang| language_of(lang.code())).collect();
        assert_eq!(known.len(), 53);
        for (code, language) in [("pes", "fa"), ("nob", "nb"), ("tgl", "tl"), ("cmn", "zh"), ("est", "et"), ("lav", "lv")] {
            assert_eq!(language_of(code).map(Language::code), Some(language));
        }
    }

    #[test]
    fn whatlang_detects_german() {
        let found = whatlang("Die Katze schläft auf dem Tisch, während wir unseren Tee trinken.").unwrap();
        assert_eq!(found.language.code(), "de");
    }
}
