//! The rows of a token table, packed for matrix products, and a cache of the near tokens of each question token.

use std::sync::Arc;

use numkong::{PackedMatrix, Tensor, available, cap, configure_thread};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::TokenTable;

/// Maximum number of distinct tokens of a question that are used. Of a longer question, the heaviest are used.
pub(super) const QUESTION_TOKENS_MAX: usize = 2 * LANES;
/// Number of question tokens that are compared together.
pub(super) const LANES: usize = 16;
/// The stored form of a cosine of 1.
pub(super) const ONE: f32 = i16::MAX as f32;
/// Number of table rows that are multiplied at a time, so that products stay in the fastest caches.
const ROWS_PER_BLOCK: usize = 1_024;
/// Number of token ids that passages can have.
const IDS_MAX: usize = 1 << 16;
/// From this cosine on, a token counts as an occurrence of another one when computing its rarity.
pub(super) const NEAR: f32 = 0.6;
/// Lower cosines are ignored when searching for passages. That leaves few tokens to look at, and loses nothing that would be
/// found.
const SCANNED: f32 = 0.3;
/// Maximum number of near tokens in the cache, four bytes each, for all question tokens together. That is enough for some
/// twenty thousand question tokens. Computing the near tokens of one costs a product with the whole table.
const REMEMBERED_MAX: u64 = 4 << 20;

/// The rows of a token table, and the cache of near tokens.
pub(super) struct Rows {
    dimension: usize,
    /// Blocks of `ROWS_PER_BLOCK` rows; the last may be smaller. They are packed, because few tokens times many packed rows is
    /// twice as fast as the other way round.
    blocks: Vec<Factor>,
    /// One over the length of each row, or 0 for a row of zeros.
    inverse_lengths: Vec<f32>,
    weights: Vec<f32>,
    near: Cache<u16, Arc<[NearToken]>, ByLength>,
}

/// A token and its cosine with another one, in units of 1 / `ONE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NearToken {
    pub(super) token: u16,
    pub(super) cosine: i16,
}

/// Weighs a cache entry by its number of near tokens.
#[derive(Debug, Clone)]
struct ByLength;

impl Weighter<u16, Arc<[NearToken]>> for ByLength {
    fn weight(&self, _token: &u16, near: &Arc<[NearToken]>) -> u64 {
        near.len() as u64 + 1
    }
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
    pub(super) fn new(table: TokenTable) -> Result<Self, ScorerError> {
        let TokenTable { dimension, rows, scales: _, mut weights } = table;
        let block = |rows: &[i8]| {
            Factor::new(Tensor::try_from_slice(rows, &[rows.len() / dimension, dimension]).map_err(ScorerError::of)?)
        };
        let blocks = rows.chunks(ROWS_PER_BLOCK * dimension).take(IDS_MAX / ROWS_PER_BLOCK).map(block);
        let length = |row: &[i8]| (row.iter().map(|&value| i32::from(value).pow(2)).sum::<i32>() as f32).sqrt();
        weights.truncate(IDS_MAX);
        let near = Cache::with_weighter(REMEMBERED_MAX as usize / 256, REMEMBERED_MAX, ByLength);
        Ok(Self {
            dimension,
            blocks: blocks.collect::<Result<_, _>>()?,
            inverse_lengths: rows.chunks_exact(dimension).map(|row| length(row).max(1.0).recip()).collect(),
            weights,
            near,
        })
    }

    /// Returns the row of a token, or `None` if it is not in the table.
    pub(super) fn row(&self, token: u16) -> Option<&[i8]> {
        let token = usize::from(token);
        let block = self.blocks.get(token / ROWS_PER_BLOCK)?.rows.as_slice();
        block.get(token % ROWS_PER_BLOCK * self.dimension..)?.get(..self.dimension)
    }

    /// Returns the number of tokens.
    pub(super) fn len(&self) -> usize {
        self.weights.len()
    }

    /// Gathers the rows of tokens, which must be in the table. [tokens, dimension]
    pub(super) fn gather(&self, tokens: &[u16]) -> Result<Tensor<i8>, ScorerError> {
        let mut rows = Tensor::<i8>::try_full(&[tokens.len(), self.dimension], 0).map_err(ScorerError::of)?;
        for (row, &token) in rows.as_mut_slice().chunks_exact_mut(self.dimension).zip(tokens) {
            if let Some(own) = self.row(token) {
                row.copy_from_slice(own);
            }
        }
        Ok(rows)
    }

    /// Computes the cosine of two tokens, in units of 1 / `ONE`, from the product of their rows. Negative cosines become 0.
    pub(super) fn cosine(&self, product: i32, a: u16, b: u16) -> i16 {
        let scale = self.inverse_lengths[usize::from(a)] * self.inverse_lengths[usize::from(b)];
        ((product as f32 * scale).clamp(0.0, 1.0) * ONE + 0.5) as i16
    }

    /// Returns the distinct tokens of a question with their weights before rarity. If there are too many, returns the heaviest.
    pub(super) fn counted(&self, tokens: &[u32]) -> Vec<(u16, f32)> {
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

    /// Returns for each of `ids` the tokens with a cosine of `SCANNED` or more, nearest first.
    pub(super) fn near(&self, ids: &[u16]) -> Result<Vec<Arc<[NearToken]>>, ScorerError> {
        let mut near: Vec<Option<Arc<[NearToken]>>> = ids.iter().map(|id| self.near.get(id)).collect();
        let missing: Vec<u16> = ids.iter().zip(&near).filter(|(_, near)| near.is_none()).map(|(&id, _)| id).collect();
        for part in missing.chunks(LANES) {
            for (&id, found) in part.iter().zip(self.look_for_near(part)?) {
                self.near.insert(id, Arc::clone(&found));
                if let Some(place) = ids.iter().position(|&other| other == id) {
                    near[place] = Some(found);
                }
            }
        }
        Ok(near.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// Computes the same from the rows, without the cache.
    fn look_for_near(&self, ids: &[u16]) -> Result<Vec<Arc<[NearToken]>>, ScorerError> {
        let own = self.gather(ids)?;
        let mut near = vec![Vec::new(); ids.len()];
        for (block, first) in self.blocks.iter().zip((0..).step_by(ROWS_PER_BLOCK)) {
            let products = block.products(&own)?;
            let rows = block.rows.shape()[0];
            for ((near, &id), products) in near.iter_mut().zip(ids).zip(products.as_slice().chunks_exact(rows)) {
                // The minimum of the product divided by the length of the other row.
                let least = SCANNED / self.inverse_lengths[usize::from(id)];
                for ((token, &product), inverse) in (first..).zip(products).zip(&self.inverse_lengths[first..]) {
                    if product as f32 * inverse >= least {
                        let token = token as u16;
                        near.push(NearToken { token, cosine: self.cosine(product, token, id) });
                    }
                }
            }
        }
        let nearest_first = |mut near: Vec<NearToken>| {
            near.sort_unstable_by_key(|near| (std::cmp::Reverse(near.cosine), near.token));
            near.into()
        };
        Ok(near.into_iter().map(nearest_first).collect())
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
            let (own, each) = (self.rows.as_slice(), others.as_slice().chunks_exact(dimension));
            let pairs = each.flat_map(|other| own.chunks_exact(dimension).map(move |own| dot(own, other)));
            products.as_mut_slice().iter_mut().zip(pairs).for_each(|(product, dot)| *product = dot);
        }
        Ok(products)
    }
}

/// Returns the dot product of two rows.
pub(super) fn dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
}
