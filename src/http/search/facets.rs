//! Facets in the API: fields whose values to count.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::domain::{Code, FacetRequest, Field, Limits};
use crate::http::error::{ApiError, Checks};
use crate::http::request::extract::check_limit;

/// Maximum facets per request.
pub const FACETS_MAX: usize = 20;
/// Default number of values of a facet.
const VALUES_DEFAULT: usize = 10;

/// A field whose values to count.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FacetInput {
    /// `language`, or a metadata value, written as in a filter.
    #[schema(examples("language", "year", "author.name"))]
    pub field: String,
    /// Maximum values, the most frequent ones, from 1 to the server's limit (1000 unless configured otherwise).
    #[serde(default)]
    #[schema(nullable = false, minimum = 1, default = 10)]
    pub limit: Option<usize>,
}

/// Validates the facets of a request, its member `facets`.
pub fn check(facets: Vec<FacetInput>, limits: &Limits) -> Result<Vec<FacetRequest>, ApiError> {
    let got = facets.len();
    if !(1..=FACETS_MAX).contains(&got) {
        return Err(ApiError::at(Code::InvalidRequest, "/facets", format!("must hold 1 to {FACETS_MAX} facets, got {got}")));
    }
    let read = |(index, input): (usize, FacetInput)| {
        let limit = input.limit.unwrap_or(VALUES_DEFAULT.min(limits.page_max));
        let limit = check_limit(limit, &format!("/facets/{index}/limit"), limits)?;
        let refuse = |detail: String| ApiError::at(Code::InvalidRequest, format!("/facets/{index}/field"), detail);
        match Field::parse(&input.field).map_err(refuse)? {
            Field::Id | Field::CreatedAt | Field::UpdatedAt => {
                Err(refuse(format!("must be language or a metadata path, got {:?}", input.field)))
            }
            field => Ok(FacetRequest { field, limit }),
        }
    };
    Checks::all(facets.into_iter().enumerate().map(read))
}
