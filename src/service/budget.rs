//! The bytes that the answer to one request may have.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Error;
use super::runtime::OpenCollection;
use crate::domain::{FacetRequest, Facets};
use crate::store::SearchFilter;

/// Bounds the bytes of all parts of an answer, which may be made side by side.
#[derive(Debug)]
pub(super) struct AnswerBudget {
    limit: usize,
    spent: AtomicU64,
}

impl AnswerBudget {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, spent: AtomicU64::new(0) }
    }

    /// Bytes in all.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes taken so far.
    pub(super) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Takes so many bytes out of it; says whether they were there.
    pub(super) fn spend(&self, bytes: u64) -> bool {
        self.spent.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.limit as u64
    }
}

impl OpenCollection {
    /// Counts values, and refuses them when they are more than the budget has left. Blocks.
    pub(super) fn facets(
        &self,
        filter: &SearchFilter,
        requests: &[FacetRequest],
        budget: &AnswerBudget,
    ) -> Result<Facets, Error> {
        let facets = self.store.facets(filter, requests, (budget.limit() as u64).saturating_sub(budget.spent()))?;
        if budget.spend(facets.bytes) {
            return Ok(facets);
        }
        let advice = "count fewer values of facets with limit, or fewer facets";
        Err(Error::AnswerTooLarge { bytes: budget.spent(), limit: budget.limit(), advice })
    }
}
