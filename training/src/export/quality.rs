//! The results of the evaluations as numbers for the bundle's manifest.

use std::collections::BTreeMap;

use crate::eval::Report;
use crate::eval::classification::ClassificationReport;

/// The means of `report` in percent, rounded to two digits, by their names in a bundle's manifest.
pub fn quality(report: &Report) -> BTreeMap<String, f64> {
    let mut quality = BTreeMap::new();
    let mut put = |name: &str, value: f64| quality.insert(name.to_owned(), (value * 100.0).round() / 100.0);
    if let Some(flores) = &report.flores {
        put("flores_p_at_1_english", flores.english_mean);
        put("flores_p_at_1_other", flores.other_mean);
    }
    if let Some(short) = &report.short {
        put("short_p_at_1", short.mean);
    }
    if let Some(tatoeba) = &report.tatoeba {
        put("tatoeba_p_at_1", tatoeba.mean);
    }
    if let Some(sib200) = report.classification.as_ref().and_then(ClassificationReport::sib200) {
        put("sib200_accuracy", sib200.mean);
    }
    if let Some(passages) = &report.passages {
        put("passages_mrr_at_10_same_language", passages.same_language.dense.mrr_at_10);
        put("passages_mrr_at_10_across", passages.across.dense.mrr_at_10);
        if let Some((same, across)) = passages.same_language.both.zip(passages.across.both) {
            put("passages_mrr_at_10_same_language_both", same.mrr_at_10);
            put("passages_mrr_at_10_across_both", across.mrr_at_10);
        }
    }
    if let Some(sts) = &report.sts {
        put("sts_spearman", sts.mean);
    }
    quality
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::classification::{Accuracy, SIB200, Transfer};
    use crate::eval::flores::FloresReport;
    use crate::eval::short::ShortReport;

    #[test]
    fn the_manifest_gets_the_means_rounded_to_two_decimals() {
        let transfer = Transfer {
            from: "en".to_owned(),
            runs: 5,
            own: None,
            languages: [("fr".to_owned(), Accuracy { mean: 75.0, deviation: 1.0, majority: 25.0 })].into(),
            mean: 75.0,
            majority_mean: 25.0,
        };
        let report = Report {
            flores: Some(FloresReport {
                sentences: 10,
                languages: BTreeMap::new(),
                english_mean: 85.0,
                other_mean: 0.0,
                other_pairs: 0,
                absent: Vec::new(),
            }),
            short: Some(ShortReport { languages: BTreeMap::new(), mean: 41.666_666, absent: Vec::new() }),
            classification: Some(ClassificationReport { sets: [(SIB200.to_owned(), vec![transfer])].into() }),
            ..Report::default()
        };
        let quality = quality(&report);
        assert_eq!(quality["flores_p_at_1_english"], 85.0);
        assert_eq!(quality["short_p_at_1"], 41.67);
        assert_eq!(quality["sib200_accuracy"], 75.0);
    }
}
