//! What a search may ask for, on the wire, and how it is checked.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use utoipa::ToSchema;

use super::super::document_input::languages;
use super::super::error::{ApiError, Violation};
use super::super::extract::{Object, check_limit, objects, some_objects};
use super::super::facets::{self, FACETS_MAX, FacetInput};
use super::super::filter::{self, FilterNode};
use super::reading::{check_preferred, check_reading};
use crate::domain::settings::{EXPANSION, OVERSAMPLING};
use crate::domain::{
    self, Breadth, Code, Collection, DocumentId, Embedding, Field, FullSearch, Fusion, GroupKey, Grouping, HitParts, Limits,
    Metric, SearchRequest, SearchTarget,
};

/// Hits when the caller does not say how many.
const LIMIT_DEFAULT: usize = 10;
/// Neighbors of a ratio margin when the caller does not say how many: k of the paper.
const MARGIN_NEIGHBORS_DEFAULT: usize = 4;
/// Neighbors of a ratio margin at most.
const MARGIN_NEIGHBORS_MAX: usize = 32;
/// Rank constants of a fusion.
const RANK_CONSTANTS: std::ops::RangeInclusive<f32> = 1.0..=1_000.0;

/// A search: exactly one of `query`, `vector` and `like`, and what restricts and orders the hits.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchDocumentsRequest {
    /// The query, in any language: not blank, at most the server's limit for texts (1 MiB unless configured otherwise). In the modes
    /// `full`, `lexical` and `hybrid` passages must have what stands in quotes, word by word as it is spelled, and must not have a word or
    /// quote behind a minus: `"heavy rain" -wind`.
    #[serde(default)]
    #[schema(nullable = false, min_length = 1)]
    pub query: Option<String>,
    /// An embedding to be near to: as many values as the collection's embeddings have; under the metric cosine not all zeros.
    /// The other modes than `dense` need `query`.
    #[serde(default)]
    #[schema(nullable = false, min_items = 1)]
    pub vector: Option<Vec<f32>>,
    /// Id of a document to be near to: to the mean of its passages' embeddings. The document itself is no hit. The other
    /// modes than `dense` need `query`.
    #[serde(default)]
    #[schema(nullable = false, min_length = 1, max_length = 512)]
    pub like: Option<String>,
    /// How hits are found. Left out, `full` for a `query`; `dense` for a `vector`, for `like`, and with `margin`.
    #[serde(default)]
    #[schema(value_type = SearchMode, required = false)]
    pub mode: Option<SearchMode>,
    /// Whether a passage must have every word of the `query`, or any is enough. Of the modes `full`, `lexical` and `hybrid`; left out,
    /// `any`.
    #[serde(default)]
    #[schema(value_type = WordMatching, required = false)]
    pub words: Option<WordMatching>,
    /// Whether quotes and minus signs in the `query` say what passages must have and must not have, in the modes `full`, `lexical` and
    /// `hybrid`. Set it to false where the query is a text that somebody wrote for another purpose. `dense` reads none.
    #[serde(default)]
    #[schema(nullable = false, default = true)]
    pub operators: Option<bool>,
    /// Of mode `full`: how many passages each ranking proposes (embeddings, tokens, words) before all of them are scored, from 10 to
    /// 10000. More candidates find more and take longer.
    #[serde(default)]
    #[schema(nullable = false, minimum = 10, maximum = 10000, default = 100)]
    pub candidates: Option<usize>,
    /// What the lists of mode `hybrid` weigh.
    #[serde(default, deserialize_with = "object")]
    #[schema(nullable = false)]
    pub weights: Option<SearchWeights>,
    /// Of mode `hybrid`, from 1 to 1000: a document gets weight / (rank constant + its rank) of each list. The larger, the less
    /// the first ranks stand out.
    #[serde(default)]
    #[schema(nullable = false, minimum = 1, maximum = 1000, default = 60)]
    pub rank_constant: Option<f32>,
    /// Hits at most, from 1 to the server's limit (1000 unless configured otherwise).
    #[serde(default)]
    #[schema(nullable = false, minimum = 1, default = 10)]
    pub limit: Option<usize>,
    /// Hits left out before the first one. With `limit` at most the server's limit.
    #[serde(default)]
    #[schema(nullable = false, minimum = 0, default = 0)]
    pub offset: Option<usize>,
    /// Hits only in these languages, as BCP 47 tags; empty for all, left out for the `default_languages` of the collection.
    #[serde(default)]
    #[schema(nullable = false)]
    pub languages: Option<Vec<String>>,
    /// Hits only where this holds.
    #[serde(default)]
    #[schema(value_type = Option<FilterNode>, nullable = false)]
    pub filter: Option<Value>,
    /// Hits only with at least this score. What a score means depends on the mode and on `margin`.
    #[serde(default)]
    #[schema(nullable = false)]
    pub score_min: Option<f32>,
    /// Whether to compare with all embeddings instead of asking the index, which may miss a near one. Slow in a large
    /// collection, and writes wait meanwhile.
    #[serde(default)]
    #[schema(nullable = false, default = false)]
    pub exact: Option<bool>,
    /// Candidates of the index's walk (ef), as `hnsw.expansion_search` of the collection, which it is when left out: more miss
    /// less and take longer. Not of mode `lexical`.
    #[serde(default)]
    #[schema(nullable = false, minimum = 8, maximum = 4096)]
    pub expansion_search: Option<usize>,
    /// How many passages per passage wanted the index names before they are compared again by their stored values, from 1 to 64;
    /// at 1 none is. Left out, what the collection's quantization needs: 2 for `i8`, 8 for `b1`, 1 for the others. Not of mode
    /// `lexical`.
    #[serde(default)]
    #[schema(nullable = false, minimum = 1, maximum = 64)]
    pub oversampling: Option<f32>,
    /// Of mode `dense`: scores the nearest documents anew by their ratio margin, which makes scores of different languages
    /// comparable.
    #[serde(default, deserialize_with = "object")]
    #[schema(nullable = false)]
    pub margin: Option<MarginScoring>,
    /// Allows only some hits of each group.
    #[serde(default, deserialize_with = "object")]
    #[schema(nullable = false)]
    pub group_by: Option<GroupBy>,
    /// Whether languages take turns: first the best hit of each language, then the second best of each, and so on. A hit takes a
    /// turn only when it is at least half as near as the nearest, or its BM25 is at least half of the best one's; the others
    /// follow by score.
    #[serde(default)]
    #[schema(nullable = false, default = false)]
    pub balance_languages: Option<bool>,
    /// Languages to prefer, 1 to 62, the first one most, as BCP 47 tags; `auto` is the query's own. Their documents go before others whose
    /// score is less than a quarter better; scores stay what they are. Not with `balance_languages`.
    #[serde(default)]
    #[schema(nullable = false, min_items = 1, max_items = 62)]
    pub prefer_language: Option<Vec<String>>,
    /// Fields whose values are counted, 1 to 20, among all documents that `languages` and `filter` leave, be they hits or not.
    /// The searches of a batch have at most 20 together.
    #[serde(default, deserialize_with = "some_objects")]
    #[schema(nullable = false, min_items = 1, max_items = 20)]
    pub facets: Option<Vec<FacetInput>>,
    /// What hits carry besides id, score and language; title, metadata and passage when left out.
    #[serde(default)]
    #[schema(nullable = false)]
    pub include: Option<Vec<HitPart>>,
    /// Whether the answer says how hits were found and what took how long.
    #[serde(default)]
    #[schema(nullable = false, default = false)]
    pub explain: Option<bool>,
}

