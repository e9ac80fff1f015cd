//! Tatoeba similarity search: EMS (2024), section V-A, table IV. P@1 by cosine between English and each other language.
//!
//! Files in LASER's layout, `tatoeba.XXX-eng.XXX` and `tatoeba.XXX-eng.eng`, aligned by line; XXX is an ISO 639-3 code. Codes
//! of languages outside the 62 are skipped and reported.
//!
//! Among the paper's 58 languages, Malay is `max` (North Moluccan Malay), and `zsm` (Standard Malay) is unseen; here `zsm` is
//! Malay. So there are two means: one over the codes of table IV, and one over Dragoman's languages.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::domain::Language;
use serde::{Deserialize, Serialize};

use super::encoder::SentenceEncoder;
use super::error::EvaluationError;
use super::lines;
use super::retrieval::mean;
use super::short::ShortScore;

/// The results, in percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TatoebaReport {
    /// By ISO 639-3 code.
    pub codes: BTreeMap<String, TatoebaScore>,
    /// Mean over the languages and both directions, without `max`.
    pub mean: f64,
    /// Mean over the same languages, with queries in the language.
    pub to_english_mean: f64,
    /// Mean over the same languages, with queries in English.
    pub from_english_mean: f64,
    /// Number of the 58 codes of table IV that have files.
    pub paper_codes: usize,
    /// Mean over these codes and both directions, for comparison with the paper.
    pub paper_mean: f64,
    /// Codes with files that are not among the 62 languages.
    pub passed_over: Vec<String>,
}

/// P@1 of one language with English, in percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TatoebaScore {
    /// ISO 639-1 code.
    pub language: String,
    /// The results.
    #[serde(flatten)]
    pub short: ShortScore,
}

/// Evaluates every language that has files in `folder`. Returns `None` if none has.
pub fn measure(folder: &Path, encoder: &mut dyn SentenceEncoder) -> Result<Option<TatoebaReport>, EvaluationError> {
    let mut codes = BTreeMap::new();
    let mut passed_over = Vec::new();
    for name in lines::names(folder)? {
        let stem = name.strip_prefix("tatoeba.").and_then(|rest| rest.strip_suffix(".eng"));
        let Some(code) = stem.and_then(|stem| stem.strip_suffix("-eng")) else { continue };
        let Some(language) = language(code) else {
            passed_over.push(code.to_owned());
            continue;
        };
        let foreign = folder.join(format!("tatoeba.{code}-eng.{code}"));
        let (foreign, english) = lines::read_aligned(&foreign, &folder.join(&name))?;
        let short = ShortScore::measure(&foreign, &english, encoder)?;
        codes.insert(code.to_owned(), TatoebaScore { language: language.code().to_owned(), short });
    }
    Ok((!codes.is_empty()).then(|| summarize(codes, passed_over)))
}

fn summarize(codes: BTreeMap<String, TatoebaScore>, passed_over: Vec<String>) -> TatoebaReport {
    let ours = || codes.iter().filter(|(code, _)| *code != NORTH_MOLUCCAN_MALAY).map(|(_, score)| score.short);
    let paper: Vec<f64> = codes
        .iter()
        .filter(|(code, _)| is_listed(TABLE_IV, code))
        .map(|(_, score)| (score.short.to_english + score.short.from_english) / 2.0)
        .collect();
    TatoebaReport {
        mean: mean(ours().flat_map(|score| [score.to_english, score.from_english])),
        to_english_mean: mean(ours().map(|score| score.to_english)),
        from_english_mean: mean(ours().map(|score| score.from_english)),
        paper_codes: paper.len(),
        paper_mean: mean(paper),
        codes,
        passed_over,
    }
}

impl fmt::Display for TatoebaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Tatoeba, P@1 in percent:\n")?;
        writeln!(f, "| language               | xxx→eng | eng→xxx |  mean | pairs |")?;
        writeln!(f, "|------------------------|--------:|--------:|------:|------:|")?;
        for (code, score) in &self.codes {
            let name = Language::parse(&score.language).map_or("", Language::name);
            let ShortScore { pairs, to_english: to, from_english: from } = score.short;
            let both = (to + from) / 2.0;
            writeln!(f, "| {:22} | {to:>7.1} | {from:>7.1} | {both:>5.1} | {pairs:>5} |", format!("{code} {name}"))?;
        }
        let (to, from) = (self.to_english_mean, self.from_english_mean);
        writeln!(f, "\n- Tatoeba: mean {:.2}, to English {to:.2}, from English {from:.2}", self.mean)?;
        writeln!(
            f,
            "- Tatoeba, the {} of 58 codes of EMS table IV that are here: mean {:.2}",
            self.paper_codes, self.paper_mean
        )?;
        if !self.passed_over.is_empty() {
            writeln!(f, "- Tatoeba: other languages skipped: {}", self.passed_over.join(", "))?;
        }
        Ok(())
    }
}

