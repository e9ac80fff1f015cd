//! How search weighs a model's evidence: fits `RelevanceWeights` on questions with known passages.
//!
//! Files are those of `eval passages`. Each language's passages are a collection; a question's candidates are those that
//! embeddings, late interaction or words name first (`evidence`), as in a search. Of the weights, proportions make the right
//! passage come first, and their size makes 0.5 mean that a passage is as likely the right one as not (`fit`).

pub mod evidence;
pub mod fit;
pub mod words;

use std::fmt;
use std::path::Path;

use dragoman::domain::RelevanceWeights;

use crate::error::Error;
use evidence::Asked;

/// The result of fitting.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The new weights.
    pub weights: RelevanceWeights,
    /// Number of questions used for fitting, and for evaluation.
    pub questions: (usize, usize),
    /// MRR@10 in percent on the held-out questions: in the passages' language, and across languages.
    pub mrr: [f64; 2],
    /// The same by the previous weights.
    pub mrr_before: [f64; 2],
    /// The relevance of passages to the held-out questions, by the new weights.
    pub levels: Levels,
}

/// How relevant passages are, by a fit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Levels {
    /// The minimum of half and of nine in ten of the correct passages.
    pub right: [f32; 2],
    /// The minimum of half of the closest wrong candidates.
    pub closest: f32,
    /// The minimum of half of the passages that no ranking proposes.
    pub other: f32,
}

/// Fits the weights of the bundle in `bundle` on up to `questions_max` questions of each file in `data`; every other question of
/// a file is held out.
pub fn fit(bundle: &Path, data: &Path, questions_max: usize) -> Result<Fitted, Error> {
    let (before, asked) = evidence::collect(bundle, data, questions_max)?;
    let (held_out, seen): (Vec<Asked>, Vec<Asked>) = asked.into_iter().partition(|asked| asked.held_out);
    if seen.is_empty() || held_out.is_empty() {
        return Err(Error::NoData { path: data.to_owned() });
    }
    let weights = fit::weights(&seen);
    let mrr = |weights: &RelevanceWeights| [true, false].map(|same| fit::mrr_at_10(&held_out, same, weights));
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
        writeln!(f, "| questions in | weights before | fitted |\n|---|---:|---:|")?;
        for (name, before, after) in
            [("the passages' language", self.mrr_before[0], self.mrr[0]), ("another language", self.mrr_before[1], self.mrr[1])]
        {
            writeln!(f, "| {name} | {before:.2} | {after:.2} |")?;
        }
        let Levels { right: [half, most], closest, other } = self.levels;
        writeln!(f, "\nrelevance: half of the correct passages have {half:.2} or more, nine in ten {most:.2};")?;
        writeln!(f, "half of the closest wrong ones have {closest:.2}, half of those that no ranking proposes {other:.2}")
    }
}