/// `full`: by all there is, within and across languages: embeddings, late interaction of tokens, and words with their translations
/// become one relevance between 0 and 1. `dense`: by the similarity of embeddings alone. `lexical`: by the words that query and passage share (BM25), in every
/// script. `hybrid`: by embeddings and words, their ranks fused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    /// By all there is.
    Full,
    /// By the similarity of embeddings.
    Dense,
    /// By shared words.
    Lexical,
    /// By both.
    Hybrid,
}

/// `any`: a passage that has any word of the query may be a hit; more words, and rarer ones, count more. `all`: only passages that have
/// every word, with or without its accents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WordMatching {
    /// Any is enough.
    Any,
    /// Every word.
    All,
}

/// What the lists of a hybrid search weigh. Zero takes a list out; both cannot be zero.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchWeights {
    /// Of the list by meaning.
    #[serde(default)]
    #[schema(nullable = false, minimum = 0, default = 1)]
    pub dense: Option<f32>,
    /// Of the list by words.
    #[serde(default)]
    #[schema(nullable = false, minimum = 0, default = 1)]
    pub lexical: Option<f32>,
}

/// Ratio margin scoring: the cosine of query and passage divided by the mean cosine of both with their nearest neighbors. Above
/// 1 the two are nearer to each other than to their neighborhoods. The nearest documents, four for each hit asked for and at
/// most 200, are scored anew. Only under the metric cosine.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MarginScoring {
    /// How many neighbors make a neighborhood, from 1 to 32.
    #[serde(default)]
    #[schema(nullable = false, minimum = 1, maximum = 32, default = 4)]
    pub neighbors: Option<usize>,
}

