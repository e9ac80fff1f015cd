//! BM25 (Robertson and Zaragoza, 2009) of one word, for one passage or many.

use multiversion::multiversion;

/// Lower than the usual 1.2, because in a passage a word's second occurrence says little. Chosen on the questions
/// that the relevance weights are fitted on (`training/README.md`).
const K1: f32 = 0.6;
pub(super) const B: f32 = 0.75;

/// BM25 of one word.
pub(super) struct Formula {
    /// Its weight: its inverse document frequency times its importance.
    pub(super) weight: f32,
    /// `B` divided by the mean length of passages.
    pub(super) per_word: f32,
}

impl Formula {
    /// Returns the score of a passage of this length that has the word so many times.
    #[inline(always)]
    pub(super) fn score(&self, count: f32, length: u16) -> f32 {
        let length = 1.0 - B + self.per_word * f32::from(length);
        self.weight * count * (K1 + 1.0) / (count + K1 * length)
    }
}

/// Adds the scores of all passages by a formula, and sets the counts to zero. Compiled for wide vector registers too.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq", "x86_64+avx2+fma", "aarch64+neon"))]
pub(super) fn add_all(formula: &Formula, counts: &mut [f32], lengths: &[u16], scores: &mut [f32]) {
    for ((count, score), length) in counts.iter_mut().zip(scores).zip(lengths) {
        *score += formula.score(std::mem::take(count), *length);
    }
}
