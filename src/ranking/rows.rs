//! The rows of a token table, and the near tokens of each token, which are computed only once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use numkong::{Dot as _, PackedMatrix, Tensor, available, cap, configure_thread};

use super::TokenTable;
use crate::vectors::{PREFETCHED_ROWS, Signs, prefetch};

/// Maximum number of distinct tokens of a question that are used: the heaviest ones of a longer question.
pub(super) const QUESTION_TOKENS_MAX: usize = 2 * LANES;
/// Number of question tokens that are compared together.
pub(super) const LANES: usize = 16;
/// The stored form of a cosine of 1.
pub(super) const ONE: f32 = i16::MAX as f32;
/// Number of token ids that passages can have.
const IDS_MAX: usize = 1 << 16;
/// From this cosine on, a token counts as an occurrence of another one when computing its rarity.
pub(super) const NEAR: f32 = 0.6;
/// Lower cosines are ignored when searching for passages. That leaves few tokens to consider, without losing any result.
const SCANNED: f32 = 0.3;
/// From this estimate of the cosine on, two rows are compared. In the shipped table the error of an estimate has a standard
/// deviation of 0.05, so two of 1,000 tokens with a cosine of `SCANNED` or more are missed, and none with 0.4 or more.
const ESTIMATED: f32 = 0.2;
/// The dimension of tables whose rows have signs is a multiple of this. Other rows are all compared.
const SIGNS_STEP: usize = 64;
/// Maximum number of near tokens that are stored, four bytes each, for all tokens together. The shipped table has 9.8
/// million. If a table has more, the rest are computed again for each question.
pub(super) const STORED_MAX: usize = 12 << 20;

/// The rows of a token table, and the near tokens found so far.
pub(super) struct Rows {
    dimension: usize,
    /// [vocabulary, dimension]
    rows: Vec<i8>,
    /// The signs of all rows, from the first question on.
    signs: OnceLock<Signs>,
    /// One over the length of each row, or 0 for a row of zeros.
    inverse_lengths: Vec<f32>,
    weights: Vec<f32>,
    /// By token. Empty until a question has the token, or the precomputation has found them.
    near: Vec<OnceLock<Arc<[NearToken]>>>,
    /// Number of near tokens stored so far.
    stored: AtomicUsize,
}

/// A token and its cosine with another one, in units of 1 / `ONE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NearToken {
    pub(super) token: u16,
    pub(super) cosine: i16,
}