/// Allows only some hits with the same value. A document without it, or with one that is no string, number or boolean, is a
/// group of its own.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupBy {
    /// `language`, or a path in metadata as in filters.
    #[schema(min_length = 1, examples("language", "topic", "author.name"))]
    pub field: String,
    /// Hits of each group at most, from 1 to the server's limit for hits.
    #[serde(default)]
    #[schema(nullable = false, minimum = 1, default = 1)]
    pub size: Option<usize>,
}

/// What a hit may carry: `title`, the document's title; `text`, all of its text; `metadata`; `passage`, the passage that answers best,
/// with the words in it that do; `vector`, the embedding of that passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HitPart {
    /// The document's title.
    Title,
    /// Its text.
    Text,
    /// Its metadata.
    Metadata,
    /// The passage that answers best.
    Passage,
    /// The embedding of that passage.
    Vector,
}

/// Several searches of one collection.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchBatchRequest {
    /// The searches: at least one, at most the server's limit (100 unless configured otherwise).
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 1)]
    pub searches: Vec<SearchDocumentsRequest>,
}

/// Checks one search.
pub fn check(body: SearchDocumentsRequest, collection: &Collection, limits: &Limits) -> Result<SearchRequest, ApiError> {
    let target = check_target(&body, collection, limits)?;
    check_rest(body, target, collection, limits)
}

/// Checks all of a search but its target.
pub fn check_rest(
    body: SearchDocumentsRequest,
    target: SearchTarget,
    collection: &Collection,
    limits: &Limits,
) -> Result<SearchRequest, ApiError> {
    let mode = check_mode(&body, &target)?;
    let breadth = check_breadth(&body, mode)?;
    let reading = check_reading(&body, &target, mode)?;
    let prefer_language = check_preferred(&body, &target)?;
    let SearchDocumentsRequest { margin, limit, offset, score_min, group_by, include, .. } = body;
    let (limit, offset) = check_page(limit, offset, limits)?;
    if score_min.is_some_and(|score| !score.is_finite()) {
        return invalid("/score_min", "must be a finite number".to_owned());
    }
    Ok(SearchRequest {
        mode,
        reading,
        offset,
        languages: body.languages.map(|codes| languages(&codes, "/languages")).transpose()?,
        filter: filter::parse(body.filter, limits)?,
        score_min,
        exact: body.exact.unwrap_or_default(),
        breadth,
        margin: margin.map(|margin| check_margin(&margin, mode, collection.metric)).transpose()?,
        grouping: group_by.map(|group_by| check_grouping(&group_by, limits)).transpose()?,
        balance_languages: body.balance_languages.unwrap_or_default(),
        prefer_language,
        parts: check_parts(include),
        facets: body.facets.map_or(Ok(Vec::new()), |inputs| facets::check(inputs, limits))?,
        ..SearchRequest::new(target, limit)
    })
}

/// Checks a batch; the error of a search names its place.
pub fn check_batch(body: SearchBatchRequest, collection: &Collection, limits: &Limits) -> Result<Vec<SearchRequest>, ApiError> {
    let (max, got) = (limits.batch_searches_max, body.searches.len());
    if !(1..=max).contains(&got) {
        return invalid("/searches", format!("must hold 1 to {max} searches (batch_searches_max), got {got}"));
    }
    let facets: usize = body.searches.iter().map(|search| search.facets.as_ref().map_or(0, Vec::len)).sum();
    if facets > FACETS_MAX {
        return invalid("/searches", format!("must have at most {FACETS_MAX} facets together, got {facets}"));
    }
    let searches = body.searches.into_iter().enumerate();
    searches
        .map(|(index, search)| check(search, collection, limits).map_err(|error| within(error, &format!("/searches/{index}"))))
        .collect()
}