/// The paper's Malay, which is another language.
const NORTH_MOLUCCAN_MALAY: &str = "max";

/// Returns the language of a code in one of the lists.
fn language(code: &str) -> Option<Language> {
    let is_ours = [TABLE_IV, OTHER_CODES].iter().any(|codes| is_listed(codes, code));
    let tag = if code == NORTH_MOLUCCAN_MALAY { "ms" } else { code };
    is_ours.then(|| Language::from_tag(tag).ok()).flatten()
}

fn is_listed(codes: &str, code: &str) -> bool {
    codes.split(' ').any(|other| other == code)
}

/// The codes of table IV.
const TABLE_IV: &str = "afr ara ben bul cat ces cmn dan deu ell epo est eus fin fra glg heb hin hrv hun hye ind ita jav jpn kat kaz kor kur \
    lit lvs mal mar max mkd mon nld nob pes pol por ron rus slk slv spa sqi srp swe swh tam tel tgl tha tur ukr urd vie";

/// Other codes of the 62 languages: languages outside table IV, and alternative codes where ISO 639-3 has both a macrolanguage
/// and its members.
const OTHER_CODES: &str = "als arb ekk fas fil guj khk kmr lav msa mya nor swa yor zho zsm";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::test_encoders;

    fn measure_files(files: &[(&str, &str)]) -> Result<Option<TatoebaReport>, EvaluationError> {
        test_encoders::measure_files(files, measure)
    }

    #[test]
    fn each_language_is_matched_with_english_in_both_directions() {
        // To English: 0 finds 0, but 10 also finds 0, which is 10 degrees away: half. From English: 0 finds 0, 90 finds 10:
        // all.
        let files = [
            ("tatoeba.cmn-eng.cmn", "0\n10\n"),
            ("tatoeba.cmn-eng.eng", "0\n90\n"),
            ("tatoeba.arz-eng.arz", "0\n"),
            ("tatoeba.arz-eng.eng", "0\n"),
        ];
        let report = measure_files(&files).unwrap().unwrap();
        let chinese =
            TatoebaScore { language: "zh".to_owned(), short: ShortScore { pairs: 2, to_english: 50.0, from_english: 100.0 } };
        assert_eq!(report.codes, [("cmn".to_owned(), chinese)].into());
        assert_eq!((report.mean, report.to_english_mean, report.from_english_mean), (75.0, 50.0, 100.0));
        assert_eq!(report.passed_over, ["arz"]);
    }

    #[test]
    fn the_paper_mean_uses_the_code_max_and_ours_uses_zsm() {
        let all_right = |code: &str| (format!("tatoeba.{code}-eng.{code}"), "0\n90\n".to_owned());
        let half_right = |code: &str| (format!("tatoeba.{code}-eng.{code}"), "0\n0\n".to_owned());
        let english = |code: &str| (format!("tatoeba.{code}-eng.eng"), "0\n90\n".to_owned());
        let files = [all_right("deu"), english("deu"), half_right("max"), english("max"), all_right("zsm"), english("zsm")];
        let files: Vec<(&str, &str)> = files.iter().map(|(name, content)| (name.as_str(), content.as_str())).collect();
        let report = measure_files(&files).unwrap().unwrap();
        // German and Standard Malay: 100. German and max, which finds one of two both ways: (100 + 50) / 2 = 75.
        assert_eq!((report.mean, report.paper_codes, report.paper_mean), (100.0, 2, 75.0));
    }

    #[test]
    fn every_listed_code_maps_to_a_supported_language() {
        for code in TABLE_IV.split(' ').chain(OTHER_CODES.split(' ')) {
            assert!(language(code).is_some(), "{code}");
        }
        assert_eq!((TABLE_IV.split(' ').count(), OTHER_CODES.split(' ').count()), (58, 16));
    }

    #[test]
    fn codes_belong_to_the_right_languages() {
        let mapped = |code| language(code).map(Language::code);
        for (code, expect) in [
            ("max", "ms"),
            ("zsm", "ms"),
            ("lvs", "lv"),
            ("swh", "sw"),
            ("nor", "nb"),
            ("nob", "nb"),
            ("fil", "tl"),
            ("cmn", "zh"),
            ("ekk", "et"),
            ("als", "sq"),
            ("khk", "mn"),
            ("kmr", "ku"),
            ("fas", "fa"),
            ("pes", "fa"),
            ("arb", "ar"),
        ] {
            assert_eq!(mapped(code), Some(expect), "{code}");
        }
        assert_eq!([mapped("arz"), mapped("nno"), mapped("eng"), mapped("wuu"), mapped("lat")], [None; 5]);
    }
}
