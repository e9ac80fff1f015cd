//! Baselines for a bundle's language head: the rules that apply without a head, and `whatlang` alone.

use std::path::Path;
use std::sync::LazyLock;

use dragoman::domain::{DetectedLanguage, Language};
use dragoman::text::{LanguageDetector, LanguageHead, Tokenizer};
use whatlang::{Detector, Lang};

use super::language::{LanguageReport, measure};
use crate::error::Error;

/// ISO 639-3 of the languages that `whatlang` knows, with ISO 639-1 of those among the 62.
const KNOWN: &str = "afr af ara ar bul bg ben bn cat ca ces cs dan da deu de ell el eng en epo eo spa es est et pes fa fin fi \
    fra fr guj gu heb he hin hi hrv hr hun hu hye hy ind id ita it jpn ja jav jv kat ka kor ko lit lt lav lv mkd mk mal ml \
    mar mr mya my nob nb nld nl pol pl por pt ron ro rus ru slk sk slv sl srp sr swe sv tam ta tel te tha th tgl tl tur tr \
    ukr uk urd ur vie vi cmn zh";

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

fn language_of(code: &str) -> Option<Language> {
    let mut codes = KNOWN.split_whitespace();
    while let (Some(long), Some(short)) = (codes.next(), codes.next()) {
        if long == code {
            return Language::parse(short);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_code_is_known_to_whatlang_and_dragoman() {
        let codes: Vec<&str> = KNOWN.split_whitespace().collect();
        assert_eq!(codes.len(), 2 * 53);
        for pair in codes.chunks_exact(2) {
            assert!(Lang::from_code(pair[0]).is_some(), "{}", pair[0]);
            assert!(Language::parse(pair[1]).is_some(), "{}", pair[1]);
        }
    }

    #[test]
    fn whatlang_detects_german() {
        let found = whatlang("Die Katze schläft auf dem Tisch, während wir unseren Tee trinken.").unwrap();
        assert_eq!(found.language.code(), "de");
    }
}
