//! How a search interprets its query, and which languages it prefers: operators, `words`, `prefer_language`.

use super::request::{SearchDocumentsRequest, WordMatching};
use crate::domain::{self, Language, PreferredLanguage, QueryOptions, SearchTarget};
use crate::http::error::{ApiError, invalid};
use crate::http::request::languages::refused_tag;
use crate::http::request::values::check_each;

/// How the words of a query are interpreted.
pub(super) fn check_query_options(
    body: &SearchDocumentsRequest,
    target: &SearchTarget,
    mode: domain::SearchMode,
) -> Result<QueryOptions, ApiError> {
    if body.words.is_some() && mode == domain::SearchMode::Dense {
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

/// The languages to prefer.
pub(super) fn check_preferred(body: &SearchDocumentsRequest, target: &SearchTarget) -> Result<Vec<PreferredLanguage>, ApiError> {
    let Some(tags) = &body.prefer_language else { return Ok(Vec::new()) };
    if body.balance_languages == Some(true) {
        return invalid("/prefer_language", "must be left out with balance_languages, which orders the languages already");
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
