//! All evaluations of an encoder, as a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use crate::domain::Language;
use serde::{Deserialize, Serialize};

use super::candidates::{self, CandidatesReport};
use super::classification::{self, ClassificationReport, SIB200};
use super::encoder::SentenceEncoder;
use super::error::EvaluationError;
use super::flores::{self, FloresReport};
use super::mining::{self, ExactMiner, MiningReport};
use super::passages::{self, PassagesReport};
use super::short::{self, ShortReport};
use super::sts::{self, StsReport};
use super::tatoeba::{self, TatoebaReport};

/// The results of all evaluations. `Display` writes them as Markdown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Retrieval of long, news-like sentences, if there were any.
    pub flores: Option<FloresReport>,
    /// Retrieval of short everyday sentences, if there were any.
    pub short: Option<ShortReport>,
    /// Tatoeba in LASER's layout, if there was any.
    pub tatoeba: Option<TatoebaReport>,
    /// Mining of translation pairs, if there was any data.
    pub mining: Option<MiningReport>,
    /// Retrieval among many candidates, if there were any.
    pub candidates: Option<CandidatesReport>,
    /// Retrieval for question answering, if there were any files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passages: Option<PassagesReport>,
    /// Classification, if there were labeled texts.
    pub classification: Option<ClassificationReport>,
    /// Similarity, if there were scored pairs.
    pub sts: Option<StsReport>,
}

/// Evaluates `encoder` on every task that has files in `folder`. The module of each task documents their names.
pub fn measure(folder: &Path, encoder: &mut dyn SentenceEncoder) -> Result<Report, EvaluationError> {
    let report = Report {
        flores: flores::measure(folder, encoder)?,
        short: short::measure(folder, encoder)?,
        tatoeba: tatoeba::measure(folder, encoder)?,
        mining: mining::measure(folder, &mut ExactMiner(encoder))?,
        candidates: candidates::measure(folder, candidates::QUERIES, encoder)?,
        passages: passages::measure(folder, usize::MAX, encoder)?,
        classification: classification::measure(folder, &classification::Options::default(), encoder)?,
        sts: sts::measure(folder, encoder)?,
    };
    if report == Report::default() { Err(EvaluationError::NoData { path: folder.to_owned() }) } else { Ok(report) }
}

impl Report {
    /// Formats the tasks with one row per language, and their means: FLORES, short sentences and SIB-200. Empty without any of
    /// them.
    pub fn by_language(&self) -> impl fmt::Display {
        ByLanguage(self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sections: [Option<&dyn fmt::Display>; 6] = [
            self.tatoeba.as_ref().map(|report| report as &dyn fmt::Display),
            self.mining.as_ref().map(|report| report as &dyn fmt::Display),
            self.candidates.as_ref().map(|report| report as &dyn fmt::Display),
            self.passages.as_ref().map(|report| report as &dyn fmt::Display),
            self.classification.as_ref().map(|report| report as &dyn fmt::Display),
            self.sts.as_ref().map(|report| report as &dyn fmt::Display),
        ];
        let by_language = ByLanguage(self);
        let mut started = by_language.any();
        write!(f, "{by_language}")?;
        for section in sections.into_iter().flatten() {
            if started {
                writeln!(f)?;
            }
            write!(f, "{section}")?;
            started = true;
        }
        Ok(())
    }
}

/// The table with one row per language.
struct ByLanguage<'a>(&'a Report);

impl ByLanguage<'_> {
    fn sib200(&self) -> Option<&classification::Transfer> {
        self.0.classification.as_ref().and_then(ClassificationReport::sib200)
    }

    /// Whether the report contains any task other than classification, which has a separate table.
    fn any(&self) -> bool {
        self.0.flores.is_some() || self.0.short.is_some()
    }

    fn means(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(flores) = &self.0.flores {
            let (count, sentences) = (flores.languages.len(), flores.sentences);
            writeln!(
                f,
                "- FLORES, {count} languages to and from English, {sentences} sentences each: mean {:.2}",
                flores.english_mean
            )?;
            writeln!(f, "- FLORES, {} ordered pairs without English: mean {:.2}", flores.other_pairs, flores.other_mean)?;
            write_absent(f, "FLORES", &flores.absent)?;
        }
        if let Some(short) = &self.0.short {
            writeln!(f, "- short sentences, {} languages to and from English: mean {:.2}", short.languages.len(), short.mean)?;
            write_absent(f, "short sentences", &short.absent)?;
        }
        if let Some(sib200) = self.sib200() {
            writeln!(f, "{}", sib200.summary(SIB200))?;
        }
        Ok(())
    }
}

