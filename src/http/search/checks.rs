//! Validates a search against its collection and the limits of the server.

use super::boosts::{check_boosts, check_diversity};
use super::request::{GroupBy, HitPart, MarginScoring, SearchBatchRequest, SearchDocumentsRequest};
use crate::domain::settings::{CANDIDATES, CANDIDATES_DEFAULT, EF, OVERSAMPLING};
use crate::domain::{
    Code, Collection, DocumentId, Embedding, Field, Fusion, GroupKey, Grouping, HitParts, Language, Limits, Metric,
    PreferredLanguage, QueryOptions, SearchMode, SearchModeName, SearchParameters, SearchRequest, SearchTarget, WordMatching,
};
use crate::http::error::{ApiError, Checks, invalid};
use crate::http::request::extract::check_limit;
use crate::http::request::filter;
use crate::http::request::values::{
    check_count, check_each, check_integer, check_items, check_number, check_parsed, check_text, parse_languages, refused_tag,
};
use crate::http::search::facets::{self, FACETS_MAX};

const LIMIT_DEFAULT: usize = 10;
/// Default number of neighbors of a ratio margin: k of the paper.
const MARGIN_NEIGHBORS_DEFAULT: usize = 4;
const MARGIN_NEIGHBORS_MAX: usize = 32;
const RANK_CONSTANTS: std::ops::RangeInclusive<f32> = 1.0..=1_000.0;

pub fn check(body: SearchDocumentsRequest, collection: &Collection, limits: &Limits) -> Result<SearchRequest, ApiError> {
    let target = check_target(&body, collection, limits);
    check_with_target(body, target, collection, limits)
}

/// Validates everything in a search but its target, and reports the error of the target with the others.
pub fn check_with_target(
    body: SearchDocumentsRequest,
    target: Result<SearchTarget, ApiError>,
    collection: &Collection,
    limits: &Limits,
) -> Result<SearchRequest, ApiError> {
    let mut checks = Checks::default();
    let target = checks.add(target);
    let mode = target.as_ref().and_then(|target| checks.add(check_mode(&body, target)));
    let parameters = mode.and_then(|mode| checks.add(check_parameters(&body, mode))).unwrap_or_default();
    let reading = target.as_ref().zip(mode).and_then(|(target, mode)| checks.add(check_query_options(&body, target, mode)));
    let prefer_language = target.as_ref().and_then(|target| checks.add(check_preferred(&body, target))).unwrap_or_default();
    let SearchDocumentsRequest { margin, limit, offset, score_min, group_by, include, .. } = body;
    let (limit, offset) = checks.add_or_default(check_page(limit, offset, limits));
    if score_min.is_some_and(|score| !score.is_finite()) {
        checks.add(invalid::<()>("/score_min", "must be a finite number"));
    }
    let languages = checks.add_or_default(body.languages.map(|codes| parse_languages(&codes, "/languages")).transpose());
    let filter = checks.add(filter::parse(body.filter, limits));
    let margin = margin.zip(mode).map(|(margin, mode)| check_margin(&margin, mode, collection.metric));
    let margin = checks.add_or_default(margin.transpose());
    let grouping = checks.add_or_default(group_by.map(|group_by| check_grouping(&group_by, limits)).transpose());
    let boosts = checks.add_or_default(check_boosts(body.boosts, limits));
    let diversity = checks.add_or_default(check_diversity(body.diversity, body.balance_languages));
    let facets = checks.add_or_default(body.facets.map_or(Ok(Vec::new()), |inputs| facets::check(inputs, limits)));
    let ((target, mode), filter) = checks.end_with(target.zip(mode).zip(filter))?;
    Ok(SearchRequest {
        mode,
        reading: reading.unwrap_or_default(),
        offset,
        languages,
        filter,
        score_min,
        exact: body.exact.unwrap_or_default(),
        parameters,
        margin,
        grouping,
        balance_languages: body.balance_languages.unwrap_or_default(),
        prefer_language,
        boosts,
        diversity,
        parts: check_parts(include),
        facets,
        ..SearchRequest::new(target, limit)
    })
}

