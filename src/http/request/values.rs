//! Checks of values that many requests have. Each error names the place of the value in the request.

use std::fmt::Display;

use crate::domain::{Code, Limits};
use crate::http::error::{ApiError, Checks, invalid};

/// The value that was parsed from the text at `pointer`.
pub fn check_parsed<T>(pointer: impl Into<String>, parsed: Result<T, impl Display>) -> Result<T, ApiError> {
    parsed.map_err(|error| ApiError::at(Code::InvalidRequest, pointer, error.to_string()))
}

/// Refuses a text that is blank or too long.
pub fn check_text(pointer: &str, text: &str, limits: &Limits) -> Result<(), ApiError> {
    if text.trim().is_empty() {
        return invalid(pointer, "must contain something besides white space");
    }
    let (max, got) = (limits.text_bytes_max, text.len());
    if got > max { invalid(pointer, format!("must have at most {max} bytes (text_bytes_max), got {got}")) } else { Ok(()) }
}

/// Refuses a list of texts that is empty or too long, or has a text that is blank or too long.
pub fn check_texts(pointer: &str, texts: &[String], limits: &Limits) -> Result<(), ApiError> {
    let (max, got) = (limits.embedding_inputs_max, texts.len());
    if !(1..=max).contains(&got) {
        return invalid(pointer, format!("must have 1 to {max} texts (embedding_inputs_max), got {got}"));
    }
    let checked = texts.iter().enumerate().map(|(index, text)| check_text(&format!("{pointer}/{index}"), text, limits));
    Checks::all(checked).map(drop)
}