impl fmt::Display for ByLanguage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.any() {
            return Ok(());
        }
        let sib200 = self.sib200();
        write!(f, "P@1 in percent: xx→en: the query is in the language and the candidates are English; en→xx: the reverse.")?;
        let (title, rule) = match sib200 {
            Some(transfer) => {
                write!(f, " SIB-200: accuracy in percent, trained in {}.", transfer.from)?;
                (" SIB-200 |", "--------:|")
            }
            None => ("", ""),
        };
        writeln!(f, "\n")?;
        writeln!(f, "| language              | FLORES xx→en | FLORES en→xx | short xx→en | short en→xx | short pairs |{title}")?;
        writeln!(f, "|-----------------------|-------------:|-------------:|------------:|------------:|------------:|{rule}")?;
        let flores = self.0.flores.as_ref().map(|report| &report.languages);
        let short = self.0.short.as_ref().map(|report| &report.languages);
        let topics: BTreeMap<&String, f64> = sib200.into_iter().flat_map(classification::Transfer::all).collect();
        let measured = flores.into_iter().flat_map(BTreeMap::keys).chain(short.into_iter().flat_map(BTreeMap::keys));
        let codes: BTreeSet<&String> = measured.chain(topics.keys().copied()).collect();
        for code in codes {
            let name = Language::parse(code).map_or("", Language::name);
            let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
            let long = flores.and_then(|languages| languages.get(code));
            let brief = short.and_then(|languages| languages.get(code));
            let pairs = brief.map_or_else(|| "-".to_owned(), |score| score.pairs.to_string());
            let topic = sib200.map_or_else(String::new, |_| format!(" {:>7} |", cell(topics.get(code).copied())));
            writeln!(
                f,
                "| {:21} | {:>12} | {:>12} | {:>11} | {:>11} | {pairs:>11} |{topic}",
                format!("{code} {name}"),
                cell(long.map(|score| score.to_english)),
                cell(long.map(|score| score.from_english)),
                cell(brief.map(|score| score.to_english)),
                cell(brief.map(|score| score.from_english)),
            )?;
        }
        writeln!(f)?;
        self.means(f)
    }
}

fn write_absent(f: &mut fmt::Formatter<'_>, set: &str, codes: &[String]) -> fmt::Result {
    if codes.is_empty() { Ok(()) } else { writeln!(f, "- {set}: no file for {}", codes.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::classification::{Accuracy, Transfer};
    use crate::evaluation::flores::WithEnglish;
    use crate::evaluation::short::ShortScore;

    fn report() -> Report {
        let french = WithEnglish { to_english: 90.0, from_english: 80.0 };
        let thai = ShortScore { pairs: 12, to_english: 50.0, from_english: 100.0 / 3.0 };
        let (fr, th) = ("fr".to_owned(), "th".to_owned());
        Report {
            flores: Some(FloresReport {
                sentences: 10,
                languages: [(fr, french)].into(),
                english_mean: 85.0,
                other_mean: 0.0,
                other_pairs: 0,
                absent: vec!["de".to_owned(), "th".to_owned()],
            }),
            short: Some(ShortReport { languages: [(th, thai)].into(), mean: 41.666_666, absent: Vec::new() }),
            ..Report::default()
        }
    }

    #[test]
    fn the_table_has_a_row_per_language_and_dashes_for_missing_values() {
        let text = report().to_string();
        for line in [
            "| fr French             |         90.0 |         80.0 |           - |           - |           - |",
            "| th Thai               |            - |            - |        50.0 |        33.3 |          12 |",
            "- FLORES, 1 languages to and from English, 10 sentences each: mean 85.00",
            "- FLORES: no file for de, th",
            "- short sentences, 1 languages to and from English: mean 41.67",
        ] {
            assert!(text.lines().any(|got| got == line), "{line:?} is not in\n{text}");
        }
    }

    fn with_topics() -> Report {
        let accuracy = |mean| Accuracy { mean, deviation: 1.0, majority: 25.0 };
        let transfer = Transfer {
            from: "en".to_owned(),
            runs: 5,
            own: Some(accuracy(80.0)),
            languages: [("fr".to_owned(), accuracy(75.0))].into(),
            mean: 75.0,
            majority_mean: 25.0,
        };
        let sets = [(SIB200.to_owned(), vec![transfer])].into();
        Report { classification: Some(ClassificationReport { sets }), ..report() }
    }

    #[test]
    fn topic_accuracy_has_its_own_column() {
        let text = with_topics().by_language().to_string();
        for line in [
            "| en English            |            - |            - |           - |           - |           - |    80.0 |",
            "| fr French             |         90.0 |         80.0 |           - |           - |           - |    75.0 |",
            "| th Thai               |            - |            - |        50.0 |        33.3 |          12 |       - |",
            "- sib200, trained in en, tested in 1 others: mean 75.00; always the majority class 25.00",
        ] {
            assert!(text.lines().any(|got| got == line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn a_report_is_read_back_from_json() {
        let json = serde_json::to_string(&with_topics()).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), with_topics());
    }
}