/// Validates a batch; the error of a search names its position.
pub fn check_batch(body: SearchBatchRequest, collection: &Collection, limits: &Limits) -> Result<Vec<SearchRequest>, ApiError> {
    check_count("/searches", body.searches.len(), limits.batch_searches_max, "searches (batch_searches_max)")?;
    let facets: usize = body.searches.iter().map(|search| search.facets.as_ref().map_or(0, Vec::len)).sum();
    if facets > FACETS_MAX {
        return invalid("/searches", format!("must have at most {FACETS_MAX} facets together, got {facets}"));
    }
    check_items("/searches", body.searches, |search| check(search, collection, limits))
}

pub fn check_vector(pointer: &str, values: &[f32], collection: &Collection) -> Result<Embedding, ApiError> {
    if let Some(index) = values.iter().position(|value| !value.is_finite()) {
        return invalid(format!("{pointer}/{index}"), "must be a number within the range of 32-bit floats");
    }
    check_parsed(pointer, collection.prepare_vector(values.to_vec()))
}

fn check_target(body: &SearchDocumentsRequest, collection: &Collection, limits: &Limits) -> Result<SearchTarget, ApiError> {
    match (&body.query, &body.vector, &body.like) {
        (Some(query), None, None) => {
            check_text("/query", query, limits)?;
            Ok(SearchTarget::Text(query.clone()))
        }
        (None, Some(vector), None) => Ok(SearchTarget::Vector(check_vector("/vector", vector, collection)?)),
        (None, None, Some(id)) => Ok(SearchTarget::Like(check_parsed("/like", DocumentId::parse(id))?)),
        (None, None, None) => invalid("", "must have exactly one of query, vector and like, got none"),
        _ => invalid("", "must have exactly one of query, vector and like, got several"),
    }
}

fn check_mode(body: &SearchDocumentsRequest, target: &SearchTarget) -> Result<SearchMode, ApiError> {
    let is_text = matches!(target, SearchTarget::Text(_));
    let default = if is_text && body.margin.is_none() { SearchModeName::Full } else { SearchModeName::Dense };
    let mode = body.mode.unwrap_or(default);
    if mode != SearchModeName::Dense && !is_text {
        return invalid("/mode", "modes full, lexical and hybrid need query, got vector or like");
    }
    if mode != SearchModeName::Full && body.candidates.is_some() {
        return invalid("/candidates", "works with mode full only");
    }
    if mode != SearchModeName::Hybrid {
        for (pointer, given) in [("/weights", body.weights.is_some()), ("/rank_constant", body.rank_constant.is_some())] {
            if given {
                return invalid(pointer, "works with mode hybrid only");
            }
        }
    }
    Ok(match mode {
        SearchModeName::Full => SearchMode::Full {
            candidates: check_integer("/candidates", body.candidates.unwrap_or(CANDIDATES_DEFAULT), CANDIDATES)?,
        },
        SearchModeName::Dense => SearchMode::Dense,
        SearchModeName::Lexical if body.exact == Some(true) => {
            return invalid("/exact", "compares embeddings, which mode lexical does not use");
        }
        SearchModeName::Lexical => SearchMode::Lexical,
        SearchModeName::Hybrid => SearchMode::Hybrid(check_fusion(body)?),
    })
}

fn check_parameters(body: &SearchDocumentsRequest, mode: SearchMode) -> Result<SearchParameters, ApiError> {
    let (ef, oversampling) = (body.ef_search, body.oversampling);
    for (pointer, given) in [("/ef_search", ef.is_some()), ("/oversampling", oversampling.is_some())] {
        if given && mode == SearchMode::Lexical {
            return invalid(pointer, "applies to embeddings, which mode lexical does not use");
        }
    }
    if ef.is_some() && body.exact == Some(true) {
        return invalid("/ef_search", "must be left out with exact, which compares every embedding without the index");
    }
    Ok(SearchParameters {
        ef_search: ef.map(|ef| check_integer("/ef_search", ef, EF)).transpose()?,
        oversampling: oversampling.map(|factor| check_number("/oversampling", factor, OVERSAMPLING)).transpose()?,
    })
}