/// Checks a text that is searched for.
pub fn check_text(pointer: &str, text: &str, limits: &Limits) -> Result<(), ApiError> {
    if text.trim().is_empty() {
        return invalid(pointer, "must hold something besides white space".to_owned());
    }
    let (max, got) = (limits.text_bytes_max, text.len());
    if got > max { invalid(pointer, format!("must have at most {max} bytes (text_bytes_max), got {got}")) } else { Ok(()) }
}

/// Checks a vector that is searched for.
pub fn check_vector(pointer: &str, values: &[f32], collection: &Collection) -> Result<Embedding, ApiError> {
    if let Some(place) = values.iter().position(|value| !value.is_finite()) {
        return invalid(&format!("{pointer}/{place}"), "must be a number within the range of 32-bit floats".to_owned());
    }
    collection.own_vector(values.to_vec()).map_err(|problem| ApiError::at(Code::InvalidRequest, pointer, problem))
}

/// Checks the id of a document that hits are to be like.
pub fn check_id(pointer: &str, id: &str) -> Result<DocumentId, ApiError> {
    DocumentId::parse(id).map_err(|error| ApiError::at(Code::InvalidRequest, pointer, error.to_string()))
}

fn check_target(body: &SearchDocumentsRequest, collection: &Collection, limits: &Limits) -> Result<SearchTarget, ApiError> {
    match (&body.query, &body.vector, &body.like) {
        (Some(query), None, None) => {
            check_text("/query", query, limits)?;
            Ok(SearchTarget::Text(query.clone()))
        }
        (None, Some(vector), None) => Ok(SearchTarget::Vector(check_vector("/vector", vector, collection)?)),
        (None, None, Some(id)) => Ok(SearchTarget::Like(check_id("/like", id)?)),
        (None, None, None) => invalid("", "must have exactly one of query, vector and like, got none".to_owned()),
        _ => invalid("", "must have exactly one of query, vector and like, got several".to_owned()),
    }
}

fn check_mode(body: &SearchDocumentsRequest, target: &SearchTarget) -> Result<domain::SearchMode, ApiError> {
    let is_text = matches!(target, SearchTarget::Text(_));
    let default = if is_text && body.margin.is_none() { SearchMode::Full } else { SearchMode::Dense };
    let mode = body.mode.unwrap_or(default);
    if mode != SearchMode::Dense && !is_text {
        return invalid("/mode", "modes full, lexical and hybrid need query, got vector or like".to_owned());
    }
    if mode != SearchMode::Full && body.candidates.is_some() {
        return invalid("/candidates", "works with mode full only".to_owned());
    }
    if mode != SearchMode::Hybrid {
        for (place, given) in [("/weights", body.weights.is_some()), ("/rank_constant", body.rank_constant.is_some())] {
            if given {
                return invalid(place, "works with mode hybrid only".to_owned());
            }
        }
    }
    Ok(match mode {
        SearchMode::Full => domain::SearchMode::Full(check_candidates(body.candidates)?),
        SearchMode::Dense => domain::SearchMode::Dense,
        SearchMode::Lexical if body.exact == Some(true) => {
            return invalid("/exact", "compares embeddings, which mode lexical does not".to_owned());
        }
        SearchMode::Lexical => domain::SearchMode::Lexical,
        SearchMode::Hybrid => domain::SearchMode::Hybrid(check_fusion(body)?),
    })
}

fn check_breadth(body: &SearchDocumentsRequest, mode: domain::SearchMode) -> Result<Breadth, ApiError> {
    let (expansion, oversampling) = (body.expansion_search, body.oversampling);
    for (place, given) in [("/expansion_search", expansion.is_some()), ("/oversampling", oversampling.is_some())] {
        if given && mode == domain::SearchMode::Lexical {
            return invalid(place, "is about comparing embeddings, which mode lexical does not".to_owned());
        }
    }
    if let Some(got) = expansion.filter(|asked| !EXPANSION.contains(asked)) {
        let detail = format!("must be an integer from {} to {}, got {got}", EXPANSION.start(), EXPANSION.end());
        return invalid("/expansion_search", detail);
    }
    if let Some(got) = oversampling.filter(|asked| !OVERSAMPLING.contains(asked)) {
        let detail = format!("must be a number from {} to {}, got {got}", OVERSAMPLING.start(), OVERSAMPLING.end());
        return invalid("/oversampling", detail);
    }
    Ok(Breadth { expansion, oversampling })
}

