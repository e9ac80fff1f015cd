//! The layout of the committed OpenAPI file: whatever fits on one line is on one line.

use serde_json::Value;

/// Approximate line width of the committed file.
const COLUMNS: usize = 640;

/// Formats the document as a file.
pub fn file(document: &Value) -> String {
    let mut text = String::new();
    layout(document, 0, &mut text);
    text.push('\n');
    text
}

/// Writes JSON, with one line for each value that fits, for each example, and for each list of strings.
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

/// Writes the members of an object or an array, each on its own line.
fn bracket(brackets: [char; 2], parts: impl Iterator<Item = String>, indent: usize, text: &mut String) {
    let end = format!("\n{}", " ".repeat(indent));
    let parts: Vec<String> = parts.map(|part| format!("{end} {part}")).collect();
    text.push(brackets[0]);
    text.push_str(&parts.join(","));
    text.push_str(&end);
    text.push(brackets[1]);
}
