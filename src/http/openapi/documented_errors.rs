//! Errors in the OpenAPI document: one response for each status, with an example for each code, which all operations share. A
//! code that every operation with the response can return is listed with the response, as `x-error-codes`; others are listed
//! with their operations.

use serde_json::{Map, Value, json};

use super::path_parameters::EXAMPLE_ID;
use super::shared_parts;
use crate::domain::Code;
use crate::http::error::{ApiError, CHALLENGE, PROBLEM_JSON, Shape, retry_after_s};

/// The member that lists the codes of an operation, or of a response that operations share.
pub const CODES: &str = "x-error-codes";

/// The errors of the operations described so far.
#[derive(Default)]
pub struct DocumentedErrors {
    /// Each with the path of the first operation that can return it.
    used: Vec<(Shape, Code, String)>,
}

impl DocumentedErrors {
    /// Lists the codes of an operation, and references the responses that have them.
    pub fn describe(&mut self, operation: &mut Value, shape: Shape, mut codes: Vec<Code>, instance: &str) {
        codes.sort_by_key(|code| shape.status(*code));
        for &code in &codes {
            let response = format!("#/components/responses/{}", response_name(shape, shape.status(code)));
            operation["responses"][shape.status(code).to_string()] = json!({ "$ref": response });
            if !self.used.iter().any(|(known, of, _)| (*known, *of) == (shape, code)) {
                self.used.push((shape, code, instance.to_owned()));
            }
        }
        operation[CODES] = codes.iter().map(|code| code.name()).collect();
    }

    /// Adds the responses, their examples and their headers to the document's components.
    pub fn add_to(&self, components: &mut Value) {
        components["headers"] = json!({
            "x-request-id": {"description": "The id of the request.", "schema": {"type": "string"}},
            "retry-after": {"description": "Seconds to wait before retrying.", "schema": {"type": "integer", "minimum": 1}},
            "www-authenticate": {
                "description": "What to send: a key as a bearer token.",
                "schema": {"type": "string"},
                "example": CHALLENGE,
            },
        });
        let (mut responses, mut examples) = (Map::new(), Map::new());
        for shape in [Shape::Problem, Shape::OpenAi] {
            for &code in Code::ALL {
                let used = self.used.iter().find(|(known, of, _)| (*known, *of) == (shape, code));
                let Some((_, _, instance)) = used else { continue };
                examples.insert(example_name(shape, code), example(shape, code, instance));
                let response = responses.entry(response_name(shape, shape.status(code))).or_insert_with(|| json!({}));
                add_code(response, shape, code);
            }
        }
        components["responses"] = Value::Object(responses);
        components["examples"] = Value::Object(examples);
    }
}

/// Moves the codes that all operations with a response have in common to the response.
pub fn share_codes(document: &mut Value) {
    let responses = document["components"]["responses"].as_object().cloned().unwrap_or_default();
    for (name, response) in responses {
        let status = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let reference = json!({ "$ref": format!("#/components/responses/{name}") });
        let mut users: Vec<&mut Value> = shared_parts::operations(document)
            .filter(|operation| operation["responses"].get(status) == Some(&reference))
            .filter_map(|operation| operation.get_mut(CODES))
            .collect();
        let has =
            |user: &Value, code: &str| user.as_array().is_some_and(|codes| codes.iter().any(|documented| documented == code));
        let contents = response["content"].as_object().into_iter().flat_map(Map::values);
        let examples = contents.filter_map(|content| content["examples"].as_object()).flat_map(Map::keys);
        let shared: Vec<String> = examples.filter(|code| users.iter().all(|user| has(user, code))).cloned().collect();
        for codes in users.iter_mut().filter_map(|user| user.as_array_mut()) {
            codes.retain(|code| !shared.iter().any(|other| code == other));
        }
        if !shared.is_empty() {
            document["components"]["responses"][&name][CODES] = json!(shared);
        }
    }
}

/// The reference to a header that all responses have.
pub fn header(name: &str) -> Value {
    json!({ "$ref": format!("#/components/headers/{name}") })
}

fn add_code(response: &mut Value, shape: Shape, code: Code) {
    let (media_type, schema) = match shape {
        Shape::Problem => (PROBLEM_JSON, "Problem"),
        Shape::OpenAi => ("application/json", "OpenAiProblem"),
    };
    let line = format!("`{}`: {}", code.name(), code.summary());
    let description = match response["description"].as_str() {
        Some(others) => format!("{others}\n\n{line}"),
        None => line,
    };
    response["description"] = json!(description);
    response["headers"]["x-request-id"] = header("x-request-id");
    if code == Code::Unauthorized {
        response["headers"]["www-authenticate"] = header("www-authenticate");
    }
    if retry_after_s(code).is_some() {
        response["headers"]["retry-after"] = header("retry-after");
    }
    let content = &mut response["content"][media_type];
    content["schema"] = json!({ "$ref": format!("#/components/schemas/{schema}") });
    content["examples"][code.name()] = json!({ "$ref": format!("#/components/examples/{}", example_name(shape, code)) });
}

fn example(shape: Shape, code: Code, instance: &str) -> Value {
    let summary = code.summary().trim_end_matches('.');
    let detail = summary[..1].to_lowercase() + &summary[1..];
    let error = ApiError::new(code, detail);
    let body = match shape {
        Shape::Problem => json!(error.problem(EXAMPLE_ID, instance)),
        Shape::OpenAi => json!(error.open_ai()),
    };
    json!({ "value": body })
}

fn response_name(shape: Shape, status: u16) -> String {
    format!("{}Problem{status}", if shape == Shape::OpenAi { "OpenAi" } else { "" })
}

fn example_name(shape: Shape, code: Code) -> String {
    format!("{}{}", if shape == Shape::OpenAi { "open_ai_" } else { "" }, code.name())
}
