//! Checks of values that many requests have. Each error names the place of the value in the request.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::{Deserialize, Deserializer};

use crate::domain::{Code, Language, LanguageTagError, Limits};
use crate::http::error::{ApiError, Checks, invalid};

const DESCRIPTION_BYTES_MAX: usize = 4096;

/// Reads a member that is present, perhaps null, to tell it from a missing one.
pub fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The value that was parsed from the text at `pointer`.
pub fn check_parsed<T>(pointer: impl Into<String>, parsed: Result<T, impl Display>) -> Result<T, ApiError> {
    parsed.map_err(|error| ApiError::at(Code::InvalidRequest, pointer, error.to_string()))
}

/// Checks each item of the list at `pointer`, and reports the errors of all together.
pub fn check_each<T, C>(pointer: &str, items: &[T], check: impl Fn(&str, &T) -> Result<C, ApiError>) -> Result<Vec<C>, ApiError> {
    Checks::all(items.iter().enumerate().map(|(index, item)| check(&format!("{pointer}/{index}"), item)))
}

/// The same for a check that takes the item, and whose errors have pointers into the item.
pub fn check_items<T, C>(pointer: &str, items: Vec<T>, check: impl Fn(T) -> Result<C, ApiError>) -> Result<Vec<C>, ApiError> {
    let check = |(index, item)| check(item).map_err(|error| error.with_base_pointer(&format!("{pointer}/{index}")));
    Checks::all(items.into_iter().enumerate().map(check))
}

/// Refuses a list that is empty or too long; `what` names its items.
pub fn check_count(pointer: &str, got: usize, max: usize, what: &str) -> Result<(), ApiError> {
    if (1..=max).contains(&got) { Ok(()) } else { invalid(pointer, format!("must have 1 to {max} {what}, got {got}")) }
}

/// Refuses a description that is too long, the member `description`.
pub fn check_description(description: Option<&str>) -> Result<(), ApiError> {
    let bytes = description.map_or(0, str::len);
    if bytes > DESCRIPTION_BYTES_MAX {
        return invalid("/description", format!("must have at most {DESCRIPTION_BYTES_MAX} bytes, got {bytes}"));
    }
    Ok(())
}

pub fn check_integer<T: PartialOrd + Display>(pointer: &str, got: T, range: RangeInclusive<T>) -> Result<T, ApiError> {
    check_range(pointer, got, &range, "an integer")
}

pub fn check_number<T: PartialOrd + Display>(pointer: &str, got: T, range: RangeInclusive<T>) -> Result<T, ApiError> {
    check_range(pointer, got, &range, "a number")
}

fn check_range<T: PartialOrd + Display>(pointer: &str, got: T, range: &RangeInclusive<T>, what: &str) -> Result<T, ApiError> {
    if range.contains(&got) {
        return Ok(got);
    }
    invalid(pointer, format!("must be {what} from {} to {}, got {got}", range.start(), range.end()))
}

/// Refuses a text that is blank or too long.
pub fn check_text(pointer: &str, text: &str, limits: &Limits) -> Result<(), ApiError> {
    if text.trim().is_empty() {
        return invalid(pointer, "must not be blank");
    }
    let (max, got) = (limits.text_bytes_max, text.len());
    if got > max { invalid(pointer, format!("must have at most {max} bytes (text_bytes_max), got {got}")) } else { Ok(()) }
}

/// Refuses a list of texts that is empty or too long, or has a text that is blank or too long.
pub fn check_texts(pointer: &str, texts: &[String], limits: &Limits) -> Result<(), ApiError> {
    check_count(pointer, texts.len(), limits.embedding_inputs_max, "texts (embedding_inputs_max)")?;
    check_each(pointer, texts, |pointer, text| check_text(pointer, text, limits)).map(drop)
}

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
