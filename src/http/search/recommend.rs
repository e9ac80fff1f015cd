//! The request for a recommendation, a search by examples, and its validation.

use serde::Deserialize;
use utoipa::ToSchema;

use super::boosts::BoostInput;
use super::checks::{check_vector, check_with_target};
use super::request::{GroupBy, HitPart, SearchDocumentsRequest};
use crate::domain::json::singles;
use crate::domain::{Collection, DistinctJson, DocumentId, ExampleSet, Examples, Limits, SearchRequest, SearchTarget};
use crate::http::error::{ApiError, Checks, invalid};
use crate::http::request::filter::FilterNode;
use crate::http::request::values::{check_each, check_parsed, check_text};
use crate::service::json::{object, some_object, some_objects};

/// A recommendation: finds documents that are like the positive examples and unlike the negative ones.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecommendDocumentsRequest {
    /// What hits should be similar to: at least one example.
    #[serde(deserialize_with = "object")]
    pub positive: ExampleInputs,
    /// What hits should not be similar to.
    #[serde(default, deserialize_with = "some_object")]
    pub negative: Option<ExampleInputs>,
    /// Maximum number of hits, from 1 to the server's limit (1000 unless configured otherwise).
    #[schema(minimum = 1, default = 10)]
    pub limit: Option<usize>,
    /// Number of hits to skip. Together with `limit`, at most the server's limit.
    #[schema(minimum = 0, default = 0)]
    pub offset: Option<usize>,
    /// Only hits in these languages, as BCP 47 tags; empty for all. Defaults to the collection's `default_languages`.
    pub languages: Option<Vec<String>>,
    /// Only hits that match.
    #[schema(value_type = Option<FilterNode>)]
    pub filter: Option<DistinctJson>,
    /// Only hits with at least this score.
    #[serde(default, deserialize_with = "singles")]
    pub score_min: Option<f32>,
    /// Whether to compare with all embeddings instead of searching the index.
    #[schema(default = false)]
    pub exact: Option<bool>,
    /// Candidates considered while searching the index, as in a search.
    #[schema(minimum = 8, maximum = 4096)]
    pub ef_search: Option<usize>,
    /// Candidates per requested passage to rescore with their stored embeddings, as in a search.
    #[serde(default, deserialize_with = "singles")]
    #[schema(minimum = 1, maximum = 64)]
    pub oversampling: Option<f32>,
    /// Limits the hits of each group.
    #[serde(default, deserialize_with = "some_object")]
    pub group_by: Option<GroupBy>,
    /// Whether to interleave the languages of hits, as in a search.
    #[schema(default = false)]
    pub balance_languages: Option<bool>,
    /// Languages to prefer, 1 to 62, most preferred first, as in a search except for `auto`.
    #[schema(min_items = 1, max_items = 62)]
    pub prefer_language: Option<Vec<String>>,
    /// Boosts that raise or lower the scores of hits, as in a search.
    #[serde(default, deserialize_with = "some_objects")]
    #[schema(min_items = 1, max_items = 10)]
    pub boosts: Option<Vec<BoostInput>>,
    /// How much hits should differ from each other, as in a search.
    #[serde(default, deserialize_with = "singles")]
    #[schema(minimum = 0, maximum = 1, default = 0)]
    pub diversity: Option<f32>,
    /// What hits include besides id, score and language; by default title, metadata and passage.
    pub include: Option<Vec<HitPart>>,
    /// Whether to report how hits were found and how long each step took.
    #[schema(default = false)]
    pub explain: Option<bool>,
}

/// Examples of three kinds, of each at most the server's limit (100 unless configured otherwise).
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExampleInputs {
    /// Ids of documents of the collection. They are never hits themselves.
    pub ids: Option<Vec<String>>,
    /// Embeddings with as many values as the collection's.
    #[serde(default, deserialize_with = "singles")]
    pub vectors: Option<Vec<Vec<f32>>>,
    /// Texts, in any language.
    pub texts: Option<Vec<String>>,
}

pub fn check_examples(
    body: RecommendDocumentsRequest,
    collection: &Collection,
    limits: &Limits,
) -> Result<SearchRequest, ApiError> {
    let mut checks = Checks::default();
    let positive = checks.add(check_set("/positive", body.positive, collection, limits));
    if positive == Some(ExampleSet::default()) {
        let detail = "must have at least one example in ids, vectors or texts";
        checks.add::<()>(invalid("/positive", detail));
    }
    let negative = checks.add(check_set("/negative", body.negative.unwrap_or_default(), collection, limits));
    let examples = positive.zip(negative).map(|(positive, negative)| Examples { positive, negative });
    let target = checks.end().map(|()| SearchTarget::Examples(examples.unwrap_or_default()));
    let rest = SearchDocumentsRequest {
        limit: body.limit,
        offset: body.offset,
        languages: body.languages,
        filter: body.filter,
        score_min: body.score_min,
        exact: body.exact,
        ef_search: body.ef_search,
        oversampling: body.oversampling,
        group_by: body.group_by,
        balance_languages: body.balance_languages,
        prefer_language: body.prefer_language,
        boosts: body.boosts,
        diversity: body.diversity,
        include: body.include,
        explain: body.explain,
        ..SearchDocumentsRequest::default()
    };
    check_with_target(rest, target, collection, limits)
}

fn check_set(pointer: &str, input: ExampleInputs, collection: &Collection, limits: &Limits) -> Result<ExampleSet, ApiError> {
    let ExampleInputs { ids, vectors, texts } = input;
    let (ids, vectors, texts) = (ids.unwrap_or_default(), vectors.unwrap_or_default(), texts.unwrap_or_default());
    let max = limits.examples_max;
    for (member, got) in [("ids", ids.len()), ("vectors", vectors.len()), ("texts", texts.len())] {
        if got > max {
            return invalid(format!("{pointer}/{member}"), format!("must have at most {max} examples (examples_max), got {got}"));
        }
    }
    let mut checks = Checks::default();
    checks.add(check_each(&format!("{pointer}/texts"), &texts, |pointer, text| check_text(pointer, text, limits)));
    let ids = check_each(&format!("{pointer}/ids"), &ids, |pointer, id| check_parsed(pointer, DocumentId::parse(id)));
    let vectors =
        check_each(&format!("{pointer}/vectors"), &vectors, |pointer, vector| check_vector(pointer, vector, collection));
    let (ids, vectors) = (checks.add_or_default(ids), checks.add_or_default(vectors));
    checks.end().map(|()| ExampleSet { ids, vectors, texts })
}
