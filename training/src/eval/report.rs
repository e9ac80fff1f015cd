//! All measurements of an encoder, as a table for people and as numbers for the manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use dragoman::domain::Language;
use serde::{Deserialize, Serialize};

use super::encoder::SentenceEncoder;
use super::flores::{self, FloresReport};
use super::short::{self, ShortReport};
use crate::error::Error;

/// All measurements. `Display` writes them as Markdown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Long, news-like sentences, when there were any.
    pub flores: Option<FloresReport>,
    /// Short everyday sentences, when there were any.
    pub short: Option<ShortReport>,
}

/// Measures `encoder` on the files in `folder`; see `flores` and `short` for their names.
pub fn measure(folder: &Path, encoder: &mut dyn SentenceEncoder) -> Result<Report, Error> {
    let report = Report { flores: flores::measure(folder, encoder)?, short: short::measure(folder, encoder)? };
    if report == Report::default() {
        return Err(Error::NoData { path: folder.to_owned() });
    }
    Ok(report)
}

impl Report {
    /// The means, by the names that they have in a bundle's manifest, in percent with two digits.
    pub fn quality(&self) -> BTreeMap<String, f64> {
        let mut quality = BTreeMap::new();
        let mut put = |name: &str, value: f64| quality.insert(name.to_owned(), (value * 100.0).round() / 100.0);
        if let Some(flores) = &self.flores {
            put("flores_p_at_1_english", flores.english_mean);
            put("flores_p_at_1_other", flores.other_mean);
        }
        if let Some(short) = &self.short {
            put("short_p_at_1", short.mean);
        }
        quality
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "P@1 in percent: xx→en asks in the language among English sentences, en→xx the other way round.\n")?;
        writeln!(f, "| language              | FLORES xx→en | FLORES en→xx | short xx→en | short en→xx | short pairs |")?;
        writeln!(f, "|-----------------------|-------------:|-------------:|------------:|------------:|------------:|")?;
        let flores = self.flores.as_ref().map(|report| &report.languages);
        let short = self.short.as_ref().map(|report| &report.languages);
        let codes: BTreeSet<&String> =
            flores.into_iter().flat_map(BTreeMap::keys).chain(short.into_iter().flat_map(BTreeMap::keys)).collect();
        for code in codes {
            let name = Language::parse(code).map_or("", Language::name);
            let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
            let long = flores.and_then(|languages| languages.get(code));
            let brief = short.and_then(|languages| languages.get(code));
            let pairs = brief.map_or_else(|| "-".to_owned(), |score| score.pairs.to_string());
            writeln!(
                f,
                "| {:21} | {:>12} | {:>12} | {:>11} | {:>11} | {pairs:>11} |",
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

impl Report {
    fn means(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(flores) = &self.flores {
            let (count, sentences) = (flores.languages.len(), flores.sentences);
            writeln!(
                f,
                "- FLORES, {count} languages to and from English, {sentences} sentences each: mean {:.2}",
                flores.english_mean
            )?;
            writeln!(f, "- FLORES, {} ordered pairs without English: mean {:.2}", flores.other_pairs, flores.other_mean)?;
            absent(f, "FLORES", &flores.absent)?;
        }
        if let Some(short) = &self.short {
            writeln!(f, "- short sentences, {} languages to and from English: mean {:.2}", short.languages.len(), short.mean)?;
            absent(f, "short sentences", &short.absent)?;
        }
        Ok(())
    }
}

fn absent(f: &mut fmt::Formatter<'_>, set: &str, codes: &[String]) -> fmt::Result {
    if codes.is_empty() {
        return Ok(());
    }
    writeln!(f, "- {set}: no file for {}", codes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::flores::WithEnglish;
    use crate::eval::short::ShortScore;

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
        }
    }

    #[test]
    fn a_table_has_a_line_per_language_and_a_dash_for_what_was_not_measured() {
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

    #[test]
    fn the_manifest_gets_the_means_with_two_digits() {
        let quality = report().quality();
        assert_eq!(quality["flores_p_at_1_english"], 85.0);
        assert_eq!(quality["short_p_at_1"], 41.67);
    }
}
