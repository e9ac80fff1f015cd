//! Tests of mining: proposed pairs, thresholds, and invalid files.

use super::*;
use crate::evaluation::test_encoders;

fn pair(first: u32, second: u32, score: f32) -> Candidate {
    Candidate { first, second, score }
}

fn near(got: f64, expect: f64) {
    // Scores are f32.
    assert!((got - expect).abs() < 1e-6, "{got} is not {expect}");
}

#[test]
fn quality_is_zero_when_no_pair_is_correct() {
    let gold = HashSet::from([(7, 7)]);
    let pairs = [pair(0, 0, 1.2), pair(1, 1, 1.1)];
    near(threshold(&pairs, &gold), 1.2);
    assert_eq!(percent(&pairs, &gold, 1.2), PairQuality { precision: 0.0, recall: 0.0, f1: 0.0 });
    assert_eq!(percent(&[], &gold, 1.2), PairQuality { precision: 0.0, recall: 0.0, f1: 0.0 });
}

fn measure_files(files: &[(&str, &str)]) -> Result<Option<MiningReport>, EvaluationError> {
    test_encoders::measure_files(files, |folder, encoder| measure(folder, &mut ExactMiner(encoder)))
}

/// A split with two translation pairs, one degree apart, and an unrelated sentence in each language. Margin scores over the
/// mean of all three cosines of both: d1-e1 1.288, d2-e2 1.269, then d3-e2 1.146 and d1-e3 1.120; d3-e3 has 1.046.
const PART: [(&str, &str); 3] =
    [("de", "d1\t0\nd2\t60\nd3\t45\n"), ("en", "e2\t61\ne1\t1\ne3\t20\n"), ("gold", "d1\te1\nd2\te2\n")];

fn part(name: &str) -> Vec<(String, &'static str)> {
    PART.iter().map(|(end, content)| (format!("de-en.{name}.{end}"), *content)).collect()
}

fn as_strs<'a>(files: &'a [(String, &'a str)]) -> Vec<(&'a str, &'a str)> {
    files.iter().map(|(name, content)| (name.as_str(), *content)).collect()
}

#[test]
fn a_threshold_tuned_on_one_split_is_applied_to_the_test_split() {
    let mut files = part("training");
    files.extend(part("test"));
    let report = measure_files(&as_strs(&files)).unwrap().unwrap();
    let score = &report.pairs["de-en"];
    assert_eq!((score.tuning_part.as_str(), score.tuning_gold, score.test_gold), ("training", 2, Some(2)));
    for (strategy, by) in &score.strategies {
        let all_right = PairQuality { precision: 100.0, recall: 100.0, f1: 100.0 };
        assert_eq!((by.tuning, by.test), (all_right, Some(all_right)), "{strategy}");
    }
    assert_eq!(report.mean_f1, 100.0);
}

#[test]
fn dev_is_preferred_for_tuning_and_test_may_be_absent() {
    let mut files = part("training");
    files.extend(part("dev"));
    let report = measure_files(&as_strs(&files)).unwrap().unwrap();
    assert_eq!(report.pairs.len(), 1);
    let score = &report.pairs["de-en"];
    assert_eq!((score.tuning_part.as_str(), score.test_gold), ("dev", None));
    assert_eq!(report.mean_f1, 100.0);
}