/// Why a token table cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot compute products with the token table")]
pub struct ScorerError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl ScorerError {
    fn of(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

impl Rows {
    /// Takes a model's token table. Ids from 65,536 on are never searched for.
    pub(super) fn new(table: TokenTable) -> Self {
        let TokenTable { dimension, mut rows, scales: _, mut weights } = table;
        rows.truncate(IDS_MAX * dimension);
        let length = |row: &[i8]| (row.iter().map(|&value| i32::from(value).pow(2)).sum::<i32>() as f32).sqrt();
        weights.truncate(IDS_MAX);
        let near = weights.iter().map(|_| OnceLock::new()).collect();
        let inverse_lengths = rows.chunks_exact(dimension).map(|row| length(row).max(1.0).recip()).collect();
        Self { dimension, rows, signs: OnceLock::new(), inverse_lengths, weights, near, stored: AtomicUsize::new(0) }
    }

    /// Returns the row of a token, or `None` if it is not in the table.
    pub(super) fn row(&self, token: u16) -> Option<&[i8]> {
        self.rows.get(usize::from(token) * self.dimension..)?.get(..self.dimension)
    }

    pub(super) fn len(&self) -> usize {
        self.weights.len()
    }

    /// Returns the number of near tokens stored so far.
    pub(super) fn stored_count(&self) -> usize {
        self.stored.load(Ordering::Relaxed)
    }

    /// Returns the number of tokens whose near tokens were found.
    #[cfg(test)]
    pub(super) fn searched_count(&self) -> usize {
        self.near.iter().filter(|near| near.get().is_some()).count()
    }

    /// Gathers the rows of tokens, which must be in the table. [tokens, dimension]
    pub(super) fn gather(&self, tokens: &[u16]) -> Result<Tensor<i8>, ScorerError> {
        let mut rows = Tensor::<i8>::try_full(&[tokens.len(), self.dimension], 0).map_err(ScorerError::of)?;
        for (row, &token) in rows.as_mut_slice().chunks_exact_mut(self.dimension).zip(tokens) {
            if let Some(values) = self.row(token) {
                row.copy_from_slice(values);
            }
        }
        Ok(rows)
    }

    /// Computes the cosine of two tokens, in units of 1 / `ONE`, from the product of their rows. Negative cosines become 0.
    pub(super) fn cosine(&self, product: i32, a: u16, b: u16) -> i16 {
        let scale = self.inverse_lengths[usize::from(a)] * self.inverse_lengths[usize::from(b)];
        ((product as f32 * scale).clamp(0.0, 1.0) * ONE + 0.5) as i16
    }

    /// Returns the learned weight of a token, or 0 if it is not in the table.
    pub(super) fn weight(&self, token: u32) -> f32 {
        self.weights.get(token as usize).copied().unwrap_or_default()
    }

    /// Returns the distinct tokens of a question with their weights before rarity. If there are too many, returns the heaviest.
    pub(super) fn weigh_tokens(&self, tokens: &[u32]) -> Vec<(u16, f32)> {
        let mut distinct: Vec<u16> = tokens.iter().filter_map(|&token| u16::try_from(token).ok()).collect();
        distinct.retain(|&token| usize::from(token) < self.len());
        distinct.sort_unstable();
        let weight = |token: u16| self.weights[usize::from(token)];
        let runs = distinct.chunk_by(|a, b| a == b);
        let mut counted: Vec<(u16, f32)> = runs.map(|run| (run[0], run.len() as f32 * weight(run[0]))).collect();
        if counted.len() > QUESTION_TOKENS_MAX {
            counted.sort_by(|a, b| b.1.total_cmp(&a.1));
            counted.truncate(QUESTION_TOKENS_MAX);
        }
        counted
    }

    /// Returns the tokens with a cosine of `SCANNED` or more with this one, nearest first.
    pub(super) fn near_tokens(&self, id: u16) -> Arc<[NearToken]> {
        let Some(near) = self.near.get(usize::from(id)) else { return Arc::default() };
        near.get().cloned().unwrap_or_else(|| {
            let found = self.find_near(id);
            let stored = self.stored.fetch_add(found.len(), Ordering::Relaxed);
            if stored.saturating_add(found.len()) > STORED_MAX || near.set(Arc::clone(&found)).is_err() {
                self.stored.fetch_sub(found.len(), Ordering::Relaxed);
            }
            found
        })
    }

    /// Computes the same from the rows.
    fn find_near(&self, id: u16) -> Arc<[NearToken]> {
        let Some(values) = self.row(id) else { return Arc::default() };
        let compare = |token: u16| {
            let product = i8::dot(values, self.row(token)?)?;
            let cosine = self.cosine(product, token, id);
            (f32::from(cosine) >= SCANNED * ONE).then_some(NearToken { token, cosine })
        };
        let likely = match self.signs() {
            Some(signs) => signs.at_least(&self.unit(id), ESTIMATED),
            None => (0..self.len()).collect(),
        };
        let likely: Vec<u16> = likely.into_iter().map(|token| token as u16).collect();
        let mut near: Vec<NearToken> = Vec::new();
        for part in likely.chunks(PREFETCHED_ROWS) {
            prefetch(part.iter().filter_map(|token| self.row(*token)));
            near.extend(part.iter().filter_map(|token| compare(*token)));
        }
        near.sort_unstable_by_key(|near| (std::cmp::Reverse(near.cosine), near.token));
        near.into()
    }

    /// Returns the signs of all rows, if they have any.
    fn signs(&self) -> Option<&Signs> {
        let create = || {
            // The values of a token table are spread evenly.
            let mut signs = Signs::unrotated(self.dimension);
            (0..self.len()).for_each(|token| signs.set(token, &self.unit(token as u16), 0.0));
            signs
        };
        self.dimension.is_multiple_of(SIGNS_STEP).then(|| self.signs.get_or_init(create))
    }

    /// Returns the row of a token with unit length.
    fn unit(&self, token: u16) -> Vec<f32> {
        let scale = self.inverse_lengths[usize::from(token)];
        self.row(token).unwrap_or_default().iter().map(|&value| f32::from(value) * scale).collect()
    }
}

/// Rows that other rows are multiplied with.
pub(super) struct Factor {
    rows: Tensor<i8>,
    packed: PackedMatrix<i8>,
}

impl Factor {
    pub(super) fn new(rows: Tensor<i8>) -> Result<Self, ScorerError> {
        Ok(Self { packed: PackedMatrix::try_pack(&rows).map_err(ScorerError::of)?, rows })
    }

    /// Returns the products of `others` with these rows. [others, these]
    pub(super) fn products(&self, others: &Tensor<i8>) -> Result<Tensor<i32>, ScorerError> {
        let mut products = Tensor::<i32>::try_full(&[others.shape()[0], self.rows.shape()[0]], 0).map_err(ScorerError::of)?;
        // If the system does not permit the AMX registers, the products that need them must not run.
        if available() & (cap::SAPPHIREAMX | cap::GRANITEAMX) == 0 || configure_thread() {
            others.try_dots_packed_into(&self.packed, &mut products).map_err(ScorerError::of)?;
        } else {
            let dimension = self.rows.shape()[1].max(1);
            let (rows, each) = (self.rows.as_slice(), others.as_slice().chunks_exact(dimension));
            let pairs = each.flat_map(|other| rows.chunks_exact(dimension).map(move |row| dot(row, other)));
            products.as_mut_slice().iter_mut().zip(pairs).for_each(|(product, dot)| *product = dot);
        }
        Ok(products)
    }
}

pub(super) fn dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn the_sign_scan_finds_every_near_token_and_no_distant_one() {
        let (mut state, dimension) = (7_u32, 256);
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as i8 >> 1
        };
        // Each row is three quarters of the row ten tokens earlier, plus random values.
        let mut rows: Vec<i8> = (0..10 * dimension).map(|_| next()).collect();
        for index in 10 * dimension..2_000 * dimension {
            rows.push((i32::from(rows[index - 10 * dimension]) * 3 / 4 + i32::from(next()) / 2) as i8);
        }
        let table = TokenTable { dimension, rows, scales: vec![1.0; 2_000], weights: vec![1.0; 2_000] };
        let rows = Rows::new(table);
        for id in [0, 777, 1_999] {
            let values = rows.row(id).unwrap();
            let cosine = |token: u16| (token, rows.cosine(dot(values, rows.row(token).unwrap()), token, id));
            let found = rows.near_tokens(id);
            assert!(found.is_sorted_by_key(|near| (std::cmp::Reverse(near.cosine), near.token)) && found[0].token == id);
            let found: HashMap<u16, i16> = found.iter().map(|near| (near.token, near.cosine)).collect();
            for (token, cosine) in (0..2_000).map(cosine) {
                match f32::from(cosine) / ONE {
                    0.4.. => assert_eq!(found.get(&token), Some(&cosine), "{id}, {token}"),
                    SCANNED.. => assert!(found.get(&token).is_none_or(|found| *found == cosine), "{id}, {token}"),
                    _ => assert_eq!(found.get(&token), None, "{id}, {token}"),
                }
            }
            assert!(found.len() > 3, "{found:?}");
        }
    }
}
