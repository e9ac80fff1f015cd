//! The model card's section on language detection: a comparison of the detectors, results by language, and the largest
//! confusions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dragoman::domain::Language;

use crate::eval::language::{LanguageReport, LanguageScore, LanguageSet};

/// Number of confusions to list.
const CONFUSIONS: usize = 24;

/// Writes the section as Markdown: all `reports` in the first table, only the first report (the head's) in the others.
pub fn render(reports: &[LanguageReport]) -> String {
    let Some(head) = reports.first() else {
        return String::new();
    };
    let mut text = String::from("\n## Language identification\n\n");
    let _ = writeln!(
        text,
        "Share of texts whose language is recognized, in percent, as a mean over the languages, with the expected calibration error.\n"
    );
    means(&mut text, reports, &head.sets);
    let _ = writeln!(
        text,
        "\nIn Burmese, Chinese, Japanese and Thai, the first twelve characters stand for three words. By language, {}:\n",
        head.detector
    );
    by_language(&mut text, &head.sets);
    for set in &head.sets {
        confusions(&mut text, set);
    }
    text
}

/// The mean accuracies for the manifest, by name of the metric.
pub fn quality(head: &LanguageReport) -> BTreeMap<String, f64> {
    let key = |name: &str| match name {
        "FLORES, whole sentences" => "language_flores".to_owned(),
        "FLORES, first three words" => "language_flores_three_words".to_owned(),
        _ => "language_short".to_owned(),
    };
    head.sets.iter().map(|set| (key(set.name), (set.mean() * 100.0).round() / 100.0)).collect()
}

fn means(text: &mut String, reports: &[LanguageReport], sets: &[LanguageSet]) {
    let names: Vec<String> = sets.iter().map(|set| format!("{} ({} languages)", set.name, set.languages.len())).collect();
    let _ = writeln!(text, "| detector | {} |\n|---|{}", names.join(" | "), "---:|".repeat(sets.len()));
    for report in reports {
        let cells = report.sets.iter().map(|set| format!("{:.2} (error {:.3})", set.mean(), set.calibration_error));
        let _ = writeln!(text, "| {} | {} |", report.detector, cells.collect::<Vec<_>>().join(" | "));
    }
}

fn by_language(text: &mut String, sets: &[LanguageSet]) {
    let names: Vec<&str> = sets.iter().map(|set| set.name).collect();
    let _ = writeln!(text, "| language | {} |\n|---|{}", names.join(" | "), "---:|".repeat(sets.len()));
    for language in Language::all().filter(|language| sets.iter().any(|set| set.languages.contains_key(language))) {
        let cell = |score: Option<&LanguageScore>| score.map_or("-".to_owned(), |score| format!("{:.1}", score.percent()));
        let cells: Vec<String> = sets.iter().map(|set| cell(set.languages.get(&language))).collect();
        let _ = writeln!(text, "| {language} {} | {} |", language.name(), cells.join(" | "));
    }
}

/// Lists the largest shares of a language's texts that were taken for another language.
fn confusions(text: &mut String, set: &LanguageSet) {
    let share = |of: &Language, texts: usize| 100.0 * texts as f64 / set.languages[of].texts as f64;
    let mut rows: Vec<(f64, String)> = set
        .confusions
        .iter()
        .map(|((of, got), &texts)| {
            let got = got.map_or("none".to_owned(), |got| got.to_string());
            (share(of, texts), format!("{of} as {got} {:.1}", share(of, texts)))
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let named: Vec<&str> = rows.iter().take(CONFUSIONS).map(|(_, row)| row.as_str()).collect();
    if !named.is_empty() {
        let _ = writeln!(text, "\n{}, taken for another, in percent of the language's texts: {}.", set.name, named.join("; "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> LanguageReport {
        let language = |code| Language::parse(code).unwrap();
        let score = |texts, right| LanguageScore { texts, right };
        let set = LanguageSet {
            name: "short sentences",
            languages: [(language("ms"), score(8, 5)), (language("nb"), score(4, 4))].into(),
            confusions: [((language("ms"), Some(language("id"))), 2), ((language("ms"), None), 1)].into(),
            calibration_error: 0.25,
            microseconds: 1.0,
        };
        LanguageReport { detector: "head".to_owned(), sets: vec![set] }
    }

    #[test]
    fn the_section_lists_means_languages_and_confusions() {
        let text = render(&[report(), LanguageReport { detector: "rules".to_owned(), ..report() }]);
        // Malay: 5 of 8 is 62.5. Norwegian: 100. The mean is 81.25. Two of eight are 25 percent, one is 12.5.
        for line in [
            "| detector | short sentences (2 languages) |",
            "| head | 81.25 (error 0.250) |",
            "| rules | 81.25 (error 0.250) |",
            "| ms Malay | 62.5 |",
            "| nb Norwegian Bokmål | 100.0 |",
            "short sentences, taken for another, in percent of the language's texts: ms as id 25.0; ms as none 12.5.",
        ] {
            assert!(text.lines().any(|got| got == line), "{line:?} is not in\n{text}");
        }
        assert_eq!(render(&[]), "");
    }

    #[test]
    fn the_manifest_quality_contains_the_means() {
        assert_eq!(quality(&report()), [("language_short".to_owned(), 81.25)].into());
    }
}