fn check_fusion(body: &SearchDocumentsRequest) -> Result<Fusion, ApiError> {
    let default = Fusion::default();
    let rank_constant = check_number("/rank_constant", body.rank_constant.unwrap_or(default.rank_constant), RANK_CONSTANTS)?;
    let Some(weights) = &body.weights else { return Ok(Fusion { rank_constant, ..default }) };
    let (dense, lexical) = (weights.dense.unwrap_or(default.dense), weights.lexical.unwrap_or(default.lexical));
    for (pointer, weight) in [("/weights/dense", dense), ("/weights/lexical", lexical)] {
        if !weight.is_finite() || weight < 0.0 {
            return invalid(pointer, format!("must be a finite number of at least 0, got {weight}"));
        }
    }
    if dense == 0.0 && lexical == 0.0 {
        return invalid("/weights", "must not both be 0");
    }
    Ok(Fusion { rank_constant, dense, lexical })
}

fn check_page(limit: Option<usize>, offset: Option<usize>, limits: &Limits) -> Result<(usize, usize), ApiError> {
    let (max, offset) = (limits.page_max, offset.unwrap_or_default());
    let limit = check_limit(limit.unwrap_or(LIMIT_DEFAULT.min(max)), "/limit", limits)?;
    if offset > max - limit {
        return invalid("/offset", format!("must be at most {} (page_max minus limit), got {offset}", max - limit));
    }
    Ok((limit, offset))
}

fn check_margin(margin: &MarginScoring, mode: SearchMode, metric: Metric) -> Result<usize, ApiError> {
    if mode != SearchMode::Dense {
        return invalid("/margin", "works with mode dense only");
    }
    if metric != Metric::Cosine {
        return invalid("/margin", format!("works with the metric cosine only, but the collection has {}", metric.name()));
    }
    let neighbors = margin.neighbors.unwrap_or(MARGIN_NEIGHBORS_DEFAULT);
    check_integer("/margin/neighbors", neighbors, 1..=MARGIN_NEIGHBORS_MAX)
}

fn check_grouping(group_by: &GroupBy, limits: &Limits) -> Result<Grouping, ApiError> {
    let size = check_limit(group_by.size.unwrap_or(1), "/group_by/size", limits)?;
    let refuse = |detail: String| ApiError::at(Code::InvalidRequest, "/group_by/field", detail);
    let by = match Field::parse(&group_by.field).map_err(refuse)? {
        Field::Language => GroupKey::Language,
        Field::Metadata(path) => GroupKey::Metadata(path),
        own => {
            return Err(refuse(format!(
                "must be language or a metadata path, got the document's own {own}; metadata of that name is metadata.{own}"
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

fn check_query_options(body: &SearchDocumentsRequest, target: &SearchTarget, mode: SearchMode) -> Result<QueryOptions, ApiError> {
    if body.words.is_some() && mode == SearchMode::Dense {
        return invalid("/words", "works with modes full, lexical and hybrid only, because dense does not compare words");
    }
    if body.operators.is_some() && !matches!(target, SearchTarget::Text(_)) {
        return invalid("/operators", "works with query only, got vector or like");
    }
    let default = QueryOptions::default();
    Ok(QueryOptions {
        operators: body.operators.unwrap_or(default.operators),
        all_words: body.words.map_or(default.all_words, |words| words == WordMatching::All),
    })
}

fn check_preferred(body: &SearchDocumentsRequest, target: &SearchTarget) -> Result<Vec<PreferredLanguage>, ApiError> {
    let Some(tags) = &body.prefer_language else { return Ok(Vec::new()) };
    if body.balance_languages == Some(true) {
        return invalid("/prefer_language", "must be left out with balance_languages, which already orders the languages");
    }
    if !(1..=Language::COUNT).contains(&tags.len()) {
        return invalid("/prefer_language", format!("must name 1 to {} languages, got {}", Language::COUNT, tags.len()));
    }
    check_each("/prefer_language", tags, |pointer, tag| {
        if tag != PreferredLanguage::QUERY {
            return Language::from_tag(tag).map(PreferredLanguage::Of).map_err(|error| refused_tag(&error, pointer));
        }
        match target {
            SearchTarget::Text(_) => Ok(PreferredLanguage::Query),
            _ => invalid(pointer, "auto means the language of the query, but the search has no query"),
        }
    })
}
