//! Counts the values of fields, within the budget of an answer.

use crate::domain::{FacetRequest, Facets};
use crate::service::error::Error;
use crate::service::limits::budget::AnswerBudget;
use crate::service::open_collection::OpenCollection;
use crate::store::SearchFilter;

impl OpenCollection {
    /// Counts values. Fails if they take more than the budget has left. Blocks.
    pub(crate) fn facets(
        &self,
        filter: &SearchFilter,
        requests: &[FacetRequest],
        budget: &AnswerBudget,
    ) -> Result<Facets, Error> {
        let left = (budget.limit() as u64).saturating_sub(budget.spent());
        let reserved = budget.reserve(left);
        let facets = self.store.facets(filter, requests, reserved)?;
        if facets.bytes <= reserved {
            budget.settle(reserved, facets.bytes)?;
            return Ok(facets);
        }
        // The counts may be incomplete, because less was reserved than the budget has left.
        if reserved < left {
            return Err(budget.memory_refusal().into());
        }
        budget.settle(reserved, facets.bytes)?;
        let advice = "ask for fewer facets, or fewer values of each with limit";
        Err(Error::AnswerTooLarge { bytes: budget.spent(), limit: budget.limit(), advice })
    }
}
