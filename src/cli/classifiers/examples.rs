//! Reads labeled texts and labels from the command line and from files.

use serde_json::{Map, Value, json};

use crate::cli::error::CliError;
use crate::cli::files::Input;
use crate::cli::lines::{JSON_FACTOR, Line};
use crate::domain::Limits;
use crate::domain::json::error_in_line;

/// The lines of a file that labeled texts came from.
#[derive(Default)]
pub struct ExampleLines {
    /// The file's name in error messages.
    name: String,
    /// [texts] The line number of each, from 1.
    numbers: Vec<u64>,
}

/// Reads labeled texts, one per line: a JSON object in the format of the API, or a label, a tab and the text. Skips blank
/// lines.
pub fn read(input: Input) -> Result<(Vec<Value>, ExampleLines), CliError> {
    let mut lines = ExampleLines { name: input.name.clone(), numbers: Vec::new() };
    let mut examples = Vec::new();
    for line in input.lines(Limits::default().text_bytes_max * JSON_FACTOR) {
        let Line { number, text, .. } = line?;
        let wrong = |problem| CliError::Failed(format!("line {number} of {}: {problem}", lines.name));
        let text = text.map_err(wrong)?;
        if !text.trim().is_empty() {
            examples.push(example(&text).map_err(wrong)?);
            lines.numbers.push(number);
        }
    }
    Ok((examples, lines))
}

impl ExampleLines {
    /// Replaces examples with the file name and their line numbers, in a refusal that names them.
    pub fn located(&self, error: CliError) -> CliError {
        error.located(|location| {
            let example = location.strip_prefix("/examples/")?;
            let (index, member) = example.split_once('/').unwrap_or((example, ""));
            let line = self.numbers.get(index.parse::<usize>().ok()?)?;
            let separator = if member.is_empty() { "" } else { ", " };
            Some(format!("line {line} of {}{separator}{member}", self.name))
        })
    }
}

fn example(line: &str) -> Result<Value, String> {
    if line.trim_start().starts_with('{') {
        return serde_json::from_str(line).map_err(|error| format!("not valid JSON: {}", error_in_line(&error)));
    }
    match line.split_once('\t') {
        Some((label, text)) => Ok(json!({"text": text, "labels": [label.trim()]})),
        None => Err("expected LABEL, a tab and TEXT, or a JSON object".to_owned()),
    }
}

/// Groups the descriptions of a prototype classifier by label.
pub fn group_descriptions(labels: &[String]) -> Value {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for label in labels {
        let (name, said) = label.split_once('=').map_or((label.as_str(), None), |(name, text)| (name, Some(text)));
        let name = name.trim();
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, all)) => all.extend(said),
            None => found.push((name, said.into_iter().collect())),
        }
    }
    let label = |(name, said): (&str, Vec<&str>)| {
        let mut members = Map::from_iter([("name".to_owned(), json!(name))]);
        if !said.is_empty() {
            members.insert("descriptions".to_owned(), json!(said));
        }
        Value::Object(members)
    };
    found.into_iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_lines_are_tab_separated_or_json() {
        assert_eq!(example("weather\tIl pleut.\tencore"), Ok(json!({"text": "Il pleut.\tencore", "labels": ["weather"]})));
        assert_eq!(example(r#" {"text": "x", "labels": []}"#), Ok(json!({"text": "x", "labels": []})));
        assert_eq!(example(" two words \t x"), Ok(json!({"text": " x", "labels": ["two words"]})));
        assert!(example("no tab").unwrap_err().contains("a tab"));
        assert_eq!(example("{").unwrap_err(), "not valid JSON: EOF while parsing an object at column 1");
    }

    #[test]
    fn descriptions_of_a_repeated_label_are_collected() {
        let labels = ["sports=goals".to_owned(), "weather".to_owned(), "sports =a=b".to_owned()];
        let expect = json!([{"name": "sports", "descriptions": ["goals", "a=b"]}, {"name": "weather"}]);
        assert_eq!(group_descriptions(&labels), expect);
    }
}
