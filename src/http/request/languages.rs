//! Languages of a request: parsed from tags, and refused with their place.

use crate::domain::{Language, LanguageTagError};
use crate::http::error::ApiError;
use crate::http::request::values::check_each;

/// Languages by their tags, each once. `pointer` is where the request has the list.
pub fn parse_languages(tags: &[String], pointer: &str) -> Result<Vec<Language>, ApiError> {
    let parsed = check_each(pointer, tags, |pointer, tag| Language::from_tag(tag).map_err(|error| refused_tag(&error, pointer)))?;
    let mut languages = Vec::new();
    for language in parsed {
        if !languages.contains(&language) {
            languages.push(language);
        }
    }
    Ok(languages)
}

/// The error for a tag at `pointer` that does not name one of the languages.
pub fn refused_tag(error: &LanguageTagError, pointer: &str) -> ApiError {
    ApiError::at(error.code(), pointer, error.to_string())
}
