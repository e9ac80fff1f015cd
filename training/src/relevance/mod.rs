//! Fits `RelevanceWeights`, with which search weighs a model's evidence, on questions with known passages.
//!
//! The files are those of `eval passages`, and of `eval flores` for searches of a few words (`quotes`). Each language's passages
//! form a collection; a question's candidates are the top passages by embeddings, late interaction or words (`evidence`), as in a
//! search. The proportions of the weights are fitted to rank the correct passage high, and their scale is fitted so that a
//! relevance of 0.5 means a probability of one half that the passage is correct (`fit`).

pub mod evidence;
pub mod fit;
pub mod quotes;
pub mod words;

use std::fmt;
use std::path::Path;

use dragoman::domain::RelevanceWeights;

use crate::error::Error;
use evidence::{RankedQuestion, SearchKind};

/// The result of fitting.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The new weights.
    pub weights: RelevanceWeights,
    /// Number of questions for fitting, and for evaluation.
    pub questions: (usize, usize),
    /// MRR@10 in percent on the held-out questions, by their kinds (`SearchKind::ALL`).
    pub mrr: [f64; 3],
    /// The same with the previous weights.
    pub mrr_before: [f64; 3],
    /// The relevance of passages for the held-out questions, with the new weights.
    pub levels: Levels,
}

/// Typical relevance values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Levels {
    /// The relevance that half, and nine in ten, of the correct passages reach.
    pub right: [f32; 2],
    /// The relevance that half of the highest-scoring wrong candidates reach.
    pub closest: f32,
    /// The relevance that half of the passages proposed by no ranking reach.
    pub other: f32,
}

/// Fits the weights of the bundle in `bundle` on up to `questions_max` questions of each file in `data`; every second question
/// of a file is held out.
pub fn fit(bundle: &Path, data: &Path, questions_max: usize) -> Result<Fitted, Error> {
    let (before, questions) = evidence::collect(bundle, data, questions_max)?;
    let (held_out, seen): (Vec<RankedQuestion>, Vec<RankedQuestion>) =
        questions.into_iter().partition(|question| question.held_out);
    if seen.is_empty() || held_out.is_empty() {
        return Err(Error::NoData { path: data.to_owned() });
    }
    let weights = fit::weights(&seen);
    let mrr = |weights: &RelevanceWeights| SearchKind::ALL.map(|kind| fit::mrr_at_10(&held_out, kind, weights));
    Ok(Fitted {
        weights,
        questions: (seen.len(), held_out.len()),
        mrr: mrr(&weights),
        mrr_before: mrr(&before),
        levels: fit::levels(&held_out, &weights),
    })
}

impl fmt::Display for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RelevanceWeights { dense, late, lexical, translated, tokens, bias } = self.weights;
        writeln!(
            f,
            "dense {dense:.2}, late {late:.2}, lexical {lexical:.2}, translated {translated:.2}, tokens {tokens:.2}, bias {bias:.2}"
        )?;
        writeln!(f, "fitted on {} questions, evaluated on {} others, MRR@10 in percent:\n", self.questions.0, self.questions.1)?;
        writeln!(f, "| searches for | weights before | fitted |\n|---|---:|---:|")?;
        let names = ["questions in the passages' language", "questions in another language", "a few words in another language"];
        for (name, (before, after)) in names.iter().zip(self.mrr_before.iter().zip(self.mrr)) {
            writeln!(f, "| {name} | {before:.2} | {after:.2} |")?;
        }
        let Levels { right: [half, nine_in_ten], closest, other } = self.levels;
        writeln!(f, "\nrelevance: half of the correct passages have {half:.2} or more, nine in ten {nine_in_ten:.2};")?;
        writeln!(f, "half of the closest wrong ones have {closest:.2}, half of those that no ranking proposes {other:.2}")
    }
}
