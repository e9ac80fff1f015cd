//! What a job keeps of an evaluation, as JSON.

use serde::{Deserialize, Serialize};

use super::definition::damaged;
use super::error::ClassifierError;
use crate::domain::{ConfidenceBin, ConfusionCount, Evaluation, LabelScore, Language, Scores, TransferGap};

#[derive(Serialize, Deserialize)]
struct Kept {
    all: KeptScores,
    majority: Option<(String, f64)>,
    labels: Vec<KeptLabel>,
    /// Expected, answered, how often.
    confusion: Vec<(String, Option<String>, usize)>,
    languages: Vec<(Option<String>, KeptScores)>,
    transfer: Option<KeptTransfer>,
    /// The expected error, and the bins.
    calibration: Option<(f64, Vec<KeptBin>)>,
}

/// Examples, confidence, accuracy.
type KeptBin = (usize, f64, f64);

#[derive(Serialize, Deserialize)]
struct KeptScores {
    examples: usize,
    abstained: usize,
    accuracy: f64,
    macro_f1: f64,
    micro: Option<(f64, f64, f64)>,
}

#[derive(Serialize, Deserialize)]
struct KeptLabel {
    label: String,
    precision: f64,
    recall: f64,
    f1: f64,
    support: usize,
    answered: usize,
}

#[derive(Serialize, Deserialize)]
struct KeptTransfer {
    from: String,
    own: f64,
    mean: f64,
    gaps: Vec<(String, f64)>,
}

/// Writes an evaluation.
pub(super) fn write(evaluation: &Evaluation) -> Result<Vec<u8>, ClassifierError> {
    let Evaluation { all, majority, labels, confusion, languages, transfer, calibration } = evaluation;
    let code = |language: &Language| language.code().to_owned();
    let kept = Kept {
        all: scores(all),
        majority: majority.clone(),
        labels: labels.iter().map(label).collect(),
        confusion: confusion.iter().map(|cell| (cell.expected.clone(), cell.answered.clone(), cell.count)).collect(),
        languages: languages.iter().map(|(language, found)| (language.as_ref().map(code), scores(found))).collect(),
        transfer: transfer.as_ref().map(|transfer| KeptTransfer {
            from: code(&transfer.from),
            own: transfer.own,
            mean: transfer.mean,
            gaps: transfer.gaps.iter().map(|(language, gap)| (code(language), *gap)).collect(),
        }),
        calibration: calibration
            .as_ref()
            .map(|(error, bins)| (*error, bins.iter().map(|bin| (bin.examples, bin.confidence, bin.accuracy)).collect())),
    };
    serde_json::to_vec(&kept).map_err(|_| damaged("an evaluation cannot be written"))
}

/// Reads what `write` wrote.
pub(super) fn read(text: &[u8]) -> Result<Evaluation, ClassifierError> {
    let broken = || damaged("an evaluation cannot be read");
    let kept: Kept = serde_json::from_slice(text).map_err(|_| broken())?;
    let parse = |code: &str| Language::parse(code).ok_or_else(broken);
    let languages = kept.languages.into_iter().map(|(code, scores)| Ok((code.as_deref().map(parse).transpose()?, scores.read())));
    let transfer = kept.transfer.map(|transfer| {
        let gaps = transfer.gaps.iter().map(|(code, gap)| Ok((parse(code)?, *gap))).collect::<Result<_, ClassifierError>>()?;
        Ok::<_, ClassifierError>(TransferGap { from: parse(&transfer.from)?, own: transfer.own, mean: transfer.mean, gaps })
    });
    let bin = |(examples, confidence, accuracy)| ConfidenceBin { examples, confidence, accuracy };
    Ok(Evaluation {
        all: kept.all.read(),
        majority: kept.majority,
        labels: kept.labels.into_iter().map(KeptLabel::read).collect(),
        confusion: kept
            .confusion
            .into_iter()
            .map(|(expected, answered, count)| ConfusionCount { expected, answered, count })
            .collect(),
        languages: languages.collect::<Result<_, ClassifierError>>()?,
        transfer: transfer.transpose()?,
        calibration: kept.calibration.map(|(error, bins)| (error, bins.into_iter().map(bin).collect())),
    })
}

fn scores(found: &Scores) -> KeptScores {
    let Scores { examples, abstained, accuracy, macro_f1, micro } = *found;
    KeptScores { examples, abstained, accuracy, macro_f1, micro }
}

fn label(found: &LabelScore) -> KeptLabel {
    let LabelScore { label, precision, recall, f1, support, answered } = found.clone();
    KeptLabel { label, precision, recall, f1, support, answered }
}

impl KeptScores {
    fn read(self) -> Scores {
        let Self { examples, abstained, accuracy, macro_f1, micro } = self;
        Scores { examples, abstained, accuracy, macro_f1, micro }
    }
}

impl KeptLabel {
    fn read(self) -> LabelScore {
        let Self { label, precision, recall, f1, support, answered } = self;
        LabelScore { label, precision, recall, f1, support, answered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluation_is_read_as_it_was_written() {
        let scores = |accuracy| Scores { examples: 4, abstained: 1, accuracy, macro_f1: 0.25, micro: Some((0.5, 0.25, 0.75)) };
        let label =
            LabelScore { label: "погода".to_owned(), precision: 1.0, recall: 0.5, f1: 0.625, support: 2, answered: 1 };
        let evaluation = Evaluation {
            all: scores(0.5),
            majority: Some(("погода".to_owned(), 0.5)),
            labels: vec![label],
            confusion: vec![ConfusionCount { expected: "a".to_owned(), answered: None, count: 1 }],
            languages: vec![(Language::parse("ja"), scores(0.75)), (None, scores(0.0))],
            transfer: Language::parse("en").map(|from| TransferGap {
                from,
                own: 0.75,
                mean: 0.5,
                gaps: Language::parse("ja").map(|to| (to, 0.25)).into_iter().collect(),
            }),
            calibration: Some((0.125, vec![ConfidenceBin { examples: 4, confidence: 0.5, accuracy: 0.25 }])),
        };
        assert_eq!(read(&write(&evaluation).unwrap()).unwrap(), evaluation);
        let bare = Evaluation { majority: None, transfer: None, calibration: None, ..evaluation };
        assert_eq!(read(&write(&bare).unwrap()).unwrap(), bare);
        assert!(read(b"{}").is_err());
    }
}