fn check_candidates(candidates: Option<usize>) -> Result<FullSearch, ApiError> {
    let (range, candidates) = (FullSearch::CANDIDATES, candidates.unwrap_or(FullSearch::default().candidates));
    if range.contains(&candidates) {
        return Ok(FullSearch { candidates });
    }
    invalid("/candidates", format!("must be an integer from {} to {}, got {candidates}", range.start(), range.end()))
}

fn check_fusion(body: &SearchDocumentsRequest) -> Result<Fusion, ApiError> {
    let default = Fusion::default();
    let rank_constant = body.rank_constant.unwrap_or(default.rank_constant);
    if !RANK_CONSTANTS.contains(&rank_constant) {
        return invalid("/rank_constant", format!("must be a number from 1 to 1000, got {rank_constant}"));
    }
    let Some(weights) = &body.weights else { return Ok(Fusion { rank_constant, ..default }) };
    let (dense, lexical) = (weights.dense.unwrap_or(default.dense), weights.lexical.unwrap_or(default.lexical));
    for (place, weight) in [("/weights/dense", dense), ("/weights/lexical", lexical)] {
        if !weight.is_finite() || weight < 0.0 {
            return invalid(place, format!("must be a finite number of at least 0, got {weight}"));
        }
    }
    if dense == 0.0 && lexical == 0.0 {
        return invalid("/weights", "must not both be 0".to_owned());
    }
    Ok(Fusion { rank_constant, dense, lexical })
}

fn check_page(limit: Option<usize>, offset: Option<usize>, limits: &Limits) -> Result<(usize, usize), ApiError> {
    let (max, offset) = (limits.page_max, offset.unwrap_or_default());
    let limit = check_limit(limit.unwrap_or(LIMIT_DEFAULT.min(max)), "/limit", limits)?;
    if offset > max - limit {
        return invalid("/offset", format!("must be at most {} with limit {limit}, got {offset}", max - limit));
    }
    Ok((limit, offset))
}

fn check_margin(margin: &MarginScoring, mode: domain::SearchMode, metric: Metric) -> Result<usize, ApiError> {
    if mode != domain::SearchMode::Dense {
        return invalid("/margin", "works with mode dense only".to_owned());
    }
    if metric != Metric::Cosine {
        return invalid("/margin", format!("works with the metric cosine only, the collection has {}", metric.name()));
    }
    let neighbors = margin.neighbors.unwrap_or(MARGIN_NEIGHBORS_DEFAULT);
    if !(1..=MARGIN_NEIGHBORS_MAX).contains(&neighbors) {
        return invalid("/margin/neighbors", format!("must be an integer from 1 to {MARGIN_NEIGHBORS_MAX}, got {neighbors}"));
    }
    Ok(neighbors)
}

fn check_grouping(group_by: &GroupBy, limits: &Limits) -> Result<Grouping, ApiError> {
    let size = check_limit(group_by.size.unwrap_or(1), "/group_by/size", limits)?;
    let refuse = |detail: String| ApiError::at(Code::InvalidRequest, "/group_by/field", detail);
    let by = match Field::parse(&group_by.field).map_err(refuse)? {
        Field::Language => GroupKey::Language,
        Field::Metadata(path) => GroupKey::Metadata(path),
        own => {
            return Err(refuse(format!(
                "must be language or a path in metadata, got the document's own {own}; metadata of that name is metadata.{own}"
            )));
        }
    };
    Ok(Grouping { by, size })
}

fn check_parts(include: Option<Vec<HitPart>>) -> HitParts {
    let Some(include) = include else { return HitParts::default() };
    let has = |part| include.contains(&part);
    HitParts {
        title: has(HitPart::Title),
        text: has(HitPart::Text),
        metadata: has(HitPart::Metadata),
        passage: has(HitPart::Passage),
        vector: has(HitPart::Vector),
    }
}

/// The same error, its places within `base`.
fn within(error: ApiError, base: &str) -> ApiError {
    let moved =
        |violation: Violation| Violation { pointer: violation.pointer.map(|place| format!("{base}{place}")), ..violation };
    ApiError::several(error.code, error.errors.into_iter().map(moved).collect())
}

pub(super) fn invalid<T>(pointer: &str, detail: String) -> Result<T, ApiError> {
    Err(ApiError::at(Code::InvalidRequest, pointer, detail))
}

/// Reads an object that may be left out or null.
pub fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Object<T>>::deserialize(deserializer)?.map(|Object(value)| value))
}
