//! How the committed file of the OpenAPI document is laid out: what fits on a line stands on one.

use serde_json::Value;

/// Columns of the committed file, about: what fits into them stands on one line.
const COLUMNS: usize = 640;

/// The file of a document.
pub fn file(document: &Value) -> String {
    let mut text = String::new();
    layout(document, 0, &mut text);
    text.push('\n');
    text
}

/// Writes JSON with a line for everything that fits into one, for each example, and for each list of texts.
fn layout(value: &Value, indent: usize, text: &mut String) {
    let line = value.to_string();
    let texts = |elements: &[Value]| elements.iter().all(Value::is_string);
    match value {
        Value::Object(members) if indent + line.len() > COLUMNS || indent < 2 => {
            let lines = members.iter().map(|(name, member)| {
                let mut line = format!("{}: ", Value::from(name.as_str()));
                match name.as_str() {
                    "example" | "value" => line.push_str(&member.to_string()),
                    _ => layout(member, indent + 1, &mut line),
                }
                line
            });
            bracket(['{', '}'], lines, indent, text);
        }
        Value::Array(elements) if indent + line.len() > COLUMNS && !texts(elements) => {
            let lines = elements.iter().map(|element| {
                let mut line = String::new();
                layout(element, indent + 1, &mut line);
                line
            });
            bracket(['[', ']'], lines, indent, text);
        }
        _ => text.push_str(&line),
    }
}

/// Writes the parts of an object or an array, each on lines of its own.
fn bracket(brackets: [char; 2], parts: impl Iterator<Item = String>, indent: usize, text: &mut String) {
    let end = format!("\n{}", " ".repeat(indent));
    let parts: Vec<String> = parts.map(|part| format!("{end} {part}")).collect();
    text.push(brackets[0]);
    text.push_str(&parts.join(","));
    text.push_str(&end);
    text.push(brackets[1]);
}
