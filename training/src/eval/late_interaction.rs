//! Late interaction (ColBERT, Khattab and Zaharia, 2020) over the rows of a model's token table: every token of the question is
//! matched with its nearest token in the passage, s(q, d) = sum_i w_i max_j cos(q_i, d_j) / sum_i w_i. The table is the same
//! for every text, so a passage only needs its token ids and no vectors. The objective of the same name trains the table for
//! this. A server also weights tokens by their rarity in the collection (`dragoman::ranking::scorer`). There is no collection
//! here.

use std::collections::HashMap;

use dragoman::ranking::TokenTable;
use ndarray::ArrayView2;

/// The directions of all token vectors, and the weight of each token in a question.
#[derive(Debug, Clone, PartialEq)]
pub struct LateInteraction {
    dimension: usize,
    /// [vocabulary, dimension] Rows of unit length, or zero.
    directions: Vec<f32>,
    /// [vocabulary] Weights above 0.
    weights: Vec<f32>,
}

impl From<&TokenTable> for LateInteraction {
    fn from(table: &TokenTable) -> Self {
        Self::new(table.vectors(), table.dimension, Some(table.weights.clone()))
    }
}

impl LateInteraction {
    /// Takes the rows of a token table, [vocabulary, dimension], and optionally a weight for each token. Without weights, a
    /// token's weight is the length of its row, because a bag-of-tokens model learns long rows for significant tokens.
    pub fn new(mut rows: Vec<f32>, dimension: usize, weights: Option<Vec<f32>>) -> Self {
        let mut lengths = Vec::with_capacity(rows.len() / dimension.max(1));
        for row in rows.chunks_exact_mut(dimension) {
            let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
            if length > 0.0 {
                row.iter_mut().for_each(|value| *value /= length);
            }
            lengths.push(length);
        }
        let weights = weights.unwrap_or(lengths);
        Self { dimension, directions: rows, weights }
    }

    /// Scores each passage for each question, all given by their token ids. Returns [questions, passages] with values from -1
    /// to 1, and 0 if a question or a passage has no tokens.
    pub fn scores(&self, questions: &[Vec<u32>], passages: &[Vec<u32>]) -> Vec<f32> {
        let pool = Pool::new(self, passages);
        questions.iter().flat_map(|question| self.scores_in(question, &pool)).collect()
    }

    fn scores_in(&self, question: &[u32], pool: &Pool) -> Vec<f32> {
        let total: f32 = question.iter().map(|&token| self.weights[token as usize]).sum();
        if total <= 0.0 {
            return vec![0.0; pool.passages.len()];
        }
        let rows: Vec<f32> = question.iter().flat_map(|&token| self.direction(token)).copied().collect();
        let tokens = question.len();
        // The shapes always match the slices.
        let (Ok(rows), Ok(others)) = (
            ArrayView2::from_shape((tokens, self.dimension), &rows),
            ArrayView2::from_shape((pool.tokens, self.dimension), &pool.directions),
        ) else {
            return vec![0.0; pool.passages.len()];
        };
        let cosines = others.dot(&rows.t()); // [distinct tokens of the passages, tokens of the question]
        let cosines = cosines.as_slice().unwrap_or_default();
        let mut greatest = vec![0.0f32; tokens];
        let score = |passage: &Vec<u32>| {
            if passage.is_empty() {
                return 0.0;
            }
            greatest.fill(-1.0);
            for &position in passage {
                let row = &cosines[position as usize * tokens..][..tokens];
                greatest.iter_mut().zip(row).for_each(|(greatest, &cosine)| *greatest = greatest.max(cosine));
            }
            let weighted = question.iter().zip(&greatest).map(|(&token, greatest)| self.weights[token as usize] * greatest);
            weighted.sum::<f32>() / total
        };
        pool.passages.iter().map(score).collect()
    }

    fn direction(&self, token: u32) -> &[f32] {
        &self.directions[token as usize * self.dimension..][..self.dimension]
    }
}

/// Passages, and the vectors of the tokens that occur in them.
struct Pool {
    tokens: usize,
    /// [tokens, dimension]
    directions: Vec<f32>,
    /// For each passage, the positions of its distinct tokens.
    passages: Vec<Vec<u32>>,
}

impl Pool {
    fn new(table: &LateInteraction, passages: &[Vec<u32>]) -> Self {
        let mut positions: HashMap<u32, u32> = HashMap::new();
        let mut directions = Vec::new();
        let mut position = |token: u32| {
            *positions.entry(token).or_insert_with(|| {
                directions.extend_from_slice(table.direction(token));
                (directions.len() / table.dimension) as u32 - 1
            })
        };
        let passages = passages
            .iter()
            .map(|passage| {
                let mut distinct: Vec<u32> = passage.iter().map(|&token| position(token)).collect();
                distinct.sort_unstable();
                distinct.dedup();
                distinct
            })
            .collect();
        Self { tokens: directions.len() / table.dimension, directions, passages }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens have the directions 0°, 90°, 45° (three times as long) and 180°.
    fn table() -> LateInteraction {
        LateInteraction::new(vec![1.0, 0.0, 0.0, 1.0, 4.5f32.sqrt(), 4.5f32.sqrt(), -1.0, 0.0], 2, None)
    }

    fn check(question: &[u32], passages: &[&[u32]], expect: &[f32]) {
        let got = table().scores(&[question.to_vec()], &passages.iter().map(|passage| passage.to_vec()).collect::<Vec<_>>());
        assert!(got.iter().zip(expect).all(|(got, expect)| (got - expect).abs() < 1e-6), "{got:?}, expected {expect:?}");
        assert_eq!(got.len(), expect.len());
    }

    #[test]
    fn each_question_token_matches_its_nearest_passage_token() {
        // 0° finds 45°, and 90° finds itself. Order and repetition in the passage do not matter.
        let half = 0.5f32.sqrt();
        check(&[0, 1], &[&[2, 1], &[1, 2, 2, 1], &[3]], &[(half + 1.0) / 2.0, (half + 1.0) / 2.0, (-1.0 + 0.0) / 2.0]);
    }

    #[test]
    fn longer_token_vectors_weigh_more_unless_weights_are_given() {
        let half = 0.5f32.sqrt();
        check(&[0, 2], &[&[0], &[2]], &[(1.0 + 3.0 * half) / 4.0, (half + 3.0) / 4.0]);
        let even = LateInteraction::new(vec![1.0, 0.0, 3.0, 3.0], 2, Some(vec![1.0, 1.0]));
        assert!((even.scores(&[vec![0, 1]], &[vec![0]])[0] - (1.0 + half) / 2.0).abs() < 1e-6);
    }

    #[test]
    fn texts_without_tokens_score_zero() {
        check(&[], &[&[0], &[1]], &[0.0, 0.0]);
        check(&[0], &[&[], &[0]], &[0.0, 1.0]);
    }
}
