//! Reads evaluation files: lines and tab-separated fields. Errors contain the file, line and field.

use std::path::{Path, PathBuf};

use super::error::EvaluationError;

/// Returns the file names in `folder`, sorted.
pub fn names(folder: &Path) -> Result<Vec<String>, EvaluationError> {
    let entries = std::fs::read_dir(folder).map_err(|source| EvaluationError::file(folder, source))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| EvaluationError::file(folder, source))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// Reads the lines of a UTF-8 file: at least one, none of them blank.
pub fn sentences(path: &Path) -> Result<Vec<String>, EvaluationError> {
    let text = std::fs::read_to_string(path).map_err(|source| EvaluationError::file(path, source))?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        return Err(field_error(path, 1, "sentence", "a sentence", "the end of the file"));
    }
    if let Some(index) = lines.iter().position(|line| line.trim().is_empty()) {
        return Err(field_error(path, index + 1, "sentence", "a sentence", "an empty line"));
    }
    Ok(lines)
}

/// Reads two files whose lines are translations of each other.
pub fn read_aligned(first: &Path, second: &Path) -> Result<(Vec<String>, Vec<String>), EvaluationError> {
    let (left, right) = (sentences(first)?, sentences(second)?);
    if left.len() != right.len() {
        return Err(EvaluationError::Misaligned { path: second.to_owned(), expected: left.len(), got: right.len() });
    }
    Ok((left, right))
}

/// Reads the rows of a UTF-8 file: at least one, each with the tab-separated `fields`, none of them blank.
pub fn rows<const N: usize>(path: &Path, fields: [&'static str; N]) -> Result<Vec<[String; N]>, EvaluationError> {
    let text = std::fs::read_to_string(path).map_err(|source| EvaluationError::file(path, source))?;
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let parts: Vec<String> = line.split('\t').map(str::to_owned).collect();
        let got = parts.len();
        let row: [String; N] = parts.try_into().map_err(|_| {
            let expected = format!("{N} tab-separated fields ({})", fields.join(", "));
            field_error(path, number + 1, "line", &expected, &got.to_string())
        })?;
        if let Some(blank) = row.iter().position(|part| part.trim().is_empty()) {
            return Err(field_error(path, number + 1, fields[blank], "a value that is not blank", "nothing"));
        }
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(field_error(path, 1, "line", &format!("{N} tab-separated fields"), "the end of the file"));
    }
    Ok(rows)
}

/// Splits a line into its `fields`, which white space separates. Lines count from 1.
pub fn words<'t, const N: usize>(
    path: &Path,
    line: usize,
    text: &'t str,
    fields: [&'static str; N],
) -> Result<[&'t str; N], EvaluationError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let got = words.len();
    words.try_into().map_err(|_| {
        let expected = format!("{N} fields separated by white space ({})", fields.join(", "));
        field_error(path, line, "line", &expected, &got.to_string())
    })
}

/// Creates an error for one field of a line. Lines count from 1.
pub fn field_error(path: &Path, line: usize, field: &'static str, expected: &str, got: &str) -> EvaluationError {
    EvaluationError::Field { path: PathBuf::from(path), line, field, expected: expected.to_owned(), got: got.to_owned() }
}
